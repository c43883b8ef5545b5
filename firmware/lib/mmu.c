#include "mmu.h"

#define VALID BIT(0)
#define TABLE BIT(1) /* at level 3: page */
#define ATTR_INDEX(n) ((u64)(n) << 2)
#define AP_USER BIT(6)
#define AP_READ_ONLY BIT(7)
#define INNER_SHAREABLE (3ull << 8)
#define ACCESS_FLAG BIT(10)
#define PXN BIT(53)
#define UXN BIT(54)
#define ADDRESS_MASK 0x0000fffffffff000ull

enum { ATTR_DEVICE, ATTR_NORMAL };
#define MAIR (0x00ull << (8 * ATTR_DEVICE) | 0xffull << (8 * ATTR_NORMAL))

#define NORMAL (ATTR_INDEX(ATTR_NORMAL) | INNER_SHAREABLE | ACCESS_FLAG)

#define TABLES 48

static u64 tables[TABLES][512] __attribute__((aligned(4096)));
static unsigned tables_used;

static u64 *new_table(void) {
    if (tables_used == TABLES) {
        print("# out of page tables\n");
        exit_with(98);
    }
    return tables[tables_used++];
}

static u64 attributes(enum protection protection) {
    switch (protection) {
    case PROT_RX:
        return NORMAL | AP_READ_ONLY | UXN;
    case PROT_RO:
        return NORMAL | AP_READ_ONLY | UXN | PXN;
    case PROT_RW:
        return NORMAL | UXN | PXN;
    case PROT_USER_RX:
        return NORMAL | AP_USER | AP_READ_ONLY | PXN;
    case PROT_USER_RO:
        return NORMAL | AP_USER | AP_READ_ONLY | UXN | PXN;
    case PROT_USER_RW:
        return NORMAL | AP_USER | UXN | PXN;
    case PROT_DEVICE:
    default:
        return ATTR_INDEX(ATTR_DEVICE) | ACCESS_FLAG | UXN | PXN;
    }
}

static unsigned index_at(u64 va, int level) {
    return (va >> (12 + 9 * (3 - level))) & 511;
}

static void invalidate(u64 va) {
    dsb(ishst);
    asm volatile("tlbi vaae1is, %0" ::"r"(va >> 12 & 0xfffffffffffull) : "memory");
    dsb(ish);
    isb();
}

static void set(u64 *entry, u64 value, u64 va) {
    if (*(volatile u64 *)entry & VALID) {
        *(volatile u64 *)entry = 0;
        invalidate(va);
    }
    *(volatile u64 *)entry = value;
    dsb(ishst);
    isb();
}

/* The table that `entry` of level 1 or 2 points to; a block is split into pages of the same kind. */
static u64 *descend(u64 *entry, u64 va) {
    if (*entry & VALID && *entry & TABLE)
        return (u64 *)(*entry & ADDRESS_MASK);
    u64 *table = new_table();
    if (*entry & VALID)
        for (unsigned i = 0; i < 512; i++)
            table[i] = (*entry + i * PAGE) | TABLE;
    set(entry, (u64)table | VALID | TABLE, va);
    return table;
}

static u64 *page_entry(u64 va) {
    u64 *level2 = descend(&tables[0][index_at(va, 1)], va);
    u64 *level3 = descend(&level2[index_at(va, 2)], va);
    return &level3[index_at(va, 3)];
}

void map_page(u64 va, u64 pa, enum protection protection) {
    set(page_entry(va), pa | attributes(protection) | VALID | TABLE, va);
}

void map_page_unaccessed(u64 va, u64 pa, enum protection protection) {
    set(page_entry(va), (pa | attributes(protection) | VALID | TABLE) & ~ACCESS_FLAG, va);
}

void map_table(u64 va, u64 pa) {
    set(&tables[0][index_at(va, 1)], pa | VALID | TABLE, va);
}

void unmap_page(u64 va) {
    set(page_entry(va), 0, va);
}

static void map_blocks(u64 start, u64 end, enum protection protection) {
    for (u64 va = start; va < end; va += BLOCK) {
        u64 *level2 = descend(&tables[0][index_at(va, 1)], va);
        level2[index_at(va, 2)] = va | attributes(protection) | VALID;
    }
}

static void map_section(const char *start, const char *end, enum protection protection) {
    for (u64 va = (u64)start; va < (u64)end; va += PAGE)
        *page_entry(va) = va | attributes(protection) | VALID | TABLE;
}

static inline __attribute__((always_inline)) void translate(void) {
    u64 pa_range = FIELD(read_sysreg(id_aa64mmfr0_el1), 3, 0);
    if (pa_range > 5)
        pa_range = 5; /* 48 bits: 52 need other descriptors */
    write_sysreg(mair_el1, MAIR);
    write_sysreg(ttbr0_el1, tables[0]);
    write_sysreg(ttbr1_el1, 0);
    write_sysreg(tcr_el1, 25             /* T0SZ: 39 bits */
                              | 1 << 8   /* IRGN0: write-back */
                              | 1 << 10  /* ORGN0 */
                              | 3 << 12  /* SH0: inner */
                              | 25 << 16 /* T1SZ */
                              | 1 << 23  /* EPD1: no upper half */
                              | 2ull << 30 /* TG1: 4 KiB */
                              | pa_range << 32);
    dsb(ish);
    asm volatile("tlbi vmalle1" ::: "memory");
    dsb(ish);
    isb();
    write_sysreg(sctlr_el1, read_sysreg(sctlr_el1) | BIT(0) | BIT(2) | BIT(12)); /* M, C, I */
    isb();
}

void mmu_on(void) {
    if (!tables_used) {
        new_table();
        map_blocks(0x08000000, 0x0a200000, PROT_DEVICE); /* GIC to virtio */
        map_blocks(RAM_BASE, RAM_BASE + RAM_SIZE, PROT_RW);
        map_section(__image_base, __text_end, PROT_RX);
        map_section(__text_end, __user_text_start, PROT_RO);
        map_section(__user_text_start, __user_text_end, PROT_USER_RX);
        map_section(__user_data_start, __user_data_end, PROT_USER_RW);
    }
    translate();
}

void mmu_join(void) {
    translate();
}

void flush(u64 start, u64 end) {
    u64 line = 4ull << FIELD(read_sysreg(ctr_el0), 19, 16); /* DminLine */
    for (u64 va = start & -line; va < end; va += line)
        asm volatile("dc civac, %0" ::"r"(va) : "memory");
    dsb(sy);
}

void mmu_off(void) {
    flush((u64)__data_start, (u64)__image_end);
    write_sysreg(sctlr_el1, read_sysreg(sctlr_el1) & ~(BIT(0) | BIT(2) | BIT(12)));
    isb();
    asm volatile("tlbi vmalle1" ::: "memory");
    dsb(ish);
    isb();
}
