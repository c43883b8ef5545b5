/* The one place where profiling goes on and off around a call: every operation here is counted. */

    .text
    .global spe_profile
    .type spe_profile, %function
spe_profile:
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    mov x9, x0
    mov x10, x1
    mov x0, x2
    mov x1, x3
    mov x2, x4
    msr S3_0_C9_C9_0, x9 /* PMSCR_EL1: not in the population itself */
    isb
    blr x10
    msr S3_0_C9_C9_0, xzr /* the last operation of the population */
    isb
    hint #17 /* PSB CSYNC */
    dsb nsh
    isb
    ldp x29, x30, [sp], #16
    ret
    .global spe_profile_end
spe_profile_end:
    .size spe_profile, . - spe_profile
