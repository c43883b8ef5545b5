/* Caches, TLBs and branch prediction: accesses and branches whose outcome is known, and their records.
   For the core `generic` with `--model cache`, whose sizes these are. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define GENERIC 0x000f5e00 /* MIDR_EL1 */
#define PMSIDR_LDS BIT(4)
#define INTERVAL 256
#define RECORDS 4096
#define TURNS 16384 /* whole rounds of all that are walked through */

/* The model: 32 KiB of 4 ways, 256 KiB of 8, 2 MiB of 16; TLBs of 32 and of 512 entries in 4 ways. */
#define LINE 64
#define KIB 1024ull
#define IN_L1D (16 * KIB)
#define IN_L2 (64 * KIB) /* twice the L1 cache, in half of the L1 TLB */
#define IN_LAST (1024 * KIB) /* four times the L2 cache, in half of the L2 TLB */
#define BEYOND (4096 * KIB) /* twice the last level, twice the L2 TLB */

#define SOURCE_L1D 0x0
#define SOURCE_L2 0x8
#define SOURCE_LAST 0xb
#define SOURCE_DRAM 0xe
#define NO_SOURCE 0x100

#define HIT 0x16 /* retired, L1D access, TLB access */
#define REFILL 0x8
#define WALK 0x20
#define LAST 0x100 /* last level access */
#define LAST_MISS 0x200
#define MISALIGNED 0x800
#define TAKEN 0x2
#define NOT_TAKEN 0x42
#define MISPREDICTED 0x80

/* Each takes a number of turns in its second argument and touches no memory but what it says. */
asm("    .text\n"
    "loads:\n" /* base; the third argument is the size, less 1 */
    "    mov x4, #0\n"
    "0:  and x5, x4, x2\n"
    "at_load: ldr x3, [x0, x5]\n"
    "    add x4, x4, #64\n"
    "    subs x1, x1, #1\n"
    "    b.ne 0b\n"
    "    ret\n"
    "stores:\n"
    "    mov x4, #0\n"
    "1:  and x5, x4, x2\n"
    "at_store: str xzr, [x0, x5]\n"
    "    add x4, x4, #64\n"
    "    subs x1, x1, #1\n"
    "    b.ne 1b\n"
    "    ret\n"
    "alternating:\n" /* taken every other turn */
    "    nop\n"
    "at_alternating: tbz x1, #0, 1f\n"
    "    nop\n"
    "1:  subs x1, x1, #1\n"
    "    b.ne alternating\n"
    "    ret\n"
    "by_chance:\n" /* bit 0 of a linear congruential generator's high half */
    "    movz x4, #0x7f2d\n"
    "    movk x4, #0x4c95, lsl #16\n"
    "    movk x4, #0xf42d, lsl #32\n"
    "    movk x4, #0x5851, lsl #48\n"
    "2:  mul x0, x0, x4\n"
    "    add x0, x0, #1\n"
    "at_chance: tbz x0, #33, 3f\n"
    "    nop\n"
    "3:  subs x1, x1, #1\n"
    "    b.ne 2b\n"
    "    ret\n"
    "indirect:\n" /* x0 is 0 for one target, 16 for two in turn */
    "    adr x5, hops\n"
    "    mov x6, #0\n"
    "4:  add x7, x5, x6\n"
    "    eor x6, x6, x0\n"
    "at_indirect: br x7\n"
    "hops:\n"
    "    nop\n"
    "    nop\n"
    "    b 5f\n"
    "    nop\n"
    "    b 5f\n" /* hops + 16 */
    "5:  subs x1, x1, #1\n"
    "    b.ne 4b\n"
    "    ret\n"
    "nested:\n" /* calls x0 deep, and as many returns; return addresses are computed, not kept */
    "    mov x9, x30\n"
    "6:  mov x2, x0\n"
    "down: cbz x2, up\n"
    "    sub x2, x2, #1\n"
    "    bl down\n"
    "after:\n"
    "up: add x2, x2, #1\n"
    "    cmp x2, x0\n"
    "    b.hi 7f\n"
    "    adr x30, after\n"
    "at_return: ret\n"
    "7:  subs x1, x1, #1\n"
    "    b.ne 6b\n"
    "    ret x9\n");
extern char loads[], at_load[], stores[], at_store[], alternating[], at_alternating[], by_chance[], at_chance[], indirect[], at_indirect[],
    nested[], at_return[];

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static unsigned count;
static struct spe_id id;

static u64 arena(void) {
    return ((u64)__heap_start + BEYOND - 1) & ~(BEYOND - 1);
}

static void profile(char *function, u64 a, u64 turns, u64 c, u64 pmsfcr) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL, .pmsfcr = pmsfcr};
    ((void (*)(u64, u64, u64))function)(a, turns, c); /* once before, so that everything has its place */
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_TS, (u64)function, a, turns, c);
    u64 end = read_sysreg(PMBPTR_EL1), next;
    spe_stop();
    count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
}

/* Walks round and round through `size` bytes at `base`, line by line. Where a page begins, `page` more
   events are set and the translation takes `translation` cycles instead of 1. */
static void walk(const char *name, bool store, u64 base, u64 size, unsigned events, unsigned source, unsigned total,
                 unsigned page, unsigned translation) {
    u64 lines = size / LINE;
    profile(store ? stores : loads, base, lines < TURNS ? TURNS : lines, size - 1, PMSFCR_FT | PMSFCR_LD | PMSFCR_ST);
    unsigned good = 0, pages = 0, there = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        if (r->pc != (u64)(store ? at_store : at_load))
            continue;
        there++;
        bool begins = (r->va & 4095) < LINE;
        pages += begins;
        unsigned cycles = begins ? translation : 1;
        bool fits = r->events == (begins ? events | page : events) && r->counter[2] == cycles && r->counter[1] == 1 &&
                    r->counter[0] == total + cycles - 1 &&
                    (source == NO_SOURCE ? !(r->has & SPE_HAS_SOURCE) : r->has & SPE_HAS_SOURCE && r->source == source);
        good += fits;
        if (!fits && there - good < 3) {
            print("# events 0x%lx, source 0x%x, total %u, translation %u\n", r->events, r->source, r->counter[0], r->counter[2]);
            spe_print_record(r);
        }
    }
    print("# %s: %u accesses, %u of them the first of their page\n", name, there, pages);
    ok(there > 50 && good == there && (size < IN_LAST || pages > 0), name);
}

/* How many of the sampled branches at `pc` were mispredicted, and how many there were. */
static unsigned mispredicted(char *function, u64 a, u64 turns, char *pc, unsigned *all) {
    profile(function, a, turns, 0, PMSFCR_FT | PMSFCR_B);
    unsigned missed = 0;
    *all = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        if (r->pc != (u64)pc)
            continue;
        (*all)++;
        missed += !!(r->events & MISPREDICTED);
        u64 rest = r->events & ~(u64)MISPREDICTED;
        if (rest != TAKEN && rest != NOT_TAKEN)
            ok(false, "a branch has no other events");
    }
    print("# %u of %u mispredicted\n", missed, *all);
    return missed;
}

int main(void) {
    id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    if (read_sysreg(MIDR_EL1) != GENERIC || !(read_sysreg(PMSIDR_EL1) & PMSIDR_LDS))
        return tap_skip_all("not the core generic with --model cache");
    mmu_on();
    u64 base = arena();

    walk("loads from the L1 cache", false, base, IN_L1D, HIT, SOURCE_L1D, 5, 0, 1);
    walk("loads that are not aligned", false, base + 1, IN_L1D, HIT | MISALIGNED, SOURCE_L1D, 6, 0, 1);
    walk("stores to the L1 cache", true, base, IN_L1D, HIT, NO_SOURCE, 2, 0, 1);
    walk("loads from the L2 cache", false, base, IN_L2, HIT | REFILL, SOURCE_L2, 12, 0, 1);
    walk("loads from the last level", false, base, IN_LAST, HIT | REFILL | LAST, SOURCE_LAST, 71, 0, 4);
    walk("loads from memory", false, base, BEYOND, HIT | REFILL | LAST | LAST_MISS, SOURCE_DRAM, 201, WALK, 40);
    walk("stores to memory", true, base, BEYOND, HIT | REFILL | LAST | LAST_MISS, NO_SOURCE, 2, WALK, 40);

    unsigned all, missed;
    missed = mispredicted(alternating, 0, TURNS, at_alternating, &all);
    ok(all > 50 && missed == 0, "an alternation is learned");
    missed = mispredicted(by_chance, 1, TURNS, at_chance, &all);
    ok(all > 50 && missed * 100 > all * 35 && missed * 100 < all * 65, "chance is not");
    missed = mispredicted(indirect, 0, TURNS, at_indirect, &all);
    ok(all > 50 && missed == 0, "an indirect branch with one target is learned");
    missed = mispredicted(indirect, 16, TURNS, at_indirect, &all);
    ok(all > 50 && missed == all, "one whose target is never the last one is always mispredicted");
    missed = mispredicted(nested, 16, 1000, at_return, &all);
    ok(all > 50 && missed == 0, "returns of 16 nested calls come from the return stack");
    missed = mispredicted(nested, 32, 1000, at_return, &all);
    ok(all > 50 && missed * 100 > all * 45 && missed * 100 < all * 55, "of 32 the outer half is lost");
    return tap_done();
}
