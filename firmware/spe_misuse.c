/* What a driver of SPE must not do, each mistake in a function with the name of its rule:
   `spe-unicorn run --warn misuse` points there. It runs at EL1; started at EL2 it makes EL2's mistake, too. Some need
   a core that recommends an interval, has inverted filters, or reports External aborts, such as cortex-x4. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"

#define PMSCR_EL2 S3_4_C9_C9_0
#define PMSCR_EL2_E2SPE BIT(1)
#define MDCR_E2PB (3ull << 12)
#define HDFGWTR_EL2 S3_4_C3_C1_5
#define HDFGWTR_nPMSNEVFR BIT(62)
#define TCR_AS BIT(36)
#define EVENT_MISPREDICTED BIT(7)
#define NOWHERE 0x50000000ull /* beyond RAM */
#define INTERVAL 4096

#define MISTAKE static void __attribute__((noinline, noclone))

static u8 buffer[4 * PAGE] __attribute__((aligned(4096)));
static const u64 limit = (u64)buffer + sizeof buffer;
static struct spe_id id;

/* Everything as it should be, PMSCR_EL1 still 0. */
static void set_up(void) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
}

static inline __attribute__((always_inline)) void start(void) {
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
}

static inline __attribute__((always_inline)) void work(void) {
    for (unsigned i = 0; i < 2 * INTERVAL; i++)
        asm volatile("");
}

static void profile(void) {
    isb();
    start();
    work();
    spe_drain();
}

MISTAKE pointer_unaligned(void) {
    write_sysreg(PMBPTR_EL1, (u64)buffer + 8);
    profile();
}

MISTAKE limit_unaligned(void) {
    write_sysreg(PMBLIMITR_EL1, (limit - 0x100) | PMBLIMITR_E);
}

MISTAKE pointer_too_high(void) {
    write_sysreg(PMBPTR_EL1, limit);
    profile();
}

MISTAKE pointer_top_byte(void) {
    write_sysreg(PMBPTR_EL1, (u64)buffer | 1ull << 56);
    profile();
}

MISTAKE buffer_outside_memory(void) {
    write_sysreg(PMBLIMITR_EL1, NOWHERE | PMBLIMITR_E);
    profile();
}

MISTAKE buffer_over_program(void) {
    write_sysreg(PMBLIMITR_EL1, (limit + PAGE) | PMBLIMITR_E); /* the linker puts the stacks there */
    profile();
}

/* Made before anything has written PMSIRR_EL1. */
MISTAKE interval_unknown(void) {
    write_sysreg(PMSCR_EL1, 0);
    write_sysreg(PMBSR_EL1, 0);
    write_sysreg(PMSICR_EL1, INTERVAL);
    write_sysreg(PMSFCR_EL1, 0);
    write_sysreg(PMBPTR_EL1, buffer);
    write_sysreg(PMBLIMITR_EL1, limit | PMBLIMITR_E);
    profile();
}

MISTAKE interval_zero(void) {
    write_sysreg(PMSIRR_EL1, 0);
    profile();
}

MISTAKE interval_too_short(void) {
    write_sysreg(PMSIRR_EL1, 256);
    profile();
}

MISTAKE event_filter_empty(void) {
    write_sysreg(PMSEVFR_EL1, 0);
    write_sysreg(PMSFCR_EL1, PMSFCR_FE);
    profile();
}

MISTAKE inverted_filter_empty(void) {
    write_sysreg(PMSNEVFR_EL1, 0);
    write_sysreg(PMSFCR_EL1, PMSFCR_FNE);
    profile();
}

MISTAKE filters_contradict(void) {
    write_sysreg(PMSEVFR_EL1, EVENT_MISPREDICTED);
    write_sysreg(PMSNEVFR_EL1, EVENT_MISPREDICTED);
    write_sysreg(PMSFCR_EL1, PMSFCR_FE | PMSFCR_FNE);
    profile();
}

MISTAKE latency_filter_zero(void) {
    write_sysreg(PMSFCR_EL1, PMSFCR_FL);
    profile();
}

MISTAKE type_filter_empty(void) {
    write_sysreg(PMSFCR_EL1, PMSFCR_FT);
    profile();
}

MISTAKE enabled_while_stopped(void) {
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
    start();
    work();
    spe_drain();
}

MISTAKE resumed_after_loss(void) {
    write_sysreg(PMBPTR_EL1, NOWHERE);
    write_sysreg(PMBLIMITR_EL1, (NOWHERE + PAGE) | PMBLIMITR_E);
    profile();
    write_sysreg(PMBSR_EL1, 0);
    isb();
    start();
    spe_drain();
}

MISTAKE setup_not_synchronized(void) {
    write_sysreg(PMSIRR_EL1, 2 * INTERVAL);
    start();
    spe_drain();
}

MISTAKE read_not_synchronized(void) {
    start();
    work();
    write_sysreg(PMSCR_EL1, 0);
    isb();
    (void)read_sysreg(PMBPTR_EL1);
    spe_drain();
}

MISTAKE records_not_synchronized(void) {
    start();
    work();
    write_sysreg(PMSCR_EL1, 0);
    isb();
    psb_csync();
    (void)*(volatile u8 *)buffer;
    spe_drain();
}

MISTAKE write_while_profiling(void) {
    start();
    write_sysreg(PMSIRR_EL1, 2 * INTERVAL);
    spe_drain();
}

MISTAKE write_before_drain(void) {
    start();
    work();
    write_sysreg(PMSCR_EL1, 0);
    isb();
    write_sysreg(PMBLIMITR_EL1, 0);
    spe_drain();
}

MISTAKE context_before_drain(void) {
    start();
    work();
    write_sysreg(PMSCR_EL1, 0);
    isb();
    write_sysreg(tcr_el1, read_sysreg(tcr_el1) ^ TCR_AS);
    isb();
    spe_drain();
}

MISTAKE reserved_value(void) {
    write_sysreg(PMBLIMITR_EL1, limit | 1 << 1);
}

MISTAKE reserved_bits(void) {
    write_sysreg(PMSFCR_EL1, 1 << 21);
}

MISTAKE enable_ignored(void) {
    write_sysreg(PMSCR_EL2, PMSCR_EL2_E2SPE);
    write_sysreg(PMSCR_EL2, 0);
}

/* Made before anything has written PMBSR_EL1. */
MISTAKE status_unknown(void) {
    mmio_write(gic_frame(PPI_SPE) + GIC_ISENABLER, BIT(PPI_SPE));
    gic_disable(PPI_SPE);
}

void on_interrupt(struct trap *trap) {
    (void)trap;
    (void)read_sysreg(icc_iar1_el1);
    write_sysreg(PMBSR_EL1, 0);
    isb();
}

MISTAKE interrupt_not_ended(void) {
    gic_enable(PPI_SPE);
    write_sysreg(PMBSR_EL1, PMBSR_S);
    asm volatile("msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
    write_sysreg(icc_eoir1_el1, PPI_SPE); /* too late: the handler has returned */
    gic_disable(PPI_SPE);
}

/* The last one: the interrupt stays asserted to the end. */
MISTAKE interrupt_not_taken(void) {
    mmio_write(gic_frame(PPI_SPE) + GIC_ISENABLER, BIT(PPI_SPE));
    write_sysreg(PMBSR_EL1, PMBSR_S);
    isb();
}

static const struct {
    const char *rule;
    void (*make)(void);
    unsigned version; /* PMSVer that it needs */
} mistakes[] = {
    {"pointer-unaligned", pointer_unaligned, 1},
    {"limit-unaligned", limit_unaligned, 1},
    {"pointer-too-high", pointer_too_high, 1},
    {"pointer-top-byte", pointer_top_byte, 1},
    {"buffer-outside-memory", buffer_outside_memory, 1},
    {"buffer-over-program", buffer_over_program, 1},
    {"interval-zero", interval_zero, 1},
    {"interval-too-short", interval_too_short, 1},
    {"event-filter-empty", event_filter_empty, 1},
    {"inverted-filter-empty", inverted_filter_empty, 3},
    {"filters-contradict", filters_contradict, 3},
    {"latency-filter-zero", latency_filter_zero, 1},
    {"type-filter-empty", type_filter_empty, 1},
    {"enabled-while-stopped", enabled_while_stopped, 1},
    {"resumed-after-loss", resumed_after_loss, 1},
    {"setup-not-synchronized", setup_not_synchronized, 1},
    {"read-not-synchronized", read_not_synchronized, 1},
    {"records-not-synchronized", records_not_synchronized, 1},
    {"write-while-profiling", write_while_profiling, 1},
    {"write-before-drain", write_before_drain, 1},
    {"context-before-drain", context_before_drain, 1},
    {"reserved-value", reserved_value, 1},
    {"reserved-bits", reserved_bits, 1},
    {"interrupt-not-ended", interrupt_not_ended, 1},
};

static u64 at_el1(u64 a, u64 b) {
    (void)a, (void)b;
    id = spe_probe();
    unsigned made = 2; /* mistakes */
    gic_init();
    print("# status-unknown\n");
    status_unknown();
    print("# interval-unknown\n");
    interval_unknown();
    spe_stop();
    for (unsigned i = 0; i < ARRAY_SIZE(mistakes); i++) {
        if (id.version < mistakes[i].version)
            continue;
        print("# %s\n", mistakes[i].rule);
        set_up();
        mistakes[i].make();
        spe_stop();
        made++;
    }
    return made;
}

int main(void) {
    unsigned el = current_el();
    if (el > 2 || !spe_probe().version)
        return tap_skip_all("needs a start at EL1 or EL2, and SPE");
    if (el == 2) {
        prepare_el1();
        write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) | MDCR_E2PB);
        if (FIELD(read_sysreg(id_aa64mmfr0_el1), 59, 56)) /* FEAT_FGT */
            write_sysreg(HDFGWTR_EL2, HDFGWTR_nPMSNEVFR);
        isb();
        print("# enable-ignored\n");
        enable_ignored();
        call_at(EL1H, at_el1, 0, 0);
    } else {
        at_el1(0, 0);
    }
    write_sysreg(PMBSR_EL1, 0);
    isb();
    is(read_sysreg(PMBLIMITR_EL1), 0, "every mistake was survived, and the buffer is off");
    print("# interrupt-not-taken\n");
    interrupt_not_taken();
    return tap_done();
}
