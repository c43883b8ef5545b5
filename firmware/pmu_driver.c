/* The Performance Monitors under a driver that was written before there was an instruction counter: it initialises bits
   31:0 of each register, knows neither PMCR_EL0.FZO nor PMECR_EL1, and keeps what it finds of PMCR_EL0 above bit 7. All
   that it needs has to be as a reset and firmware leave it. Starts at EL1 or EL2. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/pmu.h"

#define ALL_32 0xffffffffull
#define MEM_ACCESS 0x13
#define LOADS 24

static u64 kept;   /* of PMCR_EL0 */
static u64 filter; /* EL2 counts where the program runs there */
static bool wide;  /* FEAT_PMUv3p5: counters of 64 bits */
static u64 cell;

/* With PMCR_EL0 as `control`: `loads` times three operations and a load; PMCR_EL0 is 0 afterwards. */
void count_loads(u64 control, u64 loads, u64 *from);
asm("    .text\n"
    "    .global count_loads\n"
    "    .type count_loads, %function\n"
    "count_loads:\n"
    "    msr pmcr_el0, x0\n"
    "    isb\n"
    "1:  ldr x3, [x2]\n"
    "    sub x1, x1, #1\n"
    "    cmp x1, #0\n"
    "    b.gt 1b\n"
    "    msr pmcr_el0, xzr\n"
    "    isb\n"
    "    ret\n"
    "    .size count_loads, . - count_loads\n");

/* The driver's only way to a known state. */
static void start_afresh(void) {
    write_sysreg(pmcr_el0, kept | PMCR_P | PMCR_C);
    write_sysreg(pmcntenclr_el0, ALL_32);
    write_sysreg(pmovsclr_el0, ALL_32);
    write_sysreg(pmintenclr_el1, ALL_32);
    isb();
}

static void pair(u64 first, u64 second) {
    start_afresh();
    pmu_set_type(0, first | filter);
    pmu_set_type(1, second | filter);
    write_sysreg(pmcntenset_el0, 3);
    isb();
}

static void nothing_is_left(void) {
    print("# what a driver finds after it has initialised 32 bits\n");
    start_afresh();
    is(read_sysreg(pmcntenset_el0), 0, "PMCNTENSET_EL0: no counter is enabled");
    is(read_sysreg(pmcntenclr_el0), 0, "PMCNTENCLR_EL0 says the same");
    is(read_sysreg(pmovsclr_el0), 0, "PMOVSCLR_EL0: none has overflowed");
    is(read_sysreg(pmovsset_el0), 0, "PMOVSSET_EL0 says the same");
    is(read_sysreg(pmintenset_el1), 0, "PMINTENSET_EL1: none interrupts");
    is(read_sysreg(pmintenclr_el1), 0, "PMINTENCLR_EL1 says the same");
    is(kept & (PMCR_FZS | PMCR_FZO), 0, "PMCR_EL0 freezes no counter");
    u64 map = (1u << PMCR_N(kept)) - 1;
    write_sysreg(pmcntenset_el0, ALL_32 & ~PM_CYCLES);
    is(read_sysreg(pmcntenset_el0), map, "of 31 enabled there are as many as PMCR_EL0.N");
    write_sysreg(pmcntenclr_el0, ~3ull);
    is(read_sysreg(pmcntenset_el0), 3, "two of them alone");
    write_sysreg(pmintenset_el1, ALL_32 & ~PM_CYCLES);
    is(read_sysreg(pmintenset_el1), map, "as many can interrupt");
    start_afresh();
}

static void cycle_counter(void) {
    print("# the cycle counter\n");
    start_afresh();
    write_sysreg(pmccfiltr_el0, filter);
    write_sysreg(pmcntenset_el0, PM_CYCLES);
    write_sysreg(pmcr_el0, kept | PMCR_C | PMCR_E);
    isb();
    u64 first = read_sysreg(pmccntr_el0), second = read_sysreg(pmccntr_el0);
    ok(second > first, "goes on between two reads");
    for (u64 loads = 1; loads <= LOADS; loads++) {
        write_sysreg(pmcr_el0, 0);
        write_sysreg(pmccntr_el0, 0);
        count_loads(kept | PMCR_E, loads, &cell);
        u64 cycles = read_sysreg(pmccntr_el0);
        expect(cycles >= 4 * loads && !(cycles >> 32), "cycles of a loop of", loads, cycles, 4 * loads);
    }
    ok_group("counts each loop, from 0");
}

static void selected(void) {
    print("# by PMSELR_EL0\n");
    start_afresh();
    write_sysreg(pmselr_el0, 1);
    isb();
    write_sysreg(pmxevtyper_el0, 0xea);
    write_sysreg(pmxevcntr_el0, 0xdeadbeef);
    isb();
    is(FIELD(read_sysreg(pmevtyper1_el0), 15, 0), 0xea, "a type that is written is that of counter 1");
    is(pmu_count(1), 0xdeadbeef, "and so is a count");
}

static void overflows(bool long_ones) {
    u64 lp = long_ones ? PMCR_LP : 0, at = long_ones ? -16ull : ALL_32 - 15;
    print("# overflows at %u bits\n", long_ones ? 64 : 32);

    pair(CPU_CYCLES, INST_RETIRED);
    write_sysreg(pmcr_el0, kept | lp | PMCR_P | PMCR_C);
    isb();
    is(read_sysreg(pmcr_el0) & ALL_32, (kept & ALL_32) | lp, "PMCR_EL0 holds what was written");
    pmu_set_count(0, at);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    is(read_sysreg(pmovsclr_el0), 1, "cycles overflow, instructions from 0 do not");
    ok(pmu_count(1) >= 4 * LOADS && pmu_count(1) < 5 * LOADS, "and are counted");

    pair(MEM_ACCESS, MEM_ACCESS);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    is(pmu_count(0), LOADS, "each load is one access to memory");
    is(pmu_count(1), LOADS, "in the other counter, too");
    is(read_sysreg(pmovsclr_el0), 0, "and nothing has overflowed");
    pmu_set_count(0, at);
    pmu_set_count(1, at);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    is(read_sysreg(pmovsclr_el0), 3, "from just below, both overflow");

    pair(SW_INCR, SW_INCR);
    pmu_set_count(0, at);
    for (unsigned n = 0; n < 100; n++)
        write_sysreg(pmswinc_el0, 1);
    is(pmu_count(0), at, "SW_INCR counts nothing while PMCR_EL0.E is 0");
    write_sysreg(pmcr_el0, kept | lp | PMCR_E);
    isb();
    for (unsigned n = 0; n < 100; n++)
        write_sysreg(pmswinc_el0, 3);
    is(pmu_count(0), wide ? at + 100 : (at + 100) & ALL_32, "a hundred are a hundred");
    is(pmu_count(1), 100, "in both counters");
    is(read_sysreg(pmovsclr_el0), 1, "and the first overflows");
    write_sysreg(pmcr_el0, kept);
}

static void chain(void) {
    print("# CHAIN\n");
    pair(SW_INCR, CHAIN);
    pmu_set_count(0, ALL_32 - 15);
    write_sysreg(pmcr_el0, kept | PMCR_E);
    isb();
    for (unsigned n = 0; n < 100; n++)
        write_sysreg(pmswinc_el0, 1);
    is(pmu_count(1), 1, "the odd counter counts the overflow of software increments");
    is(read_sysreg(pmovsclr_el0), 1, "whose flag is set");

    pair(MEM_ACCESS, CHAIN);
    for (unsigned n = 1; n <= 2; n++) {
        pmu_set_count(0, ALL_32 - 15);
        count_loads(kept | PMCR_E, LOADS, &cell);
        expect(pmu_count(1) == n, "overflows of accesses", n, pmu_count(1), n);
    }
    ok_group("and that of accesses to memory, each time");
    write_sysreg(pmovsclr_el0, ALL_32);
    pmu_set_count(0, ALL_32 - 15);
    pmu_set_count(1, wide ? -1ull : ALL_32);
    count_loads(kept | PMCR_E, LOADS, &cell);
    is(pmu_count(1), 0, "it wraps");
    is(read_sysreg(pmovsclr_el0), 3, "and overflows itself");

    start_afresh();
    write_sysreg(pmcntenset_el0, 1);
    pmu_set_count(0, ALL_32 - 15);
    count_loads(kept | PMCR_E, LOADS, &cell);
    is(pmu_count(1), 0, "not while the odd counter is disabled");
    start_afresh();
    write_sysreg(pmcntenset_el0, 2);
    count_loads(kept | PMCR_E, LOADS, &cell);
    is(pmu_count(1), 0, "nor while the even one is");
}

static volatile unsigned interrupts[32], others, all;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    (void)trap;
    if (intid == PPI_PMU) {
        u64 flags = read_sysreg(pmovsclr_el0);
        for (unsigned n = 0; n < 32; n++)
            interrupts[n] += flags >> n & 1;
        write_sysreg(pmovsclr_el0, ALL_32);
        isb();
    } else
        others++;
    if (++all > 20) {
        print("# interrupt %lu again and again\n", intid);
        exit_with(96);
    }
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static void forget(void) {
    others = all = 0;
    for (unsigned n = 0; n < 32; n++)
        interrupts[n] = 0;
}

static void are(unsigned first, unsigned second, const char *name) {
    unsigned rest = others;
    for (unsigned n = 2; n < 32; n++)
        rest += interrupts[n];
    expect(interrupts[0] == first, "interrupts of counter", 0, interrupts[0], first);
    expect(interrupts[1] == second, "interrupts of counter", 1, interrupts[1], second);
    expect(!rest, "others", 0, rest, 0);
    ok_group(name);
    forget();
}

static void interrupt(bool long_ones) {
    u64 lp = long_ones ? PMCR_LP : 0, at = long_ones ? -16ull : ALL_32 - 15;
    print("# interrupts of overflows at %u bits\n", long_ones ? 64 : 32);
    pair(MEM_ACCESS, SW_INCR);
    forget();
    pmu_set_count(0, at);
    pmu_set_count(1, at);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    are(0, 0, "none while PMINTENSET_EL1 is 0");

    write_sysreg(pmovsclr_el0, ALL_32);
    write_sysreg(pmintenset_el1, ALL_32);
    isb();
    pmu_set_count(0, at);
    pmu_set_count(1, at);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    are(1, 0, "one for the counter that overflows");
    write_sysreg(pmcr_el0, kept | lp | PMCR_E);
    isb();
    for (unsigned n = 0; n < 100; n++)
        write_sysreg(pmswinc_el0, 2);
    isb();
    write_sysreg(pmcr_el0, kept);
    isb();
    are(0, 1, "one for the other");

    pmu_set_type(1, CHAIN | filter);
    pmu_set_count(0, at);
    pmu_set_count(1, wide ? -1ull : ALL_32);
    count_loads(kept | lp | PMCR_E, LOADS, &cell);
    are(1, !long_ones, long_ones ? "an overflow at 64 bits is none for CHAIN" : "both where CHAIN overflows");
    start_afresh();
}

int main(void) {
    u64 level = FIELD(read_sysreg(currentel), 3, 2), events = read_sysreg(pmceid0_el0);
    if (level == 3)
        return tap_skip_all("needs a start at EL1 or EL2");
    if (!pmu_version() || !(events >> MEM_ACCESS & 1))
        return tap_skip_all("needs FEAT_PMUv3 and MEM_ACCESS");
    wide = pmu_version() >= PMUV3P5;
    filter = level == 2 ? PMEVTYPER_NSH : 0;
    kept = read_sysreg(pmcr_el0) & ~0xbfull;
    ok((events & (BIT(SW_INCR) | BIT(INST_RETIRED) | BIT(CPU_CYCLES))) ==
           (BIT(SW_INCR) | BIT(INST_RETIRED) | BIT(CPU_CYCLES)),
       "PMCEID0_EL0 has SW_INCR, INST_RETIRED and CPU_CYCLES");
    nothing_is_left();
    cycle_counter();
    selected();
    overflows(false);
    if (wide)
        overflows(true);
    chain();
    gic_init();
    gic_set_up(PPI_PMU, 1, 0x80, false);
    if (level == 2)
        write_sysreg(hcr_el2, read_sysreg(hcr_el2) | BIT(4)); /* IMO: interrupts are taken at EL2 */
    asm volatile("msr daifclr, #2\n isb" ::: "memory");
    interrupt(false);
    if (wide)
        interrupt(true);
    return tap_done();
}
