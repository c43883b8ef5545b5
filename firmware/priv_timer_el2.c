/* The generic timer at EL2: the offset of virtual time, the timers of EL2, and EL1's seen from above. */
#include "lib/el.h"
#include "lib/gic.h"

#define HCR_FMO BIT(3)
#define HCR_IMO BIT(4)
#define HCR_TGE BIT(27)
#define HCR_E2H BIT(34)
#define FPEN_ALL (3ull << 20)
#define ENABLE BIT(0)
#define IMASK BIT(1)
#define ISTATUS BIT(2)
#define SOON 2000 /* ticks */
#define OFFSET 0x123456789000ull

#define CNTHV_CTL_EL2 S3_4_C14_C3_1
#define CNTHV_CVAL_EL2 S3_4_C14_C3_2
#define CNTP_CTL_EL02 S3_5_C14_C2_1
#define CNTP_CVAL_EL02 S3_5_C14_C2_2
#define CNTV_CTL_EL02 S3_5_C14_C3_1
#define CNTV_CVAL_EL02 S3_5_C14_C3_2

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    write_sysreg(cptr_el2, bits & HCR_E2H ? FPEN_ALL : 0x33ff);
    write_sysreg(cnthctl_el2, bits & HCR_E2H ? 0xc03 : 3);
    isb();
}

static u64 physical_count(void) {
    isb();
    return read_sysreg(cntpct_el0);
}

static u64 virtual_count(void) {
    isb();
    return read_sysreg(cntvct_el0);
}

static volatile unsigned interrupts;
static u64 level, intid;

void on_interrupt(struct trap *trap) {
    interrupts++;
    level = trap->level;
    intid = read_sysreg(icc_iar1_el1);
    switch (intid) {
    case PPI_EL2_PHYSICAL:
        write_sysreg(cnthp_ctl_el2, 0);
        break;
    case PPI_EL1_VIRTUAL:
        if (trap->level == 1 || !(read_sysreg(hcr_el2) & HCR_E2H))
            write_sysreg(cntv_ctl_el0, 0);
        else
            write_sysreg(CNTV_CTL_EL02, 0);
        break;
    case PPI_EL1_PHYSICAL:
        if (trap->level == 1 || !(read_sysreg(hcr_el2) & HCR_E2H))
            write_sysreg(cntp_ctl_el0, 0);
        else
            write_sysreg(CNTP_CTL_EL02, 0);
    }
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static void is_interrupt(u64 expected_level, u64 expected_intid, const char *name) {
    bool good = interrupts == 1 && level == expected_level && intid == expected_intid;
    if (!ok(good, name))
        print("# interrupts %u, EL%lu, INTID %lu\n", interrupts, level, intid);
    interrupts = 0;
}

/* With interrupts masked between looking and waiting, lest the interrupt comes there. */
static void wait_for_interrupt(void) {
    while (!interrupts)
        asm volatile("wfi\n msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
}

/* Whether virtual time is physical time less `offset`, as this level reads them. */
static u64 offset_is(u64 offset, u64 b) {
    (void)b;
    u64 before = physical_count(), v = virtual_count(), after = physical_count();
    return before - offset <= v && v <= after - offset;
}

static u64 USER_TEXT user_offset_is(u64 offset, u64 b) {
    u64 before, v, after;
    (void)b;
    asm volatile("isb\n mrs %0, cntpct_el0\n isb\n mrs %1, cntvct_el0\n isb\n mrs %2, cntpct_el0"
                 : "=r"(before), "=r"(v), "=r"(after)::"memory");
    return before - offset <= v && v <= after - offset;
}

static u64 el1_of_el0(u64 offset, u64 b) {
    return call_at(EL0T, user_offset_is, offset, b);
}

static void offset(void) {
    print("# CNTVOFF_EL2\n");
    ok(offset_is(0, 0), "none");
    write_sysreg(cntvoff_el2, OFFSET);
    isb();
    is(read_sysreg(cntvoff_el2), OFFSET, "read back");
    ok(offset_is(OFFSET, 0), "for EL2");
    ok(call_at(EL1H, offset_is, OFFSET, 0), "for EL1");
    ok(call_at(EL1H, el1_of_el0, OFFSET, 0), "for EL0");
    write_sysreg(cntvoff_el2, -1000ull);
    isb();
    ok(call_at(EL1H, offset_is, -1000ull, 0), "negative");
    set_hcr(HCR_E2H);
    ok(offset_is(0, 0), "E2H: EL2 sees physical time");
    ok(call_at(EL1H, offset_is, -1000ull, 0), "E2H: EL1 has the offset");
    set_hcr(HCR_E2H | HCR_TGE);
    ok(call_at(EL0T, user_offset_is, 0, 0), "E2H, TGE: EL0 sees physical time");
    set_hcr(0);
    is_no_trap("no exception");

    write_sysreg(cntvoff_el2, OFFSET);
    isb();
    u64 deadline = physical_count() + SOON;
    write_sysreg(cntv_cval_el0, deadline - OFFSET);
    write_sysreg(cntv_ctl_el0, ENABLE | IMASK);
    isb();
    while (!(read_sysreg(cntv_ctl_el0) & ISTATUS)) {
    }
    ok(physical_count() >= deadline, "the virtual timer expires by it");
    write_sysreg(cntvoff_el2, physical_count());
    write_sysreg(cntv_cval_el0, 0x1000000000);
    isb();
    is(read_sysreg(cntv_ctl_el0), ENABLE | IMASK, "a later deadline");
    write_sysreg(cntvoff_el2, -0x2000000000ull);
    isb();
    is(read_sysreg(cntv_ctl_el0), ENABLE | IMASK | ISTATUS, "is reached by a change of the offset");
    write_sysreg(cntv_ctl_el0, 0);
    write_sysreg(cntvoff_el2, 0);
    isb();
}

static u64 el1_wait(u64 a, u64 b) {
    wait_for_interrupt();
    return a + b;
}

/* Its own interrupt comes while EL1 spins with interrupts masked. */
static u64 el1_spin(u64 a, u64 b) {
    (void)a, (void)b;
    while (!interrupts) {
    }
    return interrupts;
}

static void timers(void) {
    print("# EL2's timers\n");
    gic_init();
    static const unsigned ppis[] = {PPI_EL2_PHYSICAL, PPI_EL1_VIRTUAL, PPI_EL1_PHYSICAL};
    for (unsigned i = 0; i < ARRAY_SIZE(ppis); i++)
        gic_set_up(ppis[i], 1, 0x80, false);
    set_hcr(HCR_IMO | HCR_FMO);
    write_sysreg(cnthp_cval_el2, physical_count() + SOON);
    write_sysreg(cnthp_ctl_el2, ENABLE);
    wait_for_interrupt();
    is_interrupt(2, PPI_EL2_PHYSICAL, "the physical one, out of WFI");
    write_sysreg(cnthp_cval_el2, physical_count() + SOON);
    write_sysreg(cnthp_ctl_el2, ENABLE);
    call_at(EL1H, el1_spin, 0, 0);
    is_interrupt(2, PPI_EL2_PHYSICAL, "the physical one, out of EL1");
    /* Its interrupt is not wired on every QEMU. */
    u64 deadline = physical_count() + SOON;
    write_sysreg(CNTHV_CVAL_EL2, deadline);
    write_sysreg(CNTHV_CTL_EL2, ENABLE | IMASK);
    isb();
    while (!(read_sysreg(CNTHV_CTL_EL2) & ISTATUS)) {
    }
    ok(physical_count() >= deadline, "the virtual one");
    write_sysreg(CNTHV_CTL_EL2, 0);
    u64 before = physical_count();
    write_sysreg(cnthp_tval_el2, 5000);
    isb();
    u64 cval = read_sysreg(cnthp_cval_el2);
    ok(before + 5000 <= cval && cval <= physical_count() + 5000, "CNTHP_TVAL_EL2");

    print("# EL1's timers\n");
    write_sysreg(cntv_cval_el0, virtual_count() + SOON);
    write_sysreg(cntv_ctl_el0, ENABLE);
    wait_for_interrupt();
    is_interrupt(2, PPI_EL1_VIRTUAL, "the virtual one, taken at EL2");
    set_hcr(0);
    write_sysreg(cntv_cval_el0, virtual_count() + SOON);
    write_sysreg(cntv_ctl_el0, ENABLE);
    call_at(EL1H, el1_wait, 0, 0);
    is_interrupt(1, PPI_EL1_VIRTUAL, "the virtual one, taken at EL1");
    write_sysreg(cntp_cval_el0, physical_count() + SOON);
    write_sysreg(cntp_ctl_el0, ENABLE);
    call_at(EL1H, el1_wait, 0, 0);
    is_interrupt(1, PPI_EL1_PHYSICAL, "the physical one, taken at EL1");
    set_hcr(HCR_E2H | HCR_IMO);
    write_sysreg(CNTV_CVAL_EL02, 0);
    write_sysreg(CNTV_CTL_EL02, ENABLE);
    call_at(EL1H, el1_spin, 0, 0);
    is_interrupt(2, PPI_EL1_VIRTUAL, "E2H: EL1's virtual one by its _EL02 name");
    write_sysreg(cntv_cval_el0, physical_count());
    write_sysreg(cntv_ctl_el0, ENABLE | IMASK);
    isb();
    while (!(read_sysreg(CNTHV_CTL_EL2) & ISTATUS)) {
    }
    ok(!(read_sysreg(CNTV_CTL_EL02) & ISTATUS), "E2H: CNTV_CTL_EL0 is EL2's virtual one");
    write_sysreg(cntv_ctl_el0, 0);
    write_sysreg(cntp_cval_el0, physical_count() + SOON);
    write_sysreg(cntp_ctl_el0, ENABLE);
    wait_for_interrupt();
    is_interrupt(2, PPI_EL2_PHYSICAL, "E2H: CNTP_CTL_EL0 is EL2's physical one");
    set_hcr(0);
    is_no_trap("no exception");
}

int main(void) {
    if (current_el() != 2)
        return tap_skip_all("needs a start at EL2");
    prepare_el2();
    prepare_el1();
    offset();
    timers();
    return tap_done();
}
