/* The Performance Monitors as far as QEMU has them: cycle counter, software increments, overflow interrupt, and, where
   time is counted in instructions (-icount), these. Starts at EL1. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/pmu.h"

#define NARROW 0x100000000ull
#define LOW(value) FIELD(value, 31, 0)

static volatile unsigned interrupts;
static u64 interrupt_flags;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    (void)trap;
    if (intid != PPI_PMU || ++interrupts > 20) {
        print("# interrupt %lu, number %u\n", intid, interrupts);
        exit_with(96);
    }
    interrupt_flags = read_sysreg(pmovsset_el0);
    write_sysreg(pmovsclr_el0, interrupt_flags);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

#define unmask() asm volatile("msr daifclr, #2\n isb" ::: "memory")
#define mask() asm volatile("msr daifset, #2\n isb" ::: "memory")

static void begin(u64 type) {
    pmu_stop();
    pmu_set_type(0, type);
    pmu_set_type(1, type);
    write_sysreg(pmccfiltr_el0, 0);
    pmu_set_count(0, 0);
    pmu_set_count(1, 0);
    pmu_set_count(31, 0);
    write_sysreg(pmcr_el0, PMCR_E);
    isb();
}

static void software_increments(void) {
    print("# SW_INCR\n");
    begin(SW_INCR);
    write_sysreg(pmcntenset_el0, 1);
    for (unsigned n = 0; n < 7; n++)
        write_sysreg(pmswinc_el0, 3);
    is(LOW(pmu_count(0)), 7, "each write counts");
    is(LOW(pmu_count(1)), 0, "not in a counter that is disabled");
    write_sysreg(pmswinc_el0, 2);
    is(LOW(pmu_count(0)), 7, "nor where its bit is 0");
    write_sysreg(pmcr_el0, 0);
    write_sysreg(pmswinc_el0, 1);
    is(LOW(pmu_count(0)), 7, "nor while PMCR_EL0.E is 0");
    write_sysreg(pmcr_el0, PMCR_E | PMCR_P);
    is(LOW(pmu_count(0)), 0, "PMCR_EL0.P zeroes it");
    pmu_set_type(0, SW_INCR | PMEVTYPER_P);
    write_sysreg(pmswinc_el0, 1);
    is(LOW(pmu_count(0)), 0, "filtered at EL1");
    write_sysreg(pmselr_el0, 1);
    isb();
    write_sysreg(pmxevcntr_el0, 99);
    is(LOW(pmu_count(1)), 99, "PMXEVCNTR_EL0 is the selected counter");
    is(read_sysreg(pmxevtyper_el0) & 0xffff, SW_INCR, "PMXEVTYPER_EL0 its type");
}

static void overflow(void) {
    print("# overflow\n");
    begin(SW_INCR);
    pmu_set_count(0, NARROW - 2);
    write_sysreg(pmcntenset_el0, 1);
    write_sysreg(pmintenset_el1, 1);
    interrupts = 0;
    unmask();
    write_sysreg(pmswinc_el0, 1);
    isb();
    is(interrupts, 0, "not yet");
    write_sysreg(pmswinc_el0, 1);
    isb();
    is(interrupts, 1, "PPI 23 at the overflow");
    is(interrupt_flags, 1, "PMOVSSET_EL0 says by whom");
    is(LOW(pmu_count(0)), 0, "the counter goes on from 0");
    is(read_sysreg(pmovsset_el0), 0, "the handler has cleared the flag");
    mask();
    pmu_set_count(0, NARROW - 1);
    write_sysreg(pmswinc_el0, 1);
    isb();
    ok(gic_is_pending(PPI_PMU), "masked it is pending");
    write_sysreg(pmintenclr_el1, 1);
    isb();
    ok(!gic_is_pending(PPI_PMU), "not without PMINTENSET_EL1");
    write_sysreg(pmintenset_el1, 1);
    isb();
    ok(gic_is_pending(PPI_PMU), "again with it");
    write_sysreg(pmovsclr_el0, 1);
    isb();
    ok(!gic_is_pending(PPI_PMU), "not with the flag cleared");
}

static void cycles(void) {
    print("# cycles\n");
    begin(SW_INCR);
    write_sysreg(pmcntenset_el0, PM_CYCLES);
    isb();
    u64 first = pmu_count(31);
    for (volatile unsigned n = 0; n < 1000; n++) {
    }
    u64 second = pmu_count(31);
    ok(second > first, "they pass");
    write_sysreg(pmcntenclr_el0, PM_CYCLES);
    isb();
    first = pmu_count(31);
    is(pmu_count(31), first, "disabled the counter stands");
    write_sysreg(pmccfiltr_el0, PMEVTYPER_P);
    write_sysreg(pmcntenset_el0, PM_CYCLES);
    isb();
    is(pmu_count(31), first, "filtered at EL1 too");
    write_sysreg(pmcr_el0, PMCR_E | PMCR_C);
    isb();
    is(pmu_count(31), 0, "PMCR_EL0.C zeroes it");
    write_sysreg(pmccfiltr_el0, 0);
    interrupts = 0;
    pmu_set_count(31, -2000ull);
    write_sysreg(pmintenset_el1, PM_CYCLES);
    unmask();
    for (volatile unsigned n = 0; n < 100000 && !interrupts; n++) {
    }
    mask();
    is(interrupts, 1, "its overflow interrupts");
    is(interrupt_flags, PM_CYCLES, "PMOVSSET_EL0.C");
}

/* 3 * turns + 1 operations, between two reads of counter 0. */
u64 counted(u64 turns);
asm("    .text\n"
    "    .global counted\n"
    "    .type counted, %function\n"
    "counted:\n"
    "    mrs x1, pmevcntr0_el0\n"
    "1:  add x2, x2, #1\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    mrs x2, pmevcntr0_el0\n"
    "    sub x0, x2, x1\n"
    "    ret\n"
    "    .size counted, . - counted\n");

static void instructions(void) {
    print("# instructions\n");
    ok(read_sysreg(pmceid0_el0) >> INST_RETIRED & 1, "INST_RETIRED is listed");
    begin(INST_RETIRED);
    write_sysreg(pmcntenset_el0, 1);
    isb();
    for (u64 turns = 1; turns <= 10000; turns *= 10)
        is(counted(turns), 3 * turns + 1, "as many as there are between two reads");
    write_sysreg(pmcntenclr_el0, 1);
    isb();
    is(counted(1000), 0, "none while it is disabled");
    begin(INST_RETIRED);
    pmu_set_count(0, NARROW - 5000);
    write_sysreg(pmcntenset_el0, 1);
    isb();
    counted(1000);
    is(read_sysreg(pmovsset_el0), 0, "no overflow");
    counted(1000);
    is(read_sysreg(pmovsset_el0), 1, "and then one");
}

u64 reads_cycles(u64 a, u64 b);
asm("    .section .user.text, \"ax\"\n"
    "    .type reads_cycles, %function\n"
    "reads_cycles:\n"
    "    mrs x0, pmccntr_el0\n"
    "    ret\n"
    "    .size reads_cycles, . - reads_cycles\n"
    "    .text\n");

static void from_el0(void) {
    print("# EL0\n");
    begin(SW_INCR);
    write_sysreg(pmuserenr_el0, 0);
    isb();
    call_at(EL0T, reads_cycles, 0, 0);
    is_trap(1, FROM_LOWER(VECTOR_SYNC), 0x6230e41b, "PMUSERENR_EL0 is 0: MRS X0, PMCCNTR_EL0 is trapped");
    write_sysreg(pmuserenr_el0, BIT(2));
    isb();
    call_at(EL0T, reads_cycles, 0, 0);
    is_no_trap("CR: it reads");
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("starts at EL1");
    if (pmu_version() < PMUV3)
        return tap_skip_all("needs the Performance Monitors");
    pmu_interrupts();
    gic_init();
    gic_set_up(PPI_PMU, 1, 0x80, false);
    software_increments();
    overflow();
    cycles();
    instructions();
    from_el0();
    return tap_done();
}
