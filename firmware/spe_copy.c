/* Profiles a copy loop as a driver does, and reads its own records back. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define WORDS 8192
#define INTERVAL 256
#define RECORDS 512

asm("    .text\n"
    "    .global copy, copy_end\n"
    "    .type copy, %function\n"
    "copy:\n"
    "    ldr x3, [x1], #8\n"
    "    str x3, [x0], #8\n"
    "    subs x2, x2, #1\n"
    "    b.ne copy\n"
    "    ret\n"
    "copy_end:\n"
    "    .size copy, . - copy\n");
extern char copy[], copy_end[];
#define POPULATION (4 * WORDS + 1 + SPE_PROFILE_OVERHEAD)

static u64 source[WORDS], destination[WORDS];
static u8 buffer[RECORDS * 64 + PAGE] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];

static bool within(u64 address, const void *start, u64 size) {
    return address >= (u64)start && address < (u64)start + size;
}

/* What the instruction at its PC makes of a record. A micro-operation of a load or store may well access no memory. */
static bool record_fits(const struct spe_record *r, bool arch_inst) {
    bool pa_is_va = !(r->has & SPE_HAS_PA) || r->pa == r->va;
    bool no_address = !(r->has & (SPE_HAS_VA | SPE_HAS_PA));
    if (r->pc >= (u64)spe_profile && r->pc < (u64)spe_profile_end)
        return true;
    if (!arch_inst && r->pc - (u64)copy <= 4 && r->class == SPE_OTHER)
        return no_address && !(r->has & SPE_HAS_TARGET);
    switch (r->pc - (u64)copy) {
    case 0:
        return r->class == SPE_MEMORY && r->op == 0 && r->has & SPE_HAS_VA && r->va % 8 == 0 && pa_is_va &&
               within(r->va, source, sizeof source);
    case 4:
        return r->class == SPE_MEMORY && r->op == 1 && r->has & SPE_HAS_VA && r->va % 8 == 0 && pa_is_va &&
               within(r->va, destination, sizeof destination);
    case 8:
        return r->class == SPE_OTHER && r->op == 0 && no_address && !(r->has & SPE_HAS_TARGET);
    case 12:
        return r->class == SPE_BRANCH && (r->op & 3) == 1 && no_address &&
               (r->events & SPE_EVENT_NOT_TAKEN || (r->has & SPE_HAS_TARGET && r->target == (u64)copy));
    case 16:
        return r->class == SPE_BRANCH && (r->op & 3) == 2 && r->has & SPE_HAS_TARGET;
    }
    return false;
}

static void check_records(const struct spe_id *id, unsigned count) {
    unsigned sane = 0, fits = 0, ordered = 0, timed = 0, loads = 0, stores = 0, others = 0, branches = 0;
    u64 last_time = 0, last_va[2] = {0, 0};
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        bool good = spe_record_sane(r, id, 1);
        sane += good;
        bool fit = record_fits(r, id->arch_inst);
        fits += fit;
        if ((!good || !fit) && sane + 5 > i)
            spe_print_record(r);
        timed += r->has & SPE_HAS_TIMESTAMP && r->timestamp >= last_time;
        last_time = r->timestamp;
        if (r->class == SPE_MEMORY) {
            ordered += r->va > last_va[r->op & 1];
            last_va[r->op & 1] = r->va;
        }
        loads += r->class == SPE_MEMORY && !(r->op & 1);
        stores += r->class == SPE_MEMORY && r->op & 1;
        others += r->class == SPE_OTHER;
        branches += r->class == SPE_BRANCH;
    }
    is(sane, count, "every record is whole, at Non-secure EL1, and retired");
    is(fits, count, "every record is what the instruction at its PC does");
    is(timed, count, "every record has a timestamp, and time does not go back");
    is(ordered, loads + stores, "loads and stores move upwards through their arrays");
    print("# %u records: %u loads, %u stores, %u branches, %u others\n", count, loads, stores, branches, others);
    unsigned quarter = count / 4, slack = count / 8;
    if (!id->arch_inst)
        quarter = branches; /* as it may be less, of more micro-operations */
    ok(loads + slack >= quarter && loads <= quarter + slack && stores + slack >= quarter && stores <= quarter + slack &&
           branches + slack >= quarter && branches <= quarter + slack,
       id->arch_inst ? "a quarter of them each are loads, stores and branches"
                     : "they are as many loads as stores as branches");
}

static void session(const struct spe_id *id, const char *name) {
    print("# %s\n", name);
    for (u64 i = 0; i < WORDS; i++) {
        source[i] = i * 0x9e3779b97f4a7c15ull;
        destination[i] = 0;
    }
    memset(buffer, 0xa5, sizeof buffer);

    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer - PAGE, .interval = INTERVAL};
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_TS | PMSCR_PA, (u64)copy, (u64)destination, (u64)source, WORDS);
    u64 end = read_sysreg(PMBPTR_EL1);
    u64 pmbsr = read_sysreg(PMBSR_EL1);
    spe_stop();

    is(pmbsr & ~PMBSR_COLL, 0, "no management event");
    u64 next;
    unsigned count = spe_read_all((u64)buffer, end, id->align, records, RECORDS, &next);
    ok(end > (u64)buffer && end % id->align == 0, "PMBPTR_EL1 moved, and is aligned");
    is(next, end, "whole records lie in front of PMBPTR_EL1");
    if (id->arch_inst && !(pmbsr & PMBSR_COLL))
        is(count, POPULATION / (INTERVAL + 1), "as many records as the interval gives");
    else
        ok(count > POPULATION / (INTERVAL + 1) / 2 && count < POPULATION / (INTERVAL + 1) * 3,
           "about as many records as the interval gives");
    check_records(id, count);

    bool beyond = true;
    for (u64 i = sizeof buffer - PAGE; i < sizeof buffer; i++)
        beyond &= buffer[i] == 0xa5;
    ok(beyond, "nothing was written at or beyond the limit");
    is((u64)memcmp(source, destination, sizeof source), 0, "the copy is right");
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.version)
        return tap_skip_all("ID_AA64DFR0_EL1.PMSVer is 0");
    print("# PMSVer %u, align %u, max. record %u, counters %u bits, min. interval %u, %s\n", id.version, id.align,
          id.max_size, id.count_size == 2 ? 12 : 16, id.min_interval,
          id.arch_inst ? "architecture instructions" : "micro-operations");
    ok(id.usable, "PMBIDR_EL1.P allows programming at EL1");
    ok(id.align <= 2048 && id.max_size >= 64 && id.max_size <= 2048 && id.align <= id.max_size,
       "alignment and record size are as a driver accepts");
    ok((id.count_size == 2 || id.count_size == 3) && id.min_interval, "so are counter size and interval");
    session(&id, "MMU off");
    mmu_on();
    session(&id, "MMU on");
    return tap_done();
}
