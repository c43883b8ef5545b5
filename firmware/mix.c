/* Operations of every kind, each sampled: its record against a table in mix_body.S. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define INTERVAL 256
#define TURNS 800
#define RECORDS 1024

#define NO_VA ~0ull
#define ANY_VA ~1ull
#define EITHER 2 /* the loop's branch */

/* As mix_body.S lays it out. */
struct expectation {
    u64 pc, va;
    u8 class, op;
    u8 optional; /* bits of op that need FEAT_SPE_FPF or FEAT_SPE_CRR; 0xff: needs FEAT_SPEv1p1 */
    u8 condition_fails;
    u8 unused[4];
};
extern const struct expectation mix_table[], mix_table_end[];
extern char mix[], mix_end[];

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static u16 seen[512];

static u8 expected_op(const struct expectation *e, const struct spe_id *id) {
    bool has = e->class == SPE_BRANCH ? id->crr : e->class == SPE_OTHER ? id->fpf : true;
    return has ? e->op : e->op & (u8)~e->optional;
}

/* Where an access may go: micro-operations share it, 64 bytes at most. */
static bool va_in(u64 va, u64 first, const struct spe_id *id) {
    return id->arch_inst ? va == first : va >= first && va < first + 64;
}

static bool fits(const struct spe_record *r, const struct expectation *e, const struct spe_id *id) {
    if (e->optional == 0xff && id->version < 2)
        return true; /* before FEAT_SPEv1p1 there is no type for it */
    if (!id->arch_inst && e->class == SPE_MEMORY && r->class == SPE_OTHER)
        return !(r->has & (SPE_HAS_VA | SPE_HAS_PA)); /* one that moves data, or writes the base back */
    bool va_fits = e->va == ANY_VA || (e->va == NO_VA ? !(r->has & SPE_HAS_VA) : r->has & SPE_HAS_VA && va_in(r->va, e->va, id));
    return r->class == e->class && r->op == expected_op(e, id) && va_fits &&
           !(r->events & SPE_EVENT_EXCEPTION) && (!(r->has & SPE_HAS_PA) || r->pa == r->va) &&
           (e->condition_fails == EITHER || !(r->events & SPE_EVENT_NOT_TAKEN) == !e->condition_fails) &&
           (!(r->has & SPE_HAS_TARGET) == !(e->class == SPE_BRANCH && !(r->events & SPE_EVENT_NOT_TAKEN)) ||
            (e->class == SPE_BRANCH && r->target == r->pc + 4)); /* some cores tell where a branch went that was not taken */
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    mmu_on();
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_TS | PMSCR_PA, (u64)mix, TURNS, 0, 0);
    u64 end = read_sysreg(PMBPTR_EL1), next;
    u64 pmbsr = read_sysreg(PMBSR_EL1);
    spe_stop();

    is(pmbsr & ~PMBSR_COLL, 0, "no management event");
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
    is(next, end, "whole records lie in front of PMBPTR_EL1");

    unsigned kinds = (unsigned)(mix_table_end - mix_table), sane = 0, good = 0, inside = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        sane += spe_record_sane(r, &id, 1);
        for (unsigned k = 0; k < kinds; k++) {
            if (mix_table[k].pc != r->pc)
                continue;
            inside++;
            bool fit = fits(r, &mix_table[k], &id);
            good += fit;
            if (!fit && !seen[k]++) {
                print("# operation 0x%x should be class %u op 0x%x\n", *(const u32 *)r->pc, mix_table[k].class,
                      expected_op(&mix_table[k], &id));
                spe_print_record(r);
            }
            seen[k]++;
        }
    }
    print("# %u records of %u kinds\n", count, kinds);
    is(sane, count, "every record is whole, at Non-secure EL1, and retired");
    ok(inside + 4 >= count, "almost all lie in the loop");
    is(good, inside, "type, condition and address are those of the instruction");
    unsigned missed = 0;
    for (unsigned k = 0; k < kinds; k++)
        missed += !seen[k];
    if (id.arch_inst)
        is(missed, 0, "every kind was sampled");
    return tap_done();
}
