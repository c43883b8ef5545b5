/* The Performance Monitors: exact counts of a loop, an overflow at its place, CHAIN, SW_INCR, the zeroing of counters,
   SPE's population beside OP_RETIRED, and thresholds. */
#include "lib/mmu.h"
#include "lib/pmu.h"
#include "lib/spe.h"

#define OP_RETIRED 0x3a
#define SAMPLE_POP 0x4000
#define SAMPLE_FEED 0x4001

#define TURNS 1000

#define NOT_EQUAL PMEVTYPER_TC(0)
#define EQUAL_COUNT PMEVTYPER_TC(3)
#define AT_LEAST PMEVTYPER_TC(4)
#define LESS_COUNT PMEVTYPER_TC(7)

/* x0: turns. A turn is five operations: a load, a store, two others and a branch. */
asm("    .text\n"
    "    .global counted\n"
    "    .type counted, %function\n"
    "counted:\n"
    "    mrs x9, S3_3_C14_C8_0\n" /* PMEVCNTR0_EL0 */
    "    mrs x10, S3_3_C14_C8_1\n"
    "    mrs x11, S3_3_C14_C8_2\n"
    "    mrs x12, S3_3_C14_C8_3\n"
    "    mrs x13, pmccntr_el0\n"
    "1:  ldr x3, [x1]\n"
    "    str x3, [x1, #8]\n"
    "    add x2, x2, x3\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mrs x4, S3_3_C14_C8_0\n"
    "    mrs x5, S3_3_C14_C8_1\n"
    "    mrs x6, S3_3_C14_C8_2\n"
    "    mrs x7, S3_3_C14_C8_3\n"
    "    mrs x8, pmccntr_el0\n"
    "    sub x4, x4, x9\n"
    "    sub x5, x5, x10\n"
    "    sub x6, x6, x11\n"
    "    sub x7, x7, x12\n"
    "    sub x8, x8, x13\n"
    "    adrp x9, counts\n"
    "    add x9, x9, :lo12:counts\n"
    "    stp x4, x5, [x9]\n"
    "    stp x6, x7, [x9, #16]\n"
    "    str x8, [x9, #32]\n"
    "    ret\n"
    "    .size counted, . - counted\n");
u64 counts[5];
void counted(u64 turns, u64 *data);

static u64 data[2];
static u8 buffer[65536] __attribute__((aligned(4096)));

/* The events of counters 0 to 3; all of them and the cycle counter count from 0 on. */
static void program(u64 e0, u64 e1, u64 e2, u64 e3) {
    write_sysreg(PMCR_EL0, 0);
    write_sysreg(PMCNTENCLR_EL0, ~0ul);
    write_sysreg(PMINTENCLR_EL1, ~0ul);
    write_sysreg(PMOVSCLR_EL0, ~0ul);
    write_sysreg(S3_3_C14_C12_0, e0);
    write_sysreg(S3_3_C14_C12_1, e1);
    write_sysreg(S3_3_C14_C12_2, e2);
    write_sysreg(S3_3_C14_C12_3, e3);
    write_sysreg(PMCCFILTR_EL0, 0);
    write_sysreg(PMCNTENSET_EL0, 0x8000000f);
    write_sysreg(PMCR_EL0, 7);
    isb();
}

/* Cycles of the loop without a load, loads in cycles with one or more, cycles that are not one, cycles without a store.
   Behind each first read are 5 reads and the loop. */
static void thresholds(void) {
    program(LD_RETIRED | EQUAL_COUNT, LD_RETIRED | AT_LEAST | PMEVTYPER_TH(1), CPU_CYCLES | NOT_EQUAL | PMEVTYPER_TH(1),
            ST_RETIRED | LESS_COUNT | PMEVTYPER_TH(1));
    counted(TURNS, data);
    is(counts[0], 4 * TURNS + 5, "a threshold: cycles with 0 loads");
    is(counts[1], TURNS, "loads in cycles with 1 or more");
    is(counts[2], 0, "each cycle is 1 cycle");
    is(counts[3], 4 * TURNS + 5, "cycles with less than 1 store");
}

static void sampled(void) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = 1024};
    spe_setup(&session);
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    counted(TURNS, data);
    is(counts[2], counts[1], "the sample population is OP_RETIRED: micro-operations, where a core has any");
    ok(counts[3] == counts[2] / 1025 || counts[3] == counts[2] / 1025 + 1, "a sample each interval");
    write_sysreg(PMSCR_EL1, 0);
    spe_stop();
}

int main(void) {
    mmu_on();
    pmu_interrupts(); /* else counters are 64 bits wide, and nothing chains */
    is(read_sysreg(PMCR_EL0) >> 11 & 31, 6, "six event counters");

    program(INST_RETIRED, BR_RETIRED, LD_RETIRED, ST_RETIRED);
    counted(TURNS, data);
    is(counts[0], 5 * TURNS + 5, "instructions: those of the loop, and the five reads after each first one");
    is(counts[1], TURNS, "branches");
    is(counts[2], TURNS, "loads");
    is(counts[3], TURNS, "stores");
    is(counts[4], 5 * TURNS + 5, "cycles are operations");

    program(CPU_CYCLES, OP_RETIRED, SAMPLE_POP, SAMPLE_FEED);
    counted(TURNS, data);
    is(counts[0], counts[4], "CPU_CYCLES is the cycle counter");
    is(counts[2], 0, "nothing is sampled while SPE is disabled");
    if (spe_probe().usable)
        sampled();

    program(INST_RETIRED, CHAIN, SW_INCR, CPU_CYCLES);
    write_sysreg(S3_3_C14_C8_0, 0xffffff00);
    isb();
    is(read_sysreg(PMOVSSET_EL0) & 15, 0, "no overflow yet");
    counted(TURNS, data);
    is(read_sysreg(PMOVSSET_EL0) & 15, 1, "the instructions have overflowed");
    is(read_sysreg(S3_3_C14_C8_1), 1, "the odd counter counts that");
    write_sysreg(PMOVSCLR_EL0, 1);
    is(read_sysreg(PMOVSSET_EL0) & 15, 0, "the flag is cleared");
    for (unsigned n = 0; n < 7; n++)
        write_sysreg(PMSWINC_EL0, 0xf);
    is(read_sysreg(S3_3_C14_C8_2), 7, "software increments one counter");
    write_sysreg(PMCR_EL0, 3);
    is(read_sysreg(S3_3_C14_C8_2), 0, "PMCR_EL0.P zeroes it");
    ok(read_sysreg(PMCCNTR_EL0) > 5 * TURNS, "and not the cycle counter");

    write_sysreg(PMSELR_EL0, 2);
    isb();
    write_sysreg(PMXEVCNTR_EL0, 1234);
    is(read_sysreg(S3_3_C14_C8_2), 1234, "PMXEVCNTR_EL0 is the selected counter");
    is(read_sysreg(PMXEVTYPER_EL0), SW_INCR, "PMXEVTYPER_EL0 its type");

    write_sysreg(PMCNTENCLR_EL0, 0x8);
    isb();
    u64 stopped = read_sysreg(S3_3_C14_C8_3);
    counted(TURNS, data);
    is(read_sysreg(S3_3_C14_C8_3), stopped, "a disabled counter stands still");

    if (FIELD(read_sysreg(PMMIR_EL1), 23, 20)) /* THWIDTH: FEAT_PMUv3_TH. A cycle is an operation here. */
        thresholds();
    return tap_done();
}
