/* Overflows of the Performance Monitors, each on its operation: of 32 and of 64 bits, CHAIN, the freeze by PMCR_EL0.FZO,
   PMUIRQ through the GIC, the freeze by SPE. A write that enables a counter counts, and one that disables it does not.
   All of it is at EL1 or EL2, whichever the start is at; from a start at EL3 at EL2. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/pmu.h"
#include "lib/spe.h"

#define NARROW 0x100000000ull
#define PMBLIMITR_PMFZ BIT(5)
#define MDCR_EL3_NSPB (3ull << 12) /* the buffer is Non-secure */
#define MDCR_EL3_ENPM2 BIT(7)
#define HCR_IMO BIT(4)
#define PMSCR_EL2 S3_4_C9_C9_0
#define PMSCR_E2SPE BIT(1)

static bool at_el2;
static u64 level_counted; /* of PMEVTYPER<n>_EL0 and PMCCFILTR_EL0: without NSH nothing is counted at EL2 */

/* --- Overflow flags after each operation --- */

#define LOOKS 8
u64 looks[LOOKS]; /* PMOVSSET_EL0 */

/* Enables the counters of `map`, then LOOKS times NOP and a look. Before look n there are 3 + 2 * n operations
   that count; 2 + 2 * LOOKS in all. */
#define OPERATIONS_BEFORE(look) (3 + 2 * (look))
#define OPERATIONS (2 + 2 * LOOKS)
void look_at_each(u64 map);
asm("    .text\n"
    "    .global look_at_each\n"
    "    .type look_at_each, %function\n"
    "look_at_each:\n"
    "    msr pmcntenset_el0, x0\n"
    "    isb\n"
    "    .irp n, 2, 3, 4, 5, 6, 7, 8, 9\n"
    "    nop\n"
    "    mrs x\\n, pmovsset_el0\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    adrp x1, looks\n"
    "    add x1, x1, :lo12:looks\n"
    "    stp x2, x3, [x1]\n"
    "    stp x4, x5, [x1, #16]\n"
    "    stp x6, x7, [x1, #32]\n"
    "    stp x8, x9, [x1, #48]\n"
    "    ret\n"
    "    .size look_at_each, . - look_at_each\n");

/* Enables the counters of `map`; before each look one operation of a kind: a load, a store, a branch, a branch that
   is not taken, SVC. */
enum { LOAD, STORE, BRANCH, NOT_TAKEN, CALL, KINDS };
void look_at_kinds(u64 map, u64 *data);
asm("    .text\n"
    "    .global look_at_kinds\n"
    "    .type look_at_kinds, %function\n"
    "look_at_kinds:\n"
    "    msr pmcntenset_el0, x0\n"
    "    isb\n"
    "    ldr x2, [x1]\n"
    "    mrs x4, pmovsset_el0\n"
    "    str x2, [x1, #8]\n"
    "    mrs x5, pmovsset_el0\n"
    "    b 1f\n"
    "1:  mrs x6, pmovsset_el0\n"
    "    cbnz xzr, 2f\n"
    "2:  mrs x7, pmovsset_el0\n"
    "    svc #1\n"
    "    mrs x8, pmovsset_el0\n"
    "    msr pmcntenclr_el0, x0\n"
    "    adrp x1, looks\n"
    "    add x1, x1, :lo12:looks\n"
    "    stp x4, x5, [x1]\n"
    "    stp x6, x7, [x1, #16]\n"
    "    str x8, [x1, #32]\n"
    "    ret\n"
    "    .size look_at_kinds, . - look_at_kinds\n");

static void begin(u64 control) {
    pmu_stop();
    write_sysreg(pmccfiltr_el0, level_counted);
    write_sysreg(pmcr_el0, control | PMCR_E);
    isb();
}

static void counts_from(unsigned counter, u64 type, u64 value) {
    pmu_set_type(counter, type | level_counted);
    pmu_set_count(counter, value);
}

/* The values of a counter before whose look its flag is to be seen. */
static void flags_are(unsigned counter, u64 distance) {
    for (unsigned n = 0; n < LOOKS; n++) {
        bool over = OPERATIONS_BEFORE(n) >= distance;
        expect((looks[n] >> counter & 1) == over, "the look that is wrong, at a distance of", distance, looks[n], over);
    }
}

static void chosen_operations(void) {
    print("# chosen operations\n");
    for (u64 distance = 1; distance <= OPERATIONS + 1; distance++) {
        begin(0);
        counts_from(0, INST_RETIRED, NARROW - distance);
        counts_from(1, CPU_CYCLES, NARROW - distance);
        look_at_each(3);
        flags_are(0, distance);
        flags_are(1, distance);
        u64 expected = NARROW - distance + OPERATIONS;
        expect(pmu_count(0) == expected, "count at a distance of", distance, pmu_count(0), expected);
        expect(pmu_count(1) == expected, "cycles at a distance of", distance, pmu_count(1), expected);
    }
    ok_group("INST_RETIRED and CPU_CYCLES overflow on the operation that they are told, and go on");

    for (u64 distance = 1; distance <= OPERATIONS + 1; distance++) {
        begin(PMCR_LP);
        counts_from(0, INST_RETIRED, -distance);
        counts_from(1, INST_RETIRED, NARROW - distance);
        pmu_set_count(31, -distance);
        look_at_each(3 | PM_CYCLES);
        flags_are(0, distance);
        flags_are(31, distance);
        expect(!(looks[LOOKS - 1] & 2), "a flag at 32 bits, at a distance of", distance, looks[LOOKS - 1], 0);
        expect(pmu_count(0) == OPERATIONS - distance, "count at a distance of", distance, pmu_count(0),
             OPERATIONS - distance);
    }
    ok_group("with PMCR_EL0.LP at 64 bits, as the cycle counter always");

    static const struct {
        enum pmu_event event;
        u8 first, second; /* KINDS: never */
    } kinds[] = {
        {LD_RETIRED, LOAD, CALL},        {ST_RETIRED, STORE, CALL},      {BR_RETIRED, BRANCH, NOT_TAKEN},
        {BR_IMMED_RETIRED, BRANCH, NOT_TAKEN}, {EXC_TAKEN, CALL, KINDS}, {EXC_SVC, CALL, KINDS},
        {EXC_RETURN, CALL, KINDS},
    };
    static u64 data[2];
    for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++)
        for (unsigned distance = 1; distance <= 2; distance++) {
            begin(0);
            counts_from(3, kinds[k].event, NARROW - distance);
            look_at_kinds(8, data);
            taken = 0;
            for (unsigned n = 0; n < KINDS; n++) {
                bool over = n >= (distance == 1 ? kinds[k].first : kinds[k].second);
                expect((looks[n] >> 3 & 1) == over, "event", kinds[k].event, n << 8 | looks[n], over);
            }
        }
    ok_group("loads, stores, branches, exceptions and returns: on the first, and on the second");
}

/* --- CHAIN --- */

static void chain(void) {
    print("# CHAIN\n");
    for (u64 distance = 1; distance <= OPERATIONS; distance++) {
        begin(0);
        counts_from(0, INST_RETIRED, NARROW - distance);
        counts_from(1, CHAIN, 6);
        counts_from(2, INST_RETIRED, NARROW - distance);
        counts_from(3, CHAIN, NARROW - 1);
        look_at_each(0xf);
        flags_are(0, distance);
        flags_are(2, distance);
        flags_are(3, distance);
        expect(!(looks[LOOKS - 1] & 2), "a flag of the chain at a distance of", distance, looks[LOOKS - 1], 0);
        expect(pmu_count(1) == 7, "the chain at a distance of", distance, pmu_count(1), 7);
    }
    ok_group("the odd counter counts the overflow, and overflows on the same operation");

    begin(0);
    counts_from(0, CHAIN, 0);
    counts_from(1, INST_RETIRED, NARROW - 1);
    counts_from(2, CHAIN, 0);
    counts_from(4, INST_RETIRED, NARROW - 1);
    counts_from(5, CHAIN, 0);
    look_at_each(0x17);
    is(pmu_count(0), 0, "an even counter has no chain");
    is(pmu_count(2), 0, "nor behind an odd one");
    is(pmu_count(5), 0, "a chain that is disabled stands still");
    begin(PMCR_LP);
    counts_from(0, INST_RETIRED, -1ull);
    counts_from(1, CHAIN, 0);
    look_at_each(3);
    is(looks[0] & 3, 1, "an overflow of 64 bits");
    is(pmu_count(1), 0, "is none for CHAIN");
    begin(0);
    counts_from(0, SW_INCR, NARROW - 1);
    counts_from(1, CHAIN, NARROW - 1);
    write_sysreg(pmcntenset_el0, 3);
    write_sysreg(pmswinc_el0, 1);
    is(read_sysreg(pmovsset_el0), 3, "a software increment runs through both");
    is(FIELD(pmu_count(1), 31, 0), 0, "the low half is 0");
}

/* --- Freeze on overflow --- */

static void freeze(void) {
    print("# PMCR_EL0.FZO\n");
    for (u64 distance = 1; distance <= OPERATIONS; distance++) {
        begin(PMCR_FZO);
        counts_from(0, INST_RETIRED, NARROW - distance);
        counts_from(1, INST_RETIRED, 0);
        pmu_set_count(31, 0);
        look_at_each(3 | PM_CYCLES);
        flags_are(0, distance);
        expect(pmu_count(0) == NARROW, "the counter itself, at", distance, pmu_count(0), NARROW);
        expect(pmu_count(1) == distance, "another, at", distance, pmu_count(1), distance);
        expect(pmu_count(31) == OPERATIONS, "the cycle counter, at", distance, pmu_count(31), OPERATIONS);
    }
    ok_group("all event counters stop behind the operation, the cycle counter does not");
    begin(PMCR_FZO | PMCR_DP);
    counts_from(0, INST_RETIRED, NARROW - 7);
    pmu_set_count(31, 0);
    look_at_each(1 | PM_CYCLES);
    is(pmu_count(31), 7, "with PMCR_EL0.DP the cycle counter stops too");
    write_sysreg(pmovsclr_el0, 1);
    look_at_each(1 | PM_CYCLES);
    is(pmu_count(31), 7 + OPERATIONS, "with the flag cleared all go on");
    is(pmu_count(0), NARROW + OPERATIONS, "where they stood");
    begin(PMCR_FZO);
    counts_from(0, INST_RETIRED, 0);
    write_sysreg(pmovsset_el0, PM_CYCLES);
    look_at_each(1);
    is(pmu_count(0), OPERATIONS, "an overflow of the cycle counter freezes nothing");
    write_sysreg(pmovsset_el0, 4);
    look_at_each(1);
    is(pmu_count(0), OPERATIONS, "a flag that software sets does");
}

/* --- PMUIRQ --- */

static volatile unsigned interrupts;
static struct trap interrupted;
static u64 interrupt_flags;
static bool keep_flags;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    interrupted = *trap;
    if (intid != PPI_PMU || ++interrupts > 50) {
        print("# interrupt %lu, number %u\n", intid, interrupts);
        exit_with(96);
    }
    interrupt_flags = read_sysreg(pmovsset_el0);
    if (!keep_flags || interrupts > 2)
        write_sysreg(pmovsclr_el0, interrupt_flags);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

/* Enables the counters of `map`: LINE operations that count, the first of them at the beginning. */
#define LINE 17
void straight_line(u64 map);
extern char straight_line_end[];
asm("    .text\n"
    "    .global straight_line, straight_line_end\n"
    "    .type straight_line, %function\n"
    "straight_line:\n"
    "    msr pmcntenset_el0, x0\n"
    "    .rept 16\n"
    "    nop\n"
    "    .endr\n"
    "straight_line_end:\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size straight_line, . - straight_line\n");

#define unmask() asm volatile("msr daifclr, #2" ::: "memory")
#define mask() asm volatile("msr daifset, #2" ::: "memory")

static void interrupt(void) {
    print("# PMUIRQ\n");
    gic_init();
    gic_set_up(PPI_PMU, 1, 0x80, false);
    unmask();
    for (unsigned event = 0; event < 3; event++)
        for (u64 distance = 1; distance <= LINE; distance++) {
            unsigned counter = event == 2 ? 31 : 2;
            begin(0);
            interrupts = 0;
            counts_from(2, event ? CPU_CYCLES : INST_RETIRED, NARROW - distance);
            pmu_set_count(31, -distance);
            write_sysreg(pmintenset_el1, BIT(counter));
            straight_line(BIT(counter));
            expect(interrupts == 1, "interrupts at a distance of", distance, interrupts, 1);
            u64 behind = (u64)straight_line + 4 * distance;
            expect(interrupted.elr == behind, "return address at a distance of", distance, interrupted.elr, behind);
            expect(interrupt_flags == BIT(counter), "flags at", distance, interrupt_flags, BIT(counter));
        }
    ok_group("taken in front of the operation behind the overflow, from event counters and the cycle counter");
    is(interrupted.vector, FROM_CURRENT(VECTOR_IRQ), "at the IRQ vector");

    begin(0);
    counts_from(0, INST_RETIRED, NARROW - 5);
    interrupts = 0;
    straight_line(1);
    is(interrupts, 0, "none without PMINTENSET_EL1");
    is(read_sysreg(pmovsset_el0), 1, "though it has overflowed");
    write_sysreg(pmintenset_el1, 1);
    isb();
    is(interrupts, 1, "set later it comes at once");
    mask();
    write_sysreg(pmovsset_el0, 1);
    isb();
    ok(gic_is_pending(PPI_PMU), "a flag that software sets makes PPI 23 pending");
    write_sysreg(pmcr_el0, 0);
    isb();
    ok(!gic_is_pending(PPI_PMU), "not while PMCR_EL0.E is 0");
    write_sysreg(pmcr_el0, PMCR_E);
    isb();
    ok(gic_is_pending(PPI_PMU), "again while it is 1");
    write_sysreg(pmintenclr_el1, 1);
    isb();
    ok(!gic_is_pending(PPI_PMU), "not without PMINTENSET_EL1");
    write_sysreg(pmintenset_el1, 1);
    isb();
    interrupts = 0;
    keep_flags = true;
    unmask();
    isb();
    is(interrupts, 3, "it is a level: a handler that leaves the flag is entered again");
    keep_flags = false;
    interrupts = 0;
    begin(0);
    counts_from(0, INST_RETIRED, NARROW - 1);
    write_sysreg(pmintenset_el1, 1);
    straight_line(1);
    is(interrupts, 1, "an overflow on the write that enables the counter");
    mask();
}

/* --- Freeze by SPE --- */

static u8 buffer[PAGE] __attribute__((aligned(4096)));

/* What LOOKS looks count with the controls. */
static u64 counted(unsigned counter) {
    pmu_set_count(counter, 0);
    look_at_each(BIT(counter));
    return pmu_count(counter);
}

/* Enables the counters of `map`, then sampling of the level; the operations of the population are ISB and NOPs. */
#define POPULATION 16
void sampled_line_el1(u64 map, u64 pmscr);
void sampled_line_el2(u64 map, u64 pmscr);
asm("    .text\n"
    "    .macro sampled_line name, pmscr\n"
    "    .global \\name\n"
    "    .type \\name, %function\n"
    "\\name:\n"
    "    msr pmcntenset_el0, x0\n"
    "    msr \\pmscr, x1\n"
    "    isb\n"
    "    .rept 15\n"
    "    nop\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    msr \\pmscr, xzr\n"
    "    isb\n"
    "    ret\n"
    "    .size \\name, . - \\name\n"
    "    .endm\n"
    "    sampled_line sampled_line_el1, S3_0_C9_C9_0\n"
    "    sampled_line sampled_line_el2, S3_4_C9_C9_0\n");

static void freeze_by_spe(void) {
    struct spe_id id = spe_probe();
    print("# PMCR_EL0.FZS\n");
    u64 end = (u64)buffer + sizeof buffer;
    spe_set_buffer((u64)buffer, 0, end | PMBLIMITR_PMFZ | PMBLIMITR_E);
    begin(PMCR_FZS);
    pmu_set_type(0, INST_RETIRED | level_counted);
    is(counted(0), OPERATIONS, "while SPE has not stopped counters count");
    spe_set_buffer((u64)buffer, PMBSR_S, end | PMBLIMITR_PMFZ | PMBLIMITR_E);
    is(counted(0), 0, "PMBSR_EL1.S, PMBLIMITR_EL1.{PMFZ,E} and FZS: they stop");
    is(counted(31), OPERATIONS, "the cycle counter goes on");
    write_sysreg(pmcr_el0, PMCR_E | PMCR_FZS | PMCR_DP);
    isb();
    bool dpfzs = FIELD(read_sysreg(S3_0_C0_C5_1), 55, 52); /* ID_AA64DFR1_EL1 */
    is(counted(31), dpfzs ? 0 : OPERATIONS, "with DP it stops if the core has FEAT_SPE_DPFZS");
    write_sysreg(pmcr_el0, PMCR_E);
    isb();
    is(counted(0), OPERATIONS, "not without FZS");
    write_sysreg(pmcr_el0, PMCR_E | PMCR_FZS);
    spe_set_buffer((u64)buffer, PMBSR_S, end | PMBLIMITR_E);
    is(counted(0), OPERATIONS, "not without PMFZ");
    spe_set_buffer((u64)buffer, PMBSR_S, end | PMBLIMITR_PMFZ);
    is(counted(0), OPERATIONS, "not while the buffer is disabled");
    spe_set_buffer((u64)buffer, 0, 0);

    for (u64 sampled = 1; sampled <= POPULATION; sampled++) {
        begin(PMCR_FZS);
        counts_from(0, INST_RETIRED, 0);
        write_sysreg(PMSFCR_EL1, 0);
        write_sysreg(PMSIRR_EL1, 0x10000);
        write_sysreg(PMSICR_EL1, sampled);
        spe_set_buffer(end - id.max_size, 0, end | PMBLIMITR_PMFZ | PMBLIMITR_E);
        if (at_el2)
            sampled_line_el2(1, PMSCR_E2SPE);
        else
            sampled_line_el1(1, PMSCR_E1SPE);
        expect(pmu_count(0) == 2 + sampled, "the count, if the buffer fills at", sampled, pmu_count(0), 2 + sampled);
        psb_csync(); /* of the last round: its buffer has not filled */
        spe_set_buffer((u64)buffer, 0, 0);
    }
    ok_group("a buffer that fills stops them behind the operation that was sampled");
}

/* Counts and interrupts of EL2, and a buffer that it owns. */
static void take_el2(void) {
    at_el2 = true;
    level_counted = PMEVTYPER_NSH;
    write_sysreg(mdcr_el2, PMCR_N(read_sysreg(pmcr_el0))); /* HPMN: every counter is EL1's; E2PB is 0 */
    write_sysreg(hcr_el2, HCR_RW | HCR_IMO);
    isb();
}

static u64 checks(u64 a, u64 b) {
    (void)a, (void)b;
    if (current_el() == 2)
        take_el2();
    if (!spe_probe().usable)
        return tap_skip_all("needs SPE");
    pmu_interrupts();
    write_sysreg(PMSCR_EL1, 0); /* UNKNOWN after a reset, as PMSCR_EL2 */
    if (at_el2)
        write_sysreg(PMSCR_EL2, 0);
    isb();
    chosen_operations();
    chain();
    freeze();
    interrupt();
    freeze_by_spe();
    return tap_done();
}

int main(void) {
    if (pmu_version() < PMUV3P7)
        return tap_skip_all("needs FEAT_PMUv3p7");
    if (current_el() == 3) {
        write_sysreg(mdcr_el3, MDCR_EL3_NSPB | MDCR_EL3_ENPM2);
        write_sysreg(icc_sre_el3, 0xf);
        prepare_el2();
        return call_at(EL2H, checks, 0, 0);
    }
    return checks(0, 0);
}
