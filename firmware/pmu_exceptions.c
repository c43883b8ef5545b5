/* FEAT_EBEP and FEAT_SEBEP: where PMU Profiling exceptions go and what masks them, synchronous ones at each value around
   the overflow, overshoot, PSTATE.PPEND through other exceptions. Starts at EL3, on the core `max`. */
#include "lib/debug.h"
#include "lib/gic.h"
#include "lib/pmu.h"
#include "lib/spe.h"

#define PM S3_0_C4_C3_1
#define unmask_pm() asm volatile(".inst 0xd501421f" ::: "memory") /* MSR PM, #0 */
#define mask_pm() asm volatile(".inst 0xd501431f" ::: "memory")
#define MSR_PM_0 "    .inst 0xd501421f\n"
#define PSR_PM BIT(32)
#define PSR_PPEND BIT(33)
#define EC_PROFILING 0x3d
#define ASYNCHRONOUS 0xf6000000ull /* ESR: the class, IL, and FSC PMU; SYNC is bit 0 */
#define SYNCHRONOUS 0xf6000001ull

#define SCR_INITIAL (BIT(10) | BIT(8) | 3ull << 4 | 1) /* RW, HCE, RES1, NS */
#define HCR_TGE BIT(27)
#define SPME BIT(17)
#define ENPM2 BIT(7)
#define PMEE(n) ((u64)(n) << 40) /* of MDCR_EL3 and MDCR_EL2 */
#define KPME BIT(2)

#define INTERRUPT 0
#define DELEGATED 1
#define RESERVED 2
#define EXCEPTION 3

#define LOWER FROM_LOWER(VECTOR_SYNC)
#define CURRENT FROM_CURRENT(VECTOR_SYNC)

/* A counter that counts at one Exception level alone. */
static const u64 only_at[] = {
    PMEVTYPER_P,
    PMEVTYPER_U | PMEVTYPER_M,
    PMEVTYPER_P | PMEVTYPER_U | PMEVTYPER_NSH,
    PMEVTYPER_P | PMEVTYPER_U | PMEVTYPER_M,
};
static const u64 mode_of[] = {EL0T, EL1H, EL2H};

/* --- The exception --- */

#define SEEN 8
static struct seen {
    u64 level, vector, elr, spsr, esr, iar, flags, count, pm;
} seen[SEEN];
static volatile unsigned seen_count, depth;
static unsigned keep; /* as many exceptions leave the flags */
static bool nest; /* the handler runs into an exception of counter 1 */
static u64 nested_at;
static struct trap others[SEEN]; /* exceptions of other classes */
static unsigned others_count;

void on_trap(struct trap *trap) {
    u64 count = read_sysreg(pmevcntr0_el0);
    if (ESR_EC(trap->esr) != EC_PROFILING) {
        if (others_count < SEEN)
            others[others_count] = *trap;
        others_count++;
        if (ESR_EC(trap->esr) == EC_STEP) { /* on it goes */
            trap->spsr |= PSR_SS;
            taken++;
        } else {
            record_and_skip(trap);
        }
        return;
    }
    struct seen *now = &seen[seen_count < SEEN ? seen_count : SEEN - 1];
    *now = (struct seen){trap->level, trap->vector, trap->elr, trap->spsr, trap->esr, read_sysreg(PMIAR_EL1),
                         read_sysreg(pmovsset_el0), count, read_sysreg(PM)};
    if (++seen_count > 100) {
        print("# too many exceptions: ESR 0x%lx, ELR 0x%lx\n", trap->esr, trap->elr);
        exit_with(96);
    }
    if (keep)
        keep--;
    else
        write_sysreg(pmovsclr_el0, now->flags);
    isb();
    trap->spsr &= ~PSR_PPEND; /* served: ERET must not bring it back */
    if (nest) {
        u64 at;
        nest = false;
        depth++;
        write_sysreg(pmevcntr1_el0, -1ull);
        write_sysreg(pmcntenset_el0, 2);
        asm volatile("adr %0, 1f\n" MSR_PM_0 "    nop\n    b 1f\n1:  nop\n" : "=&r"(at)::"memory");
        nested_at = at;
        mask_pm();
        write_sysreg(pmcntenclr_el0, 2);
    }
}

static void enable(u64 pmee3, u64 pmee2, u64 pmee1, u64 kpme) {
    write_sysreg(mdcr_el3, PMEE(pmee3) | SPME | ENPM2);
    write_sysreg(mdcr_el2, PMEE(pmee2) | 6);
    write_sysreg(PMECR_EL1, pmee1 | kpme);
    isb();
}

/* Counter 0 counts from `value` on as soon as it is enabled, and its overflow is noticed. */
static void arm(u64 type, u64 value) {
    pmu_stop();
    pmu_set_type(0, type);
    pmu_set_count(0, value);
    write_sysreg(PMIAR_EL1, 0);
    write_sysreg(pmuserenr_el0, 1);
    write_sysreg(pmintenset_el1, 1);
    write_sysreg(pmcr_el0, PMCR_E);
    isb();
    seen_count = others_count = 0;
}

static u64 call_el0(u64 f, u64 a) {
    return call_at(EL0T, (function *)f, a, 0);
}

/* At EL3 with PSTATE.PM as it is; below with `bits` in SPSR besides the mode. At EL0 they are not. */
static void run_at(unsigned el, u64 bits, function *f, u64 a) {
    if (el == 3)
        f(a, 0);
    else if (el == 0)
        call_at(read_sysreg(hcr_el2) & HCR_TGE ? EL2H : EL1H | PSR_PM, call_el0, (u64)f, a);
    else
        call_at(mode_of[el] | bits, f, a, 0);
}

/* --- Who takes it --- */

extern char at_nothing[], at_set[];
u64 nothing(u64 a, u64 b);
u64 set_flag(u64 flags, u64 b); /* for EL0: above it the exception would be taken before */
asm("    .text\n"
    "    .type nothing, %function\n"
    "nothing:\n"
    "at_nothing:\n"
    "    nop\n"
    "    ret\n"
    "    .size nothing, . - nothing\n"
    "    .type set_flag, %function\n"
    "set_flag:\n"
    "    msr pmovsset_el0, x0\n"
    "at_set:\n"
    "    nop\n"
    "    ret\n"
    "    .size set_flag, . - set_flag\n");

static const struct {
    u8 pmee3, pmee2, pmee1, kpme, tge, el, pm, taken_to;
} masks[] = {
    /* EL1's: from EL0 always, from EL1 with KPME and without PM, from above never. */
    {DELEGATED, DELEGATED, EXCEPTION, 0, 0, 0, 1, 1},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 0, 0, 0, 1},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 0, 1, 0, 1},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 0, 1, 1, 0},
    {DELEGATED, DELEGATED, EXCEPTION, 0, 0, 1, 0, 0},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 0, 2, 0, 0},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 0, 3, 0, 0},
    /* EL1's where EL0 is EL2's. */
    {DELEGATED, DELEGATED, EXCEPTION, 0, 1, 0, 1, 2},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 1, 2, 0, 0},
    {DELEGATED, DELEGATED, EXCEPTION, 1, 1, 3, 0, 0},
    /* EL2's. */
    {DELEGATED, EXCEPTION, INTERRUPT, 0, 0, 0, 1, 2},
    {DELEGATED, EXCEPTION, EXCEPTION, 0, 0, 1, 1, 2},
    {DELEGATED, EXCEPTION, INTERRUPT, 1, 0, 2, 0, 2},
    {DELEGATED, EXCEPTION, INTERRUPT, 1, 0, 2, 1, 0},
    {DELEGATED, EXCEPTION, INTERRUPT, 0, 0, 2, 0, 0},
    {DELEGATED, EXCEPTION, INTERRUPT, 1, 0, 3, 0, 0},
    /* EL3's. */
    {EXCEPTION, INTERRUPT, INTERRUPT, 0, 0, 0, 1, 3},
    {EXCEPTION, EXCEPTION, EXCEPTION, 0, 0, 1, 1, 3},
    {EXCEPTION, EXCEPTION, INTERRUPT, 0, 0, 2, 1, 3},
    {EXCEPTION, INTERRUPT, INTERRUPT, 1, 0, 3, 0, 3},
    {EXCEPTION, INTERRUPT, INTERRUPT, 1, 0, 3, 1, 0},
    {EXCEPTION, INTERRUPT, INTERRUPT, 0, 0, 3, 0, 0},
    /* No exception. */
    {INTERRUPT, EXCEPTION, EXCEPTION, 1, 0, 0, 0, 0},
    {RESERVED, EXCEPTION, EXCEPTION, 1, 0, 0, 0, 0},
    {DELEGATED, INTERRUPT, EXCEPTION, 1, 0, 0, 0, 0},
    {DELEGATED, RESERVED, EXCEPTION, 1, 0, 0, 0, 0},
    {DELEGATED, DELEGATED, INTERRUPT, 1, 0, 0, 0, 0},
    {DELEGATED, DELEGATED, DELEGATED, 1, 0, 0, 0, 0},
    {DELEGATED, DELEGATED, RESERVED, 1, 0, 0, 0, 0},
};

/* A flag that is set, of a counter that is not synchronous. */
static void who_takes_it(void) {
    static const char *const names[] = {"from EL0", "from EL1", "from EL2", "from EL3"};
    print("# targets and masks\n");
    for (unsigned el = 0; el < 4; el++) {
        for (unsigned n = 0; n < ARRAY_SIZE(masks); n++) {
            if (masks[n].el != el)
                continue;
            mask_pm();
            enable(masks[n].pmee3, masks[n].pmee2, masks[n].pmee1, masks[n].kpme ? KPME : 0);
            write_sysreg(hcr_el2, HCR_RW | (masks[n].tge ? HCR_TGE : 0));
            arm(INST_RETIRED, 0);
            write_sysreg(pmovsset_el0, el != 0);
            isb();
            expect(seen_count == 0, "masked by PSTATE.PM at EL3, row", n, seen_count, 0);
            u64 at = el ? (u64)at_nothing : (u64)at_set;
            if (el == 3 && !masks[n].pm)
                asm volatile("adr %0, 1f\n" MSR_PM_0 "1:  nop\n" : "=&r"(at)::"memory");
            else
                run_at(el, masks[n].pm ? PSR_PM : 0, el ? nothing : set_flag, 1);
            unsigned level = seen_count == 1 ? (unsigned)seen[0].level : seen_count;
            expect(level == masks[n].taken_to, "the level that took it, row", n, level, masks[n].taken_to);
            if (masks[n].taken_to) {
                u64 vector = level == el ? CURRENT : LOWER;
                expect(seen[0].vector == vector, "vector, row", n, seen[0].vector, vector);
                expect(seen[0].esr == ASYNCHRONOUS, "ESR, row", n, seen[0].esr, ASYNCHRONOUS);
                expect(seen[0].elr == at, "ELR, row", n, seen[0].elr, at);
                expect(seen[0].pm == PSR_PM, "PSTATE.PM in the handler, row", n, seen[0].pm, PSR_PM);
                if (el == 1 || el == 2)
                    expect((seen[0].spsr & PSR_PM) == (masks[n].pm ? PSR_PM : 0), "SPSR.PM, row", n, seen[0].spsr,
                           masks[n].pm ? PSR_PM : 0);
            }
            mask_pm();
            bool irq = masks[n].pmee3 == INTERRUPT || (masks[n].pmee3 == DELEGATED && masks[n].pmee2 == INTERRUPT) ||
                       (masks[n].pmee3 == DELEGATED && masks[n].pmee2 == DELEGATED && masks[n].pmee1 == INTERRUPT);
            write_sysreg(pmovsset_el0, 1);
            isb();
            expect(gic_is_pending(PPI_PMU) == irq, "PMUIRQ, row", n, !irq, irq);
            pmu_stop();
            write_sysreg(hcr_el2, HCR_RW);
            isb();
        }
        ok_group(names[el]);
    }
}

/* --- At each value around the overflow --- */

/* `line`: 17 operations that count, the first at its beginning; `branches`: 8 branches behind NOPs. */
#define LINE 17
#define BRANCHES 8
u64 line(u64 map, u64 b);
u64 branches(u64 map, u64 b);
asm("    .text\n"
    "    .global line\n"
    "    .type line, %function\n"
    "line:\n"
    "    msr pmcntenset_el0, x0\n"
    "    .rept 16\n"
    "    nop\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size line, . - line\n"
    "    .global branches\n"
    "    .type branches, %function\n"
    "branches:\n"
    "    msr pmcntenset_el0, x0\n"
    "    .rept 8\n"
    "    nop\n"
    "    b . + 4\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size branches, . - branches\n");

static const struct way {
    u64 pmee3, pmee2, pmee1, kpme;
    unsigned from, to;
    const char *name;
} ways[] = {
    {DELEGATED, DELEGATED, EXCEPTION, 0, 0, 1, "from EL0 to EL1"},
    {DELEGATED, EXCEPTION, 0, 0, 0, 2, "from EL0 to EL2"},
    {DELEGATED, EXCEPTION, 0, 0, 1, 2, "from EL1 to EL2"},
    {EXCEPTION, 0, 0, 0, 0, 3, "from EL0 to EL3"},
    {EXCEPTION, 0, 0, 0, 1, 3, "from EL1 to EL3"},
    {EXCEPTION, 0, 0, 0, 2, 3, "from EL2 to EL3"},
    {DELEGATED, DELEGATED, EXCEPTION, KPME, 1, 1, "at EL1"},
    {DELEGATED, EXCEPTION, 0, KPME, 2, 2, "at EL2"},
    {EXCEPTION, 0, 0, KPME, 3, 3, "at EL3"},
};

static void run_way(const struct way *way, function *f) {
    if (way->from == 3)
        unmask_pm();
    run_at(way->from, 0, f, 1);
    mask_pm();
}

/* What a handler of its own level counts before it reads the counter, by the distance 5. */
static u64 handlers_own(const struct way *way, u64 type, function *f) {
    if (way->from != way->to)
        return 0;
    arm(type | only_at[way->from], -5ull);
    run_way(way, f);
    return seen[0].count;
}

static void at_each_value(void) {
    print("# at each value\n");
    for (unsigned w = 0; w < ARRAY_SIZE(ways); w++) {
        const struct way *way = &ways[w];
        enable(way->pmee3, way->pmee2, way->pmee1, way->kpme);
        u64 vector = way->from == way->to ? CURRENT : LOWER;
        for (unsigned synchronous = 0; synchronous < 2; synchronous++)
            for (unsigned kind = 0; kind < 2; kind++) {
                u64 type = (kind ? BR_RETIRED : INST_RETIRED) | (synchronous ? PMEVTYPER_SYNC : 0);
                function *f = kind ? branches : line;
                u64 esr = synchronous ? SYNCHRONOUS : ASYNCHRONOUS, most = kind ? BRANCHES : LINE;
                u64 own = handlers_own(way, type, f);
                /* what the operation itself enables, it may see or not: from the second on */
                for (u64 distance = kind ? 1 : 2; distance <= most + 1; distance++) {
                    if (distance > most && way->from == way->to)
                        continue;
                    arm(type | only_at[way->from], -distance);
                    run_way(way, f);
                    /* behind the line there are a return and a call that also count */
                    if (distance > most)
                        write_sysreg(pmovsclr_el0, 1);
                    if (distance > most) {
                        expect(seen_count == 0, "too many, at a distance of", distance, seen_count, 0);
                        continue;
                    }
                    u64 at = (u64)f + (kind ? 8 * distance : 4 * (distance - 1));
                    expect(seen_count == 1, "exceptions at a distance of", distance, seen_count, 1);
                    expect(seen[0].level == way->to, "level at a distance of", distance, seen[0].level, way->to);
                    expect(seen[0].vector == vector, "vector at a distance of", distance, seen[0].vector, vector);
                    expect(seen[0].esr == esr, "ESR at a distance of", distance, seen[0].esr, esr);
                    expect(seen[0].elr == at + 4, "ELR at a distance of", distance, seen[0].elr, at + 4);
                    u64 iar = synchronous ? at : 0;
                    expect(seen[0].iar == iar, "PMIAR_EL1 at a distance of", distance, seen[0].iar, iar);
                    expect(seen[0].count == own, "the count at a distance of", distance, seen[0].count, own);
                    u64 ppend = synchronous ? PSR_PPEND : 0;
                    expect((seen[0].spsr & PSR_PPEND) == ppend, "SPSR.PPEND at a distance of", distance, seen[0].spsr,
                           ppend);
                    expect(seen[0].flags == 1, "flags at a distance of", distance, seen[0].flags, 1);
                }
            }
        ok_group(way->name);
    }
}

/* --- Other events, and what does not make it pending --- */

u64 increments(u64 map, u64 b);
u64 calls(u64 map, u64 b);
extern char call_back[];
asm("    .text\n"
    "    .global increments\n"
    "    .type increments, %function\n"
    "increments:\n"
    "    msr pmcntenset_el0, x0\n"
    "    .rept 6\n"
    "    nop\n"
    "    msr pmswinc_el0, x0\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size increments, . - increments\n"
    "    .global calls\n"
    "    .type calls, %function\n"
    "calls:\n"
    "    msr pmcntenset_el0, x0\n" /* 1 */
    "    nop\n"
    "    svc #1\n" /* 3 */
    "    nop\n"
    "    hvc #1\n" /* UNDEFINED at EL0 */
    "    nop\n"
    "    nop\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size calls, . - calls\n");

static void others_events(void) {
    print("# other events\n");
    enable(DELEGATED, DELEGATED, EXCEPTION, 0);
    for (u64 distance = 1; distance <= 6; distance++) {
        arm(SW_INCR | PMEVTYPER_SYNC | only_at[0], -distance);
        run_at(0, 0, increments, 1);
        u64 at = (u64)increments + 8 * distance;
        expect(seen_count == 1 && seen[0].iar == at && seen[0].elr == at + 4 && seen[0].count == 0,
               "PMIAR_EL1 at a distance of", distance, seen[0].iar, at);
    }
    ok_group("the write to PMSWINC_EL0 that overflows");

    write_sysreg(PMICFILTR_EL0, PMEVTYPER_SYNC | only_at[0]);
    for (u64 distance = 2; distance <= LINE; distance++) {
        arm(LD_RETIRED | only_at[0], 0);
        write_sysreg(PMICNTR_EL0, -distance);
        write_sysreg(pmintenset_el1, PM_INSTRUCTIONS);
        write_sysreg(PMUACR_EL1, ~0ull);
        write_sysreg(pmuserenr_el0, 0x11); /* UEN, EN */
        isb();
        run_at(0, 0, line, PM_INSTRUCTIONS);
        u64 at = (u64)line + 4 * (distance - 1);
        expect(seen_count == 1 && seen[0].iar == at && seen[0].elr == at + 4 && seen[0].flags == PM_INSTRUCTIONS,
               "PMIAR_EL1 at a distance of", distance, seen[0].iar, at);
        expect(read_sysreg(PMICNTR_EL0) == LINE - distance, "PMICNTR_EL0 at a distance of", distance,
               read_sysreg(PMICNTR_EL0), LINE - distance);
    }
    ok_group("the instruction counter");

    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -3ull);
    run_at(0, 0, calls, 1);
    taken = 0;
    is(others_count, 2, "SVC and an UNDEFINED instruction are taken");
    is(others[0].spsr & PSR_PPEND, 0, "SVC that overflows makes nothing pending: it takes an exception");
    is(seen_count, 1, "there is one exception");
    is(seen[0].iar, (u64)calls + 12, "the next operation sees the overflow");
    is(seen[0].elr, (u64)calls + 16, "and it comes behind that");
    is(seen[0].count, 1, "the count shows it");
    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -5ull);
    run_at(0, 0, calls, 1);
    taken = 0;
    is(seen[0].iar, (u64)calls + 20, "what is UNDEFINED does not retire, and counts nothing");
    is(seen[0].count, 0, "the fifth that retires is behind it");

    arm(LD_RETIRED | PMEVTYPER_SYNC, -1ull);
    run_at(0, 0, increments, 1);
    is(pmu_count(0), -1ull, "with SYNC a counter of another event does not count");
    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -5ull);
    write_sysreg(pmintenclr_el1, 1);
    isb();
    run_at(0, 0, line, 1);
    is(seen_count, 0, "nothing is pending without PMINTENSET_EL1");
    is(read_sysreg(pmovsset_el0), 1, "though it has overflowed");
}

/* --- Masked, overshot, nested --- */

/* x1 branches, then MSR PM, #0, two NOPs and a branch. */
u64 overshoot(u64 map, u64 masked);
extern char overshoot_seen[];
asm("    .text\n"
    "    .global overshoot\n"
    "    .type overshoot, %function\n"
    "overshoot:\n"
    "    adr x2, 1f\n"
    "    sub x2, x2, x1, lsl #2\n"
    "    msr pmcntenset_el0, x0\n"
    "    br x2\n"
    "    .rept 10\n"
    "    b . + 4\n"
    "    .endr\n"
    "1:\n" MSR_PM_0
    "    nop\n"
    "    nop\n"
    "overshoot_seen:\n"
    "    b . + 4\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size overshoot, . - overshoot\n");

static void masked_and_overshot(void) {
    print("# overshoot\n");
    static const struct way *const own[] = {&ways[6], &ways[7], &ways[8]};
    for (unsigned w = 0; w < ARRAY_SIZE(own); w++) {
        enable(own[w]->pmee3, own[w]->pmee2, own[w]->pmee1, own[w]->kpme);
        u64 handler = handlers_own(own[w], BR_RETIRED | PMEVTYPER_SYNC, branches);
        for (u64 masked = 0; masked <= 10; masked++) {
            arm(BR_RETIRED | PMEVTYPER_SYNC | only_at[own[w]->from], -1ull);
            mask_pm();
            if (own[w]->from == 3)
                overshoot(1, masked);
            else
                call_at(mode_of[own[w]->from] | PSR_PM, overshoot, 1, masked);
            mask_pm();
            /* BR is the first that counts, then the masked ones, and the one that sees it */
            u64 expected = masked + 1;
            expect(seen_count == 1, "exceptions behind masked branches", masked, seen_count, 1);
            expect(seen[0].iar == (u64)overshoot_seen, "PMIAR_EL1 behind masked branches", masked, seen[0].iar,
                   (u64)overshoot_seen);
            expect(seen[0].elr == (u64)overshoot_seen + 4, "ELR behind masked branches", masked, seen[0].elr,
                   (u64)overshoot_seen + 4);
            expect(seen[0].count - handler == expected, "the overshoot", masked, seen[0].count - handler, expected);
            expect(seen[0].esr == SYNCHRONOUS, "ESR", masked, seen[0].esr, SYNCHRONOUS);
        }
        ok_group(own[w]->name);
    }

    enable(DELEGATED, DELEGATED, EXCEPTION, 0);
    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -5ull);
    keep = 3;
    run_at(0, 0, line, 1);
    for (unsigned n = 0; n < 4; n++)
        expect(seen[n].elr == (u64)line + 20 + 4 * n && seen[n].iar == seen[n].elr - 4 && seen[n].count == n,
               "ELR while the flag stands", n, seen[n].elr, (u64)line + 20 + 4 * n);
    expect(seen_count == 4, "exceptions", 4, seen_count, 4);
    ok_group("while the flag stands, each operation with the event makes it pending");

    enable(DELEGATED, DELEGATED, EXCEPTION, KPME);
    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[1], -5ull);
    pmu_set_type(1, BR_RETIRED | PMEVTYPER_SYNC | only_at[1]);
    write_sysreg(pmintenset_el1, 2);
    isb();
    nest = true;
    run_at(1, 0, line, 1);
    is(seen_count, 2, "nested: two exceptions");
    is(seen[0].elr, (u64)line + 20, "the first in the line");
    is(seen[0].spsr & (PSR_PM | PSR_PPEND), PSR_PPEND, "its SPSR_EL1");
    is(seen[1].elr, nested_at, "the second in its handler, which had unmasked it");
    is(seen[1].iar, nested_at - 4, "behind the branch");
    is(seen[1].flags, 2, "of the other counter");
    is(seen[1].spsr & (PSR_PM | PSR_PPEND), PSR_PPEND, "its SPSR_EL1");
}

/* --- PSTATE.PPEND through other exceptions --- */

u64 misaligned(u64 map, u64 b);
extern char misaligned_branch[];
asm("    .text\n"
    "    .global misaligned\n"
    "    .type misaligned, %function\n"
    "misaligned:\n"
    "    mov x29, x30\n"
    "    adr x30, 1f\n"
    "    adr x2, misaligned\n"
    "    add x2, x2, #2\n"
    "    msr pmcntenset_el0, x0\n"
    "misaligned_branch:\n"
    "    br x2\n"
    "1:  msr pmcntenclr_el0, x0\n"
    "    mov x30, x29\n"
    "    ret\n"
    "    .size misaligned, . - misaligned\n");

static u64 stepped(u64 f, u64 map) {
    return call_at(EL0T | PSR_SS, (function *)f, map, 0);
}

static void through_others(void) {
    print("# with other exceptions\n");
    enable(DELEGATED, DELEGATED, EXCEPTION, 0);
    arm(BR_RETIRED | PMEVTYPER_SYNC | only_at[0], -1ull);
    run_at(0, 0, misaligned, 1);
    taken = 0;
    is(seen[0].elr, (u64)misaligned + 2, "before the PC alignment fault of where the branch goes");
    is(seen[0].iar, (u64)misaligned_branch, "PMIAR_EL1 is the branch");
    ok(others_count == 1 && ESR_EC(others[0].esr) == EC_PC_ALIGNMENT, "which comes behind it");
    is(others[0].spsr & PSR_PPEND, 0, "with nothing pending");

    /* A step of each operation: that exception goes first. */
    write_sysreg(oslar_el1, 0);
    write_sysreg(mdscr_el1, MDSCR_SS);
    isb();
    for (u64 distance = 2; distance <= 5; distance++) {
        arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -distance);
        call_at(EL1H | PSR_PM, stepped, (u64)line, 1);
        u64 at = (u64)line + 4 * distance;
        expect(seen_count == 1, "exceptions at a distance of", distance, seen_count, 1);
        expect(seen[0].elr == at && seen[0].iar == at - 4, "ELR at a distance of", distance, seen[0].elr, at);
        expect(seen[0].esr == SYNCHRONOUS && seen[0].count == 0, "count at a distance of", distance, seen[0].count, 0);
        for (u64 n = 1; n <= 6; n++) {
            const struct trap *step = &others[n - 1];
            u64 ppend = n == distance ? PSR_PPEND : 0;
            expect(step->elr == (u64)line + 4 * n, "a step's ELR", n, step->elr, (u64)line + 4 * n);
            expect((step->spsr & PSR_PPEND) == ppend, "a step's SPSR_EL1.PPEND", n, step->spsr, ppend);
        }
    }
    write_sysreg(mdscr_el1, 0);
    isb();
    taken = 0;
    ok_group("behind a Software Step exception, whose return brings PPEND back");

    static const struct {
        u64 pmee3, pmee2, pmee1, kpme;
        u64 spsr;
        unsigned to; /* 0: it does not come back */
        const char *name;
    } returns[] = {
        {DELEGATED, DELEGATED, EXCEPTION, KPME, EL1H, 1, "ERET that unmasks it restores PPEND, to EL1"},
        {DELEGATED, EXCEPTION, 0, KPME, EL2H, 2, "to EL2"},
        {DELEGATED, EXCEPTION, 0, 0, EL1H | PSR_PM, 2, "to EL1, for EL2"},
        {EXCEPTION, 0, 0, 0, EL2H | PSR_PM, 3, "to EL2, for EL3"},
        {DELEGATED, DELEGATED, EXCEPTION, KPME, EL1H | PSR_PM, 0, "not where PM masks it"},
        {DELEGATED, DELEGATED, EXCEPTION, 0, EL1H, 0, "nor where KPME is 0"},
        {DELEGATED, DELEGATED, EXCEPTION, KPME, EL2H, 0, "nor above its level"},
        {DELEGATED, DELEGATED, INTERRUPT, KPME, EL1H, 0, "nor where it is the interrupt"},
    };
    for (unsigned n = 0; n < ARRAY_SIZE(returns); n++) {
        enable(returns[n].pmee3, returns[n].pmee2, returns[n].pmee1, returns[n].kpme);
        arm(INST_RETIRED | PMEVTYPER_SYNC, 0);
        call_at(returns[n].spsr | PSR_PPEND, nothing, 0, 0);
        bool as_expected = returns[n].to ? seen_count == 1 && seen[0].level == returns[n].to &&
                                               seen[0].esr == SYNCHRONOUS && seen[0].elr == (u64)at_nothing
                                         : seen_count == 0;
        if (!ok(as_expected, returns[n].name))
            print("# %u exceptions, EL%lu, ESR 0x%lx, ELR 0x%lx\n", seen_count, seen[0].level, seen[0].esr,
                  seen[0].elr);
    }
    enable(EXCEPTION, 0, 0, KPME);
    arm(INST_RETIRED | PMEVTYPER_SYNC, 0);
    unmask_pm();
    call_at(EL1H | PSR_PPEND, nothing, 0, 0);
    mask_pm();
    is(seen_count, 0, "nor where it was not masked before the ERET");
}

/* An interrupt at each operation around the overflow. */
static volatile unsigned interrupts;
static u64 interrupt_ppend;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    interrupts++;
    interrupt_ppend |= trap->spsr & PSR_PPEND;
    write_sysreg(cntv_ctl_el0, 0);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static u64 with_timer(u64 f, u64 ticks) {
    write_sysreg(cntv_cval_el0, read_sysreg(cntvct_el0) + ticks);
    write_sysreg(cntv_ctl_el0, 1);
    return call_at(EL0T & ~PSR_I, (function *)f, 1, 0);
}

static u64 gic_at_el1(u64 a, u64 b) {
    (void)a, (void)b;
    gic_init_pe();
    gic_set_up(PPI_EL1_VIRTUAL, 1, 0x80, false);
    return 0;
}

u64 long_line(u64 map, u64 b);
asm("    .text\n"
    "    .global long_line\n"
    "    .type long_line, %function\n"
    "long_line:\n"
    "    msr pmcntenset_el0, x0\n"
    "    .rept 200\n"
    "    nop\n"
    "    .endr\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size long_line, . - long_line\n");

static void with_interrupts(void) {
    print("# with interrupts\n");
    write_sysreg(icc_sre_el3, 0xf);
    isb();
    write_sysreg(icc_sre_el2, 0xf);
    isb();
    call_at(EL1H | PSR_PM, gic_at_el1, 0, 0);
    enable(DELEGATED, DELEGATED, EXCEPTION, 0);
    unsigned both = 0;
    for (u64 distance = 40; distance < 200; distance += 3) {
        arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[0], -distance);
        interrupts = 0;
        call_at(EL1H | PSR_PM, with_timer, (u64)long_line, 6 + distance % 5);
        u64 at = (u64)long_line + 4 * distance;
        expect(seen_count == 1, "exceptions at a distance of", distance, seen_count, 1);
        expect(seen[0].elr == at && seen[0].iar == at - 4, "ELR at a distance of", distance, seen[0].elr, at);
        expect(seen[0].count == 0, "count at a distance of", distance, seen[0].count, 0);
        both += interrupts == 1 && seen_count == 1;
    }
    expect(both >= 40, "runs with a timer's interrupt", 0, both, 40);
    ok_group("a timer's interrupt before, behind and beside it changes nothing");
}

/* --- WFI --- */

u64 waits(u64 map, u64 b);
extern char wait_here[];
asm("    .text\n"
    "    .global waits\n"
    "    .type waits, %function\n"
    "waits:\n"
    "    msr pmcntenset_el0, x0\n"
    "    nop\n"
    "    nop\n"
    "wait_here:\n"
    "    wfi\n"
    "    nop\n"
    "    msr pmcntenclr_el0, x0\n"
    "    ret\n"
    "    .size waits, . - waits\n");

static void waiting(void) {
    print("# WFI\n");
    static const struct way *const own[] = {&ways[6], &ways[7], &ways[8]};
    for (unsigned w = 0; w < ARRAY_SIZE(own); w++)
        for (unsigned synchronous = 0; synchronous < 2; synchronous++) {
            unsigned el = own[w]->from;
            enable(own[w]->pmee3, own[w]->pmee2, own[w]->pmee1, own[w]->kpme);
            /* the WFI itself is the fourth operation */
            arm(INST_RETIRED | (synchronous ? PMEVTYPER_SYNC : 0) | only_at[el], -4ull);
            run_way(own[w], waits);
            u64 at = (u64)wait_here + 4;
            expect(seen_count == 1 && seen[0].level == el, "exceptions, EL", el, seen_count, 1);
            expect(seen[0].elr == at, "ELR, EL", el, seen[0].elr, at);
        }
    ok_group("its own overflow ends it, and is taken behind it");
    enable(DELEGATED, DELEGATED, EXCEPTION, KPME);
    arm(INST_RETIRED | PMEVTYPER_SYNC | only_at[1], -3ull);
    keep = 1; /* so that the WFI has the event while the flag stands */
    run_at(1, 0, waits, 1);
    is(seen_count, 2, "the overflow before it");
    is(seen[0].elr, (u64)wait_here, "is taken before it executes");
    is(seen[1].elr, (u64)wait_here + 4, "and its own event ends it");
}

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("starts at EL3");
    if (!FIELD(read_sysreg(id_aa64dfr0_el1), 27, 24) || !FIELD(read_sysreg(S3_0_C0_C5_1), 51, 48))
        return tap_skip_all("needs FEAT_SEBEP");
    mask_pm();
    write_sysreg(scr_el3, SCR_INITIAL | BIT(59));
    write_sysreg(mdcr_el3, ENPM2);
    isb();
    write_sysreg(S3_4_C3_C1_0, ~0ull); /* HDFGRTR2_EL2, HDFGWTR2_EL2: nothing is trapped */
    write_sysreg(S3_4_C3_C1_1, ~0ull);
    prepare_el2();
    prepare_el1();
    gic_init();
    gic_set_up(PPI_PMU, 1, 0x80, false);
    who_takes_it();
    at_each_value();
    others_events();
    masked_and_overshot();
    through_others();
    with_interrupts();
    waiting();
    return tap_done();
}
