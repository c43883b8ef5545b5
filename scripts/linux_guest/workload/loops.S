// Loops whose operations are known. Each function takes an array in x0 and a number of rounds in x1,
// at least 1. ROUND and CALL of its name are the operations of a round, and of a call besides its rounds.

        .macro  begin name
        .text
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:  mov     x2, #0
.Lround_\name:
        .endm

        .macro  end name
        subs    x1, x1, #1
        b.ne    .Lround_\name
.Lend_\name:
        mov     x0, x2
        ret
        .size   \name, . - \name
        .section .rodata
        .globl  operations_of_\name
        .p2align 3
operations_of_\name:
        .quad   (.Lend_\name - .Lround_\name) / 4
        .quad   (.Lround_\name - \name) / 4 + 2
        .endm

        // two loads, one of a pair
        begin   sum_first
        ldr     x3, [x0], #8
        ldp     x4, x5, [x0], #16
        add     x2, x2, x3
        add     x2, x2, x4
        eor     x2, x2, x5
        end     sum_first

        // a store and a few operations that access nothing
        begin   fill_second
        add     x2, x2, #3
        ror     x4, x2, #7
        str     x4, [x0], #8
        end     fill_second

        // loads and stores of one array
        begin   bump_third
        ldr     w3, [x0]
        add     w3, w3, #1
        str     w3, [x0], #4
        add     x2, x2, x3
        end     bump_third

        // no access at all
        begin   mix_registers
        add     x2, x2, x1
        eor     x2, x2, x2, lsl #13
        eor     x2, x2, x2, lsr #7
        eor     x2, x2, x2, lsl #17
        mul     x3, x2, x1
        add     x2, x2, x3
        end     mix_registers

        // a loop of few operations
        begin   count_down
        add     x2, x2, #1
        end     count_down
