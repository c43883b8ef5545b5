/* EL2 owns the Profiling Buffer (MDCR_EL2.E2PB = 00) and profiles itself, its EL0, or a guest's EL1 and EL0; it
   serves the interrupt; a guest's accesses to the buffer trap. Then EL1 owns it, through stage 2. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"
#include "lib/stage2.h"

#define PMSCR_EL2 S3_4_C9_C9_0
#define PMSCR_EL2_E0HSPE BIT(0)
#define PMSCR_EL2_E2SPE BIT(1)
#define HCR_IMO BIT(4)
#define HCR_TGE BIT(27)
#define MDCR_TPMS BIT(14)
#define MDCR_E2PB (3ull << 12)
#define UNDEFINED 0x02000000
#define RT 0x3e0ull
#define SYSREG_ESR(op0, op1, crn, crm, op2, read)                                                    \
    (0x62000000ull | (u64)(op0) << 20 | (op2) << 17 | (op1) << 14 | (crn) << 10 | (crm) << 1 | (read))

#define INTERVAL 256
#define LOOPS 3700
#define PLACES 7
#define RECORDS 512

asm(".macro loop name, section\n"
    "    .section \\section, \"ax\"\n"
    "    .global \\name, \\name\\()_end\n"
    "    .type \\name, %function\n"
    "\\name:\n"
    "    ldr x3, [x1]\n"
    "    add x3, x3, x0\n"
    "    str x3, [x1, #8]\n"
    "    eor x4, x3, x0\n"
    "    str x4, [x1, #16]\n"
    "    subs x0, x0, #1\n"
    "    b.ne \\name\n"
    "    ret\n"
    "\\name\\()_end:\n"
    "    .size \\name, . - \\name\n"
    "    .text\n"
    ".endm\n"
    "    loop user_loop, .user.text\n"
    "    loop kernel_loop, .text\n");
extern char user_loop[], user_loop_end[], kernel_loop[], kernel_loop_end[];

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static u8 collected[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record expected[RECORDS], records[RECORDS];
static u64 user_data[4] USER_BSS __attribute__((aligned(64)));
static struct spe_id id;
static u64 mdcr;

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    isb();
}

static void set_mdcr(u64 bits) {
    write_sysreg(mdcr_el2, mdcr | bits);
    isb();
}

static u64 run_el0(u64 loops, u64 data) {
    return call_at(EL0T, (function *)user_loop, loops, data);
}

static u64 run_el1(u64 loops, u64 data) {
    return ((function *)kernel_loop)(loops, data);
}

/* The guest's EL1 works, then its EL0. */
static u64 run_guest(u64 loops, u64 data) {
    run_el1(loops, data);
    return run_el0(loops, data);
}

static void stop(void) {
    write_sysreg(PMSCR_EL1, 0);
    write_sysreg(PMSCR_EL2, 0);
    isb();
    psb_csync();
    dsb(nsh);
    isb();
}

static void set_up(u64 size) {
    struct spe_session session = {.buffer = (u64)buffer, .size = size, .interval = INTERVAL};
    spe_setup(&session);
    write_sysreg(PMSCR_EL2, 0);
    isb();
}

struct found {
    unsigned count, sane;
    unsigned by_el[3]; /* whose PC lies in the loop of that level's kind */
};

/* EL2 works, then a guest's EL1 and EL0, or with TGE EL2's EL0. */
static struct found profile(u64 pmscr_el2, u64 pmscr_el1) {
    struct found found = {0};
    u64 next;
    set_up(sizeof buffer);
    write_sysreg(PMSCR_EL1, pmscr_el1);
    write_sysreg(PMSCR_EL2, pmscr_el2);
    isb();
    run_el1(LOOPS, (u64)user_data);
    if (read_sysreg(hcr_el2) & HCR_TGE)
        run_el0(LOOPS, (u64)user_data);
    else
        call_at(EL1H, run_guest, LOOPS, (u64)user_data);
    stop();
    u64 end = read_sysreg(PMBPTR_EL1);
    found.count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
    if (next != end)
        found.count = ~0u;
    for (unsigned i = 0; i < found.count && i < RECORDS; i++) {
        const struct spe_record *r = &records[i];
        bool user = r->pc >= (u64)user_loop && r->pc < (u64)user_loop_end;
        bool kernel = r->pc >= (u64)kernel_loop && r->pc < (u64)kernel_loop_end;
        /* Where micro-operations are sampled, one on a wrong path does not retire. */
        found.sane += spe_record_sane(r, &id, r->pc_el) || (!id.arch_inst && !(r->events & SPE_EVENT_RETIRED));
        if (user && r->pc_el == 0)
            found.by_el[0]++;
        else if (kernel && (r->pc_el == 1 || r->pc_el == 2))
            found.by_el[r->pc_el]++;
    }
    return found;
}

#define EACH (PLACES * LOOPS / (INTERVAL + 1))
/* Where micro-operations are sampled, an operation may be two. */
#define AT_MOST (id.arch_inst ? EACH + 2 : 2 * EACH)

static void expect(u64 pmscr_el2, u64 pmscr_el1, unsigned levels, const char *name) {
    struct found f = profile(pmscr_el2, pmscr_el1);
    bool good = f.sane == f.count;
    for (unsigned el = 0; el < 3; el++)
        good = good && (levels >> el & 1 ? f.by_el[el] + 2 >= EACH && f.by_el[el] <= AT_MOST : f.by_el[el] == 0);
    if (!ok(good, name))
        print("# %u records, %u sane, EL0 %u, EL1 %u, EL2 %u, expected %u each or more\n", f.count, f.sane, f.by_el[0],
              f.by_el[1], f.by_el[2], EACH);
}

static void who(void) {
    print("# who is profiled\n");
    set_hcr(0);
    expect(0, 0, 0, "nobody");
    expect(PMSCR_EL2_E2SPE, 0, BIT(2), "EL2");
    expect(0, PMSCR_E1SPE, BIT(1), "EL1");
    expect(0, PMSCR_E0SPE, BIT(0), "EL0 of EL1");
    expect(0, PMSCR_E0SPE | PMSCR_E1SPE, BIT(0) | BIT(1), "the guest");
    expect(PMSCR_EL2_E2SPE, PMSCR_E0SPE | PMSCR_E1SPE, BIT(0) | BIT(1) | BIT(2), "all");
    expect(PMSCR_EL2_E0HSPE, 0, 0, "E0HSPE without TGE is nobody");
    set_hcr(HCR_TGE);
    expect(PMSCR_EL2_E0HSPE, 0, BIT(0), "EL0 of EL2");
    expect(PMSCR_EL2_E0HSPE | PMSCR_EL2_E2SPE, 0, BIT(0) | BIT(2), "EL2 and its EL0");
    expect(0, PMSCR_E0SPE | PMSCR_E1SPE, 0, "E0SPE with TGE is nobody");
    set_hcr(0);
    unsigned count = profile(PMSCR_EL2_E2SPE | PMSCR_PA | PMSCR_TS, 0).count, physical = 0, time = 0, memory = 0;
    for (unsigned i = 0; i < count; i++) {
        memory += records[i].class == SPE_MEMORY;
        physical += records[i].class == SPE_MEMORY && records[i].has & SPE_HAS_PA && records[i].pa == records[i].va;
        time += records[i].class == SPE_MEMORY && records[i].has & SPE_HAS_TIMESTAMP;
    }
    ok(memory > 0, "EL2, with address and time: loads and stores");
    is(physical, memory, "with their physical address");
    is(time, memory, "and the time");
    set_mdcr(MDCR_E2PB);
    expect(PMSCR_EL2_E2SPE, 0, 0, "EL2 is never profiled when EL1 owns the buffer");
    expect(0, PMSCR_E0SPE | PMSCR_E1SPE, BIT(0) | BIT(1), "the guest is");
    set_mdcr(0);
}

/* --- The guest's accesses --- */

enum { READ_PMBPTR, WRITE_PMBLIMITR, READ_PMBSR, READ_PMSCR, READ_PMBIDR, READ_PMSCR_EL2 };

static u64 el1_access(u64 which, u64 b) {
    (void)b;
    switch (which) {
    case READ_PMBPTR:
        return read_sysreg(PMBPTR_EL1);
    case WRITE_PMBLIMITR:
        write_sysreg(PMBLIMITR_EL1, 0);
        return 0;
    case READ_PMBSR:
        return read_sysreg(PMBSR_EL1);
    case READ_PMSCR:
        return read_sysreg(PMSCR_EL1);
    case READ_PMBIDR:
        return read_sysreg(PMBIDR_EL1);
    default:
        return read_sysreg(PMSCR_EL2);
    }
}

static void traps(void) {
    print("# the guest's accesses\n");
    static const struct {
        const char *name;
        unsigned which;
        u64 esr;
        bool sampling; /* TPMS traps it, else E2PB */
    } tests[] = {
        {"PMBPTR_EL1", READ_PMBPTR, SYSREG_ESR(3, 0, 9, 10, 1, 1), false},
        {"PMBLIMITR_EL1", WRITE_PMBLIMITR, SYSREG_ESR(3, 0, 9, 10, 0, 0), false},
        {"PMBSR_EL1", READ_PMBSR, SYSREG_ESR(3, 0, 9, 10, 3, 1), false},
        {"PMSCR_EL1", READ_PMSCR, SYSREG_ESR(3, 0, 9, 9, 0, 1), true},
    };
    for (u64 e2pb = 0; e2pb < 4; e2pb++) {
        if (e2pb == 1)
            continue; /* reserved */
        for (u64 tpms = 0; tpms < 2; tpms++) {
            print("# E2PB = %lu, TPMS = %lu\n", e2pb, tpms);
            set_mdcr(e2pb << 12 | tpms << 14);
            for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
                call_at(EL1H, el1_access, tests[i].which, 0);
                caught.esr &= ~RT;
                if (tests[i].sampling ? tpms == 1 : e2pb != 3)
                    is_trap(2, FROM_LOWER(VECTOR_SYNC), tests[i].esr, tests[i].name);
                else
                    is_no_trap(tests[i].name);
            }
            is(call_at(EL1H, el1_access, READ_PMBIDR, 0) >> 4 & 1, e2pb == 0, "PMBIDR_EL1.P");
            is_no_trap("which never traps");
        }
    }
    set_mdcr(0);
    is(read_sysreg(PMBIDR_EL1) >> 4 & 1, 0, "PMBIDR_EL1.P at EL2");
    call_at(EL1H, el1_access, READ_PMSCR_EL2, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "PMSCR_EL2 is undefined at EL1");
}

/* --- Its interrupt --- */

static volatile unsigned interrupts, wrong;
static u64 bytes;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    psb_csync();
    dsb(nsh);
    isb();
    u64 pmbsr = read_sysreg(PMBSR_EL1), size = read_sysreg(PMBPTR_EL1) - (u64)buffer;
    interrupts++;
    wrong += intid != PPI_SPE || trap->level != 2 || trap->vector != FROM_LOWER(VECTOR_IRQ);
    wrong += (pmbsr & ~PMBSR_COLL) != PMBSR_FULL;
    if (size <= PAGE && bytes + size <= sizeof collected) {
        memcpy(collected + bytes, buffer, size);
        bytes += size;
    } else {
        wrong++;
    }
    spe_resume((u64)buffer);
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static unsigned guest_records(u64 size) {
    u64 next;
    set_up(size);
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE | PMSCR_E0SPE);
    isb();
    call_at(EL1H, run_guest, LOOPS, (u64)user_data);
    stop();
    u64 left = read_sysreg(PMBPTR_EL1) - (u64)buffer;
    memcpy(collected + bytes, buffer, left);
    bytes += left;
    unsigned count = spe_read_all((u64)collected, (u64)collected + bytes, id.align, records, RECORDS, &next);
    is(next, (u64)collected + bytes, "whole records");
    bytes = 0;
    return count;
}

static unsigned same_as_expected(unsigned count) {
    unsigned same = 0;
    for (unsigned i = 0; i < count; i++)
        same += records[i].pc == expected[i].pc && records[i].va == expected[i].va;
    return same;
}

static void interrupt(void) {
    print("# the interrupt\n");
    write_sysreg(PMBSR_EL1, 0);
    gic_init();
    gic_set_up(PPI_SPE, 1, 0x80, false);
    set_hcr(HCR_IMO);
    unsigned count = guest_records(sizeof buffer);
    is(interrupts, 0, "a large buffer needs none");
    memcpy(expected, records, sizeof records);
    /* what a core begins behind mispredicted branches depends on what ran before */
    bool steady = id.arch_inst && guest_records(sizeof buffer) == count && same_as_expected(count) == count;
    unsigned served = guest_records(PAGE);
    ok(interrupts >= 2, "a small one does");
    is(wrong, 0, "taken from the guest to EL2, though it masks interrupts");
    if (id.arch_inst)
        is(served, count, "as many records");
    else
        ok(served <= count + 2 && count <= served + 2, "as many records, but for what is not executed in the end");
    ok(!steady || same_as_expected(count) == count, "the same ones, if they are the same each time");
    set_hcr(0);
}

/* --- EL1 owns, under stage 2 --- */

#define IPA 0x44000000ull

static void under_stage2(void) {
    print("# EL1's buffer under stage 2\n");
    stage2_init();
    for (u64 i = 0; i < sizeof buffer; i += PAGE)
        stage2_map(IPA + i, (u64)buffer + i, S2_RWX);
    stage2_unmap(IPA + PAGE);
    set_mdcr(MDCR_E2PB);
    set_hcr(HCR_VM);
    memset(buffer, 0, sizeof buffer);
    set_up(sizeof buffer);
    spe_set_buffer(IPA, 0, (IPA + sizeof buffer) | PMBLIMITR_E);
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    call_at(EL1H, run_el1, LOOPS, (u64)user_data);
    stop();
    is(read_sysreg(PMBSR_EL1) & ~(PMBSR_COLL | PMBSR_DL), PMBSR_STAGE2(0x07), "PMBSR_EL1: stage 2 translation fault");
    is(read_sysreg(PMBPTR_EL1), IPA + PAGE, "PMBPTR_EL1: where it was");
    u64 next;
    unsigned count = spe_read_all((u64)buffer, (u64)buffer + PAGE, id.align, records, RECORDS, &next);
    unsigned sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], &id, 1);
    ok(count > 0 && next == (u64)buffer + PAGE && sane == count, "the page in front of it is full of records");
    is_no_trap("no exception");
    stage2_map(IPA + PAGE, (u64)buffer + PAGE, S2_READ | S2_ACCESSED | S2_NORMAL);
    spe_resume(read_sysreg(PMBPTR_EL1));
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    call_at(EL1H, run_el1, LOOPS, (u64)user_data);
    stop();
    is(read_sysreg(PMBSR_EL1) & ~(PMBSR_COLL | PMBSR_DL), PMBSR_STAGE2(0x0f), "read-only: stage 2 permission fault");
    stage2_map(IPA + PAGE, (u64)buffer + PAGE, S2_RWX);
    spe_resume(read_sysreg(PMBPTR_EL1));
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    call_at(EL1H, run_el1, LOOPS, (u64)user_data);
    stop();
    is(read_sysreg(PMBSR_EL1) & ~(PMBSR_COLL | PMBSR_DL), 0, "mapped: it goes on");
    ok(read_sysreg(PMBPTR_EL1) > IPA + PAGE, "from there");
    set_hcr(0);
    set_mdcr(0);
}

int main(void) {
    id = spe_probe();
    if (current_el() != 2 || !id.usable)
        return tap_skip_all("needs a start at EL2, and SPE");
    prepare_el2();
    prepare_el1();
    write_sysreg(PMSCR_EL2, 0); /* UNKNOWN after reset, and enabled as soon as the buffer is */
    isb();
    mdcr = read_sysreg(mdcr_el2) & ~(MDCR_E2PB | MDCR_TPMS);
    set_mdcr(0);
    who();
    traps();
    interrupt();
    under_stage2();
    return tap_done();
}
