/* Tight loop: 32 operations, all of the ALU. */
#include "bench/bench.h"

#define LOOPS 65536

asm(".type alu32, %function\n"
    "alu32:\n"
    "    mov x1, #0\n"
    "    mov x2, #1\n"
    "1:\n"
    "    .rept 5\n"
    "    add x1, x1, x2\n"
    "    eor x3, x1, x2\n"
    "    add x4, x3, x1, lsl #2\n"
    "    and x5, x4, x3\n"
    "    sub x6, x5, x1\n"
    "    orr x7, x6, x2\n"
    "    .endr\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mov x0, x1\n"
    "    ret\n"
    "    .size alu32, . - alu32\n");
u64 alu32(u64 loops);

void bench_setup(void) {
}

bool bench_work(void) {
    return alu32(LOOPS) == 5 * LOOPS;
}
