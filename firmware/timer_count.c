/* The system counter: frequency given, never going back, the same to the virtual and the physical view. */
#include "lib/mmu.h"

#define READS 1000
#define LOOPS 10000
#define TRIES 5

static u64 virtual_count(void) {
    isb();
    return read_sysreg(cntvct_el0);
}

static u64 physical_count(void) {
    isb();
    return read_sysreg(cntpct_el0);
}

static u64 user_result[2] USER_BSS;
static u8 user_stack[256] USER_BSS __attribute__((aligned(16)));

USER_TEXT static void user_reads(u64 *result) {
    result[0] = read_sysreg(cntvct_el0);
    isb();
    result[1] = read_sysreg(cntpct_el0);
    asm volatile("svc #0");
}

void on_exception(struct frame *frame) {
    if (ESR_EC(frame->esr) != EC_SVC)
        exit_with(99);
    el0_leave(0);
}

static u64 ticks_of(u64 loops) {
    u64 before = virtual_count();
    asm volatile("1: subs %0, %0, #1\n"
                 "   b.ne 1b"
                 : "+r"(loops)::"cc");
    return virtual_count() - before;
}

/* The least of some: on a busy host QEMU may stand still in the middle of one. */
static u64 least_ticks_of(u64 loops) {
    u64 least = ticks_of(loops);
    for (unsigned i = 1; i < TRIES; i++) {
        u64 ticks = ticks_of(loops);
        least = ticks < least ? ticks : least;
    }
    return least;
}

int main(void) {
    mmu_on();
    u64 frequency = read_sysreg(cntfrq_el0);
    ok(frequency >= 1000000, "CNTFRQ_EL0 is at least 1 MHz");

    bool forward = true, between = true;
    u64 first = virtual_count(), last = first;
    for (unsigned i = 0; i < READS; i++) {
        u64 physical = physical_count(), now = virtual_count(), later = physical_count();
        forward &= now >= last;
        between &= physical <= now && now <= later;
        last = now;
    }
    ok(forward, "CNTVCT_EL0 never goes back");
    ok(last > first, "and goes forward");
    ok(between, "CNTPCT_EL0 tells the same time");

    u64 ticks = least_ticks_of(LOOPS);
    ok(ticks > 0 && least_ticks_of(10 * LOOPS) > ticks, "longer work takes longer");

    u64 before = physical_count();
    el0_call((u64)user_reads, (u64)user_result, 0, (u64)user_stack + sizeof user_stack);
    ok(before <= user_result[0] && user_result[0] <= user_result[1] && user_result[1] <= physical_count(),
       "EL0 reads the same counters");
    return tap_done();
}
