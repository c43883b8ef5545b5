/* Every fault that a write to the Profiling Buffer can run into, with the syndrome, PMBPTR_EL1 and memory behind it,
   then the repair and the resumption: by EL1 for itself, or (start at EL2) by EL2, by an operating system at EL2, and by
   EL1 under stage 2; with each translation granule that there is. */
#include "lib/el.h"
#include "lib/spe.h"
#include "lib/tables.h"

#define PMSCR_EL2 S3_4_C9_C9_0
#define PMBMAR_EL1 S3_0_C9_C10_5
#define PMSCR_EL2_E2SPE BIT(1)
#define PMSCR_EL2_ENVM BIT(11)
#define PMBLIMITR_NVM BIT(7)
#define PMBIDR_F BIT(5)
#define PMBIDR_EA(pmbidr) FIELD(pmbidr, 11, 8)
#define PMBIDR_ADDRMODE(pmbidr) FIELD(pmbidr, 7, 6)
#define HCR_VM BIT(0)
#define HCR_PTW BIT(2)
#define HCR_TGE BIT(27)
#define HCR_E2H BIT(34)
#define MDCR_E2PB (3ull << 12)

#define INTERVAL 256
#define LOOPS 1600
#define FRONT 192 /* bytes in front of the fault */
#define NOT_MEMORY 0x0b000000ull /* no device, no RAM: an External abort */
#define BEYOND (1ull << 41) /* an output address of more than 40 bits */
#define WALK_IPA (1ull << 36)

static u8 memory1[TABLE_SLOTS * TABLE_SLOT] __attribute__((aligned(0x10000)));
static u8 memory2[TABLE_SLOTS * TABLE_SLOT] __attribute__((aligned(0x10000)));
static u8 frames[2 * TABLE_SLOT] __attribute__((aligned(0x10000)));

/* --- The owner --- */

enum owner { EL1_0, EL2_ONLY, EL2_0, GUEST };
static const char *const owner_names[] = {"EL1&0", "EL2", "EL2&0", "EL1&0 under stage 2"};

static enum owner owner;
static struct spe_id id;
static u64 page; /* size of the granule */
static u64 pmbidr, flags; /* flags: ID_AA64MMFR1_EL1.HAFDBS */
static struct tables stage1, stage2;
static struct spe_record records[64];

static void invalidate(void) {
    dsb(ish);
    if (owner == EL1_0)
        asm volatile("tlbi vmalle1is" ::: "memory");
    else
        asm volatile("tlbi alle1is\n tlbi alle2is" ::: "memory");
    dsb(ish);
    isb();
}

#define HA BIT(0)
#define HD BIT(1)
#define TBI BIT(2)

static u64 tg0(enum granule granule) {
    return (granule == KIB4 ? 0ull : granule == KIB16 ? 2ull : 1ull) << 14;
}

#define PS_40 2ull

/* Stage 1: 48-bit addresses in, 40-bit ones out. */
static void control(u64 root, u64 options) {
    u64 tcr = 16 | 1 << 8 | 1 << 10 | 3 << 12 | tg0(stage1.granule);
    bool single = owner == EL2_ONLY;
    tcr |= options & HA ? BIT(single ? 21 : 39) : 0;
    tcr |= options & HD ? BIT(single ? 22 : 40) : 0;
    tcr |= options & TBI ? BIT(single ? 20 : 37) : 0;
    tcr |= single ? BIT(31) | BIT(23) | PS_40 << 16 : 16ull << 16 | BIT(23) | 2ull << 30 | PS_40 << 32;
    if (owner == EL1_0 || owner == GUEST) {
        write_sysreg(mair_el1, MAIR);
        write_sysreg(ttbr0_el1, root);
        write_sysreg(tcr_el1, tcr);
    } else {
        write_sysreg(mair_el2, MAIR);
        write_sysreg(ttbr0_el2, root);
        write_sysreg(tcr_el2, tcr);
    }
    isb();
    invalidate();
}

static void mmu(bool on) {
    if (!on)
        flush((u64)__data_start, (u64)__image_end);
    dsb(sy);
    if (owner == EL1_0 || owner == GUEST)
        write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL | (on ? BIT(0) | BIT(2) : 0));
    else
        write_sysreg(sctlr_el2, (owner == EL2_0 ? SCTLR_EL1_INITIAL : SCTLR_EL2_INITIAL) | (on ? BIT(0) | BIT(2) : 0));
    isb();
    invalidate();
}

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    isb();
    invalidate();
}

/* Stage 2: 39-bit addresses in, 40-bit ones out. */
static void control2(u64 options) {
    u64 sl0 = stage2.granule == KIB16 ? 2 : 1;
    write_sysreg(vtcr_el2, BIT(31) | 25 | sl0 << 6 | 1 << 8 | 1 << 10 | 3 << 12 | tg0(stage2.granule) | PS_40 << 16 |
                               (options & HA ? BIT(21) : 0) | (options & HD ? BIT(22) : 0));
    write_sysreg(vttbr_el2, stage2.memory);
    isb();
    invalidate();
}

static u64 work(u64 loops, u64 b) {
    (void)b;
    asm volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(loops)::"cc");
    return 0;
}

static void profile(void) {
    bool el2 = owner == EL2_ONLY || owner == EL2_0;
    if (el2)
        write_sysreg(PMSCR_EL2, PMSCR_EL2_E2SPE);
    else
        write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    if (owner == GUEST)
        call_at(EL1H, work, LOOPS, 0);
    else
        work(LOOPS, 0);
    if (el2)
        write_sysreg(PMSCR_EL2, read_sysreg(PMSCR_EL2) & PMSCR_EL2_ENVM);
    else
        write_sysreg(PMSCR_EL1, 0);
    isb();
    psb_csync();
    dsb(nsh);
    isb();
}

static void start(u64 pointer, u64 limit) {
    memset(frames, 0xa5, 2 * page);
    invalidate();
    write_sysreg(PMSFCR_EL1, 0);
    write_sysreg(PMSIRR_EL1, INTERVAL);
    write_sysreg(PMSICR_EL1, 0);
    spe_set_buffer(pointer, 0, limit | PMBLIMITR_E);
    profile();
}

/* Whole records from `from` on in memory, as many as there are up to `end`; *next is behind them. */
static unsigned whole(u64 from, u64 end, u64 *next) {
    unsigned count = spe_read_all(from, end, id.align, records, ARRAY_SIZE(records), next), sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], &id, owner == EL2_ONLY || owner == EL2_0 ? 2 : 1);
    return sane == count ? count : ~0u;
}

static bool untouched(const u8 *from, u64 size) {
    for (u64 i = 0; i < size; i++)
        if (from[i] != 0xa5)
            return false;
    return true;
}

/* --- One fault --- */

/* Expects the event `pmbsr` at the virtual address `at`, which is the second of two pages whose frames are `frames`. */
static bool is_event(u64 pmbsr, u64 at, u64 *behind) {
    u64 found = read_sysreg(PMBSR_EL1), pointer = read_sysreg(PMBPTR_EL1), next = (u64)frames + page - FRONT;
    unsigned count = whole(next, (u64)frames + page, &next);
    bool partial = next != (u64)frames + page;
    *behind = at - page + (next - (u64)frames);
    u64 expected = pmbsr | (partial ? PMBSR_DL : 0);
    bool good = (found & ~PMBSR_COLL) == expected && pointer == at && count > 0 && count != ~0u &&
                untouched(frames + page, FRONT);
    if (!good)
        print("# PMBSR_EL1 0x%lx (expected 0x%lx), PMBPTR_EL1 0x%lx (expected 0x%lx), %u records\n", found, expected,
              pointer, at, count);
    return good;
}

/* After the repair: goes on behind the last whole record. */
static bool goes_on(u64 at, u64 behind) {
    u64 next;
    invalidate();
    spe_resume(behind);
    profile();
    u64 pmbsr = read_sysreg(PMBSR_EL1), pointer = read_sysreg(PMBPTR_EL1);
    u64 from = (u64)frames + behind - (at - page), end = (u64)frames + pointer - (at - page);
    unsigned count = whole(from, end, &next);
    bool good = !(pmbsr & ~PMBSR_COLL) && pointer > at && next == end && count > 0 && count != ~0u;
    if (!good)
        print("# resumed: PMBSR_EL1 0x%lx, PMBPTR_EL1 0x%lx, %u records\n", pmbsr, pointer, count);
    return good;
}

/* Where the second page begins if its entry of `level` is to be another one than the first page's. */
static u64 boundary(const struct tables *t, int level) {
    u64 size = 1ull << table_shift(t, level), base = 1ull << (t == &stage2 ? 37 : 46);
    return size >= base ? size : base + size;
}

static u64 class; /* of the event: of stage 1 or 2 */

/* Both pages mapped; then `spoilt` is put into the entry of `level` for the second one. */
static void fault(struct tables *t, int level, u64 clear, u64 set, unsigned fsc, const char *kind) {
    u64 at = boundary(t, level), behind;
    tables_begin(t);
    table_map(t, at - page, (u64)frames);
    table_map(t, at, (u64)frames + page);
    volatile u64 *spoilt = table_entry(t, at, level);
    u64 good = *spoilt;
    *spoilt = (good & ~clear) | set;
    start(at - FRONT, at + page);
    bool event = is_event(class | fsc, at, &behind);
    *spoilt = good;
    ok(event && goes_on(at, behind), kind);
}

static const char *const translations[] = {"translation fault, level 0", "translation fault, level 1",
                                           "translation fault, level 2", "translation fault, level 3"};
static const char *const sizes[] = {"address size fault, level 0", "address size fault, level 1",
                                    "address size fault, level 2", "address size fault, level 3"};
static const char *const aborts[] = {"External abort of the walk, level 0", "External abort of the walk, level 1",
                                     "External abort of the walk, level 2", "External abort of the walk, level 3"};

#define ADDRESS 0x0000fffffffff000ull

static void faults(struct tables *t) {
    u64 read_only = t == &stage2 ? 0 : S1_READ_ONLY, no_write = t == &stage2 ? S2_WRITE : 0;
    for (int level = t->start; level < 4; level++) {
        fault(t, level, ~0ull, 0, 0x04 + level, translations[level]);
        fault(t, level, ADDRESS, BEYOND, level, sizes[level]);
        if (level < 3)
            fault(t, level, ADDRESS, NOT_MEMORY, 0x14 + level + 1, aborts[level + 1]);
    }
    fault(t, 3, ACCESSED, 0, 0x0b, "Access flag fault");
    fault(t, 3, no_write, read_only, 0x0f, "permission fault");
    if (t == &stage1)
        fault(t, 2, 0, S1_AP_TABLE_READ_ONLY, 0x0f, "permission fault, by APTable");
}

/* What hardware does instead of a fault, if the core's SPE does it at all. */
static void updates(struct tables *t) {
    u64 clean = t == &stage2 ? 0 : S1_READ_ONLY, dirty = t == &stage2 ? S2_WRITE : 0, at = boundary(t, 3), behind;
    static const char *const names[] = {"hardware sets the Access flag", "hardware makes a clean page dirty"};
    for (unsigned hd = 0; hd < 2 && hd < flags; hd++) {
        tables_begin(t);
        table_map(t, at - page, (u64)frames);
        table_map(t, at, (u64)frames + page);
        volatile u64 *leaf = table_entry(t, at, 3);
        u64 good = *leaf | (hd ? DBM : 0), before = hd ? (good & ~dirty) | clean : good & ~ACCESSED;
        *leaf = before;
        if (t == &stage2)
            control2(HA | (hd ? HD : 0));
        else
            control((u64)t->memory, HA | (hd ? HD : 0));
        start(at - FRONT, at + page);
        if (pmbidr & PMBIDR_F) {
            ok(!(read_sysreg(PMBSR_EL1) & PMBSR_S) && read_sysreg(PMBPTR_EL1) > at, names[hd]);
            is(*leaf, good, "in the descriptor");
        } else {
            ok(is_event(class | (hd ? 0x0f : 0x0b), at, &behind), "this core's SPE does not manage flags");
            is(*leaf, before, "the descriptor is as it was");
        }
        if (t == &stage2)
            control2(0);
        else
            control((u64)t->memory, 0);
    }
}

/* --- What is not of a page --- */

static void of_addresses(void) {
    u64 at = boundary(&stage1, 3), tag = 0x5aull << 56;
    tables_begin(&stage1);
    table_map(&stage1, at, (u64)frames);
    start(1ull << 48, (1ull << 48) + TABLE_SLOT);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE1(0x04), "out of the range of the tables: translation fault, level 0");
    is(read_sysreg(PMBPTR_EL1), 1ull << 48, "PMBPTR_EL1 as it was");
    start(tag | at, (tag | at) + page);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE1(0x04), "a tag without TBI: translation fault, level 0");
    control((u64)stage1.memory, TBI);
    start(tag | at, (tag | at) + page);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "a tag with TBI: no event");
    u64 size = read_sysreg(PMBPTR_EL1) - (tag | at), next;
    unsigned count = whole((u64)frames, (u64)frames + size, &next);
    ok(count > 0 && count != ~0u && next == (u64)frames + size && size <= page, "and PMBPTR_EL1 keeps the tag");
    control((u64)stage1.memory, 0);
    mmu(false);
    start(1ull << 55, (1ull << 55) + TABLE_SLOT);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE1(0x00), "stage 1 off, too many bits: address size fault, level 0");
    start((u64)frames, (u64)frames + TABLE_SLOT);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "stage 1 off, an address of RAM: no event");
    ok(whole((u64)frames, read_sysreg(PMBPTR_EL1), &next) - 1 < 64, "and whole records");
    mmu(true);
}

static void external_abort(void) {
    u64 at = boundary(&stage1, 3);
    tables_begin(&stage1);
    table_map(&stage1, at, NOT_MEMORY);
    start(at, at + page);
    if (PMBIDR_EA(pmbidr)) {
        is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "no memory behind the mapping: this core ignores that");
        ok(read_sysreg(PMBPTR_EL1) > at, "PMBPTR_EL1 goes on");
    } else {
        is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE1(0x10) | PMBSR_EA, "no memory behind the mapping: External abort");
        is(read_sysreg(PMBPTR_EL1), at, "PMBPTR_EL1 as it was");
    }
    is_no_trap("and nothing for the PE");
}

static void physical_pointers(void) {
    u64 next;
    if (PMBIDR_ADDRMODE(read_sysreg(PMBIDR_EL1)) != 1)
        return;
    print("# physical pointers\n");
    memset(frames, 0xa5, sizeof frames);
    tables_begin(&stage1);
    invalidate();
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
    write_sysreg(PMBMAR_EL1, 0x3ff);
    static const u64 bases[] = {0, 1ull << 50};
    for (unsigned i = 0; i < 2; i++) {
        u64 pointer = bases[i] ? bases[i] : (u64)frames;
        spe_set_buffer(pointer, 0, (pointer + TABLE_SLOT) | PMBLIMITR_NVM | PMBLIMITR_E);
        profile();
        if (i) {
            is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE1(0x00), "too many bits: address size fault, level 0");
        } else {
            is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "no event");
            ok(whole(pointer, read_sysreg(PMBPTR_EL1), &next) - 1 < 64, "records where the pointer says");
        }
    }
}

static void stage1_of(enum owner who, enum granule granule) {
    owner = who;
    page = 1ull << granule;
    class = PMBSR_STAGE1(0);
    stage1 = (struct tables){granule, granule == KIB64 ? 1 : 0, S1_NORMAL | ACCESSED, ACCESSED, memory1, 0, 0, {0}};
    print("# %s, %u KiB\n", owner_names[who], (unsigned)(page / 1024));
    tables_build(&stage1);
    control((u64)memory1, 0);
    mmu(true);
    faults(&stage1);
    updates(&stage1);
    of_addresses();
    if (granule == KIB4) {
        external_abort();
        physical_pointers();
    }
    mmu(false);
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
}

/* --- Stage 2 --- */

static void walk_fault(u64 clear, u64 hcr, unsigned fsc, const char *kind) {
    u64 at = boundary(&stage1, 2), behind;
    tables_begin(&stage1);
    tables_begin(&stage2);
    table_map(&stage1, at - page, (u64)frames);
    table_map(&stage1, at, (u64)frames + page);
    volatile u64 *pointing = table_entry(&stage1, at, 2);
    u64 table = *pointing & 0x0000ffffffff0000ull;
    *pointing = WALK_IPA | VALID | TABLE; /* stage 1's last table, by an address of its own */
    table_map(&stage2, WALK_IPA, table);
    volatile u64 *leaf = table_entry(&stage2, WALK_IPA, 3);
    u64 good = *leaf;
    *leaf = good & ~clear;
    set_hcr(HCR_VM | hcr);
    start(at - FRONT, at + page);
    bool event = is_event(class | fsc, at, &behind);
    *leaf = good;
    ok(event && goes_on(at, behind), kind);
}

static void under_stage2(enum granule granule) {
    owner = GUEST;
    page = 1ull << granule;
    class = PMBSR_STAGE2(0);
    stage2 = (struct tables){granule, granule == KIB64 ? 2 : 1, S2_READ | S2_WRITE | S2_NORMAL | ACCESSED,
                             S2_READ | S2_WRITE | ACCESSED, memory2, 0, 0, {0}};
    stage1 = (struct tables){granule, granule == KIB64 ? 1 : 0, S1_NORMAL | ACCESSED, ACCESSED, memory1, 0, 0, {0}};
    print("# %s, %u KiB\n", owner_names[owner], (unsigned)(page / 1024));
    write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) | MDCR_E2PB);
    tables_build(&stage2);
    control2(0);
    set_hcr(HCR_VM);
    faults(&stage2);
    updates(&stage2);
    start(1ull << 39, (1ull << 39) + TABLE_SLOT);
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_STAGE2(0x04), "out of the range of stage 2: translation fault, level 0");
    print("# of the walk of stage 1\n");
    tables_build(&stage1);
    control((u64)memory1, 0);
    mmu(true);
    walk_fault(VALID, 0, 0x07, "translation fault");
    walk_fault(ACCESSED, 0, 0x0b, "Access flag fault");
    walk_fault(S2_READ, 0, 0x0f, "permission fault");
    walk_fault(S2_DEVICE_MASK, HCR_PTW, 0x0f, "tables in Device memory with HCR_EL2.PTW: permission fault");
    mmu(false);
    set_hcr(0);
    write_sysreg(PMBLIMITR_EL1, 0);
    write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) & ~MDCR_E2PB);
    isb();
}

int main(void) {
    id = spe_probe();
    if (current_el() == 3 || !id.usable)
        return tap_skip_all("needs a start at EL1 or EL2, and SPE");
    pmbidr = read_sysreg(PMBIDR_EL1);
    flags = FIELD(read_sysreg(id_aa64mmfr1_el1), 3, 0);
    u64 mmfr0 = read_sysreg(id_aa64mmfr0_el1);
    const enum granule granules[] = {KIB4, KIB16, KIB64};
    const bool there[] = {FIELD(mmfr0, 31, 28) < 8, FIELD(mmfr0, 23, 20) != 0, FIELD(mmfr0, 27, 24) < 8};
    bool vhe = FIELD(read_sysreg(id_aa64mmfr1_el1), 11, 8);
    write_sysreg(PMSCR_EL1, 0);
    if (current_el() == 2) {
        prepare_el2();
        prepare_el1();
        write_sysreg(PMSCR_EL2, 0);
        write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) & ~MDCR_E2PB);
        isb();
    }
    for (unsigned i = 0; i < ARRAY_SIZE(granules); i++) {
        if (!there[i])
            continue;
        if (current_el() == 1) {
            stage1_of(EL1_0, granules[i]);
            continue;
        }
        stage1_of(EL2_ONLY, granules[i]);
        if (vhe) {
            set_hcr(HCR_E2H | HCR_TGE);
            stage1_of(EL2_0, granules[i]);
            set_hcr(0);
        }
        under_stage2(granules[i]);
    }
    return tap_done();
}
