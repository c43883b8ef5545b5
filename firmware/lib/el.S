/* Reset into the level that the machine starts at, vectors of EL1, EL2 and EL3, calls to lower levels. */

#define TRAP_SIZE 320 /* sizeof(struct trap) */

    .macro addr reg, symbol
    adrp \reg, \symbol
    add \reg, \reg, :lo12:\symbol
    .endm

    .section .text.start, "ax"
    .global _start
    .type _start, %function
_start:
    msr daifset, #15
    msr spsel, #1
    mov x19, x0
    mrs x20, CurrentEL
    lsr x20, x20, #2
    cmp x20, #2
    b.lo 1f
    b.eq 2f

    mov x0, #0x431 /* SCR_EL3: RW, RES1, NS */
    msr scr_el3, x0
    msr cptr_el3, xzr
    msr mdcr_el3, xzr
    ldr x0, =0x30c50830 /* SCTLR_EL3: RES1 */
    msr sctlr_el3, x0
    addr x0, vectors_el3
    msr vbar_el3, x0
    b 3f

2:  mov x0, #0x80000000 /* HCR_EL2.RW */
    msr hcr_el2, x0
    ldr x0, =0x30c50830 /* SCTLR_EL2: RES1 */
    msr sctlr_el2, x0
    mov x0, #0x33ff /* CPTR_EL2: nothing trapped but SVE */
    msr cptr_el2, x0
    addr x0, vectors_el2
    msr vbar_el2, x0
    b 3f

1:  ldr x0, =0x34d5d800 /* SCTLR_EL1: RES1, EL0 may WFx, DC ZVA, read CTR; M = C = 0 */
    msr sctlr_el1, x0
    mov x0, #(3 << 20) /* CPACR_EL1.FPEN */
    msr cpacr_el1, x0
    mov x0, #3 /* EL0 may read the counters */
    msr cntkctl_el1, x0
    addr x0, vectors_el1
    msr vbar_el1, x0

3:  isb
    addr x0, __stack_top
    mov sp, x0
    mov x29, #0
    mov x30, #0
    addr x0, __bss_start
    addr x1, __bss_end
4:  cmp x0, x1
    b.hs 5f
    stp xzr, xzr, [x0], #16
    b 4b
5:  addr x0, boot_info
    stp x19, x20, [x0]
    bl main
    bl exit_with
    .size _start, . - _start
    .ltorg

/* --- Vectors: every exception fills a struct trap and calls trap_taken(trap) --------------------- */

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

    .macro vector level, index
    .balign 0x80
    sub sp, sp, #TRAP_SIZE
    stp x0, x1, [sp]
    mov x0, #\index
    b trap_el\level
    .endm

    .macro vectors_of level
    .section .text.vectors_el\level, "ax"
    .balign 0x800
    .global vectors_el\level
    .type vectors_el\level, %function
vectors_el\level:
    .irp index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vector \level, \index
    .endr
    .size vectors_el\level, . - vectors_el\level

    .type trap_el\level, %function
trap_el\level:
    general_registers stp
    add x1, sp, #TRAP_SIZE
    stp x30, x1, [sp, #240]
    mrs x1, elr_el\level
    mrs x2, spsr_el\level
    stp x1, x2, [sp, #256]
    mrs x1, esr_el\level
    mrs x2, far_el\level
    stp x1, x2, [sp, #272]
    mov x1, #\level
    stp x1, x0, [sp, #288]
    mov x1, #0
    .if \level == 2
    mrs x1, hpfar_el2
    .endif
    mrs x2, sp_el0
    stp x1, x2, [sp, #304]
    mov x0, sp
    bl trap_taken
    ldp x1, x2, [sp, #256]
    msr elr_el\level, x1
    msr spsr_el\level, x2
    ldr x1, [sp, #312]
    msr sp_el0, x1
    general_registers ldp
    ldr x30, [sp, #240]
    ldp x0, x1, [sp]
    add sp, sp, #TRAP_SIZE
    eret
    .size trap_el\level, . - trap_el\level
    .endm

    vectors_of 1
    vectors_of 2
    vectors_of 3

/* --- Calls to lower levels ------------------------------------------------------------------------ */

    .macro callee_saved operation
    \operation x19, x20, [sp, #16]
    \operation x21, x22, [sp, #32]
    \operation x23, x24, [sp, #48]
    \operation x25, x26, [sp, #64]
    \operation x27, x28, [sp, #80]
    .endm

    .text
    /* u64 enter(spsr, f, a, b, link, u64 *caller): by ERET to f(a, b), which returns to `link`. The stack
       pointer is left in *caller; leave(result, caller) makes enter() return. */
    .global enter
    .type enter, %function
enter:
    stp x29, x30, [sp, #-96]!
    mov x29, sp
    callee_saved stp
    mov x9, sp
    str x9, [x5]
    mrs x9, CurrentEL
    cmp x9, #(2 << 2)
    b.lo 1f
    b.eq 2f
    msr spsr_el3, x0
    msr elr_el3, x1
    b 3f
2:  msr spsr_el2, x0
    msr elr_el2, x1
    b 3f
1:  msr spsr_el1, x0
    msr elr_el1, x1
3:  mov x0, x2
    mov x1, x3
    mov x29, #0
    mov x30, x4
    eret
    .size enter, . - enter

    .global leave
    .type leave, %function
leave:
    ldr x9, [x1]
    mov sp, x9
    callee_saved ldp
    ldp x29, x30, [sp], #96
    ret
    .size leave, . - leave

    .global back_by_hvc, back_by_smc, back_by_svc
back_by_hvc:
    hvc #0xfff
back_by_smc:
    smc #0xfff
    .section .user.text, "ax"
back_by_svc:
    svc #0xfff
