/* Tight loop: 8 operations, six of them floating point. */
#include "bench/bench.h"

#define LOOPS 262144

asm(".type fp8, %function\n"
    "fp8:\n"
    "    fmov d0, xzr\n"
    "    fmov d1, #1.0\n"
    "    fmov d2, #0.5\n"
    "1:  fadd d0, d0, d1\n"
    "    fmul d3, d0, d2\n"
    "    fsub d4, d3, d1\n"
    "    fmadd d5, d3, d2, d4\n"
    "    fmax d6, d5, d3\n"
    "    fneg d7, d6\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    fcvtzu x0, d0\n"
    "    ret\n"
    "    .size fp8, . - fp8\n");
u64 fp8(u64 loops);

void bench_setup(void) {
}

bool bench_work(void) {
    return fp8(LOOPS) == LOOPS;
}
