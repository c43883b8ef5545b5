/* Tight loop: 8 operations, one of them a store. */
#include "bench/bench.h"

#define LOOPS 262144
#define WORDS 512

static u64 words[WORDS];

asm(".type store8, %function\n"
    "store8:\n"
    "1:  and x3, x0, #511\n"
    "    eor x4, x3, x2\n"
    "    str x0, [x1, x3, lsl #3]\n"
    "    add x2, x2, x3\n"
    "    orr x6, x4, x3\n"
    "    sub x7, x6, x3\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    ret\n"
    "    .size store8, . - store8\n");
void store8(u64 loops, u64 *to);

void bench_setup(void) {
}

bool bench_work(void) {
    store8(LOOPS, words);
    for (u64 i = 0; i < WORDS; i++)
        if (words[i] != (i ? i : WORDS))
            return false;
    return true;
}
