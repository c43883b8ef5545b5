#include "mmu.h"
#include "tables.h"

unsigned table_shift(const struct tables *t, int level) {
    return t->granule + (3 - level) * (t->granule - 3);
}

volatile u64 *table_entry(struct tables *t, u64 address, int level) {
    u64 *table = (u64 *)t->memory;
    for (int above = t->start;; above++) {
        u64 index = address >> table_shift(t, above);
        if (above > t->start)
            index &= (1ull << (t->granule - 3)) - 1;
        if (above == level)
            return &table[index];
        if (!(table[index] & VALID)) {
            if (t->used == TABLE_SLOTS) {
                print("# out of tables\n");
                exit_with(98);
            }
            t->made[t->used] = &table[index];
            table[index] = (u64)(t->memory + TABLE_SLOT * t->used++) | VALID | TABLE;
        }
        table = (u64 *)(table[index] & 0x0000ffffffff0000ull);
    }
}

void table_map(struct tables *t, u64 address, u64 output) {
    *table_entry(t, address, 3) = output | t->normal | VALID | TABLE;
}

static void map_blocks(struct tables *t, u64 begin, u64 end, u64 attributes) {
    u64 size = 1ull << table_shift(t, 2);
    for (u64 address = begin & -size; address < end; address += size)
        *table_entry(t, address, 2) = address | attributes | VALID;
}

void tables_build(struct tables *t) {
    memset(t->memory, 0, TABLE_SLOTS * TABLE_SLOT);
    t->used = 1;
    map_blocks(t, 0x08000000, 0x0a000000, t->device);
    map_blocks(t, RAM_BASE, RAM_BASE + RAM_SIZE, t->normal);
    t->fixed = t->used;
}

void tables_begin(struct tables *t) {
    while (t->used > t->fixed) {
        *t->made[--t->used] = 0;
        memset(t->memory + TABLE_SLOT * t->used, 0, 1ull << t->granule);
    }
}
