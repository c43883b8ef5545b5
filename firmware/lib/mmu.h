/* Stage 1 of EL1&0: TTBR0, 39-bit addresses, 4 KiB granule, RAM mapped one to one. */
#pragma once

#include "firmware.h"

#define PAGE 4096ull
#define BLOCK 0x200000ull /* what a level 2 descriptor maps */
#define RAM_BASE 0x40000000ull
#define RAM_SIZE 0x08000000ull

enum protection {
    PROT_RX, /* text of EL1 */
    PROT_RO,
    PROT_RW, /* never executable */
    PROT_DEVICE, /* Device-nGnRnE, never executable */
    PROT_USER_RX,
    PROT_USER_RO,
    PROT_USER_RW,
};

/* Builds the tables, once: the image by its sections, the other RAM as data, the devices below it. */
void mmu_on(void);
/* For a further PE: by the tables that mmu_on() has built. Reads no memory while the MMU is off, which would be past the
   caches, where another PE's writes may be. */
void mmu_join(void);
/* What the image has stored is in memory then; other RAM is the caller's to flush(). */
void mmu_off(void);
/* Cleans and invalidates to the Point of Coherency what caches hold of [start, end). */
void flush(u64 start, u64 end);

/* Each of these follows break-before-make, and splits or creates tables as needed. */
void map_page(u64 va, u64 pa, enum protection protection);
void unmap_page(u64 va);
/* As map_page(), with the Access flag clear. */
void map_page_unaccessed(u64 va, u64 pa, enum protection protection);

/* The level 2 table of the GiB at `va` is said to lie at `pa`, which need not be memory. */
void map_table(u64 va, u64 pa);

/* Sections, from the linker script. */
extern char __image_base[], __text_end[], __user_text_start[], __user_text_end[], __data_start[],
    __user_data_start[], __user_data_end[], __image_end[], __heap_start[];
