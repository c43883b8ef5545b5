#include "smp.h"

#define STACK 8192

struct entry_state entries[PES];

static u8 stacks[PES][STACK] __attribute__((aligned(16)));
static volatile u64 ready[PES];
static volatile u64 asked[PES], done[PES]; /* jobs, counted */
static void (*volatile job[PES])(unsigned);

extern char smp_entry[];

int64_t psci(u64 call, u64 a, u64 b, u64 c) {
    register u64 x0 asm("x0") = call;
    register u64 x1 asm("x1") = a;
    register u64 x2 asm("x2") = b;
    register u64 x3 asm("x3") = c;
    asm volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)::"memory");
    return (int64_t)x0;
}

unsigned pe(void) {
    return read_sysreg(mpidr_el1) & 0xff;
}

/* For smp_entry. */
u64 smp_stacks = (u64)stacks;

void smp_main(u64 context, u64 sctlr, u64 daif) {
    mmu_join();
    unsigned index = pe();
    entries[index] = (struct entry_state){context, current_el(), sctlr, daif, read_sysreg(mpidr_el1)};
    store_release(&ready[index], 1);
    for (u64 number = 1;; number++) {
        wait_for(&asked[index], number);
        job[index](index);
        store_release(&done[index], number);
    }
}

int64_t smp_start(unsigned index, u64 context) {
    ready[index] = asked[index] = done[index] = 0;
    dsb(ish);
    int64_t result = psci(PSCI_CPU_ON, index, (u64)smp_entry, context);
    if (result == PSCI_SUCCESS)
        wait_for(&ready[index], 1);
    return result;
}

static void ask(unsigned index, void (*f)(unsigned)) {
    job[index] = f;
    store_release(&asked[index], asked[index] + 1);
}

void on_others(unsigned mask, void (*f)(unsigned index)) {
    for (unsigned i = 0; i < PES; i++)
        if (mask >> i & 1)
            ask(i, f);
    for (unsigned i = 0; i < PES; i++)
        if (mask >> i & 1)
            wait_for(&done[i], asked[i]);
}

void on_all(unsigned count, void (*f)(unsigned index)) {
    for (unsigned i = 1; i < count; i++)
        ask(i, f);
    f(0);
    for (unsigned i = 1; i < count; i++)
        wait_for(&done[i], asked[i]);
}

void smp_off(unsigned index) {
    store_release(&done[index], asked[index]);
    psci(PSCI_CPU_OFF, 0, 0, 0);
}
