/* A monitor that switches worlds: Non-secure EL1 calls it by SMC, it saves what that world has in registers, loads the
   Secure world's, and enters Secure EL1, which answers in the same way. The first argument is how many times (64).
   Starts at EL3. */
#include "lib/arguments.h"
#include "lib/el.h"

#define SCR_NS BIT(0)
#define SCR_RW BIT(10)
#define SCR_RES1 (3ull << 4)
#define CALL 1 /* immediate of the SMC that switches */

/* The registers of EL1 that a monitor keeps for each world. */
#define EL1_REGISTERS(X)                                                                                          \
    X(sctlr_el1) X(cpacr_el1) X(csselr_el1) X(sp_el1) X(esr_el1) X(ttbr0_el1) X(ttbr1_el1) X(mair_el1)             \
    X(amair_el1) X(tcr_el1) X(tpidr_el1) X(tpidr_el0) X(tpidrro_el0) X(par_el1) X(far_el1) X(afsr0_el1)            \
    X(afsr1_el1) X(contextidr_el1) X(vbar_el1) X(spsr_el1) X(elr_el1) X(mdscr_el1) X(cntkctl_el1)

#define FIELD_OF(name) u64 name;
#define SAVE(name) world->name = read_sysreg(name);
#define LOAD(name) write_sysreg(name, world->name);

struct world {
    struct trap frame;
    EL1_REGISTERS(FIELD_OF)
};

enum { SECURE, NON_SECURE };
static struct world worlds[2];
static unsigned current = NON_SECURE;
static u64 switches;

static void save(struct world *world) {
    EL1_REGISTERS(SAVE)
}

static void load(const struct world *world) {
    EL1_REGISTERS(LOAD)
}

static void set_scr(bool non_secure) {
    write_sysreg(scr_el3, SCR_RW | SCR_RES1 | (non_secure ? SCR_NS : 0));
    isb();
}

/* X0 is handed over, all else is the world's own. */
void on_trap(struct trap *trap) {
    if (trap->level != 3 || ESR_EC(trap->esr) != EC_SMC || (trap->esr & 0xffff) != CALL) {
        record_and_skip(trap);
        return;
    }
    u64 message = trap->x[0];
    worlds[current].frame = *trap;
    save(&worlds[current]);
    current = !current;
    set_scr(current == NON_SECURE);
    load(&worlds[current]);
    *trap = worlds[current].frame;
    trap->x[0] = message;
    switches++;
}

static u64 call(u64 message) {
    register u64 x0 asm("x0") = message;
    asm volatile("smc #" STRINGIFY(CALL) : "+r"(x0)::"memory");
    return x0;
}

/* The Secure world: answers each message with its double and one. */
static void __attribute__((noreturn)) secure_main(u64 message) {
    for (;;)
        message = call(2 * message + 1);
}

/* The Non-secure world; its result is how many answers were wrong. */
static u64 non_secure_main(u64 rounds, u64 b) {
    (void)b;
    u64 wrong = 0;
    for (u64 message = 0; message < rounds; message++)
        wrong += call(message) != 2 * message + 1;
    return wrong;
}

static u8 secure_stack[4096] __attribute__((aligned(16)));

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("needs a start at EL3");
    u64 rounds = argument_number(1, 64);
    prepare_el2();
    prepare_el1();
    save(&worlds[SECURE]);
    worlds[SECURE].sp_el1 = (u64)secure_stack + sizeof secure_stack;
    worlds[SECURE].tpidr_el1 = 0x5ec;
    worlds[SECURE].frame = (struct trap){.elr = (u64)secure_main, .spsr = EL1H, .level = 3};
    write_sysreg(tpidr_el1, 0x4e5);
    set_scr(true);
    is(call_at(EL1H, non_secure_main, rounds, 0), 0, "every answer came from the Secure world");
    is(switches, 2 * rounds, "there and back again, each time");
    is(current, NON_SECURE, "the Non-secure world is the last");
    is(read_sysreg(tpidr_el1), 0x4e5, "its registers are its own");
    is(rounds ? worlds[SECURE].tpidr_el1 : 0x5ec, 0x5ec, "and the Secure world's are that world's");
    return tap_done();
}
