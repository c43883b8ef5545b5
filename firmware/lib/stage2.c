#include "stage2.h"

#define VALID BIT(0)
#define TABLE BIT(1) /* at level 3: page */
#define ADDRESS_MASK 0x0000fffffffff000ull
#define TABLES 16

static u64 tables[TABLES][512] __attribute__((aligned(4096)));
static unsigned tables_used;

static u64 *new_table(void) {
    if (tables_used == TABLES) {
        print("# out of stage 2 tables\n");
        exit_with(98);
    }
    return tables[tables_used++];
}

u64 stage2_root(void) {
    return (u64)tables[0];
}

void stage2_invalidate(void) {
    dsb(ishst);
    asm volatile("tlbi vmalls12e1is" ::: "memory");
    dsb(ish);
    isb();
}

static void invalidate(u64 ipa) {
    dsb(ishst);
    asm volatile("tlbi ipas2e1is, %0" ::"r"(ipa >> 12) : "memory");
    dsb(ish);
    asm volatile("tlbi vmalle1is" ::: "memory");
    dsb(ish);
    isb();
}

static void set(u64 *entry, u64 value, u64 ipa) {
    if (*(volatile u64 *)entry & VALID) {
        *(volatile u64 *)entry = 0;
        invalidate(ipa);
    }
    *(volatile u64 *)entry = value;
    dsb(ishst);
    isb();
}

/* A block is split into pages of the same kind. */
static u64 *descend(u64 *entry, u64 ipa) {
    if (*entry & VALID && *entry & TABLE)
        return (u64 *)(*entry & ADDRESS_MASK);
    u64 *table = new_table();
    if (*entry & VALID)
        for (unsigned i = 0; i < 512; i++)
            table[i] = (*entry + i * PAGE) | TABLE;
    set(entry, (u64)table | VALID | TABLE, ipa);
    return table;
}

static u64 *page_entry(u64 ipa) {
    u64 *level2 = descend(&tables[0][ipa >> 30 & 511], ipa);
    u64 *level3 = descend(&level2[ipa >> 21 & 511], ipa);
    return &level3[ipa >> 12 & 511];
}

void stage2_map(u64 ipa, u64 pa, u64 attributes) {
    set(page_entry(ipa), pa | attributes | VALID | TABLE, ipa);
}

void stage2_unmap(u64 ipa) {
    set(page_entry(ipa), 0, ipa);
}

static void map_blocks(u64 start, u64 end, u64 attributes) {
    for (u64 ipa = start; ipa < end; ipa += BLOCK) {
        u64 *level2 = descend(&tables[0][ipa >> 30 & 511], ipa);
        level2[ipa >> 21 & 511] = ipa | attributes | VALID;
    }
}

void stage2_init(void) {
    new_table();
    map_blocks(0x08000000, 0x0a200000, S2_READ | S2_WRITE | S2_XN | S2_ACCESSED | S2_DEVICE);
    map_blocks(RAM_BASE, RAM_BASE + RAM_SIZE, S2_RWX);
    u64 pa_range = FIELD(read_sysreg(id_aa64mmfr0_el1), 3, 0);
    if (pa_range > 2)
        pa_range = 2; /* 40 bits */
    write_sysreg(vtcr_el2, BIT(31)          /* RES1 */
                               | 25         /* T0SZ: 39 bits */
                               | 1 << 6     /* SL0: level 1 */
                               | 1 << 8     /* IRGN0 */
                               | 1 << 10    /* ORGN0 */
                               | 3 << 12    /* SH0 */
                               | pa_range << 16);
    write_sysreg(vttbr_el2, tables[0]);
    isb();
    stage2_invalidate();
}
