/* Further PEs by PSCI, at EL1: each takes the same page tables and its own stack, and does jobs. */
#pragma once

#include "el.h"

#define PES 8

#define PSCI_VERSION 0x84000000
#define PSCI_CPU_OFF 0x84000002
#define PSCI_CPU_ON 0xc4000003
#define PSCI_AFFINITY_INFO 0xc4000004
#define PSCI_SYSTEM_OFF 0x84000008
#define PSCI_FEATURES 0x8400000a

#define PSCI_SUCCESS 0
#define PSCI_NOT_SUPPORTED -1
#define PSCI_INVALID_PARAMETERS -2
#define PSCI_ALREADY_ON -4

/* By HVC. */
int64_t psci(u64 call, u64 a, u64 b, u64 c);

/* How a PE found itself at its entry. */
struct entry_state {
    u64 context, level, sctlr, daif, mpidr;
};
extern struct entry_state entries[PES];

unsigned pe(void); /* Aff0 */
/* CPU_ON, until the PE waits for jobs. Its context is `context`. */
int64_t smp_start(unsigned index, u64 context);
/* Starts f(index) on PEs 1 to count - 1, runs it here, and waits for all. */
void on_all(unsigned count, void (*f)(unsigned index));
/* The same for the PEs named by bits, not this one. */
void on_others(unsigned mask, void (*f)(unsigned index));
/* A job that ends the PE. */
void smp_off(unsigned index);

static inline u64 load_acquire(volatile u64 *p) {
    u64 value;
    asm volatile("ldar %0, [%1]" : "=r"(value) : "r"(p) : "memory");
    return value;
}
static inline void store_release(volatile u64 *p, u64 value) {
    asm volatile("stlr %0, [%1]\n dsb ish\n sev" ::"r"(value), "r"(p) : "memory");
}
static inline void wait_for(volatile u64 *p, u64 value) {
    while (load_acquire(p) != value)
        asm volatile("wfe" ::: "memory");
}
