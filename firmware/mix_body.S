/* A loop of all kinds of operations, and beside it a table of what a record of each must say. */

    .arch armv8.4-a

#define NO_VA -1
#define ANY_VA -2 /* IMPLEMENTATION DEFINED whether the record has one */
#define OTHER 0
#define MEMORY 1
#define BRANCH 2
#define FPF 0x06 /* bits of an Other operation that need FEAT_SPE_FPF */
#define CRR 0x18 /* bits of a branch that need FEAT_SPE_CRR */
#define V1P1 0xff /* the whole type needs FEAT_SPEv1p1 */
#define PLAIN 0
#define EITHER 2

    /* op CLASS, PAYLOAD, BITS THAT NEED A FEATURE, CONDITION FAILS, ADDRESS, INSTRUCTION */
    .macro op class, payload, optional, fails, va, instruction:vararg
    .pushsection .rodata.mix, "a"
    .quad 77f, \va
    .byte \class, \payload, \optional, \fails, 0, 0, 0, 0
    .popsection
77: \instruction
    .endm
    .macro other instruction:vararg
    op OTHER, 0, PLAIN, 0, NO_VA, \instruction
    .endm
    .macro memory payload, va, instruction:vararg
    op MEMORY, \payload, PLAIN, 0, \va, \instruction
    .endm

    .section .rodata.mix, "a"
    .balign 8
    .global mix_table, mix_table_end
mix_table:

    .text
    .global mix, mix_end
    .type mix, %function
mix: /* x0: turns */
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    adrp x1, mix_data
    add x1, x1, :lo12:mix_data
    adr x2, leaf
    mov x8, #0
    mov x14, #0
    mov x15, #0

turn:
    /* Integer data processing */
    other add x3, x1, #16
    other mul x4, x3, x3
    other udiv x5, x4, x3
    other cmp x0, x0
    op OTHER, 1, PLAIN, 0, NO_VA, csel x6, x3, x4, eq
    op OTHER, 1, PLAIN, 1, NO_VA, csinc x6, x3, x4, ne
    op OTHER, 1, PLAIN, 0, NO_VA, csinv x6, x3, x4, ge
    op OTHER, 1, PLAIN, 1, NO_VA, csneg x6, x3, x4, lt
    op OTHER, 1, PLAIN, 0, NO_VA, ccmp x0, x0, #0, eq
    op OTHER, 1, PLAIN, 1, NO_VA, ccmn x0, x0, #4, ne
    other nop
    other mrs x6, tpidr_el1
    other msr tpidr_el1, x6
    other dmb ish
    other dsb ish
    other isb
    other adr x7, turn

    /* Floating point and vectors */
    op OTHER, 0x02, FPF, 0, NO_VA, fadd d16, d17, d18
    op OTHER, 0x02, FPF, 0, NO_VA, fmul s16, s17, s18
    op OTHER, 0x02, FPF, 0, NO_VA, fmadd d16, d17, d18, d19
    op OTHER, 0x02, FPF, 0, NO_VA, fsqrt d16, d17
    op OTHER, 0x02, FPF, 0, NO_VA, scvtf d16, x3
    other cmp x0, x0
    op OTHER, 0x03, FPF, 1, NO_VA, fcsel d16, d17, d18, ne
    op OTHER, 0x03, FPF, 0, NO_VA, fccmp d17, d17, #4, eq
    op OTHER, 0x04, FPF, 0, NO_VA, add v16.4s, v17.4s, v18.4s
    op OTHER, 0x04, FPF, 0, NO_VA, eor v16.16b, v17.16b, v18.16b
    op OTHER, 0x06, FPF, 0, NO_VA, fadd v16.2d, v17.2d, v18.2d
    op OTHER, 0x06, FPF, 0, NO_VA, fmla v16.4s, v17.4s, v18.4s

    /* Loads and stores of general-purpose registers */
    memory 0x00, mix_data + 8, ldr x3, [x1, #8]
    memory 0x00, mix_data + 3, ldrb w3, [x1, #3]
    memory 0x00, mix_data + 4, ldrsw x3, [x1, #4]
    memory 0x00, mix_data + 2, ldursh x3, [x1, #2]
    memory 0x00, mix_data + 16, ldtr x3, [x1, #16]
    memory 0x00, mix_data + 32, ldp x3, x4, [x1, #32]
    memory 0x00, mix_data + 48, ldnp x3, x4, [x1, #48]
    memory 0x00, mix_data + 16, ldpsw x3, x4, [x1, #16]
    memory 0x00, mix_literal, ldr x3, mix_literal
    other mov x7, #3
    memory 0x00, mix_data + 24, ldr x3, [x1, x7, lsl #3]
    memory 0x00, mix_data + 12, ldr w3, [x1, w7, sxtw #2]
    other add x9, x1, #64
    memory 0x00, mix_data + 64, ldr x3, [x9], #16
    memory 0x00, mix_data + 72, ldr x3, [x9, #-8]!
    memory 0x01, mix_data + 80, str x3, [x1, #80]
    memory 0x01, mix_data + 81, strb w3, [x1, #81]
    memory 0x01, mix_data + 88, sttr x3, [x1, #88]
    memory 0x01, mix_data + 96, stp x3, x4, [x1, #96]
    memory 0x01, mix_data + 112, stp xzr, xzr, [x1, #112]
    memory 0x01, mix_data + 72, str x3, [x9], #8

    /* Of SIMD and floating-point registers */
    memory 0x04, mix_data + 8, ldr d0, [x1, #8]
    memory 0x04, mix_data + 4, ldr s0, [x1, #4]
    memory 0x04, mix_data + 1, ldr b0, [x1, #1]
    memory 0x04, mix_data + 16, ldr q0, [x1, #16]
    memory 0x04, mix_data + 32, ldp q0, q1, [x1, #32]
    memory 0x04, mix_data + 16, ldp d0, d1, [x1, #16]
    memory 0x04, mix_data, ld1 {v0.4s}, [x1]
    memory 0x04, mix_data, ld1 {v0.16b-v3.16b}, [x1]
    memory 0x04, mix_data, ld2 {v0.4s, v1.4s}, [x1]
    memory 0x04, mix_data, ld3 {v0.8b-v2.8b}, [x1]
    memory 0x04, mix_data, ld4 {v0.2d-v3.2d}, [x1]
    memory 0x04, mix_data, ld1 {v0.s}[2], [x1]
    memory 0x04, mix_data, ld1r {v0.8h}, [x1]
    memory 0x05, mix_data + 128, str d4, [x1, #128]
    memory 0x05, mix_data + 144, str q4, [x1, #144]
    memory 0x05, mix_data + 160, stp q4, q5, [x1, #160]
    other add x10, x1, #192
    memory 0x05, mix_data + 192, st1 {v4.2d}, [x10]
    memory 0x05, mix_data + 192, st4 {v4.4s-v7.4s}, [x10]
    memory 0x05, mix_data + 192, st2 {v4.h, v5.h}[3], [x10]

    /* Acquire, release, exclusive, atomic */
    memory 0x12, mix_data, ldar x3, [x1]
    memory 0x12, mix_data, ldarb w3, [x1]
    memory 0x12, mix_data, ldapr x3, [x1]
    memory 0x12, mix_data + 8, ldapur x3, [x1, #8]
    memory 0x13, mix_data + 192, stlr x3, [x10]
    memory 0x13, mix_data + 200, stlur x3, [x10, #8]
    memory 0x0a, mix_data, ldxr x3, [x1]
    memory 0x0b, mix_data, stxr w4, x3, [x1]
    memory 0x1a, mix_data, ldaxr x3, [x1]
    memory 0x1b, mix_data, stlxr w4, x3, [x1]
    memory 0x0a, mix_data, ldxp x3, x4, [x1]
    memory 0x0b, mix_data, stxp w5, x3, x4, [x1]
    memory 0x0b, mix_data, stxr w4, x3, [x1] /* fails: nothing is reserved */
    other add x11, x1, #256
    memory 0x06, mix_data + 256, ldadd x8, x3, [x11]
    memory 0x16, mix_data + 256, ldadda x8, x3, [x11]
    memory 0x16, mix_data + 256, ldaddl x8, x3, [x11]
    memory 0x16, mix_data + 256, ldeoral x8, x3, [x11]
    memory 0x06, mix_data + 256, ldclrb w8, w3, [x11]
    memory 0x06, mix_data + 256, ldsmax w8, w3, [x11]
    memory 0x07, mix_data + 256, stadd x8, [x11]
    memory 0x17, mix_data + 256, stsetl x8, [x11]
    memory 0x06, mix_data + 256, swp x8, x3, [x11]
    memory 0x16, mix_data + 256, swpal x8, x3, [x11]
    memory 0x06, mix_data + 256, swp x8, xzr, [x11]
    memory 0x06, mix_data + 256, cas x3, x8, [x11]
    memory 0x16, mix_data + 256, casal x3, x8, [x11]
    memory 0x06, mix_data + 256, casp x14, x15, x14, x15, [x11]

    /* Memory without registers, and what only looks like it */
    other add x12, x1, #512
    op MEMORY, 0x11, V1P1, 0, mix_data + 512, dc zva, x12
    op OTHER, 0, PLAIN, 0, ANY_VA, dc cvac, x12
    op OTHER, 0, PLAIN, 0, ANY_VA, prfm pldl1keep, [x12]
    op OTHER, 0, PLAIN, 0, ANY_VA, at s1e1r, x12

    /* Branches */
    op BRANCH, 0x18, CRR, 0, NO_VA, b 1f
1:  op BRANCH, 0x19, CRR, 0, NO_VA, cbz x8, 1f
1:  op BRANCH, 0x19, CRR, 1, NO_VA, cbnz x8, turn
    op BRANCH, 0x19, CRR, 0, NO_VA, tbz x8, #40, 1f
1:  op BRANCH, 0x19, CRR, 1, NO_VA, tbnz x8, #4, turn
    op BRANCH, 0x08, CRR, 0, NO_VA, bl leaf
    op BRANCH, 0x0a, CRR, 0, NO_VA, blr x2
    other adr x13, 1f
    op BRANCH, 0x1a, CRR, 0, NO_VA, br x13
1:  other subs x0, x0, #1
    op BRANCH, 0x19, CRR, EITHER, NO_VA, b.ne turn

    ldp x29, x30, [sp], #16
    ret
leaf:
    op BRANCH, 0x12, CRR, 0, NO_VA, ret
mix_end:
    .size mix, . - mix

    .balign 8
mix_literal:
    .quad 0x600d

    .section .rodata.mix, "a"
mix_table_end:

    .section .bss.user, "aw", %nobits /* LDTR and STTR access it as EL0 would */
    .balign 4096
    .global mix_data
mix_data:
    .skip 4096
