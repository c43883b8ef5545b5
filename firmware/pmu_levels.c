/* Who is counted by the Performance Monitors: filters by Exception level and Security state, what EL2 and EL3 prohibit,
   and the counters that MDCR_EL2.HPMN keeps for EL2. Starts at EL3. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/pmu.h"
#include "lib/spe.h"

#define SCR_INITIAL (BIT(10) | BIT(8) | 3ull << 4) /* RW, HCE, RES1 */
#define SCR_NS BIT(0)
#define SCR_FGTEN2 BIT(59)
#define HDFGRTR2 S3_4_C3_C1_0
#define HDFGWTR2 S3_4_C3_C1_1
#define PMIC_OPEN (3ull << 2) /* nPMICNTR_EL0, nPMICFILTR_EL0 */
#define MDCR_EL3_NSPB (3ull << 12) /* the buffer is Non-secure */
#define SPME BIT(17)
#define SCCD BIT(23)
#define MCCD BIT(34)
#define MPMX BIT(35)
#define ENPM2 BIT(7)
#define HPMN(n) ((u64)(n))
#define HPME BIT(7)
#define HPMD BIT(17)
#define HCCD BIT(23)
#define HLP BIT(26)
#define HPMFZO BIT(29)
#define HPMFZS BIT(36)
#define MDCR_EL2_E2PB (3ull << 12) /* the buffer is EL1's */
#define PMBLIMITR_PMFZ BIT(5)
#define NARROW 0x100000000ull

static bool has_instructions;

/* --- Where work is done --- */

enum place { EL0_NS, EL1_NS, EL2_NS, EL0_S, EL1_S, AT_EL3, PLACES };
static const char *const places[] = {"EL0", "EL1", "EL2", "Secure EL0", "Secure EL1", "EL3"};

/* 2 * turns + 1 operations. */
u64 work(u64 turns, u64 b);
asm("    .text\n"
    "    .global work\n"
    "    .type work, %function\n"
    "work:\n"
    "    subs x0, x0, #1\n"
    "    b.ne work\n"
    "    ret\n"
    "    .size work, . - work\n");

static u64 from_el1(u64 f, u64 a) {
    return call_at(EL0T, (function *)f, a, 0);
}

static u64 run_at(enum place place, function *f, u64 a) {
    bool secure = place == EL0_S || place == EL1_S;
    write_sysreg(scr_el3, SCR_INITIAL | (has_instructions ? SCR_FGTEN2 : 0) | (secure ? 0 : SCR_NS));
    isb();
    switch (place) {
    case EL0_NS:
    case EL0_S:
        return call_at(EL1H, from_el1, (u64)f, a);
    case EL1_NS:
    case EL1_S:
        return call_at(EL1H, f, a, 0);
    case EL2_NS:
        return call_at(EL2H, f, a, 0);
    default:
        return f(a, 0);
    }
}

/* --- What counters count of it --- */

#define WORK 20
#define OF_WORK (2 * WORK)
#define COUNTERS 8
#define CYCLES 6 /* in arrays of counts: the cycle and the instruction counter */
#define INSTRUCTIONS 7

static u64 counts[COUNTERS]; /* of what work() does with WORK turns more: OF_WORK or 0 */

static void __attribute__((noinline)) snapshot(u64 *at) {
    at[0] = read_sysreg(pmevcntr0_el0);
    at[1] = read_sysreg(pmevcntr1_el0);
    at[2] = read_sysreg(pmevcntr2_el0);
    at[3] = read_sysreg(pmevcntr3_el0);
    at[4] = read_sysreg(pmevcntr4_el0);
    at[5] = read_sysreg(pmevcntr5_el0);
    at[CYCLES] = read_sysreg(pmccntr_el0);
    if (has_instructions)
        at[INSTRUCTIONS] = read_sysreg(PMICNTR_EL0);
}

/* The same three times, with more turns the last time: the difference of the differences is the work's. */
static void measure(enum place place) {
    static const u64 turns[] = {1, 1, 1 + WORK};
    u64 at[3][COUNTERS] = {{0}};
    for (unsigned n = 0; n < 3; n++) {
        asm volatile("" : "+r"(n)); /* the same operations in each turn */
        run_at(place, work, turns[n]);
        snapshot(at[n]);
    }
    for (unsigned n = 0; n < COUNTERS; n++)
        counts[n] = (at[2][n] - at[1][n]) - (at[1][n] - at[0][n]);
}

/* All counters count INST_RETIRED at every place. */
static void begin(u64 control, u64 mdcr_el3, u64 mdcr_el2) {
    write_sysreg(mdcr_el3, mdcr_el3 | MDCR_EL3_NSPB | ENPM2);
    write_sysreg(mdcr_el2, mdcr_el2 | MDCR_EL2_E2PB);
    pmu_stop();
    for (unsigned n = 0; n < 6; n++) {
        pmu_set_type(n, INST_RETIRED | PMEVTYPER_NSH);
        pmu_set_count(n, 0);
    }
    write_sysreg(pmccfiltr_el0, PMEVTYPER_NSH);
    if (has_instructions)
        write_sysreg(PMICFILTR_EL0, PMEVTYPER_NSH);
    write_sysreg(pmcntenset_el0, ~0ull);
    write_sysreg(pmcr_el0, control);
    isb();
}

/* --- Filters --- */

static bool is_counted(enum place place, u64 filter) {
    bool p = filter & PMEVTYPER_P, u = filter & PMEVTYPER_U, m = filter & PMEVTYPER_M;
    bool nsk = filter & PMEVTYPER_NSK, nsu = filter & PMEVTYPER_NSU, nsh = filter & PMEVTYPER_NSH;
    switch (place) {
    case EL0_NS:
        return u == nsu;
    case EL1_NS:
        return p == nsk;
    case EL2_NS:
        return nsh;
    case EL0_S:
        return !u;
    case EL1_S:
        return !p;
    default:
        return m == p;
    }
}

static u64 filter_of(unsigned number) {
    static const u64 bits[] = {PMEVTYPER_P,   PMEVTYPER_U,   PMEVTYPER_NSK,
                               PMEVTYPER_NSU, PMEVTYPER_NSH, PMEVTYPER_M};
    u64 filter = 0;
    for (unsigned n = 0; n < ARRAY_SIZE(bits); n++)
        if (number >> n & 1)
            filter |= bits[n];
    return filter;
}

static void filters(void) {
    static bool good[PLACES] = {true, true, true, true, true, true};
    print("# filters\n");
    for (unsigned batch = 0; batch < 16; batch++) {
        begin(PMCR_E, SPME, HPMN(6));
        u64 used[COUNTERS];
        for (unsigned n = 0; n < COUNTERS; n++)
            used[n] = filter_of(n < 4 ? 4 * batch + n : (21 * batch + 5 * n) & 63);
        for (unsigned n = 0; n < 6; n++)
            pmu_set_type(n, (n == 5 ? CPU_CYCLES : INST_RETIRED) | used[n]);
        write_sysreg(pmccfiltr_el0, used[CYCLES]);
        if (has_instructions)
            write_sysreg(PMICFILTR_EL0, used[INSTRUCTIONS]);
        isb();
        for (unsigned place = 0; place < PLACES; place++) {
            measure(place);
            for (unsigned n = 0; n < (has_instructions ? COUNTERS : INSTRUCTIONS); n++) {
                u64 expected = is_counted(place, used[n]) ? OF_WORK : 0;
                if (counts[n] != expected && good[place])
                    print("# %s, counter %u, filter 0x%lx: %lu, expected %lu\n", places[place], n, used[n], counts[n],
                          expected);
                good[place] &= counts[n] == expected;
            }
        }
    }
    for (unsigned place = 0; place < PLACES; place++)
        ok(good[place], places[place]);
}

/* --- What EL2 and EL3 allow --- */

/* Counters 0 to 3 are EL1's, 4 and 5 EL2's. */
#define BASE_EL2 (HPMN(4) | HPME)
enum stopped_by { NOTHING, FLAG_0, FLAG_4, SPE };

/* A letter a place, in the order of enum place: 1 where counted. */
static const struct {
    u64 control, mdcr_el3, mdcr_el2;
    enum stopped_by stopped;
    const char *el1s, *el2s, *cycles, *name;
} rules[] = {
    {PMCR_E, SPME, BASE_EL2, NOTHING, "111111", "111111", "111111", "everything counts"},
    {0, SPME, BASE_EL2, NOTHING, "000000", "111111", "000000", "PMCR_EL0.E is 0: EL2's count"},
    {PMCR_E, SPME, HPMN(4), NOTHING, "111111", "000000", "111111", "MDCR_EL2.HPME is 0: EL1's count"},
    {PMCR_E, 0, BASE_EL2, NOTHING, "111000", "111000", "111111", "SPME is 0: not in Secure state, nor at EL3"},
    {PMCR_E | PMCR_DP, 0, BASE_EL2, NOTHING, "111000", "111000", "111000", "and with DP no cycles"},
    {PMCR_E, MPMX, BASE_EL2, NOTHING, "111110", "111110", "111111", "MPMX without SPME: not at EL3"},
    {PMCR_E | PMCR_DP, MPMX, BASE_EL2, NOTHING, "111110", "111110", "111110", "and with DP no cycles there"},
    {PMCR_E, MPMX | SPME, BASE_EL2, NOTHING, "111110", "111111", "111111", "MPMX with SPME: at EL3 EL2's alone"},
    {PMCR_E | PMCR_DP, MPMX | SPME, BASE_EL2, NOTHING, "111110", "111111", "111110", "and with DP no cycles there"},
    {PMCR_E, SPME, BASE_EL2 | HPMD, NOTHING, "110111", "111111", "111111", "HPMD: at EL2 EL2's alone"},
    {PMCR_E | PMCR_DP, SPME, BASE_EL2 | HPMD, NOTHING, "110111", "111111", "110111", "and with DP no cycles there"},
    {PMCR_E, SPME, BASE_EL2 | HCCD, NOTHING, "111111", "111111", "110111", "HCCD: no cycles at EL2"},
    {PMCR_E, SPME | SCCD, BASE_EL2, NOTHING, "111111", "111111", "111000", "SCCD: no cycles in Secure state, nor at EL3"},
    {PMCR_E, SPME | MCCD, BASE_EL2, NOTHING, "111111", "111111", "111110", "MCCD: no cycles at EL3"},
    {PMCR_E | PMCR_FZO, SPME, BASE_EL2, FLAG_0, "000000", "111111", "111111", "FZO, and a flag of EL1's"},
    {PMCR_E | PMCR_FZO | PMCR_DP, SPME, BASE_EL2, FLAG_0, "000000", "111111", "000000", "and with DP no cycles"},
    {PMCR_E | PMCR_FZO, SPME, BASE_EL2, FLAG_4, "111111", "111111", "111111", "FZO, and a flag of EL2's"},
    {PMCR_E, SPME, BASE_EL2 | HPMFZO, FLAG_4, "111111", "000000", "111111", "HPMFZO, and a flag of EL2's"},
    {PMCR_E | PMCR_DP, SPME, BASE_EL2 | HPMFZO, FLAG_4, "111111", "000000", "111111", "it has nothing to do with DP"},
    {PMCR_E, SPME, BASE_EL2 | HPMFZO, FLAG_0, "111111", "111111", "111111", "HPMFZO, and a flag of EL1's"},
    {PMCR_E | PMCR_FZS, SPME, BASE_EL2, SPE, "000000", "111111", "111111", "FZS, and SPE has stopped"},
    {PMCR_E, SPME, BASE_EL2 | HPMFZS, SPE, "111111", "000000", "111111", "HPMFZS, and SPE has stopped"},
    {PMCR_E, SPME, BASE_EL2, SPE, "111111", "111111", "111111", "neither"},
    {PMCR_E | PMCR_FZS | PMCR_DP, SPME, BASE_EL2 | HPMFZS, SPE, "000000", "000000", "?", "both, with DP"},
};

static void prohibitions(void) {
    bool dpfzs = FIELD(read_sysreg(S3_0_C0_C5_1), 55, 52); /* ID_AA64DFR1_EL1 */
    print("# prohibitions\n");
    for (unsigned rule = 0; rule < ARRAY_SIZE(rules); rule++) {
        const char *cycles = *rules[rule].cycles != '?' ? rules[rule].cycles : dpfzs ? "000000" : "111111";
        bool good = true;
        begin(rules[rule].control, rules[rule].mdcr_el3, rules[rule].mdcr_el2);
        if (rules[rule].stopped == FLAG_0 || rules[rule].stopped == FLAG_4)
            write_sysreg(pmovsset_el0, rules[rule].stopped == FLAG_0 ? BIT(0) : BIT(4));
        spe_set_buffer(0, rules[rule].stopped == SPE ? PMBSR_S : 0, PMBLIMITR_PMFZ | PMBLIMITR_E);
        for (unsigned place = 0; place < PLACES; place++) {
            measure(place);
            for (unsigned n = 0; n < (has_instructions ? COUNTERS : INSTRUCTIONS); n++) {
                const char *row = n == CYCLES ? cycles : n == 4 || n == 5 ? rules[rule].el2s : rules[rule].el1s;
                u64 expected = row[place] == '1' ? OF_WORK : 0;
                if (counts[n] != expected)
                    print("# %s, counter %u: %lu, expected %lu\n", places[place], n, counts[n], expected);
                good &= counts[n] == expected;
            }
        }
        ok(good, rules[rule].name);
    }
    spe_set_buffer(0, 0, 0);
}

/* --- The counters of EL2, from below --- */

static u64 seen[4];

static u64 look(u64 a, u64 b) {
    (void)a, (void)b;
    seen[0] = PMCR_N(read_sysreg(pmcr_el0));
    write_sysreg(pmcntenset_el0, ~0ull);
    write_sysreg(pmintenset_el1, ~0ull);
    write_sysreg(pmovsset_el0, ~0ull);
    seen[1] = read_sysreg(pmcntenclr_el0);
    seen[2] = read_sysreg(pmintenclr_el1);
    seen[3] = read_sysreg(pmovsclr_el0);
    return 0;
}

static u64 reset_counters(u64 a, u64 b) {
    (void)a, (void)b;
    write_sysreg(pmcr_el0, PMCR_P);
    return 0;
}

static u64 clear_all(u64 a, u64 b) {
    (void)a, (void)b;
    write_sysreg(pmcntenclr_el0, ~0ull);
    write_sysreg(pmintenclr_el1, ~0ull);
    write_sysreg(pmovsclr_el0, ~0ull);
    return 0;
}

static void kept_by_el2(void) {
    static const enum place whence[] = {EL1_NS, EL2_NS, EL1_S, AT_EL3};
    u64 all = 0x3f | PM_CYCLES | (has_instructions ? PM_INSTRUCTIONS : 0);
    print("# MDCR_EL2.HPMN\n");
    for (unsigned n = 0; n <= 6; n++)
        for (unsigned w = 0; w < ARRAY_SIZE(whence); w++) {
            u64 number = w ? 6 : n, map = (all & ~0x3full) | (BIT(number) - 1);
            if (n == 0 && pmu_version() < PMUV3P9)
                continue; /* needs FEAT_HPMN0 */
            begin(0, SPME, HPMN(n));
            pmu_stop();
            run_at(whence[w], look, 0);
            bool good = seen[0] == number && seen[1] == map && seen[2] == map && seen[3] == map;
            write_sysreg(pmcntenset_el0, ~0ull);
            write_sysreg(pmintenset_el1, ~0ull);
            write_sysreg(pmovsset_el0, ~0ull);
            run_at(whence[w], clear_all, 0);
            u64 left = read_sysreg(pmcntenset_el0), flags = read_sysreg(pmovsset_el0);
            good &= left == (all & ~map) && flags == left && read_sysreg(pmintenset_el1) == left;
            for (unsigned c = 0; c < 6; c++)
                pmu_set_count(c, 100 + c);
            run_at(whence[w], reset_counters, 0);
            for (unsigned c = 0; c < 6; c++)
                good &= pmu_count(c) == (c < number ? 0 : 100 + c);
            if (!good)
                print("# HPMN %u, %s: N %lu, maps 0x%lx 0x%lx 0x%lx, left 0x%lx\n", n, places[whence[w]], seen[0],
                      seen[1], seen[2], seen[3], left);
            if (w == 0)
                ok(good, "EL1 sees as many counters as HPMN, and reaches no others");
            else if (!good)
                ok(false, "the other levels reach all");
        }
}

static void widths(void) {
    print("# MDCR_EL2.HLP\n");
    for (unsigned wide = 0; wide < 4; wide++) {
        bool lp = wide & 1, hlp = wide & 2;
        begin(PMCR_E | (lp ? PMCR_LP : 0), SPME, BASE_EL2 | (hlp ? HLP : 0));
        pmu_set_count(0, NARROW - 3);
        pmu_set_count(4, NARROW - 3);
        is(read_sysreg(pmovsset_el0) & 0x11, (lp ? 0 : 1) | (hlp ? 0 : 0x10), "32 bits, by LP and by HLP");
        pmu_set_count(0, -3ull);
        pmu_set_count(4, -3ull);
        is(read_sysreg(pmovsset_el0) & 0x11, 0x11, "64 bits, each");
    }
    print("# CHAIN\n");
    for (unsigned hpmn = 4; hpmn <= 6; hpmn++) {
        begin(PMCR_E, SPME, HPMN(hpmn) | HPME);
        pmu_set_type(5, CHAIN | PMEVTYPER_NSH);
        pmu_set_count(5, 0);
        pmu_set_count(4, NARROW - 1);
        is(pmu_count(5), hpmn == 5 ? 0 : 1, "not from a counter of EL1's to one of EL2's");
    }
    begin(PMCR_E, SPME, BASE_EL2 | HLP);
    pmu_set_type(5, CHAIN | PMEVTYPER_NSH);
    pmu_set_count(5, 0);
    pmu_set_count(4, -1ull);
    is(pmu_count(5), 0, "with HLP there is no chain");
}

static void interrupts(void) {
    print("# PMUIRQ\n");
    begin(PMCR_E, SPME, BASE_EL2);
    write_sysreg(pmintenset_el1, 0x3f);
    write_sysreg(pmovsset_el0, BIT(5));
    isb();
    ok(gic_is_pending(PPI_PMU), "an overflow of EL2's");
    write_sysreg(mdcr_el2, HPMN(4));
    isb();
    ok(!gic_is_pending(PPI_PMU), "not while HPME is 0");
    write_sysreg(pmovsset_el0, BIT(3));
    isb();
    ok(gic_is_pending(PPI_PMU), "an overflow of EL1's");
    write_sysreg(mdcr_el2, HPMN(3) | HPME);
    write_sysreg(pmcr_el0, 0);
    isb();
    ok(gic_is_pending(PPI_PMU), "HPMN says by which enable");
    write_sysreg(mdcr_el2, HPMN(6) | HPME);
    isb();
    ok(!gic_is_pending(PPI_PMU), "now all are EL1's, and PMCR_EL0.E is 0");
    pmu_stop();
}

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("starts at EL3");
    if (pmu_version() < PMUV3P7 || PMCR_N(read_sysreg(pmcr_el0)) != 6)
        return tap_skip_all("needs FEAT_PMUv3p7 and six counters");
    has_instructions = FIELD(read_sysreg(S3_0_C0_C5_1), 39, 36); /* ID_AA64DFR1_EL1.PMICNTR */
    write_sysreg(mdcr_el3, MDCR_EL3_NSPB);
    if (has_instructions) {
        write_sysreg(HDFGRTR2, PMIC_OPEN);
        write_sysreg(HDFGWTR2, PMIC_OPEN);
    }
    write_sysreg(PMSCR_EL1, 0);
    write_sysreg(S3_4_C9_C9_0, 0); /* PMSCR_EL2 */
    prepare_el2();
    prepare_el1();
    gic_init();
    filters();
    prohibitions();
    kept_by_el2();
    widths();
    interrupts();
    return tap_done();
}
