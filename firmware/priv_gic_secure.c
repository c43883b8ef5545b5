/* The GIC with two Security states, from EL3: the three groups, IRQ or FIQ by state, routing by SCR_EL3, what the
   Non-secure side sees of priorities and of what is not its own. */
#include "lib/el.h"
#include "lib/gic.h"

#define SCR_NS BIT(0)
#define SCR_IRQ BIT(1)
#define SCR_FIQ BIT(2)
#define SCR_HCE BIT(8)
#define SCR_RW BIT(10)
#define SCR_ST BIT(11)
#define SCR_RES1 (3ull << 4)
#define ICC_SRE_EL3 S3_6_C12_C12_5
#define ICC_IGRPEN1_EL3 S3_6_C12_C12_7
#define ICC_CTLR_EL3 S3_6_C12_C12_4
#define GICD_CTLR_DS BIT(6) /* there is one Security state */

#define GROUP_0 1 /* SGIs, one for each group */
#define GROUP_1S 2
#define GROUP_1NS 3
#define SECURE_ELSEWHERE 1020 /* what ICC_IAR0_EL1 says at EL3 of the groups that are not its own */
#define NON_SECURE_ELSEWHERE 1021

static u64 scr;
static u64 frame; /* of the SGIs */

static void set_scr(u64 bits) {
    scr = SCR_RW | SCR_RES1 | SCR_HCE | bits;
    write_sysreg(scr_el3, scr);
    isb();
}

static volatile unsigned interrupts;
static u64 level, vector, intid, special;

static u64 acknowledge_group1(void) {
    u64 id = read_sysreg(icc_iar1_el1);
    write_sysreg(icc_eoir1_el1, id);
    isb();
    return id;
}

void on_interrupt(struct trap *trap) {
    interrupts++;
    level = trap->level;
    vector = trap->vector;
    special = 0;
    if (vector % 4 == VECTOR_IRQ && level < 3) {
        intid = acknowledge_group1();
        return;
    }
    intid = read_sysreg(icc_iar0_el1);
    if (level == 3 && (intid == SECURE_ELSEWHERE || intid == NON_SECURE_ELSEWHERE)) {
        special = intid;
        write_sysreg(scr_el3, (scr & ~SCR_NS) | (intid == NON_SECURE_ELSEWHERE ? SCR_NS : 0));
        isb();
        intid = acknowledge_group1();
        write_sysreg(scr_el3, scr);
        isb();
        return;
    }
    if (intid == PPI_SECURE_PHYSICAL)
        write_sysreg(cntps_ctl_el1, 0);
    if (intid < SECURE_ELSEWHERE)
        write_sysreg(icc_eoir0_el1, intid);
    isb();
}

static void is_interrupt(u64 expected_level, u64 kind, u64 expected, const char *name) {
    bool good = interrupts == 1 && level == expected_level && vector % 4 == kind && intid == expected;
    if (!ok(good, name))
        print("# interrupts %u, EL%lu, vector %lu, INTID %lu, special %lu\n", interrupts, level, vector, intid, special);
    interrupts = 0;
}

static void is_no_interrupt(const char *name) {
    is(interrupts, 0, name);
    interrupts = 0;
}

static u64 nothing(u64 a, u64 b) {
    asm volatile("nop\n nop" ::: "memory");
    return a + b;
}

static void set_up(void) {
    mmio_write(GICD_BASE + GICD_CTLR, 0);
    mmio_write(GICD_BASE + GICD_CTLR, BIT(5) | BIT(4)); /* ARE of both states, before the groups */
    mmio_write(GICD_BASE + GICD_CTLR, BIT(5) | BIT(4) | BIT(2) | BIT(1) | BIT(0));
    while (mmio_read(GICD_BASE + GICD_CTLR) & GICD_CTLR_RWP) {
    }
    write_sysreg(ICC_SRE_EL3, 0xf);
    isb();
    write_sysreg(icc_sre_el2, 0xf);
    frame = gic_frame(0);
    u64 waker = frame - 0x10000 + 0x14;
    mmio_write(waker, mmio_read(waker) & ~BIT(1));
    while (mmio_read(waker) & BIT(2)) {
    }
    mmio_write(frame + GIC_ICENABLER, ~0u);
    mmio_write(frame + GIC_IGROUPR, BIT(GROUP_1NS));
    mmio_write(frame + GIC_IGRPMODR, BIT(GROUP_1S));
    gic_set_priority(GROUP_0, 0x40);
    gic_set_priority(GROUP_1S, 0x60);
    gic_set_priority(GROUP_1NS, 0xc0);
    gic_set_priority(PPI_SECURE_PHYSICAL, 0x40);
    mmio_write(frame + GIC_ISENABLER, BIT(GROUP_0) | BIT(GROUP_1S) | BIT(GROUP_1NS) | BIT(PPI_SECURE_PHYSICAL));
    for (unsigned ns = 0; ns < 2; ns++) {
        set_scr(ns ? SCR_NS : 0);
        write_sysreg(icc_sre_el1, 7);
        isb();
        write_sysreg(icc_bpr1_el1, 0);
    }
    write_sysreg(ICC_CTLR_EL3, 0);
    write_sysreg(icc_bpr0_el1, 0);
    write_sysreg(icc_pmr_el1, 0xff);
    write_sysreg(icc_igrpen0_el1, 1);
    write_sysreg(ICC_IGRPEN1_EL3, 3);
    isb();
}

static void send(unsigned sgi) {
    mmio_write(frame + GIC_ISPENDR, BIT(sgi));
}

/* --- --- */

static void kinds(void) {
    print("# IRQ or FIQ\n");
    static const struct {
        const char *name;
        unsigned sgi;
        u64 in_non_secure, in_secure;
    } groups[] = {
        {"Group 0", GROUP_0, VECTOR_FIQ, VECTOR_FIQ},
        {"Secure Group 1", GROUP_1S, VECTOR_FIQ, VECTOR_IRQ},
        {"Non-secure Group 1", GROUP_1NS, VECTOR_IRQ, VECTOR_FIQ},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(groups); i++) {
        print("# %s\n", groups[i].name);
        unsigned sgi = groups[i].sgi;
        /* All to EL3, whatever is masked below. */
        set_scr(SCR_NS | SCR_IRQ | SCR_FIQ);
        send(sgi);
        is_no_interrupt("masked at EL3");
        call_at(EL1H, nothing, 0, 0);
        is_interrupt(3, groups[i].in_non_secure, sgi, "from Non-secure EL1 to EL3");
        send(sgi);
        call_at(EL2H, nothing, 0, 0);
        is_interrupt(3, groups[i].in_non_secure, sgi, "from EL2 to EL3");
        set_scr(SCR_IRQ | SCR_FIQ);
        send(sgi);
        call_at(EL1H, nothing, 0, 0);
        is_interrupt(3, groups[i].in_secure, sgi, "from Secure EL1 to EL3");
        send(sgi);
        asm volatile("msr daifclr, #1\n isb\n msr daifset, #1" ::: "memory");
        is_interrupt(3, VECTOR_FIQ, sgi, "at EL3 it is an FIQ");
        is(special, sgi == GROUP_0 ? 0 : sgi == GROUP_1S ? SECURE_ELSEWHERE : NON_SECURE_ELSEWHERE, "as ICC_IAR0_EL1 says");
    }
}

static void routing(void) {
    print("# routing\n");
    set_scr(SCR_NS | SCR_FIQ);
    send(GROUP_1NS);
    call_at(EL1H, nothing, 0, 0);
    is_no_interrupt("IRQ = 0: masked by PSTATE.I of Non-secure EL1");
    call_at(EL1H & ~PSR_I, nothing, 0, 0);
    is_interrupt(1, VECTOR_IRQ, GROUP_1NS, "IRQ = 0: taken to Non-secure EL1");
    send(GROUP_1NS);
    asm volatile("msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
    is_no_interrupt("IRQ = 0: not at EL3");
    write_sysreg(hcr_el2, HCR_RW | BIT(4)); /* IMO */
    isb();
    call_at(EL1H, nothing, 0, 0);
    is_interrupt(2, VECTOR_IRQ, GROUP_1NS, "HCR_EL2.IMO: taken to EL2");
    write_sysreg(hcr_el2, HCR_RW);
    set_scr(SCR_FIQ);
    send(GROUP_1S);
    call_at(EL1H & ~PSR_I, nothing, 0, 0);
    is_interrupt(1, VECTOR_IRQ, GROUP_1S, "IRQ = 0: Secure Group 1 to Secure EL1");
    set_scr(0);
    send(GROUP_0);
    call_at(EL1H & ~PSR_F, nothing, 0, 0);
    is_interrupt(1, VECTOR_FIQ, GROUP_0, "FIQ = 0: Group 0 to Secure EL1");
    set_scr(SCR_NS | SCR_FIQ | SCR_IRQ);
    send(GROUP_1NS);
    send(GROUP_1S);
    send(GROUP_0);
    is(read_sysreg(icc_hppir0_el1), GROUP_0, "the highest priority is first");
    is(read_sysreg(icc_iar0_el1), GROUP_0, "acknowledged");
    is(read_sysreg(icc_rpr_el1), 0x40, "its priority is running");
    write_sysreg(icc_eoir0_el1, GROUP_0);
    isb();
    asm volatile("msr daifclr, #1\n isb\n msr daifset, #1" ::: "memory");
    is(interrupts, 2, "the others follow");
    is(intid, GROUP_1NS, "the lowest last");
    interrupts = 0;
}

static u64 el1_sgi(u64 sgi, u64 register_of) {
    u64 value = sgi << 24 | 1;
    switch (register_of) {
    case 0:
        write_sysreg(icc_sgi0r_el1, value);
        break;
    case 1:
        write_sysreg(icc_sgi1r_el1, value);
        break;
    default:
        write_sysreg(icc_asgi1r_el1, value);
    }
    isb();
    return 0;
}

static void generation(void) {
    print("# who may send what\n");
    static const char *const names[3][3] = {
        {"ICC_SGI0R_EL1, Group 0", "ICC_SGI0R_EL1, Secure Group 1", "ICC_SGI0R_EL1, Non-secure Group 1"},
        {"ICC_SGI1R_EL1, Group 0", "ICC_SGI1R_EL1, Secure Group 1", "ICC_SGI1R_EL1, Non-secure Group 1"},
        {"ICC_ASGI1R_EL1, Group 0", "ICC_ASGI1R_EL1, Secure Group 1", "ICC_ASGI1R_EL1, Non-secure Group 1"},
    };
    /* In Secure state; the interrupts to EL3 show what came. */
    static const bool sent[3][3] = {{true, false, false}, {true, true, false}, {false, false, true}};
    for (u64 reg = 0; reg < 3; reg++)
        for (u64 sgi = GROUP_0; sgi <= GROUP_1NS; sgi++) {
            set_scr(0);
            el1_sgi(sgi, reg);
            is(gic_is_pending(sgi), sent[reg][sgi - 1], names[reg][sgi - 1]);
            gic_unpend(sgi);
        }
    set_scr(SCR_NS);
    call_at(EL1H, el1_sgi, GROUP_1NS, 1);
    ok(gic_is_pending(GROUP_1NS), "Non-secure ICC_SGI1R_EL1, Non-secure Group 1");
    gic_unpend(GROUP_1NS);
    call_at(EL1H, el1_sgi, GROUP_1S, 1);
    ok(!gic_is_pending(GROUP_1S), "Non-secure ICC_SGI1R_EL1, Secure Group 1");
    gic_unpend(GROUP_1S);
}

/* --- The Non-secure view --- */

static u64 load(u64 address, u64 b) {
    (void)b;
    return mmio_read(address);
}

static u64 store(u64 address, u64 value) {
    mmio_write(address, value);
    return 0;
}

static u64 read_pmr(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(icc_pmr_el1);
}

static u64 write_pmr(u64 value, u64 b) {
    (void)b;
    write_sysreg(icc_pmr_el1, value);
    isb();
    return 0;
}

static u64 acknowledge_and_rpr(u64 a, u64 b) {
    (void)a, (void)b;
    u64 id = read_sysreg(icc_iar1_el1), rpr = read_sysreg(icc_rpr_el1);
    write_sysreg(icc_eoir1_el1, id);
    isb();
    return id << 8 | rpr;
}

static void views(void) {
    print("# the Non-secure view\n");
    set_scr(SCR_NS | SCR_FIQ);
    u64 priorities = frame + GIC_IPRIORITYR;
    is(call_at(EL1H, load, priorities, 0), 0x80000000, "priorities: its own, doubled; others read as zero");
    call_at(EL1H, store, priorities, 0x40404040);
    is(mmio_read(priorities), 0xa0604000, "written: its own, halved in the lower half; no others");
    call_at(EL1H, store, priorities, 0x80808080);
    is(call_at(EL1H, load, frame + GIC_IGROUPR, 0), 0, "groups read as zero");
    is(call_at(EL1H, load, frame + GIC_ISENABLER, 0), BIT(GROUP_1NS), "enables: its own");
    call_at(EL1H, store, frame + GIC_ISPENDR, BIT(GROUP_0) | BIT(GROUP_1S) | BIT(GROUP_1NS));
    is(mmio_read(frame + GIC_ISPENDR) & 0xff, BIT(GROUP_1NS), "pending: its own");
    is(call_at(EL1H, acknowledge_and_rpr, 0, 0), GROUP_1NS << 8 | 0x80, "acknowledged; its running priority");
    call_at(EL1H, store, frame + GIC_ICENABLER, ~0u);
    is(mmio_read(frame + GIC_ISENABLER), BIT(GROUP_0) | BIT(GROUP_1S) | BIT(PPI_SECURE_PHYSICAL), "disables only its own");
    gic_enable(GROUP_1NS);
    is(call_at(EL1H, load, GICD_BASE + GICD_CTLR, 0) & GICD_CTLR_DS, 0, "GICD_CTLR.DS");

    write_sysreg(icc_pmr_el1, 0xe0);
    isb();
    is(call_at(EL1H, read_pmr, 0, 0), 0xc0, "ICC_PMR_EL1: doubled");
    call_at(EL1H, write_pmr, 0x40, 0);
    is(read_sysreg(icc_pmr_el1), 0xa0, "written: halved in the lower half");
    write_sysreg(icc_pmr_el1, 0x60);
    isb();
    is(call_at(EL1H, read_pmr, 0, 0), 0, "a Secure value reads as zero");
    call_at(EL1H, write_pmr, 0x40, 0);
    is(read_sysreg(icc_pmr_el1), 0x60, "and is not overwritten");
    write_sysreg(icc_pmr_el1, 0xff);
    isb();
}

static void timer(void) {
    print("# the Secure timer\n");
    set_scr(SCR_FIQ | SCR_IRQ | SCR_ST);
    write_sysreg(cntps_cval_el1, read_sysreg(cntpct_el0) + 2000);
    write_sysreg(cntps_ctl_el1, 1);
    isb();
    while (!interrupts)
        asm volatile("wfi\n msr daifclr, #1\n isb\n msr daifset, #1" ::: "memory");
    is_interrupt(3, VECTOR_FIQ, PPI_SECURE_PHYSICAL, "its interrupt, to EL3");
}

int main(void) {
    if (current_el() != 3 || !FIELD(read_sysreg(id_aa64pfr0_el1), 11, 8))
        return tap_skip_all("needs a start at EL3, and EL2");
    if (mmio_read(GICD_BASE + GICD_CTLR) & GICD_CTLR_DS)
        return tap_skip_all("needs a GIC with two Security states: --secure");
    set_scr(SCR_NS);
    prepare_el2();
    prepare_el1();
    set_up();
    kinds();
    routing();
    generation();
    views();
    timer();
    is_no_trap("no exception but these");
    return tap_done();
}
