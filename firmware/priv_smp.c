/* Four PEs: PSCI, atomic operations and order between PEs, interrupts from one to another, maintenance of TLBs
   and instruction caches that reaches all. */
#include "lib/gic.h"
#include "lib/smp.h"

#define COUNT 4
#define OTHERS (BIT(1) | BIT(2) | BIT(3))
#define ROUNDS 500

/* --- PSCI --- */

static void before_start(void) {
    is((u64)psci(PSCI_VERSION, 0, 0, 0), 0x10001, "PSCI_VERSION");
    is((u64)psci(PSCI_FEATURES, PSCI_CPU_ON, 0, 0), PSCI_SUCCESS, "PSCI_FEATURES of CPU_ON");
    is((u64)psci(PSCI_FEATURES, 0x8400001f, 0, 0), (u64)PSCI_NOT_SUPPORTED, "PSCI_FEATURES of what does not exist");
    is((u64)psci(0x8400001f, 0, 0, 0), (u64)PSCI_NOT_SUPPORTED, "a function that does not exist");
    is((u64)psci(PSCI_AFFINITY_INFO, 0, 0, 0), 0, "AFFINITY_INFO: PE 0 is on");
    for (unsigned i = 1; i < COUNT; i++)
        is((u64)psci(PSCI_AFFINITY_INFO, i, 0, 0), 1, "AFFINITY_INFO: another is off");
    is((u64)psci(PSCI_AFFINITY_INFO, 77, 0, 0), (u64)PSCI_INVALID_PARAMETERS, "AFFINITY_INFO of no PE");
    is((u64)psci(PSCI_CPU_ON, 77, 0x40080000, 0), (u64)PSCI_INVALID_PARAMETERS, "CPU_ON of no PE");
    is((u64)psci(PSCI_CPU_ON, 0, 0x40080000, 0), (u64)PSCI_ALREADY_ON, "CPU_ON of this PE");
}

static void start(void) {
    print("# start\n");
    for (unsigned i = 1; i < COUNT; i++) {
        is((u64)smp_start(i, 0x1000 + i), PSCI_SUCCESS, "CPU_ON");
        is(entries[i].context, 0x1000 + i, "X0 is the context");
        is(entries[i].level, 1, "at EL1");
        is(entries[i].sctlr & 1, 0, "with the MMU off");
        is(entries[i].daif, 0x3c0, "with everything masked");
        is(entries[i].mpidr & 0xff00ffffff, i, "MPIDR_EL1");
        is((u64)psci(PSCI_AFFINITY_INFO, i, 0, 0), 0, "AFFINITY_INFO: on");
        is((u64)psci(PSCI_CPU_ON, i, 0x40080000, 0), (u64)PSCI_ALREADY_ON, "CPU_ON again");
    }
}

/* --- Atomic operations --- */

static volatile u64 lock, counter;

static void exclusive_increments(unsigned index) {
    (void)index;
    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 one;
        u32 failed;
        asm volatile("1: ldaxr %0, [%3]\n cbnz %0, 1b\n mov %0, #1\n stlxr %w1, %0, [%3]\n cbnz %w1, 1b\n"
                     : "=&r"(one), "=&r"(failed), "+m"(lock)
                     : "r"(&lock)
                     : "memory");
        counter = counter + 1;
        asm volatile("stlr xzr, [%0]" ::"r"(&lock) : "memory");
    }
}

static void swap_increments(unsigned index) {
    (void)index;
    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 old;
        do
            asm volatile(".arch_extension lse\n swpa %1, %0, [%2]" : "=&r"(old) : "r"(1ull), "r"(&lock) : "memory");
        while (old);
        counter = counter + 1;
        asm volatile("stlr xzr, [%0]" ::"r"(&lock) : "memory");
    }
}

static void ldadd_increments(unsigned index) {
    (void)index;
    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 old;
        asm volatile(".arch_extension lse\n ldaddal %1, %0, [%2]" : "=&r"(old) : "r"(1ull), "r"(&counter) : "memory");
    }
}

static void cas_increments(unsigned index) {
    (void)index;
    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 seen = load_acquire(&counter), expected;
        do {
            expected = seen;
            asm volatile(".arch_extension lse\n casal %0, %1, [%2]"
                         : "+r"(seen)
                         : "r"(expected + 1), "r"(&counter)
                         : "memory");
        } while (seen != expected);
    }
}

static void exclusive_adds(unsigned index) {
    (void)index;
    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 value;
        u32 failed;
        asm volatile("1: ldxr %0, [%2]\n add %0, %0, #1\n stxr %w1, %0, [%2]\n cbnz %w1, 1b\n"
                     : "=&r"(value), "=&r"(failed)
                     : "r"(&counter)
                     : "memory");
    }
}

static volatile u64 turn;

static void take_turns(unsigned index) {
    for (u64 round = 0; round < 20; round++) {
        wait_for(&turn, round * COUNT + index);
        counter = counter * 3 + index; /* depends on the order */
        store_release(&turn, round * COUNT + index + 1);
    }
}

static volatile u64 phase;
static u64 monitor_failed;

/* Another PE stores between LDXR and STXR. */
static void disturb(unsigned index) {
    if (index == 1) {
        wait_for(&phase, 1);
        counter = 0x55;
        store_release(&phase, 2);
    } else if (index == 0) {
        u32 failed;
        u64 value;
        asm volatile("ldxr %0, [%2]\n"
                     "mov %0, #1\n"
                     "stlr %0, [%3]\n"
                     "sev\n"
                     "1: ldar %0, [%3]\n"
                     "cmp %0, #2\n"
                     "b.ne 1b\n"
                     "stxr %w1, %0, [%2]\n"
                     : "=&r"(value), "=&r"(failed)
                     : "r"(&counter), "r"(&phase)
                     : "memory", "cc");
        monitor_failed = failed;
    }
}

static void atomics(void) {
    print("# atomic operations\n");
    static const struct {
        const char *name;
        void (*f)(unsigned);
    } tests[] = {
        {"a lock by LDAXR and STLXR", exclusive_increments},
        {"a lock by SWPA", swap_increments},
        {"LDADDAL", ldadd_increments},
        {"CASAL", cas_increments},
        {"LDXR and STXR", exclusive_adds},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        counter = 0;
        on_all(COUNT, tests[i].f);
        is(counter, COUNT * ROUNDS, tests[i].name);
    }
    u64 expected = 0;
    for (unsigned i = 0; i < 20 * COUNT; i++)
        expected = expected * 3 + i % COUNT;
    counter = turn = 0;
    on_all(COUNT, take_turns);
    is(counter, expected, "turns by LDAR, STLR, WFE and SEV");
    counter = 0xaa;
    phase = 0;
    on_all(2, disturb);
    is(monitor_failed, 1, "STXR fails after another PE's store");
    is(counter, 0x55, "and stores nothing");
}

/* --- Interrupts --- */

static volatile u64 taken_by[COUNT], last[COUNT];

void on_interrupt(struct trap *trap) {
    unsigned self = pe();
    (void)trap;
    u64 intid = read_sysreg(icc_iar1_el1);
    if (intid == PPI_EL1_VIRTUAL)
        write_sysreg(cntv_ctl_el0, 0);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
    last[self] = intid;
    store_release(&taken_by[self], taken_by[self] + 1);
}

#define SGI 6
#define SPI 50

static void set_up_gic(unsigned index) {
    if (index)
        gic_init_pe();
    gic_set_up(SGI, 1, 0x80, true);
    for (unsigned i = 8; i < 8 + COUNT; i++)
        gic_set_up(i, 1, 0x80, true);
    gic_set_up(PPI_EL1_VIRTUAL, 1, 0x80, false);
}

/* Lets interrupts in until one more was taken. */
static void await_interrupt(unsigned index) {
    u64 before = taken_by[index];
    while (taken_by[index] == before)
        asm volatile("wfi\n msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
}

static void send_to_0(unsigned index) {
    gic_sgi(8 + index, 1);
}

static void own_timer(unsigned index) {
    write_sysreg(cntv_tval_el0, 1000 * (index + 1));
    write_sysreg(cntv_ctl_el0, 1);
    isb();
    await_interrupt(index);
}

static void pend_own_ppi(unsigned index) {
    gic_pend(PPI_EL1_VIRTUAL);
    await_interrupt(index);
}

static void wait_here(unsigned index) {
    await_interrupt(index);
}

static u64 total(void) {
    u64 sum = 0;
    for (unsigned i = 0; i < COUNT; i++)
        sum += taken_by[i];
    return sum;
}

static void reset_counts(void) {
    for (unsigned i = 0; i < COUNT; i++)
        taken_by[i] = last[i] = 0;
    dsb(ish);
}

/* As on_others() for one PE; meanwhile this one interrupts it. */
static void interrupt_one(unsigned index, void (*send)(unsigned)) {
    reset_counts();
    send(index);
    on_others(BIT(index), wait_here);
}

static void send_sgi(unsigned index) {
    gic_sgi(SGI, BIT(index));
}

static void send_spi(unsigned index) {
    gic_route(SPI, index);
    gic_pend(SPI);
}

static void interrupts(void) {
    print("# interrupts\n");
    gic_init();
    on_all(COUNT, set_up_gic);
    gic_set_up(SPI, 1, 0x80, true);
    for (unsigned i = 1; i < COUNT; i++) {
        interrupt_one(i, send_sgi);
        is(last[i], SGI, "an SGI to one other PE");
        is(total(), 1, "and to no more");
        interrupt_one(i, send_spi);
        is(last[i], SPI, "an SPI routed to one other PE");
        is(total(), 1, "and to no more");
    }
    reset_counts();
    write_sysreg(icc_sgi1r_el1, BIT(40) | (u64)SGI << 24); /* IRM: all but this one */
    isb();
    on_others(OTHERS, wait_here);
    is(total(), COUNT - 1, "an SGI to all others");
    is(taken_by[0], 0, "and not to oneself");
    for (unsigned i = 1; i < COUNT; i++) {
        reset_counts();
        on_others(BIT(i), send_to_0);
        await_interrupt(0);
        is(last[0], 8 + i, "an SGI from another PE");
    }
    reset_counts();
    on_all(COUNT, own_timer);
    for (unsigned i = 0; i < COUNT; i++)
        is(taken_by[i], 1, "a PE's timer interrupts that PE");
    for (unsigned i = 1; i < COUNT; i++) {
        reset_counts();
        on_others(BIT(i), pend_own_ppi);
        is(taken_by[i], 1, "a PPI made pending in its redistributor");
        is(total(), 1, "is its own");
    }
}

/* --- Translation and instruction caches --- */

#define WINDOW 0x44000000ull
#define CODE (WINDOW + PAGE)

static u64 pages[2][512] __attribute__((aligned(4096)));
static u32 code[1024] __attribute__((aligned(4096)));
static volatile u64 seen[COUNT];

static void look(unsigned index) {
    seen[index] = *(volatile u64 *)WINDOW;
}

static void run_code(unsigned index) {
    isb();
    seen[index] = ((u64(*)(void))CODE)();
}

static bool all_saw(u64 value) {
    for (unsigned i = 0; i < COUNT; i++)
        if (seen[i] != value)
            return false;
    return true;
}

static void patch(u32 value) {
    code[0] = 0xd2800000 | value << 5; /* MOV X0, #value */
    code[1] = 0xd65f03c0; /* RET */
    asm volatile("dc cvau, %0\n dsb ish\n ic ivau, %1\n dsb ish\n isb" ::"r"(code), "r"(CODE) : "memory");
}

static unsigned faults[COUNT];

void on_trap(struct trap *trap) {
    faults[pe()]++;
    trap->elr += 4;
}

static void maintenance(void) {
    print("# maintenance\n");
    pages[0][0] = 0x1111;
    pages[1][0] = 0x2222;
    for (unsigned round = 0; round < 4; round++) {
        map_page(WINDOW, (u64)pages[round % 2], PROT_RW);
        on_all(COUNT, look);
        ok(all_saw(round % 2 ? 0x2222 : 0x1111), "a page mapped elsewhere by one PE is found there by all");
    }
    unmap_page(WINDOW);
    on_all(COUNT, look);
    for (unsigned i = 0; i < COUNT; i++)
        is(faults[i], 1, "a page that is gone is gone for all");
    map_page(CODE, (u64)code, PROT_RX);
    for (u32 round = 0; round < 4; round++) {
        patch(100 + round);
        on_all(COUNT, run_code);
        ok(all_saw(100 + round), "code patched by one PE is what all execute");
    }
}

/* --- Off and on --- */

static void off_and_on(void) {
    print("# off and on\n");
    for (unsigned i = 1; i < COUNT; i++)
        on_others(BIT(i), smp_off);
    for (unsigned i = 1; i < COUNT; i++) {
        while (psci(PSCI_AFFINITY_INFO, i, 0, 0) != 1) {
        }
        ok(true, "AFFINITY_INFO: off");
    }
    is((u64)smp_start(2, 0x2002), PSCI_SUCCESS, "CPU_ON of one");
    is(entries[2].context, 0x2002, "with another context");
    is(entries[2].sctlr & 1, 0, "its MMU is off again");
    is((u64)psci(PSCI_AFFINITY_INFO, 2, 0, 0), 0, "it is on");
    is((u64)psci(PSCI_AFFINITY_INFO, 1, 0, 0), 1, "another is not");
    counter = 0;
    on_others(BIT(2), exclusive_adds);
    is(counter, ROUNDS, "it works");
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    if ((u64)psci(PSCI_AFFINITY_INFO, COUNT - 1, 0, 0) == (u64)PSCI_INVALID_PARAMETERS)
        return tap_skip_all("needs four PEs");
    mmu_on();
    before_start();
    start();
    atomics();
    interrupts();
    maintenance();
    off_and_on();
    return tap_done();
}
