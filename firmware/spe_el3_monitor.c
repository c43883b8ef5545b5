/* EL3 hands the Statistical Profiling Extension to a Security state (MDCR_EL3.NSPB): who may program it, who is
   profiled, where the records go. */
#include "lib/el.h"
#include "lib/spe.h"

#define SCR_NS BIT(0)
#define SCR_HCE BIT(8)
#define SCR_RW BIT(10)
#define SCR_RES1 (3ull << 4)
#define MDCR_NSPB(n) ((u64)(n) << 12)
#define MDCR_ENPMSN BIT(36)
#define MDCR_E2PB (3ull << 12) /* of MDCR_EL2 */
#define PMSCR_EL2 S3_4_C9_C9_0
#define PMSCR_EL2_E2SPE BIT(1)
#define RT 0x3e0ull
#define SYSREG_ESR(op0, op1, crn, crm, op2, read)                                                    \
    (0x62000000ull | (u64)(op0) << 20 | (op2) << 17 | (op1) << 14 | (crn) << 10 | (crm) << 1 | (read))

#define INTERVAL 256
#define LOOPS 3700
#define PLACES 7
#define RECORDS 256
#define EACH (PLACES * LOOPS / (INTERVAL + 1))
/* Where micro-operations are sampled, an operation may be two. */
#define AT_MOST (id.arch_inst ? EACH + 2 : 2 * EACH)

asm("    .text\n"
    "    .global work, work_end\n"
    "    .type work, %function\n"
    "work:\n"
    "    ldr x3, [x1]\n"
    "    add x3, x3, x0\n"
    "    str x3, [x1, #8]\n"
    "    eor x4, x3, x0\n"
    "    str x4, [x1, #16]\n"
    "    subs x0, x0, #1\n"
    "    b.ne work\n"
    "    ret\n"
    "work_end:\n"
    "    .size work, . - work\n");
extern char work[], work_end[];

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static u64 data[4] __attribute__((aligned(64)));
static struct spe_id id;
static u64 mdcr_el2;

static void set_scr(u64 bits) {
    write_sysreg(scr_el3, SCR_RW | SCR_RES1 | bits);
    isb();
}

static void set_owner(u64 nspb) {
    write_sysreg(mdcr_el3, MDCR_NSPB(nspb) | MDCR_ENPMSN);
    isb();
}

static u64 el1_work(u64 loops, u64 b) {
    return ((function *)work)(loops, b);
}

static u64 read_control(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(PMSCR_EL1);
}

static u64 read_pointer(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(PMBPTR_EL1);
}

static u64 read_id(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(PMBIDR_EL1) >> 4 & 1;
}

/* --- Who may program it --- */

static void may(u64 spsr, bool allowed, u64 p, const char *name) {
    bool good = true;
    for (unsigned i = 0; i < 2; i++) {
        taken = 0;
        call_at(spsr, i ? read_pointer : read_control, 0, 0);
        caught.esr &= ~RT;
        u64 esr = i ? SYSREG_ESR(3, 0, 9, 10, 1, 1) : SYSREG_ESR(3, 0, 9, 9, 0, 1);
        good = good && (allowed ? taken == 0 : taken == 1 && caught.level == 3 && caught.esr == esr);
    }
    taken = 0;
    u64 programming = call_at(spsr, read_id, 0, 0);
    if (!ok(good && programming == p && !taken, name))
        print("# EL%lu, ESR 0x%lx, PMBIDR_EL1.P %lu\n", caught.level, caught.esr, programming);
    taken = 0;
}

static void access(void) {
    /* Reserved where there is no such state; 0b00 and 0b01 are Secure, bit 0 lets the owner in. */
    for (u64 nspb = 0; nspb < 4; nspb++) {
        bool non_secure = nspb >> 1, open = nspb & 1;
        print("# NSPB = %lu\n", nspb);
        set_owner(nspb);
        set_scr(SCR_NS | SCR_HCE);
        may(EL2H, non_secure && open, !non_secure, "EL2");
        may(EL1H, non_secure && open, !non_secure, "Non-secure EL1");
        set_scr(0);
        may(EL1H, !non_secure && open, non_secure, "Secure EL1");
        (void)read_sysreg(PMSCR_EL1);
        (void)read_sysreg(PMBPTR_EL1);
        is_no_trap("EL3 always may");
        is(read_sysreg(PMBIDR_EL1) >> 4 & 1, 0, "PMBIDR_EL1.P at EL3");
    }
}

/* --- Who is profiled --- */

static void set_up(void) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
    write_sysreg(PMSCR_EL2, 0);
    isb();
}

static void stop(void) {
    write_sysreg(PMSCR_EL1, 0);
    write_sysreg(PMSCR_EL2, 0);
    isb();
    psb_csync();
    dsb(nsh);
    isb();
}

static void expect(u64 nspb, u64 scr, u64 e2pb, u64 spsr, bool profiled, const char *name) {
    u64 next;
    set_owner(nspb);
    set_scr(scr);
    write_sysreg(mdcr_el2, mdcr_el2 | e2pb);
    set_up();
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE | PMSCR_PA);
    write_sysreg(PMSCR_EL2, (e2pb ? 0 : PMSCR_EL2_E2SPE) | PMSCR_PA);
    isb();
    el1_work(LOOPS, (u64)data); /* EL3 itself never is */
    call_at(spsr, el1_work, LOOPS, (u64)data);
    stop();
    u64 end = read_sysreg(PMBPTR_EL1);
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next), good = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        good += r->pc >= (u64)work && r->pc < (u64)work_end && r->pc_el == FIELD(spsr, 3, 2) &&
                r->pc_ns == (bool)(scr & SCR_NS) && (!(r->has & SPE_HAS_VA) || r->has & SPE_HAS_PA);
    }
    bool enough = profiled ? good + 2 >= EACH && good <= AT_MOST && count <= good + 2 : count == 0;
    if (!ok(next == end && enough, name))
        print("# %u records, %u as they should be, PMBSR_EL1 0x%lx\n", count, good, read_sysreg(PMBSR_EL1));
    is_no_trap("no exception");
}

static void profiled(void) {
    print("# who is profiled\n");
    expect(3, SCR_NS | SCR_HCE, MDCR_E2PB, EL1H, true, "Non-secure owner: Non-secure EL1");
    expect(3, SCR_NS | SCR_HCE, 0, EL2H, true, "Non-secure owner: EL2");
    expect(3, SCR_NS | SCR_HCE, 0, EL1H, true, "Non-secure owner: Non-secure EL1 under EL2's buffer");
    expect(3, 0, MDCR_E2PB, EL1H, false, "Non-secure owner: not Secure EL1");
    expect(1, 0, MDCR_E2PB, EL1H, true, "Secure owner: Secure EL1");
    expect(1, SCR_NS | SCR_HCE, MDCR_E2PB, EL1H, false, "Secure owner: not Non-secure EL1");
    expect(1, SCR_NS | SCR_HCE, 0, EL2H, false, "Secure owner: not EL2");
}

/* --- The hand-over of a boot loader --- */

static u64 kernel(u64 a, u64 b) {
    (void)a, (void)b;
    struct spe_id seen = spe_probe();
    u64 next;
    if (!seen.usable)
        return 0;
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_TS, (u64)work, LOOPS, (u64)data, 0);
    spe_stop();
    unsigned count = spe_read_all((u64)buffer, read_sysreg(PMBPTR_EL1), seen.align, records, RECORDS, &next), sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], &seen, 1);
    return count == sane ? count : 0;
}

static u64 hypervisor(u64 a, u64 b) {
    write_sysreg(mdcr_el2, mdcr_el2 | MDCR_E2PB);
    write_sysreg(PMSCR_EL2, PMSCR_PA);
    isb();
    return call_at(EL1H, kernel, a, b);
}

static void hand_over(void) {
    print("# hand-over\n");
    set_owner(3);
    set_scr(SCR_NS | SCR_HCE);
    ok(call_at(EL2H, hypervisor, 0, 0) + 2 >= EACH, "EL3 to EL2 to EL1, which profiles itself");
    is_no_trap("no exception");
}

int main(void) {
    if (current_el() != 3 || !FIELD(read_sysreg(id_aa64pfr0_el1), 11, 8))
        return tap_skip_all("needs a start at EL3, and EL2");
    id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    set_scr(SCR_NS | SCR_HCE);
    prepare_el2();
    prepare_el1();
    mdcr_el2 = read_sysreg(mdcr_el2) & ~MDCR_E2PB;
    write_sysreg(mdcr_el2, mdcr_el2 | MDCR_E2PB);
    access();
    profiled();
    hand_over();
    return tap_done();
}
