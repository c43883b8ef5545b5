/* Tight loop: 8 operations, all of the ALU. */
#include "bench/bench.h"

#define LOOPS 262144

asm(".type alu8, %function\n"
    "alu8:\n"
    "    mov x1, #0\n"
    "    mov x2, #1\n"
    "1:  add x1, x1, x2\n"
    "    eor x3, x1, x2\n"
    "    add x4, x3, x1, lsl #2\n"
    "    and x5, x4, x3\n"
    "    sub x6, x5, x1\n"
    "    orr x7, x6, x2\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mov x0, x1\n"
    "    ret\n"
    "    .size alu8, . - alu8\n");
u64 alu8(u64 loops);

void bench_setup(void) {
}

bool bench_work(void) {
    return alu8(LOOPS) == LOOPS;
}
