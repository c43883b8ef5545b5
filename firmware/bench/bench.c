#include "bench/bench.h"

#include "lib/mmu.h"
#include "lib/spe.h"

#define BUFFER_SIZE (4ull << 20)

/* In .data even if 0: the start-up code would clear what the harness puts into .bss. */
u64 bench_iterations __attribute__((section(".data"))) = 2;
u64 bench_spe __attribute__((section(".data"))) = 0;

u64 bench_random(void) {
    static u64 state = 0x9e3779b97f4a7c15ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void spe_begin(void) {
    struct spe_session session = {
        .buffer = (u64)__heap_start, .size = BUFFER_SIZE, .interval = bench_spe & 0xffffff00};
    spe_setup(&session);
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE | PMSCR_PA | PMSCR_CX | PMSCR_TS);
    isb();
}

/* There is no interrupt: the buffer takes a few iterations and is emptied between them. */
static void spe_service(void) {
    if (read_sysreg(PMBPTR_EL1) < (u64)__heap_start + BUFFER_SIZE / 2 && !(read_sysreg(PMBSR_EL1) & PMBSR_S))
        return;
    u64 pmscr = read_sysreg(PMSCR_EL1);
    spe_drain();
    spe_resume((u64)__heap_start);
    write_sysreg(PMSCR_EL1, pmscr);
    isb();
}

/* The measured region lies between the symbols bench_begin and bench_end. */
static bool __attribute__((noinline, noclone)) run(void) {
    bool good = true;
    asm volatile(".global bench_begin\nbench_begin:" ::: "memory");
    for (u64 i = 0; i < bench_iterations; i++) {
        good &= bench_work();
        if (bench_spe)
            spe_service();
    }
    asm volatile(".global bench_end\nbench_end:" ::: "memory");
    return good;
}

int main(void) {
    mmu_on();
    if (bench_spe && !spe_probe().usable) {
        print("no SPE here\n");
        return 2;
    }
    bench_setup();
    if (bench_spe)
        spe_begin();
    bool good = run();
    if (bench_spe)
        spe_stop();
    if (!good)
        print("wrong result\n");
    return !good;
}
