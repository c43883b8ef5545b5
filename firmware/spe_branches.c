/* Branches of every kind: operation type, target, taken or not; and the type and latency filters. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define LOOPS 2000
#define INTERVAL 256
#define RECORDS 1024

/* No load and no store in here: the filters below rely on it. */
asm("    .text\n"
    "    .type body, %function\n"
    "body:\n"
    "    mov x11, x30\n"
    "    adr x9, at_return\n"
    "    adr x10, hop\n"
    "again:\n"
    "at_jump: b 1f\n"
    "    brk #1\n"
    "1:  cmp x0, x0\n"
    "at_taken: b.eq after_taken\n"
    "    brk #2\n"
    "after_taken:\n"
    "at_never: b.ne after_taken\n"
    "at_cbz: cbz x0, after_taken\n"
    "at_cbnz: cbnz x0, after_cbnz\n"
    "    brk #3\n"
    "after_cbnz:\n"
    "at_tbz: tbz x0, #0, after_tbz\n"
    "    nop\n"
    "after_tbz:\n"
    "at_call: bl at_return\n"
    "at_call_indirect: blr x9\n"
    "at_jump_indirect: br x10\n"
    "    brk #4\n"
    "hop:\n"
    "at_always: b.al after_always\n"
    "    brk #5\n"
    "after_always:\n"
    "    subs x0, x0, #1\n"
    "at_loop: b.ne again\n"
    "at_last: ret x11\n"
    "at_return: ret\n"
    "body_end:\n"
    "    .size body, . - body\n"
    "after_jump = 1b\n");
extern char body[], body_end[], again[], after_jump[], after_taken[], after_cbnz[], after_tbz[], after_always[], hop[];
extern char at_jump[], at_taken[], at_never[], at_cbz[], at_cbnz[], at_tbz[], at_call[], at_call_indirect[],
    at_jump_indirect[], at_always[], at_loop[], at_last[], at_return[];

#define COND 1
#define IND 2
#define CR(n) ((n) << 3)
#define LINK CR(1)
#define RETURN CR(2)
#define NEITHER CR(3)

enum taken { NEVER, ALWAYS, SOMETIMES };

static const struct branch {
    const char *at;
    u8 op; /* with FEAT_SPE_CRR; without it bits 4:3 are 0 */
    enum taken taken;
    const char *target; /* NULL: checked apart */
} branches[] = {
    {at_jump, NEITHER, ALWAYS, after_jump},
    {at_taken, NEITHER | COND, ALWAYS, after_taken},
    {at_never, NEITHER | COND, NEVER, NULL},
    {at_cbz, NEITHER | COND, NEVER, NULL},
    {at_cbnz, NEITHER | COND, ALWAYS, after_cbnz},
    {at_tbz, NEITHER | COND, SOMETIMES, after_tbz},
    {at_call, LINK, ALWAYS, at_return},
    {at_call_indirect, LINK | IND, ALWAYS, at_return},
    {at_jump_indirect, NEITHER | IND, ALWAYS, hop},
    {at_always, NEITHER | COND, ALWAYS, after_always},
    {at_loop, NEITHER | COND, SOMETIMES, again},
    {at_return, RETURN | IND, ALWAYS, NULL},
    {at_last, RETURN | IND, ALWAYS, NULL},
};
static unsigned seen[ARRAY_SIZE(branches)][2]; /* not taken, taken */

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record plain[RECORDS], filtered[RECORDS];

static bool in_body(const struct spe_record *r) {
    return r->pc >= (u64)body && r->pc < (u64)body_end;
}

static bool branch_fits(const struct spe_record *r, const struct spe_id *id) {
    for (unsigned i = 0; i < ARRAY_SIZE(branches); i++) {
        const struct branch *b = &branches[i];
        if (r->pc != (u64)b->at)
            continue;
        bool taken = !(r->events & SPE_EVENT_NOT_TAKEN);
        seen[i][taken]++;
        if (r->class != SPE_BRANCH || r->op != (id->crr ? b->op : b->op & (COND | IND)))
            return false;
        if (b->taken != SOMETIMES && taken != (b->taken == ALWAYS))
            return false;
        if (!taken)
            return true; /* a target packet would hold an UNKNOWN value */
        if (!(r->has & SPE_HAS_TARGET) || r->target_el != 1 || !r->target_ns)
            return false;
        if (b->at == at_return)
            return r->target == (u64)at_call + 4 || r->target == (u64)at_call_indirect + 4;
        if (b->at == at_last)
            return r->target >= (u64)spe_profile && r->target < (u64)spe_profile_end;
        return r->target == (u64)b->target;
    }
    return r->class == SPE_OTHER && !(r->has & SPE_HAS_TARGET) && !(r->events & SPE_EVENT_NOT_TAKEN);
}

static unsigned profile(const struct spe_id *id, u64 pmsfcr, u64 pmslatfr, struct spe_record *records) {
    struct spe_session session = {
        .buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL, .pmsfcr = pmsfcr, .pmslatfr = pmslatfr};
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_TS, (u64)body, LOOPS, 0, 0);
    u64 end = read_sysreg(PMBPTR_EL1), next;
    spe_stop();
    unsigned count = spe_read_all((u64)buffer, end, id->align, records, RECORDS, &next);
    if (next != end)
        is(next, end, "the buffer holds whole records");
    return count;
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    mmu_on();

    unsigned count = profile(&id, 0, 0, plain);
    unsigned sane = 0, fits = 0;
    for (unsigned i = 0; i < count; i++) {
        bool good = spe_record_sane(&plain[i], &id, 1) && (!in_body(&plain[i]) || branch_fits(&plain[i], &id));
        if (!good && fits + 5 > i)
            spe_print_record(&plain[i]);
        sane += in_body(&plain[i]);
        fits += good;
    }
    ok(sane + 2 >= count && sane > 100, "records lie in the profiled function");
    is(fits, count, "type, condition and target are those of the instruction");
    bool all = true;
    for (unsigned i = 0; i < ARRAY_SIZE(branches); i++) {
        bool was = (branches[i].taken == ALWAYS || seen[i][0]) && (branches[i].taken == NEVER || seen[i][1]);
        if (!was && branches[i].at != at_last && branches[i].at != at_loop) {
            print("# branch %u: %u not taken, %u taken\n", i, seen[i][0], seen[i][1]);
            all = false;
        }
    }
    ok(all, "every kind of branch was sampled, taken and not taken");

    unsigned kept = profile(&id, PMSFCR_FT | PMSFCR_B, 0, filtered);
    unsigned only = 0;
    for (unsigned i = 0; i < kept; i++)
        only += filtered[i].class == SPE_BRANCH;
    ok(kept > 0 && only == kept, "the branch filter keeps branches only");
    if (id.arch_inst) {
        unsigned same = 0, expected = 0;
        for (unsigned i = 0; i < count; i++) {
            if (plain[i].class != SPE_BRANCH)
                continue;
            if (expected < kept) {
                const struct spe_record *f = &filtered[expected];
                same += f->pc == plain[i].pc && f->target == plain[i].target && f->op == plain[i].op;
            }
            expected++;
        }
        ok(kept == expected && same == expected, "and exactly those that an unfiltered session records");
    }
    is(profile(&id, PMSFCR_FT | PMSFCR_LD | PMSFCR_ST, 0, filtered), 0, "the load and store filter keeps nothing here");
    is(profile(&id, PMSFCR_FL, id.count_size == 2 ? 0xfff : 0xffff, filtered), 0, "nor does an impossible minimum latency");
    is(profile(&id, PMSFCR_FL, 1, filtered), count, "a minimum latency of 1 keeps everything");
    return tap_done();
}
