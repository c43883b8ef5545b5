/* Breakpoints at the level of the reset and at lower ones, by address and linked to a context; BRK. */
#include "lib/debug.h"

#define ALL_BYTES BYTES(0xf)

/* Counts in X0 what it executes; two places of it have names. */
asm(".macro walk_as name\n"
    ".global \\name, \\name\\()_first, \\name\\()_second\n"
    "\\name:\n"
    "    mov x0, #0\n"
    "\\name\\()_first:\n"
    "    add x0, x0, #1\n"
    "    add x0, x0, #2\n"
    "    b \\name\\()_second\n"
    "    nop\n"
    "\\name\\()_second:\n"
    "    add x0, x0, #4\n"
    "    ret\n"
    ".endm\n"
    ".text\n walk_as walk\n"
    ".section .user.text, \"ax\"\n walk_as walk_el0\n"
    ".text\n");
extern char walk_first[], walk_second[], walk_el0_first[];
u64 walk(u64 a, u64 b), walk_el0(u64 a, u64 b);

static u64 places[8];
static unsigned breaks;

void on_trap(struct trap *trap) {
    if ((ESR_EC(trap->esr) & ~1u) == EC_BREAKPOINT && breaks < 8)
        places[breaks++] = trap->elr;
    record_and_skip(trap);
}

static void break_at(unsigned n, const void *address, u64 control) {
    if (n == 0) {
        write_sysreg(dbgbvr0_el1, address);
        write_sysreg(dbgbcr0_el1, control);
    } else {
        write_sysreg(dbgbvr1_el1, address);
        write_sysreg(dbgbcr1_el1, control);
    }
    isb();
}

static u64 walked(void) {
    breaks = taken = 0;
    unmask_debug();
    u64 result = walk(0, 0);
    mask_debug();
    return result;
}

static void lower(unsigned el, u64 spsr, function *f, char *first, u64 privilege) {
    print("# EL%u\n", el);
    break_at(0, first, ENABLED | PRIVILEGE(privilege) | ALL_BYTES);
    breaks = taken = 0;
    is(call_at(spsr, f, 0, 0), 6, "one instruction is skipped");
    is_debug(FROM_LOWER(VECTOR_SYNC), EC_BREAKPOINT, 0, "a breakpoint");
    is(places[0], (u64)first, "where it is");
    break_at(0, first, ENABLED | PRIVILEGE(privilege ^ 3) | ALL_BYTES);
    is(call_at(spsr, f, 0, 0), 7, "one of another level is not for it");
    is_no_trap("nothing");
}

int main(void) {
    if (current_el() == 3)
        return tap_skip_all("needs a start at EL1 or EL2");
    u64 here = ENABLED | own_level() | ALL_BYTES;
    mmu_on();
    debug_on(MDSCR_MDE | MDSCR_KDE);

    print("# by address\n");
    is(walked(), 7, "all is executed without breakpoints");
    break_at(0, walk_first, here);
    is(walked(), 6, "the first instruction is not");
    is_debug(FROM_CURRENT(VECTOR_SYNC), EC_BREAKPOINT, 0, "a breakpoint");
    is(places[0], (u64)walk_first, "where it is");
    break_at(1, walk_second, here);
    is(walked(), 2, "two breakpoints");
    is(breaks, 2, "are taken");
    is(places[1], (u64)walk_second, "the second behind a branch");
    break_at(0, walk_first, here & ~ENABLED);
    is(walked(), 3, "one that is disabled is not");
    break_at(1, 0, 0);

    print("# what disables them\n");
    break_at(0, walk_first, here);
    debug_on(MDSCR_KDE);
    is(walked(), 7, "MDSCR_EL1.MDE");
    debug_on(MDSCR_MDE);
    is(walked(), 7, "MDSCR_EL1.KDE");
    debug_on(MDSCR_MDE | MDSCR_KDE);
    write_sysreg(oslar_el1, 1);
    is(FIELD(read_sysreg(oslsr_el1), 1, 1), 1, "the OS lock is locked");
    write_sysreg(oslar_el1, 0);
    is(FIELD(read_sysreg(oslsr_el1), 1, 1), 0, "and unlocked");
    breaks = taken = 0;
    is(walk(0, 0), 7, "PSTATE.D");
    is(walked(), 6, "and none of them");
    taken = 0;

    if (current_el() == 1) {
        print("# linked to a context\n");
        write_sysreg(dbgbvr5_el1, 0x1234);
        write_sysreg(dbgbcr5_el1, TYPE(3) | ENABLED | ALL_BYTES);
        break_at(0, walk_first, here | TYPE(1) | LINK(5));
        write_sysreg(contextidr_el1, 0x1233);
        is(walked(), 7, "another context");
        write_sysreg(contextidr_el1, 0x1234);
        is(walked(), 6, "the context");
        write_sysreg(dbgbcr5_el1, 0);
        is(walked(), 7, "without that breakpoint there is no link");
        taken = 0;
    }

    print("# BRK\n");
    debug_on(0);
    write_sysreg(oslar_el1, 1);
    asm volatile("brk #0x123");
    is_trap(current_el(), FROM_CURRENT(VECTOR_SYNC), ESR(EC_BRK, 0x123), "whatever is disabled");
    debug_on(MDSCR_MDE | MDSCR_KDE);

    if (current_el() == 2) {
        prepare_el1();
        debug_on(MDSCR_MDE | MDSCR_KDE);
        lower(1, EL1H, walk, walk_first, 1);
    } else {
        lower(0, EL0T, walk_el0, walk_el0_first, 2);
    }
    return tap_done();
}
