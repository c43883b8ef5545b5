/* Tight loop: 7 operations, three of them branches (taken, sometimes taken, loop). */
#include "bench/bench.h"

#define LOOPS 262144

asm(".type branchy7, %function\n"
    "branchy7:\n"
    "    mov x1, #0\n"
    "1:  and x2, x0, #3\n"
    "    tbz w0, #0, 2f\n"
    "    add x1, x1, #1\n"
    "2:  cbz xzr, 3f\n"
    "    brk #0\n"
    "3:  eor x3, x2, x1\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mov x0, x1\n"
    "    ret\n"
    "    .size branchy7, . - branchy7\n");
u64 branchy7(u64 loops);

void bench_setup(void) {
}

bool bench_work(void) {
    return branchy7(LOOPS) == LOOPS / 2;
}
