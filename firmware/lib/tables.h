/* Translation tables of any granule, of stage 1 or stage 2, down to level 3 where something is mapped by pages. */
#pragma once

#include "firmware.h"

enum granule { KIB4 = 12, KIB16 = 14, KIB64 = 16 };

#define VALID BIT(0)
#define TABLE BIT(1) /* at level 3: page */
#define ACCESSED BIT(10)
#define DBM BIT(51)
#define S1_READ_ONLY BIT(7)
#define S1_AP_TABLE_READ_ONLY BIT(62)
#define S1_NORMAL (1ull << 2 | 3ull << 8)
#define S2_READ BIT(6)
#define S2_WRITE BIT(7)
#define S2_NORMAL (0xfull << 2 | 3ull << 8)
#define S2_DEVICE_MASK (0xfull << 2)
#define MAIR 0xff00ull /* 0: Device-nGnRnE, 1: Normal */

#define TABLE_SLOT 0x10000ull /* bytes for a table: the largest granule */
#define TABLE_SLOTS 12

struct tables {
    enum granule granule;
    int start; /* level */
    u64 normal, device; /* attributes of leaves */
    u8 *memory; /* TABLE_SLOTS times TABLE_SLOT bytes, aligned to one */
    unsigned used, fixed; /* slots; those in use and mapped for good */
    volatile u64 *made[TABLE_SLOTS]; /* what points to each slot */
};

/* How many address bits lie below the index of a level. */
unsigned table_shift(const struct tables *t, int level);
/* The descriptor of an address at a level; tables above it are made as needed. */
volatile u64 *table_entry(struct tables *t, u64 address, int level);
/* One page. */
void table_map(struct tables *t, u64 address, u64 output);
/* RAM and devices one to one. Not while these tables are in use. */
void tables_build(struct tables *t);
/* Nothing but that. */
void tables_begin(struct tables *t);
