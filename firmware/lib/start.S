/* Reset, exception vectors, and the way into EL0 and back. */

#define FRAME_SIZE 848 /* sizeof(struct frame) */

    .macro addr reg, symbol
    adrp \reg, \symbol
    add \reg, \reg, :lo12:\symbol
    .endm

/* --- Reset: entered at EL1, EL2 or EL3 with the MMU off and x0 = device tree or 0 --------------- */

    .section .text.start, "ax"
    .global _start
    .type _start, %function
_start:
    msr daifset, #15
    mov x19, x0
    mrs x20, CurrentEL
    lsr x20, x20, #2
    mrs x21, id_aa64dfr0_el1
    ubfx x21, x21, #32, #4 /* PMSVer */
    cmp x20, #2
    b.lo at_el1
    b.eq at_el2

    mov x0, #0x531 /* SCR_EL3: RW, HCE, RES1, NS */
    msr scr_el3, x0
    msr cptr_el3, xzr
    mov x0, #0x3000 /* MDCR_EL3: NSPB = 0b11, Non-secure owns the Profiling Buffer */
    movk x0, #0x0410, lsl #32 /* EnPMSN, EnPMS3 */
    movk x0, #0x0080, lsl #48 /* EnPMS4 */
    msr mdcr_el3, x0
    isb

at_el2:
    mov x0, #0x80000000 /* HCR_EL2.RW */
    msr hcr_el2, x0
    mov x0, #0x33ff /* CPTR_EL2: nothing trapped but SVE */
    msr cptr_el2, x0
    msr hstr_el2, xzr
    mov x0, #3 /* CNTHCTL_EL2: EL1PCTEN, EL1PCEN */
    msr cnthctl_el2, x0
    msr cntvoff_el2, xzr
    msr vttbr_el2, xzr
    mrs x0, midr_el1
    msr vpidr_el2, x0
    mrs x0, mpidr_el1
    msr vmpidr_el2, x0
    mov x0, #0x3000 /* MDCR_EL2: E2PB = 0b11, EL1 owns the Profiling Buffer, no traps */
    cbz x21, 1f
    mrs x1, S3_0_C9_C10_7 /* PMBIDR_EL1 */
    tbnz x1, #4, 1f       /* P: EL3 or another Security state keeps SPE, and would take the write */
    mov x1, #0x50 /* PMSCR_EL2: PA allowed, PCT = physical */
    msr S3_4_C9_C9_0, x1
1:  mrs x1, id_aa64dfr0_el1
    ubfx x1, x1, #8, #4 /* PMUVer */
    cbz x1, 2f
    mrs x1, pmcr_el0
    bfxil x0, x1, #11, #5 /* HPMN = N: every event counter is EL1's */
2:  msr mdcr_el2, x0
    addr x0, at_el1
    mov x1, #0x3c5 /* EL1h, DAIF masked */
    tbnz x20, #0, 3f
    msr elr_el2, x0
    msr spsr_el2, x1
    eret
3:  msr elr_el3, x0
    msr spsr_el3, x1
    eret

at_el1:
    msr spsel, #1
    ldr x0, =0x34d5d800 /* SCTLR_EL1: RES1, EL0 may WFx, DC ZVA, read CTR; M = C = 0 */
    msr sctlr_el1, x0
    mov x0, #(3 << 20) /* CPACR_EL1.FPEN */
    msr cpacr_el1, x0
    addr x0, vectors
    msr vbar_el1, x0
    msr mdscr_el1, xzr
    msr contextidr_el1, xzr
    mov x0, #3 /* CNTKCTL_EL1: EL0 may read the counters */
    msr cntkctl_el1, x0
    isb
    addr x0, __stack_top
    mov sp, x0
    mov x29, #0 /* ends the chain of frame records */
    mov x30, #0

    /* Position-independent programs, linked at 0, relocate themselves; others have no table. */
    addr x2, __image_base
    addr x3, __rela_start
    addr x4, __rela_end
1:  cmp x3, x4
    b.hs 2f
    ldp x5, x6, [x3], #16 /* r_offset, r_info: R_AARCH64_RELATIVE only */
    ldr x7, [x3], #8
    add x7, x7, x2
    str x7, [x5, x2]
    b 1b

    /* Data that was loaded elsewhere moves to where it runs. */
2:  addr x0, __data_start
    addr x1, __data_end
    addr x2, __data_load
    cmp x0, x2
    b.eq 4f
3:  cmp x0, x1
    b.hs 4f
    ldr x3, [x2], #8
    str x3, [x0], #8
    b 3b

4:  addr x0, __bss_start
    addr x1, __bss_end
5:  cmp x0, x1
    b.hs 6f
    stp xzr, xzr, [x0], #16
    b 5b

6:  addr x0, boot_info
    stp x19, x20, [x0]
    bl main
    bl exit_with
    .size _start, . - _start
    .ltorg

/* --- Vectors: every exception fills a struct frame and calls on_exception(frame) ---------------- */

    .macro vector index
    .balign 0x80
    sub sp, sp, #FRAME_SIZE
    stp x0, x1, [sp]
    mov x0, #\index
    b exception_common
    .endm

    /* x2 to x29 and, from x0 on, q0 to q31: the operation is stp or ldp. */
    .macro general_registers operation
    \operation x2, x3, [sp, #16]
    \operation x4, x5, [sp, #32]
    \operation x6, x7, [sp, #48]
    \operation x8, x9, [sp, #64]
    \operation x10, x11, [sp, #80]
    \operation x12, x13, [sp, #96]
    \operation x14, x15, [sp, #112]
    \operation x16, x17, [sp, #128]
    \operation x18, x19, [sp, #144]
    \operation x20, x21, [sp, #160]
    \operation x22, x23, [sp, #176]
    \operation x24, x25, [sp, #192]
    \operation x26, x27, [sp, #208]
    \operation x28, x29, [sp, #224]
    .endm
    .macro vector_registers operation
    \operation q0, q1, [x0]
    \operation q2, q3, [x0, #32]
    \operation q4, q5, [x0, #64]
    \operation q6, q7, [x0, #96]
    \operation q8, q9, [x0, #128]
    \operation q10, q11, [x0, #160]
    \operation q12, q13, [x0, #192]
    \operation q14, q15, [x0, #224]
    \operation q16, q17, [x0, #256]
    \operation q18, q19, [x0, #288]
    \operation q20, q21, [x0, #320]
    \operation q22, q23, [x0, #352]
    \operation q24, q25, [x0, #384]
    \operation q26, q27, [x0, #416]
    \operation q28, q29, [x0, #448]
    \operation q30, q31, [x0, #480]
    .endm

    .text
    .balign 0x800
    .global vectors
    .type vectors, %function
vectors:
    .irp index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vector \index
    .endr
    .size vectors, . - vectors

    .type exception_common, %function
exception_common:
    general_registers stp
    add x1, sp, #FRAME_SIZE
    stp x30, x1, [sp, #240]
    mrs x1, sp_el0
    mrs x2, elr_el1
    stp x1, x2, [sp, #256]
    mrs x1, spsr_el1
    mrs x2, esr_el1
    stp x1, x2, [sp, #272]
    mrs x1, far_el1
    stp x1, x0, [sp, #288]
    mrs x0, cpacr_el1 /* the program may have closed the FP unit */
    mov x1, #(3 << 20)
    msr cpacr_el1, x1
    isb
    mrs x1, fpsr
    mrs x2, fpcr
    stp x1, x2, [sp, #304]
    str x0, [sp, #320]
    add x0, sp, #336
    vector_registers stp
    mov x0, sp
    bl on_exception
    add x0, sp, #336
    vector_registers ldp
    ldp x1, x2, [sp, #304]
    msr fpsr, x1
    msr fpcr, x2
    ldp x1, x2, [sp, #256]
    msr sp_el0, x1
    msr elr_el1, x2
    ldr x1, [sp, #272]
    msr spsr_el1, x1
    ldr x1, [sp, #320]
    msr cpacr_el1, x1
    general_registers ldp
    ldr x30, [sp, #240]
    ldp x0, x1, [sp]
    add sp, sp, #FRAME_SIZE
    eret
    .size exception_common, . - exception_common

/* --- EL0 ---------------------------------------------------------------------------------------- */

    /* u64 el0_call(entry, argument0, argument1, user_sp): run entry at EL0 until an exception handler
       calls el0_leave(result), which then is what el0_call returns. */
    .global el0_call
    .type el0_call, %function
el0_call:
    stp x29, x30, [sp, #-160]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    addr x9, el0_caller
    mov x10, sp
    str x10, [x9]
    msr elr_el1, x0
    msr sp_el0, x3
    mov x9, #0x3c0 /* EL0t, DAIF masked */
    msr spsr_el1, x9
    mov x0, x1
    mov x1, x2
    mov x29, #0
    mov x30, #0
    eret
    .size el0_call, . - el0_call

    .global el0_leave
    .type el0_leave, %function
el0_leave:
    addr x9, el0_caller
    ldr x10, [x9]
    mov sp, x10
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
    .size el0_leave, . - el0_leave

    .bss
    .balign 8
    .global el0_caller /* SP_EL1 while EL0 runs */
el0_caller:
    .skip 8
