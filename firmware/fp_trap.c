/* Floating point switched on when it is first used, as an operating system may do: the trap, its
   syndrome, and the instruction again. */
#include "lib/mmu.h"

#define FPEN_NONE (0ull << 20)
#define FPEN_EL1 (1ull << 20)
#define FPEN_ALL (3ull << 20)
#define FP_TRAPPED 0x1fe00000 /* EC 0x07, IL, CV, COND 0b1110 */

static u64 results[2] USER_BSS;
static u8 user_stack[256] USER_BSS __attribute__((aligned(16)));

static unsigned traps;
static struct frame caught;

void on_exception(struct frame *frame) {
    if (ESR_EC(frame->esr) == EC_SVC)
        el0_leave(0);
    if (ESR_EC(frame->esr) != EC_FP) {
        print("unexpected exception: ESR 0x%lx, ELR 0x%lx\n", frame->esr, frame->elr);
        exit_with(99);
    }
    traps++;
    caught = *frame;
    frame->cpacr = FPEN_ALL; /* as it is from the return on */
}

/* 1.5 + 2 and 1.5 * 2, as bit patterns, without anything but the first instruction trapping. */
asm(".macro sum_and_product name, leave:vararg\n"
    "    .global \\name, \\name\\()_at\n"
    "    .type \\name, %function\n"
    "\\name:\n"
    "\\name\\()_at:\n"
    "    fmov d0, #1.5\n"
    "    fmov d1, #2.0\n"
    "    fadd d2, d0, d1\n"
    "    fmul d3, d0, d1\n"
    "    stp d2, d3, [x0]\n"
    "    \\leave\n"
    "    .size \\name, . - \\name\n"
    ".endm\n"
    "    .text\n"
    "    sum_and_product sum_el1, ret\n"
    "    .section .user.text, \"ax\"\n"
    "    sum_and_product sum_el0, svc #0\n"
    "    .text\n");
extern char sum_el1[], sum_el1_at[], sum_el0[], sum_el0_at[];

static void run(bool el0, u64 cpacr) {
    traps = 0;
    results[0] = results[1] = 0;
    write_sysreg(cpacr_el1, cpacr);
    isb();
    if (el0)
        el0_call((u64)sum_el0, (u64)results, 0, (u64)user_stack + sizeof user_stack);
    else
        ((void (*)(u64 *))sum_el1)(results);
    write_sysreg(cpacr_el1, FPEN_ALL);
    isb();
}

static void check_result(void) {
    is(results[0], 0x400c000000000000, "the sum is 3.5");
    is(results[1], 0x4008000000000000, "and the product 3");
}

int main(void) {
    mmu_on();

    print("# EL1, nobody may\n");
    run(false, FPEN_NONE);
    is(traps, 1, "one trap");
    is(caught.esr, FP_TRAPPED, "its syndrome");
    is(caught.elr, (u64)sum_el1_at, "of the first instruction");
    is(caught.vector, VECTOR_CURRENT_SYNC, "from EL1");
    check_result();

    print("# EL1, EL1 may\n");
    run(false, FPEN_EL1);
    is(traps, 0, "no trap");
    check_result();

    print("# EL0, EL1 may\n");
    run(true, FPEN_EL1);
    is(traps, 1, "one trap");
    is(caught.esr, FP_TRAPPED, "its syndrome");
    is(caught.elr, (u64)sum_el0_at, "of the first instruction");
    is(caught.vector, VECTOR_LOWER_SYNC, "from EL0");
    check_result();

    print("# EL0, all may\n");
    run(true, FPEN_ALL);
    is(traps, 0, "no trap");
    check_result();
    return tap_done();
}
