/* Four PEs, each with SPE of its own: each profiles only itself, in its own buffer, and an operation takes as long as
   if the PE were alone. */
#include "lib/gic.h"
#include "lib/smp.h"
#include "lib/spe.h"

#define COUNT 4

#define LOOPS 3000
#define RECORDS 128

/* A loop for each PE, of 6 operations. */
asm(".macro loop index\n"
    "    .text\n"
    "    .global work\\index, work\\index\\()_end\n"
    "    .type work\\index, %function\n"
    "work\\index:\n"
    "    ldr x3, [x1]\n"
    "    add x3, x3, x0\n"
    "    str x3, [x1, #8]\n"
    "    mul x4, x3, x0\n"
    "    subs x0, x0, #1\n"
    "    b.ne work\\index\n"
    "    ret\n"
    "work\\index\\()_end:\n"
    "    .size work\\index, . - work\\index\n"
    ".endm\n"
    "    loop 0\n"
    "    loop 1\n"
    "    loop 2\n"
    "    loop 3\n");
extern char work0[], work1[], work2[], work3[], work0_end[], work1_end[], work2_end[], work3_end[];
static char *const work[COUNT] = {work0, work1, work2, work3};
static char *const work_end[COUNT] = {work0_end, work1_end, work2_end, work3_end};

static struct pe_state {
    u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
    u64 data[8];
    struct spe_record alone[RECORDS], records[RECORDS];
    unsigned alone_count, count;
    u64 pointer, status, counter; /* PMBPTR_EL1, PMBSR_EL1, PMSICR_EL1 afterwards */
    u64 registers[4];
    bool whole;
    bool steady; /* alone, it records the same each time */
    unsigned interrupts, wrong;
} pes[COUNT] __attribute__((aligned(4096)));

static struct spe_id id;
static u64 buffer_start, buffer_end = sizeof pes[0].buffer; /* of it, in bytes */
static unsigned enabled = 15; /* which PEs profile */

static u64 interval(unsigned index) {
    return 256 * (index % 2 + 1);
}

static void profile(unsigned index) {
    struct pe_state *p = &pes[index];
    struct spe_session session = {.buffer = (u64)p->buffer + buffer_start,
                                  .size = buffer_end - buffer_start,
                                  .interval = interval(index)};
    u64 next;
    spe_setup(&session);
    spe_profile(enabled >> index & 1 ? PMSCR_E1SPE | PMSCR_PA : 0, (u64)work[index], LOOPS, (u64)p->data, 0);
    p->pointer = read_sysreg(PMBPTR_EL1);
    p->status = read_sysreg(PMBSR_EL1);
    p->counter = read_sysreg(PMSICR_EL1);
    p->count = spe_read_all((u64)p->buffer, p->pointer, id.align, p->records, RECORDS, &next);
    p->whole = next == p->pointer;
    spe_stop();
}

static bool is_same(const struct spe_record *a, const struct spe_record *b) {
    return a->pc == b->pc && a->va == b->va && a->pa == b->pa && a->class == b->class && a->op == b->op &&
           a->has == b->has && a->events == b->events && !memcmp(a->counter, b->counter, sizeof a->counter);
}

/* Whether a record of the loop says what the architecture has it say, on any core and in any company. */
static bool is_true(const struct spe_record *r, unsigned index) {
    u64 data = (u64)pes[index].data;
    bool load = r->pc == (u64)work[index], store = r->pc == (u64)work[index] + 8;
    bool branch = r->pc == (u64)work_end[index] - 8;
    if (!id.arch_inst && !(r->events & SPE_EVENT_RETIRED)) /* begun behind a mispredicted branch */
        return !(r->has & (SPE_HAS_VA | SPE_HAS_PA | SPE_HAS_TARGET));
    if (!spe_record_sane(r, &id, 1))
        return false;
    if (!id.arch_inst && store && r->class == SPE_OTHER) /* the micro-operation that moves its data */
        return !(r->has & SPE_HAS_VA);
    if (load || store)
        return r->class == SPE_MEMORY && r->op == store && r->has & SPE_HAS_VA && r->va == data + 8 * store;
    if (branch) /* it is conditional, and goes back but for the last time */
        return r->class == SPE_BRANCH && r->op & 1 &&
               (r->events & SPE_EVENT_NOT_TAKEN || r->target == (u64)work[index]);
    return r->class == (r->pc == (u64)work_end[index] - 4 ? SPE_BRANCH : SPE_OTHER) && !(r->has & SPE_HAS_VA);
}

/* Whether all records are of the PE's own loop, or of the three operations around it, and true. */
static bool is_own(unsigned index) {
    const struct pe_state *p = &pes[index];
    unsigned own = 0, good = 0;
    for (unsigned i = 0; i < p->count; i++) {
        const struct spe_record *r = &p->records[i];
        bool mine = r->pc >= (u64)work[index] && r->pc < (u64)work_end[index];
        own += mine;
        good += mine ? is_true(r, index) : spe_record_sane(r, &id, 1);
    }
    bool all = p->whole && good == p->count && own + 1 >= p->count;
    if (!all)
        print("# %u records, %u of its loop, %u sound\n", p->count, own, good);
    return all;
}

/* How many of a PE's records are those that it made alone. */
static unsigned same_as_alone(unsigned index) {
    const struct pe_state *p = &pes[index];
    unsigned same = 0;
    for (unsigned k = 0; k < p->count && k < p->alone_count; k++)
        same += is_same(&p->records[k], &p->alone[k]);
    return same;
}

static void profile_on(unsigned index) {
    if (index)
        on_others(BIT(index), profile);
    else
        profile(0);
}

static void alone(void) {
    print("# one after the other\n");
    for (unsigned i = 0; i < COUNT; i++) {
        profile_on(i);
        struct pe_state *p = &pes[i];
        memcpy(p->alone, p->records, sizeof p->records);
        p->alone_count = p->count;
        ok(is_own(i), "the records of a PE are its own");
        is(p->status & ~PMBSR_COLL, 0, "no management event");
        if (id.arch_inst)
            is(p->count, (6 * LOOPS + 1 + SPE_PROFILE_OVERHEAD) / (interval(i) + 1), "as many as its operations give");
        profile_on(i);
        p->steady = p->count == p->alone_count && same_as_alone(i) == p->count;
        if (!p->steady)
            print("# what it records depends on what ran before, as with caches and a branch predictor\n");
    }
}

static void together(void) {
    print("# all at once\n");
    on_all(COUNT, profile);
    for (unsigned i = 0; i < COUNT; i++) {
        const struct pe_state *p = &pes[i];
        ok(is_own(i), "the records of a PE are its own");
        if (p->steady) {
            is(p->count, p->alone_count, "as many as alone");
            is(same_as_alone(i), p->alone_count, "the same, and as long");
        } else {
            ok(p->count + 1 >= p->alone_count && p->count <= p->alone_count + 1, "about as many as alone");
        }
    }
}

static void one(void) {
    for (unsigned only = 0; only < COUNT; only++) {
        print("# PE %u alone profiles, all work\n", only);
        enabled = 1u << only;
        on_all(COUNT, profile);
        for (unsigned i = 0; i < COUNT; i++) {
            if (i == only) {
                ok(is_own(i) && (!pes[i].steady || pes[i].count == pes[i].alone_count), "its records");
            } else {
                is(pes[i].pointer, (u64)pes[i].buffer, "no records elsewhere");
                is(pes[i].counter, 0, "nor counting");
            }
        }
    }
    enabled = 15;
}

/* --- Registers --- */

static void write_registers(unsigned index) {
    write_sysreg(PMSIRR_EL1, 0x1000 * (index + 1));
    write_sysreg(PMSLATFR_EL1, index + 1);
    write_sysreg(PMBPTR_EL1, 0x40100000 + 0x1000 * index);
    write_sysreg(PMSICR_EL1, 0x100 + index);
    isb();
}

static void read_registers(unsigned index) {
    u64 *r = pes[index].registers;
    r[0] = read_sysreg(PMSIRR_EL1);
    r[1] = read_sysreg(PMSLATFR_EL1);
    r[2] = read_sysreg(PMBPTR_EL1);
    r[3] = read_sysreg(PMSICR_EL1);
}

static void registers(void) {
    print("# registers\n");
    on_all(COUNT, write_registers);
    on_all(COUNT, read_registers);
    for (unsigned i = 0; i < COUNT; i++) {
        const u64 *r = pes[i].registers;
        ok(r[0] == 0x1000 * (i + 1) && r[1] == i + 1 && r[2] == 0x40100000 + 0x1000 * i && r[3] == 0x100 + i,
           "a PE has its own");
    }
}

/* --- Interrupts --- */

void on_interrupt(struct trap *trap) {
    struct pe_state *p = &pes[pe()];
    u64 intid = read_sysreg(icc_iar1_el1);
    (void)trap;
    psb_csync();
    dsb(nsh);
    isb();
    p->wrong += intid != PPI_SPE || (read_sysreg(PMBSR_EL1) & ~PMBSR_COLL) != PMBSR_FULL;
    p->interrupts++;
    spe_resume((u64)p->buffer);
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static void set_up_gic(unsigned index) {
    write_sysreg(PMBSR_EL1, 0); /* UNKNOWN after reset */
    isb();
    if (index)
        gic_init_pe();
    gic_set_up(PPI_SPE, 1, 0x80, false);
}

static void profile_interrupted(unsigned index) {
    pes[index].interrupts = pes[index].wrong = 0;
    asm volatile("msr daifclr, #2" ::: "memory");
    profile(index);
    asm volatile("msr daifset, #2" ::: "memory");
}

static void interrupts(void) {
    print("# interrupts\n");
    gic_init();
    on_all(COUNT, set_up_gic);
    buffer_start = PAGE - 1024; /* a few records fill it, also where they are small */
    buffer_end = PAGE;
    for (unsigned only = 0; only < COUNT; only += 2) { /* those with the short interval fill a page */
        enabled = 1u << only;
        on_all(COUNT, profile_interrupted);
        for (unsigned i = 0; i < COUNT; i++)
            if (i == only)
                ok(pes[i].interrupts > 0 && !pes[i].wrong, "a PE's full buffer interrupts it");
            else
                is(pes[i].interrupts, 0, "and no other");
    }
}

int main(void) {
    id = spe_probe();
    if (current_el() != 1 || !id.usable)
        return tap_skip_all("needs a start at EL1, and SPE");
    if (psci(PSCI_AFFINITY_INFO, COUNT - 1, 0, 0) != 1)
        return tap_skip_all("needs four PEs");
    mmu_on();
    for (unsigned i = 1; i < COUNT; i++)
        if (smp_start(i, 0) != PSCI_SUCCESS)
            return tap_skip_all("a PE does not start");
    alone();
    together();
    one();
    registers();
    interrupts();
    return tap_done();
}
