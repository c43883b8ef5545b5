/* The buffer management interrupt, PMBIRQ, at EL1: a buffer that fills is emptied by the interrupt handler. The
   interrupt is PPI 21, level-sensitive. Nothing here relies on how soon it comes: between a full buffer and its service
   nothing is sampled. So how many records are those of a run with a large buffer is printed, and not checked. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"

#define INTERVAL 256
#define LOOPS 9000
#define PLACES 7
#define RECORDS 512
#define PATIENCE 1000000

/* PLACES operations; 257 and 7 have no common factor. */
#define LOOP(name, section)              \
    asm("    .section " section ", \"ax\"\n" \
        "    .global " name ", " name "_end\n" \
        "    .type " name ", %function\n" \
        name ":\n"                       \
        "    ldr x3, [x1]\n"             \
        "    add x3, x3, x0\n"           \
        "    str x3, [x1, #8]\n"         \
        "    eor x4, x3, x0\n"           \
        "    str x4, [x1, #16]\n"        \
        "    subs x0, x0, #1\n"          \
        "    b.ne " name "\n"            \
        "    ret\n" name "_end:\n"       \
        "    .size " name ", . - " name "\n" \
        "    .text\n")
LOOP("user_loop", ".user.text");
LOOP("el1_loop", ".text");
extern char user_loop[], el1_loop[], el1_loop_end[];

static u8 large[RECORDS * 64] __attribute__((aligned(4096)));
static u8 small[2 * PAGE] __attribute__((aligned(4096)));
static u8 collected[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record expected[RECORDS], records[RECORDS];
static u64 user_data[4] USER_BSS __attribute__((aligned(64)));

static volatile unsigned interrupts, wrong, keep;
static u64 bytes; /* in `collected` */
static u64 start; /* of the buffer in `small`, which ends behind its first page: a few records fill it */
static u64 large_size; /* of the buffer in `large` */
static u64 loops; /* so many that their records fit into `large`, whatever their alignment is */
static struct trap interrupted;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    interrupted = *trap;
    psb_csync();
    dsb(nsh);
    isb();
    u64 pmbsr = read_sysreg(PMBSR_EL1), end = read_sysreg(PMBPTR_EL1), size = end - start;
    if (++interrupts > 1000)
        exit_with(96);
    wrong += intid != PPI_SPE || !(pmbsr & PMBSR_S);
    if (size <= PAGE && bytes + size <= sizeof collected) {
        memcpy(collected + bytes, (void *)start, size);
        bytes += size;
    } else {
        wrong++;
    }
    if (keep) {
        keep--; /* served next time */
    } else {
        wrong += (pmbsr & ~PMBSR_COLL) != PMBSR_FULL && (pmbsr & ~PMBSR_COLL) != PMBSR_S;
        spe_resume(start);
    }
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static bool is_same(const struct spe_record *a, const struct spe_record *b) {
    return a->pc == b->pc && a->va == b->va && a->class == b->class && a->op == b->op && a->has == b->has &&
           a->pc_el == b->pc_el;
}

static unsigned same_as_expected(unsigned count) {
    unsigned same = 0;
    for (unsigned i = 0; i < count; i++)
        same += is_same(&records[i], &expected[i]);
    return same;
}

/* Whether a record is of the loop, and says of its load and its stores where they went. */
static bool is_true(const struct spe_record *r, const struct spe_id *id, unsigned el, const char *loop) {
    static const u8 offsets[PLACES] = {0, 0, 8, 0, 16};
    u64 place = (r->pc - (u64)loop) / 4;
    /* begun behind a mispredicted branch, or the micro-operation of a store that moves its data */
    bool whole = id->arch_inst || r->class == SPE_MEMORY;
    bool memory = place == 0 || place == 2 || place == 4;
    if (!id->arch_inst && !(r->events & SPE_EVENT_RETIRED))
        return true;
    return spe_record_sane(r, id, el) && place <= PLACES &&
           (!memory || !whole || (r->class == SPE_MEMORY && r->va == (u64)user_data + offsets[place]));
}

/* The loop of EL0 once, into a large buffer; where its records end, and how many those are. */
static unsigned profile_large(const struct spe_id *id, struct spe_record *found, u64 *next) {
    struct spe_session session = {.buffer = (u64)large, .size = large_size, .interval = INTERVAL};
    spe_setup(&session);
    write_sysreg(PMSCR_EL1, PMSCR_E0SPE);
    isb();
    call_at(EL0T & ~PSR_I, (function *)user_loop, loops, (u64)user_data);
    spe_drain();
    return spe_read_all((u64)large, read_sysreg(PMBPTR_EL1), id->align, found, RECORDS, next);
}

static void el0(const struct spe_id *id) {
    print("# EL0\n");
    u64 next;
    unsigned count = profile_large(id, expected, &next);
    bool collisions = read_sysreg(PMBSR_EL1) & PMBSR_COLL;
    is(next, read_sysreg(PMBPTR_EL1), "a large buffer holds all records");
    is(interrupts, 0, "no interrupt");
    if (id->arch_inst && !collisions)
        is(count, (PLACES * loops + 2) / (INTERVAL + 1), "as many as the operations of EL0 give");

    /* what a core begins behind mispredicted branches depends on what ran before */
    bool steady = profile_large(id, records, &next) == count && same_as_expected(count) == count;

    struct spe_session session = {.buffer = start, .size = (u64)small + PAGE - start, .interval = INTERVAL};
    spe_setup(&session);
    memset(small + PAGE, 0xa5, PAGE);
    write_sysreg(PMSCR_EL1, PMSCR_E0SPE);
    isb();
    call_at(EL0T & ~PSR_I, (function *)user_loop, loops, (u64)user_data);
    spe_drain();
    u64 left = read_sysreg(PMBPTR_EL1) - start;
    memcpy(collected + bytes, (void *)start, left);
    bytes += left;
    unsigned served = spe_read_all((u64)collected, (u64)collected + bytes, id->align, records, RECORDS, &next);
    is(next, (u64)collected + bytes, "a small one, emptied by the handler, gives whole records");
    ok(interrupts >= 2, "the interrupt came again and again");
    is(wrong, 0, "it was PPI 21, the buffer was full");
    unsigned good = 0;
    for (unsigned i = 0; i < served; i++)
        good += is_true(&records[i], id, 0, user_loop);
    is(good, served, "each of them true");
    if (id->arch_inst)
        ok(served <= count + 1, "no more than before");
    print("# %u records, %u of them as before%s\n", served, same_as_expected(served < count ? served : count),
          steady ? "" : ", which are others each time");
    unsigned touched = 0;
    for (unsigned i = PAGE; i < sizeof small; i++)
        touched += small[i] != 0xa5;
    is(touched, 0, "nothing is written beyond the limit");
    is(interrupted.vector, FROM_LOWER(VECTOR_IRQ), "the last was taken from EL0");
    u64 place = (interrupted.elr - (u64)user_loop) / 4;
    ok(place <= PLACES, "in the loop");
    spe_stop();
}

static void el1(const struct spe_id *id) {
    print("# EL1\n");
    interrupts = 0;
    bytes = 0;
    struct spe_session session = {.buffer = start, .size = (u64)small + PAGE - start, .interval = INTERVAL};
    spe_setup(&session);
    asm volatile("msr daifclr, #2" ::: "memory");
    spe_profile(PMSCR_E1SPE, (u64)el1_loop, loops, (u64)user_data, 0);
    asm volatile("msr daifset, #2" ::: "memory");
    u64 left = read_sysreg(PMBPTR_EL1) - start, next;
    memcpy(collected + bytes, (void *)start, left);
    bytes += left;
    unsigned count = spe_read_all((u64)collected, (u64)collected + bytes, id->align, records, RECORDS, &next);
    is(next, (u64)collected + bytes, "EL1 interrupted by its own records: all whole");
    ok(interrupts >= 2, "the interrupt came again and again");
    is(wrong, 0, "the buffer was full each time");
    unsigned sane = 0, in_loop = 0;
    for (unsigned i = 0; i < count; i++) {
        sane += spe_record_sane(&records[i], id, 1);
        in_loop += records[i].pc >= (u64)el1_loop && records[i].pc < (u64)el1_loop_end;
    }
    is(sane, count, "and sound");
    ok(in_loop + 4 * interrupts >= count, "nearly all of the loop, the others of the handler after its service");
    print("# %u records of the loop\n", in_loop);
    spe_stop();
}

/* Looks again and again whether the line is as it should be; it may take a while. */
static bool line_becomes(bool high) {
    unsigned looks = PATIENCE;
    while (gic_is_pending(PPI_SPE) != high && --looks)
        isb();
    return looks;
}

/* Unmasks the interrupt until it has been taken so many times. */
static void unmask_until(unsigned count, const char *name) {
    asm volatile("msr daifclr, #2\n isb" ::: "memory");
    for (unsigned looks = PATIENCE; interrupts < count && looks; looks--)
        isb();
    asm volatile("msr daifset, #2" ::: "memory");
    is(interrupts, count, name);
}

static void set_status(u64 pmbsr) {
    write_sysreg(PMBSR_EL1, pmbsr);
    isb();
}

/* The buffer is disabled. */
static void level(void) {
    print("# level\n");
    interrupts = wrong = 0;
    write_sysreg(PMBPTR_EL1, start);
    set_status(0);
    ok(line_becomes(false), "PMBSR_EL1.S = 0: the line is low");
    set_status(PMBSR_S);
    ok(line_becomes(true), "software sets S: the line is high");
    is(interrupts, 0, "masked by PSTATE.I");
    unmask_until(1, "unmasked it is taken");
    ok(line_becomes(false), "served: the line is low");
    asm volatile("msr daifclr, #2" ::: "memory");
    set_status(PMBSR_S);
    unmask_until(2, "set while unmasked it is taken");
    keep = 2;
    set_status(PMBSR_S);
    unmask_until(5, "not served it fires again after the end of the interrupt");
    set_status(PMBSR_S);
    set_status(0);
    unmask_until(5, "cleared before it is taken it does not come");
    gic_disable(PPI_SPE);
    set_status(PMBSR_S);
    unmask_until(5, "disabled in the GIC it does not come");
    gic_enable(PPI_SPE);
    unmask_until(6, "enabled there it does");
    set_status(PMBSR_S);
    asm volatile("wfi" ::: "memory");
    unmask_until(7, "it ends WFI");
    is(wrong, 0, "each time it was PPI 21");
}

int main(void) {
    struct spe_id id = spe_probe();
    if (current_el() != 1 || !id.usable)
        return tap_skip_all("needs a start at EL1, and SPE");
    mmu_on();
    start = (u64)small + (id.max_size > 512 ? 0 : PAGE - 1024);
    large_size = sizeof large < id.max_buffer ? sizeof large : id.max_buffer;
    u64 most = large_size / (id.align > 64 ? id.align : 64) - 2; /* an operation may be two */
    loops = most * INTERVAL / PLACES / 2 < LOOPS ? most * INTERVAL / PLACES / 2 : LOOPS;
    write_sysreg(PMBSR_EL1, 0); /* UNKNOWN after reset */
    gic_init();
    gic_set_up(PPI_SPE, 1, 0x80, false);
    el0(&id);
    el1(&id);
    level();
    return tap_done();
}
