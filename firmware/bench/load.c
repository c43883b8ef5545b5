/* Tight loop: 8 operations, one of them a load. */
#include "bench/bench.h"

#define LOOPS 262144
#define WORDS 512

static u64 words[WORDS];

asm(".type load8, %function\n"
    "load8:\n"
    "    mov x2, #0\n"
    "1:  and x3, x0, #511\n"
    "    eor x4, x3, x2\n"
    "    ldr x5, [x1, x3, lsl #3]\n"
    "    add x2, x2, x5\n"
    "    orr x6, x4, x5\n"
    "    sub x7, x6, x3\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mov x0, x2\n"
    "    ret\n"
    "    .size load8, . - load8\n");
u64 load8(u64 loops, const u64 *from);

void bench_setup(void) {
    for (u64 i = 0; i < WORDS; i++)
        words[i] = i;
}

bool bench_work(void) {
    return load8(LOOPS, words) == (u64)LOOPS / WORDS * (WORDS * (WORDS - 1) / 2);
}
