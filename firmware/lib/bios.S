/* A flash image for address 0, where the PE resets to: copies the program to where it is linked, and jumps. */

    .section .text.start, "ax"
    .global _start
    .type _start, %function
_start:
    adr x1, image
    adr x2, image_end
    mov x3, #0x40000000 /* RAM */
    add x3, x3, #0x80000
    mov x4, x3
1:  ldp x5, x6, [x1], #16
    stp x5, x6, [x4], #16
    cmp x1, x2
    b.lo 1b
    dsb sy
    ic iallu
    dsb sy
    isb
    br x3
    .size _start, . - _start
    .balign 16
image:
    .incbin IMAGE
    .balign 16
image_end:
