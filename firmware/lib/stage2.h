/* Stage 2 for a guest at EL1, written at EL2: 39-bit IPAs, 4 KiB granule, RAM and devices one to one. */
#pragma once

#include "mmu.h"

#define HCR_VM BIT(0)
#define HCR_PTW BIT(2)

#define S2_READ BIT(6)
#define S2_WRITE BIT(7)
#define S2_XN BIT(54)
#define S2_ACCESSED BIT(10)
#define S2_NORMAL (5ull << 2 | 3ull << 8) /* Non-cacheable, as EL2 with its MMU off reads past the caches */
#define S2_DEVICE 0ull
#define S2_RWX (S2_READ | S2_WRITE | S2_ACCESSED | S2_NORMAL)

/* Tables, VTCR_EL2, and VTTBR_EL2 with VMID 0. HCR_EL2.VM is the caller's. */
void stage2_init(void);
/* One page; with the break and the invalidations that it needs. */
void stage2_map(u64 ipa, u64 pa, u64 attributes);
void stage2_unmap(u64 ipa);
/* All that the current VMID has in the TLBs. */
void stage2_invalidate(void);
/* VTTBR_EL2's address. */
u64 stage2_root(void);
