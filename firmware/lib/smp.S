/* Where CPU_ON starts a PE, at EL1 with the MMU off and x0 = context. */

    .macro addr reg, symbol
    adrp \reg, \symbol
    add \reg, \reg, :lo12:\symbol
    .endm

    .text
    .global smp_entry
    .type smp_entry, %function
smp_entry:
    mrs x1, sctlr_el1
    mrs x2, daif
    msr daifset, #15
    msr spsel, #1
    ldr x3, =0x34d5d800 /* SCTLR_EL1: RES1, EL0 may WFx, DC ZVA, read CTR; M = C = 0 */
    msr sctlr_el1, x3
    mov x3, #(3 << 20) /* CPACR_EL1.FPEN */
    msr cpacr_el1, x3
    addr x3, vectors_el1
    msr vbar_el1, x3
    isb
    addr x3, smp_stacks
    ldr x3, [x3]
    mrs x4, mpidr_el1
    and x4, x4, #0xff
    add x4, x4, #1
    add x3, x3, x4, lsl #13 /* STACK of smp.c */
    mov sp, x3
    mov x29, #0
    mov x30, #0
    b smp_main
    .size smp_entry, . - smp_entry
    .ltorg
