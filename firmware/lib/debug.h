/* Self-hosted debug: registers, and whom they are for at the level where a program runs. */
#pragma once

#include "el.h"

#define MDSCR_SS BIT(0)
#define MDSCR_KDE BIT(13)
#define MDSCR_MDE BIT(15)
#define MDCR_TDE BIT(8)
#define PSR_SS BIT(21)
#define IL BIT(25)
#define DEBUG_ISS 0x22
#define EC_BREAKPOINT 0x30
#define EC_STEP 0x32
#define EC_WATCHPOINT 0x34
#define EC_BRK 0x3c
#define ESR(ec, iss) ((u64)(ec) << 26 | IL | (iss))

#define ENABLED BIT(0)
#define PRIVILEGE(n) ((u64)(n) << 1) /* PMC and PAC: 1 EL1, 2 EL0 */
#define EL2_ALONE (BIT(13) | 3 << 14) /* HMC, SSC */
#define BYTES(mask) ((u64)(mask) << 5)
#define LOADS (1 << 3)
#define STORES (2 << 3)
#define LINKED_WATCHPOINT BIT(20)
#define LINK(n) ((u64)(n) << 16)
#define TYPE(n) ((u64)(n) << 20)
#define MASK(n) ((u64)(n) << 24)

/* The level of the reset, as breakpoints and watchpoints name it. */
static inline u64 own_level(void) {
    return current_el() == 2 ? EL2_ALONE : PRIVILEGE(1);
}

/* Whether a debug exception was taken to the level of the reset, with these bits of ISS. */
static inline bool is_debug(unsigned vector, unsigned ec, u64 iss, const char *name) {
    bool lower = vector == FROM_LOWER(VECTOR_SYNC);
    return is_trap(current_el(), vector, ESR(ec + !lower, iss | DEBUG_ISS), name);
}

static inline void mask_debug(void) {
    asm volatile("msr daifset, #8\n isb" ::: "memory");
}

static inline void unmask_debug(void) {
    asm volatile("msr daifclr, #8\n isb" ::: "memory");
}

/* Open the OS lock, and have EL2 take debug exceptions where it is the level of the reset. */
static inline void debug_on(u64 mdscr) {
    mask_debug();
    write_sysreg(oslar_el1, 0);
    if (current_el() == 2)
        write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) | MDCR_TDE);
    write_sysreg(mdscr_el1, mdscr);
    isb();
}
