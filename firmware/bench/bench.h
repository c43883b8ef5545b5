/* What a benchmark program defines, and what bench.c gives it. */
#pragma once

#include "lib/firmware.h"

/* Once, outside the measured region. */
void bench_setup(void);
/* One iteration, 1 to 5 million operations; false if the result is wrong. */
bool bench_work(void);

/* The harness may patch both in memory in front of the start. */
extern u64 bench_iterations;
/* 0 leaves SPE alone; else the sample interval in operations, a multiple of 256. */
extern u64 bench_spe;

/* xorshift64: the same numbers on every machine. */
u64 bench_random(void);
