/* FEAT_SPE_EXC: whose PMBSR_ELx records an event, what stops profiling, and the SPE Profiling exception with its
   masks; PMBIRQ where there is none. Starts at EL3. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"
#include "lib/stage2.h"

#define PMSCR_EL2 S3_4_C9_C9_0
#define PMBSR_EL2 S3_4_C9_C10_3
#define PMBSR_EL3 S3_6_C9_C10_3
#define PM S3_0_C4_C3_1
#define PM_SET BIT(32)
#define mask_profiling() asm volatile(".inst 0xd501431f" ::: "memory") /* MSR PM, #1 */
#define unmask_profiling() asm volatile(".inst 0xd501421f" ::: "memory")
#define PMSCR_KE BIT(10)
#define PMSCR_EE(n) ((u64)(n) << 8)
#define MDCR_PMSEE(n) ((u64)(n) << 51)
#define MDCR_NSPB (3ull << 12)
#define MDCR_ENPMSN BIT(36)
#define MDCR_E2PB (3ull << 12) /* of MDCR_EL2 */
#define SCR_NS BIT(0)
#define SCR_EA BIT(3)
#define SCR_HCE BIT(8)
#define SCR_RW BIT(10)
#define SCR_RES1 (3ull << 4)
#define HCR_TGE BIT(27)
#define HCR_TEA BIT(37)
#define PSR_PM BIT(32)
#define PROFILING_ESR 0xf6000002ull /* EC 0x3d, IL, FSC SPE, SYNC 0 */
#define EC_PROFILING 0x3d

#define DISABLED 0
#define DELEGATED 1
#define OWN 2
#define ALL 3

#define INTERVAL 256
#define LOOPS 400
#define NOT_MEMORY 0x0b000000ull
#define NO_TABLE 0x6000000000ull
#define BEYOND (1ull << 47)
#define IPA_HOLE 0x44000000ull

static u8 buffer[2 * PAGE] __attribute__((aligned(4096)));
static struct spe_id id;

/* --- The exception --- */

static struct trap seen; /* the last one */
static volatile unsigned seen_count;
static u64 seen_pmbsr, seen_pm;

void on_trap(struct trap *trap) {
    if (ESR_EC(trap->esr) != EC_PROFILING) {
        record_and_skip(trap);
        return;
    }
    seen = *trap;
    seen_count++;
    seen_pm = read_sysreg(PM);
    psb_csync();
    dsb(nsh);
    isb();
    write_sysreg(PMBLIMITR_EL1, 0); /* clearing S must not have profiling go on */
    isb();
    if (trap->level == 3) {
        seen_pmbsr = read_sysreg(PMBSR_EL3);
        write_sysreg(PMBSR_EL3, 0);
    } else if (trap->level == 2 && read_sysreg(PMBSR_EL2) & PMBSR_S) {
        seen_pmbsr = read_sysreg(PMBSR_EL2);
        write_sysreg(PMBSR_EL2, 0);
    } else {
        seen_pmbsr = read_sysreg(PMBSR_EL1);
        write_sysreg(PMBSR_EL1, 0);
    }
    isb();
}

static void set_scr(u64 bits) {
    write_sysreg(scr_el3, SCR_RW | SCR_RES1 | SCR_NS | SCR_HCE | bits);
    isb();
}

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    isb();
}

/* Which levels have exceptions; `ke` is the KE bit of EL1 and EL2. */
static void enable(u64 pmsee, u64 ee2, u64 ee1, u64 ke) {
    write_sysreg(mdcr_el3, MDCR_NSPB | MDCR_ENPMSN | MDCR_PMSEE(pmsee));
    isb();
    write_sysreg(PMSCR_EL2, PMSCR_EE(ee2) | ke);
    write_sysreg(PMSCR_EL1, PMSCR_EE(ee1) | ke);
    write_sysreg(PMBSR_EL1, 0);
    write_sysreg(PMBSR_EL2, 0);
    write_sysreg(PMBSR_EL3, 0);
    isb();
    seen_count = 0;
}

static bool taken_to(unsigned level, unsigned vector, u64 elr, const char *name) {
    bool good = level ? seen_count == 1 && seen.level == level && seen.vector == vector && seen.elr == elr &&
                            seen.esr == PROFILING_ESR && seen_pm == PM_SET
                      : seen_count == 0;
    if (!ok(good, name))
        print("# %u taken, EL%lu, vector %lu, ESR 0x%lx, ELR 0x%lx (expected 0x%lx), PM 0x%lx\n", seen_count, seen.level,
              seen.vector, seen.esr, seen.elr, elr, seen_pm);
    seen_count = 0;
    return good;
}

/* --- Masks --- */

extern char el0_here[];
asm("    .section .user.text, \"ax\"\n"
    "    .global el0_here\n"
    "el0_here:\n"
    "    nop\n"
    "    ret\n"
    "    .text\n");

static u64 nothing(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("nop");
    return 0;
}

static u64 el0_of_el1(u64 a, u64 b) {
    return call_at(EL0T, (function *)el0_here, a, b);
}

/* set_at_el1, set_at_el2: set S of PMBSR_ELx there, where the exception goes, with PSTATE.PM as `pm` says; unmask it
   afterwards. set_el1 and unmasked_el1 are the operations behind either. */
#define SET_AT(level, pmbsr) \
    static u64 set_##level, unmasked_##level; \
    static unsigned count_##level; \
    static u64 set_at_##level(u64 pm, u64 b) { \
        u64 at; \
        (void)b; \
        write_sysreg(PM, pm); \
        asm volatile("adr %0, 1f\n msr " #pmbsr ", %1\n1: nop" : "=&r"(at) : "r"(PMBSR_S) : "memory"); \
        set_##level = at; \
        count_##level = seen_count; \
        asm volatile("adr %0, 1f\n .inst 0xd501421f\n1: nop" : "=&r"(at)::"memory"); \
        unmasked_##level = at; \
        return 0; \
    }
SET_AT(el1, S3_0_C9_C10_3)
SET_AT(el2, S3_4_C9_C10_3)

#define LOWER FROM_LOWER(VECTOR_SYNC)
#define CURRENT FROM_CURRENT(VECTOR_SYNC)

static void to_el1(void) {
    print("# to EL1\n");
    enable(DELEGATED, DELEGATED, ALL, 0);
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    taken_to(0, 0, 0, "masked at EL3");
    call_at(EL2H, nothing, 0, 0);
    taken_to(0, 0, 0, "masked at EL2");
    call_at(EL1H, nothing, 0, 0);
    taken_to(0, 0, 0, "masked at EL1 while KE is 0");
    call_at(EL1H, el0_of_el1, 0, 0);
    taken_to(1, LOWER, (u64)el0_here, "taken from EL0, in front of its first operation");
    is(seen_pmbsr, PMBSR_S, "PMBSR_EL1.S said why");
    is(seen.spsr & PSR_PM, 0, "SPSR_EL1.PM is what PSTATE.PM was");
    call_at(EL1H, el0_of_el1, 0, 0);
    taken_to(0, 0, 0, "served it does not come again");

    enable(DELEGATED, DELEGATED, ALL, PMSCR_KE);
    call_at(EL1H, set_at_el1, 0, 0);
    taken_to(1, CURRENT, set_el1, "KE = 1, PM = 0: taken from EL1, in front of the operation after the one that set S");
    is(count_el1, 1, "at once");
    call_at(EL1H, set_at_el1, PM_SET, 0);
    taken_to(1, CURRENT, unmasked_el1, "KE = 1, PM = 1: taken behind MSR PM, #0");
    is(count_el1, 0, "and not before");
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    call_at(EL1H | PSR_PM, nothing, 0, 0);
    taken_to(0, 0, 0, "masked by the PM that ERET restored");
    call_at(EL1H, nothing, 0, 0);
    taken_to(1, CURRENT, (u64)nothing, "not masked by the PM that ERET cleared");

    set_hcr(HCR_TGE);
    enable(DELEGATED, DELEGATED, ALL, 0);
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    call_at(EL2H, el0_of_el1, 0, 0);
    taken_to(2, LOWER, (u64)el0_here, "from an EL0 that is EL2's: to EL2");
    set_hcr(0);
    write_sysreg(scr_el3, SCR_RW | SCR_RES1);
    isb();
    enable(DELEGATED, DELEGATED, ALL, PMSCR_KE);
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    call_at(EL1H, nothing, 0, 0);
    taken_to(0, 0, 0, "masked in the Security state that does not own the buffer");
    set_scr(0);
    call_at(EL1H, nothing, 0, 0);
    taken_to(1, CURRENT, (u64)nothing, "and taken in the one that does");
}

static void to_el2(void) {
    print("# to EL2\n");
    enable(DELEGATED, OWN, DISABLED, PMSCR_KE);
    write_sysreg(PMBSR_EL2, PMBSR_S);
    isb();
    taken_to(0, 0, 0, "masked at EL3");
    call_at(EL2H, nothing, 0, 0);
    taken_to(0, 0, 0, "PMSCR_EL2.EE = 2: masked at EL2");
    call_at(EL1H | PSR_PM, nothing, 0, 0);
    taken_to(2, LOWER, (u64)nothing, "taken from EL1, whatever PSTATE.PM says");
    enable(DELEGATED, ALL, DISABLED, 0);
    call_at(EL2H, set_at_el2, 0, 0);
    taken_to(0, 0, 0, "PMSCR_EL2.EE = 3, KE = 0: masked at EL2");
    call_at(EL1H, el0_of_el1, 0, 0);
    taken_to(2, LOWER, (u64)el0_of_el1, "and taken as soon as EL1 runs");
    enable(DELEGATED, ALL, DISABLED, PMSCR_KE);
    call_at(EL2H, set_at_el2, 0, 0);
    taken_to(2, CURRENT, set_el2, "KE = 1, PM = 0: taken from EL2");
    is(count_el2, 1, "at once");
    call_at(EL2H, set_at_el2, PM_SET, 0);
    taken_to(2, CURRENT, unmasked_el2, "KE = 1, PM = 1: taken behind MSR PM, #0");
    is(count_el2, 0, "and not before");
    enable(DELEGATED, DELEGATED, DISABLED, PMSCR_KE);
    write_sysreg(PMBSR_EL2, PMBSR_S);
    isb();
    call_at(EL1H, nothing, 0, 0);
    taken_to(0, 0, 0, "PMSCR_EL2.EE = 1: PMBSR_EL2 does not matter");
    enable(DISABLED, ALL, ALL, PMSCR_KE);
    write_sysreg(PMBSR_EL2, PMBSR_S);
    isb();
    call_at(EL1H, nothing, 0, 0);
    taken_to(0, 0, 0, "MDCR_EL3.PMSEE = 0: no exception at all");
}

static void to_el3(void) {
    print("# to EL3\n");
    enable(OWN, DELEGATED, DISABLED, PMSCR_KE);
    unmask_profiling();
    write_sysreg(PMBSR_EL3, PMBSR_S);
    isb();
    taken_to(0, 0, 0, "masked at EL3");
    mask_profiling();
    call_at(EL2H | PSR_PM, nothing, 0, 0);
    taken_to(3, LOWER, (u64)nothing, "taken from EL2, whatever PSTATE.PM says");
    is(seen.spsr & PSR_PM, PSR_PM, "SPSR_EL3.PM is what PSTATE.PM was");
    write_sysreg(PMBSR_EL3, PMBSR_S);
    write_sysreg(PMBSR_EL2, PMBSR_S);
    write_sysreg(PMSCR_EL2, PMSCR_EE(ALL) | PMSCR_KE);
    isb();
    call_at(EL1H, nothing, 0, 0);
    is(seen_count, 2, "of two, both are taken");
    is(seen.level, 2, "EL3's first");
}

/* A WFI that is sampled, and whose record fills the buffer. */
static u64 behind_wfi;
static u64 wait_at_el1(u64 pmscr, u64 b) {
    u64 at;
    (void)b;
    write_sysreg(PMBPTR_EL1, (u64)buffer + PAGE - id.max_size);
    write_sysreg(PMBLIMITR_EL1, ((u64)buffer + PAGE) | PMBLIMITR_E);
    write_sysreg(PMSFCR_EL1, 0);
    write_sysreg(PMSIRR_EL1, INTERVAL);
    write_sysreg(PMSICR_EL1, 2); /* ISB, WFI */
    isb();
    asm volatile("adr %0, 1f\n msr S3_0_C9_C9_0, %1\n isb\n wfi\n1: nop\n msr S3_0_C9_C9_0, %2"
                 : "=&r"(at)
                 : "r"(pmscr | PMSCR_E1SPE), "r"(pmscr)
                 : "memory");
    behind_wfi = at;
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
    return 0;
}

static void wakes(void) {
    print("# WFI\n");
    enable(DELEGATED, DELEGATED, ALL, PMSCR_KE);
    call_at(EL1H, wait_at_el1, PMSCR_EE(ALL) | PMSCR_KE, 0);
    taken_to(1, CURRENT, behind_wfi, "an event of its own record ends it");
    is(seen_pmbsr & ~PMBSR_COLL, PMBSR_FULL, "buffer full");
}

/* --- Routing, by real events --- */

enum event { FULL, STAGE1, STAGE2, EXTERNAL };

static u64 work(u64 loops, u64 b) {
    (void)b;
    for (; loops; loops--)
        asm volatile("nop");
    return 0;
}

/* As spe_drain(), but PMSCR_EL1 keeps who has exceptions. */
static void stop(void) {
    write_sysreg(PMSCR_EL1, read_sysreg(PMSCR_EL1) & ~PMSCR_E1SPE);
    isb();
    psb_csync();
    dsb(nsh);
    isb();
}

/* Has EL1 run into an event. The result is the level whose PMBSR recorded it, and *pmbsr what was recorded. */
static unsigned provoke(enum event event, u64 *pmbsr) {
    u64 pointer = event == STAGE1 ? BEYOND : event == STAGE2 ? IPA_HOLE : event == EXTERNAL ? NO_TABLE : (u64)buffer;
    u64 limit = pointer + PAGE;
    if (event == FULL)
        pointer = limit - id.max_size;
    set_hcr(event == STAGE2 ? HCR_VM : read_sysreg(hcr_el2) & HCR_TEA);
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    isb();
    if (event == EXTERNAL)
        mmu_on();
    write_sysreg(PMBPTR_EL1, pointer);
    write_sysreg(PMBLIMITR_EL1, limit | PMBLIMITR_E);
    write_sysreg(PMSFCR_EL1, 0);
    write_sysreg(PMSIRR_EL1, INTERVAL);
    write_sysreg(PMSICR_EL1, 0);
    seen_count = 0;
    write_sysreg(PMSCR_EL1, read_sysreg(PMSCR_EL1) | PMSCR_E1SPE);
    isb();
    call_at(EL1H, work, LOOPS, 0);
    stop();
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
    if (seen_count) {
        *pmbsr = seen_pmbsr;
        return seen.level;
    }
    unsigned level = read_sysreg(PMBSR_EL1) & PMBSR_S ? 1 : read_sysreg(PMBSR_EL2) & PMBSR_S ? 2 : 3;
    *pmbsr = level == 1 ? read_sysreg(PMBSR_EL1) : level == 2 ? read_sysreg(PMBSR_EL2) : read_sysreg(PMBSR_EL3);
    return level;
}

static void route(u64 pmsee, u64 ee2, enum event event, unsigned level, bool exception, const char *name) {
    static const u64 syndromes[] = {PMBSR_FULL, PMBSR_STAGE1(0x00), PMBSR_STAGE2(0x07), PMBSR_STAGE1(0x16)};
    u64 pmbsr;
    enable(pmsee, ee2, DISABLED, 0);
    unsigned found = provoke(event, &pmbsr);
    bool good = found == level && (pmbsr & ~(PMBSR_COLL | PMBSR_EA)) == syndromes[event] &&
                (seen_count != 0) == exception && !read_sysreg(PMBSR_EL1) == (exception || level != 1);
    if (!ok(good, name))
        print("# PMBSR_EL%u 0x%lx (expected EL%u, 0x%lx), %u exceptions\n", found, pmbsr, level, syndromes[event],
              seen_count);
}

static void routing(void) {
    print("# routing\n");
    stage2_init();
    stage2_unmap(IPA_HOLE);
    map_table(NO_TABLE, NOT_MEMORY);
    route(DISABLED, DISABLED, FULL, 1, false, "no exceptions: full is EL1's");
    route(DISABLED, DISABLED, STAGE2, 1, false, "no exceptions: stage 2 is EL1's");
    route(DELEGATED, DELEGATED, STAGE2, 1, false, "delegated by EL2: stage 2 is EL1's");
    route(DELEGATED, OWN, FULL, 1, false, "EL2 takes its own: full is EL1's");
    route(DELEGATED, OWN, STAGE1, 1, false, "EL2 takes its own: stage 1 of EL1's buffer is EL1's");
    route(DELEGATED, OWN, STAGE2, 2, true, "EL2 takes its own: stage 2 is EL2's");
    route(DELEGATED, ALL, FULL, 2, true, "EL2 takes all: full is EL2's");
    route(DELEGATED, ALL, STAGE1, 2, true, "EL2 takes all: stage 1 is EL2's");
    route(OWN, DELEGATED, FULL, 1, false, "EL3 takes its own: full is EL1's");
    route(OWN, OWN, STAGE2, 2, true, "EL3 takes its own: stage 2 is EL2's");
    route(ALL, DELEGATED, FULL, 3, true, "EL3 takes all: full is EL3's");
    route(ALL, ALL, STAGE2, 3, true, "EL3 takes all: stage 2 is EL3's");
    route(DELEGATED, OWN, EXTERNAL, 1, false, "an External abort of a walk is EL1's");
    set_hcr(HCR_TEA);
    route(DELEGATED, OWN, EXTERNAL, 2, true, "with HCR_EL2.TEA it is EL2's");
    set_scr(SCR_EA);
    route(OWN, DELEGATED, EXTERNAL, 3, true, "with SCR_EL3.EA it is EL3's");
    set_scr(0);
    set_hcr(0);
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    isb();
}

/* --- Stopped by any --- */

static void expect_stopped(bool stopped, const char *name) {
    write_sysreg(PMBPTR_EL1, buffer);
    write_sysreg(PMBLIMITR_EL1, ((u64)buffer + sizeof buffer) | PMBLIMITR_E);
    write_sysreg(PMSICR_EL1, 0);
    write_sysreg(PMSCR_EL1, read_sysreg(PMSCR_EL1) | PMSCR_E1SPE);
    isb();
    call_at(EL1H | PSR_PM, work, LOOPS, 0);
    stop();
    if (!ok((read_sysreg(PMBPTR_EL1) == (u64)buffer) == stopped, name))
        print("# PMBPTR_EL1 0x%lx, buffer 0x%lx\n", read_sysreg(PMBPTR_EL1), (u64)buffer);
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
}

static void stopped(void) {
    print("# stopped\n");
    enable(DELEGATED, DELEGATED, ALL, 0);
    expect_stopped(false, "no event");
    write_sysreg(PMBSR_EL1, PMBSR_S);
    expect_stopped(true, "PMBSR_EL1.S");
    enable(DELEGATED, DELEGATED, DISABLED, 0);
    write_sysreg(PMBSR_EL2, PMBSR_S);
    write_sysreg(PMBSR_EL3, PMBSR_S);
    expect_stopped(false, "PMBSR_EL2 and PMBSR_EL3 are not in use");
    enable(DELEGATED, OWN, DISABLED, 0);
    write_sysreg(PMBSR_EL3, PMBSR_S);
    expect_stopped(false, "nor PMBSR_EL3, where EL2's is");
}

/* --- PMBIRQ --- */

static void irq(u64 pmsee, u64 ee2, u64 ee1, bool high, const char *name) {
    enable(pmsee, ee2, ee1, 0);
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    is(gic_is_pending(PPI_SPE), high, name);
    write_sysreg(PMBSR_EL1, 0);
    isb();
}

static void interrupt(void) {
    print("# PMBIRQ\n");
    gic_init();
    gic_set_up(PPI_SPE, 1, 0x80, false);
    irq(DISABLED, ALL, ALL, true, "MDCR_EL3.PMSEE = 0: the interrupt");
    irq(DELEGATED, DISABLED, ALL, true, "PMSCR_EL2.EE = 0: the interrupt");
    irq(DELEGATED, DELEGATED, DISABLED, true, "PMSCR_EL1.EE = 0: the interrupt");
    irq(DELEGATED, OWN, DISABLED, true, "also where EL2 has its exception");
    irq(DELEGATED, DELEGATED, ALL, false, "PMSCR_EL1.EE = 3: the exception in its place");
    is(seen_count, 0, "which EL3 masks");
    gic_disable(PPI_SPE);
}

int main(void) {
    if (current_el() != 3 || !FIELD(read_sysreg(id_aa64pfr0_el1), 11, 8))
        return tap_skip_all("needs a start at EL3, and EL2");
    id = spe_probe();
    if (!id.usable || !FIELD(read_sysreg(S3_0_C0_C5_2), 19, 16)) /* ID_AA64DFR2_EL1.SPE_EXC */
        return tap_skip_all("no FEAT_SPE_EXC");
    set_scr(0);
    prepare_el2();
    prepare_el1();
    write_sysreg(mdcr_el2, (read_sysreg(mdcr_el2) & ~MDCR_E2PB) | MDCR_E2PB);
    isb();
    to_el1();
    to_el2();
    to_el3();
    wakes();
    routing();
    stopped();
    interrupt();
    return tap_done();
}
