/* Software step of the level of the reset and of lower ones: what a step is, and what its syndrome says. */
#include "lib/debug.h"

#define ISV BIT(24)
#define EX BIT(6)
#define MOST 16

/* Steps of several kinds: plain, a branch, a load exclusive, a System register, a call that comes back. */
asm(".macro stroll_as name\n"
    ".global \\name\n"
    "\\name:\n"
    "    mov x2, #1\n"
    "    b 1f\n"
    "    nop\n"
    "1:  ldxr x3, [x0]\n"
    "    stxr w4, x2, [x0]\n"
    "    mrs x3, cntvct_el0\n"
    "    cbz x2, 1b\n"
    "    mov x0, x2\n"
    "    ret\n"
    ".endm\n"
    ".text\n stroll_as stroll\n"
    ".section .user.text, \"ax\"\n stroll_as stroll_el0\n"
    ".text\n");
u64 stroll(u64 a, u64 b), stroll_el0(u64 a, u64 b);
static const unsigned offsets[] = {4, 12, 16, 20, 24, 28, 32};
#define STEPS (sizeof offsets / sizeof offsets[0])
#define EXCLUSIVE 2 /* the step behind the load exclusive */

static u64 word USER_BSS;
static u64 elrs[MOST], esrs[MOST], spsrs[MOST];
static unsigned steps, wanted;

void on_trap(struct trap *trap) {
    unsigned ec = ESR_EC(trap->esr);
    if ((ec & ~1u) == EC_STEP) {
        elrs[steps] = trap->elr;
        esrs[steps] = trap->esr;
        spsrs[steps] = trap->spsr;
        if (++steps < wanted)
            trap->spsr |= PSR_SS;
        else
            write_sysreg(mdscr_el1, read_sysreg(mdscr_el1) & ~MDSCR_SS);
    } else if (ec == EC_SVC || ec == EC_HVC || ec == EC_BRK) { /* begin to step at the address in X9 */
        trap->elr = trap->x[9];
        trap->spsr = (trap->spsr & ~PSR_D) | PSR_SS;
        write_sysreg(mdscr_el1, read_sysreg(mdscr_el1) | MDSCR_SS);
    } else {
        record_and_skip(trap);
    }
}

/* Have stroll() stepped so many times at the current level, and let it go on then. */
#define STEPPED(name, section_attribute)                                                                      \
    static u64 section_attribute name(u64 at, u64 target) {                                                   \
        register u64 x0 asm("x0") = at;                                                                       \
        register u64 x9 asm("x9") = target;                                                                   \
        asm volatile("adr x30, 1f\n brk #0\n1:"                                                               \
                     : "+r"(x0)                                                                               \
                     : "r"(x9)                                                                                \
                     : "x1", "x2", "x3", "x4", "x30", "memory");                                              \
        return x0;                                                                                            \
    }
STEPPED(stepped, )
STEPPED(stepped_el0, __attribute__((section(".user.text"))))

static void check(bool lower, function *f) {
    u64 plain = ESR(EC_STEP + !lower, ISV | DEBUG_ISS);
    is(steps, STEPS, "so many steps");
    for (unsigned n = 0; n < STEPS; n++) {
        is(elrs[n], (u64)f + offsets[n], "where it ended");
        is(esrs[n], n == EXCLUSIVE ? plain | EX : plain, "its syndrome");
        is(spsrs[n] & PSR_SS, 0, "SPSR.SS is used up");
    }
    taken = 0;
}

static void begin(unsigned count) {
    steps = 0;
    wanted = count;
    word = 0;
}

int main(void) {
    if (current_el() == 3)
        return tap_skip_all("needs a start at EL1 or EL2");
    mmu_on();
    debug_on(MDSCR_KDE);

    print("# the level of the reset\n");
    begin(STEPS);
    is(stepped((u64)&word, (u64)stroll), 1, "it goes on after the steps");
    check(false, stroll);
    mask_debug();

    print("# not without KDE, nor with PSTATE.D\n");
    debug_on(0);
    begin(STEPS);
    stepped((u64)&word, (u64)stroll);
    is(steps, 0, "no step");
    mask_debug();
    debug_on(MDSCR_KDE | MDSCR_SS);
    asm volatile("nop\n nop");
    is(steps, 0, "no step while PSTATE.D is 1");
    begin(1);
    unmask_debug();
    mask_debug();
    is(steps, 1, "unmasked, a step is pending at once");
    is(esrs[0], ESR(EC_STEP + 1, DEBUG_ISS), "and nothing was stepped");

    if (current_el() == 2) {
        print("# EL1\n");
        prepare_el1();
        debug_on(0);
        begin(STEPS);
        is(call_at(EL1H, stepped, (u64)&word, (u64)stroll), 1, "it goes on after the steps");
        check(true, stroll);
    } else {
        print("# EL0\n");
        debug_on(0);
        begin(STEPS);
        is(call_at(EL0T, stepped_el0, (u64)&word, (u64)stroll_el0), 1, "it goes on after the steps");
        check(true, stroll_el0);
    }
    return tap_done();
}
