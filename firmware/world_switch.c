/* A hypervisor that switches between a host and its guest, as KVM does. The guest is at EL1, behind stage 2, and
   calls by HVC; the host is at EL1 as well (nVHE) or is the hypervisor (VHE), which then reaches the guest's registers
   by their _EL12 names. The first argument is how many calls (64), the second what a call is: 0 no more than HVC and
   ERET, 1 nVHE, 2 VHE, 3 these three, 4 VHE where the host steps the guest, so that an exit is a step (all of them).
   Starts at EL2 or EL3. */
#include "lib/arguments.h"
#include "lib/debug.h"
#include "lib/el.h"
#include "lib/stage2.h"

#define HCR_FMO BIT(3)
#define HCR_IMO BIT(4)
#define HCR_AMO BIT(5)
#define HCR_TWI BIT(13)
#define HCR_TID3 BIT(18)
#define HCR_TSC BIT(19)
#define HCR_TGE BIT(27)
#define HCR_E2H BIT(34)
#define HCR_GUEST (HCR_RW | HCR_VM | HCR_FMO | HCR_IMO | HCR_AMO | HCR_TWI | HCR_TID3 | HCR_TSC)
#define CPTR_TFP BIT(10)
#define CPTR_NVHE 0x33ff /* RES1: SVE is trapped */
#define FPEN_ALL (3ull << 20)
#define MDCR_TDA BIT(9)
#define CALL 1 /* immediates of HVC */
#define ENTER 2
#define BEGIN 3 /* to step */
#define END 4

/* What a host and its guest at EL1 have each of their own, by a name at EL1 and at EL2 with E2H. */
#define SHARED_REGISTERS(X) X(mdscr_el1) X(tpidr_el0) X(tpidrro_el0) X(csselr_el1) X(par_el1) X(tpidr_el1) X(sp_el1)
#define BANKED_REGISTERS(X)                                                                                        \
    X(sctlr_el1, S3_5_C1_C0_0) X(cpacr_el1, S3_5_C1_C0_2) X(ttbr0_el1, S3_5_C2_C0_0) X(ttbr1_el1, S3_5_C2_C0_1)      \
    X(tcr_el1, S3_5_C2_C0_2) X(esr_el1, S3_5_C5_C2_0) X(afsr0_el1, S3_5_C5_C1_0) X(afsr1_el1, S3_5_C5_C1_1)          \
    X(far_el1, S3_5_C6_C0_0) X(mair_el1, S3_5_C10_C2_0) X(vbar_el1, S3_5_C12_C0_0)                                   \
    X(contextidr_el1, S3_5_C13_C0_1) X(amair_el1, S3_5_C10_C3_0) X(cntkctl_el1, S3_5_C14_C1_0)                       \
    X(elr_el1, S3_5_C4_C0_1) X(spsr_el1, S3_5_C4_C0_0)

#define FIELD_OF(name, ...) u64 name;
#define SAVE(name, ...) world->name = read_sysreg(name);
#define LOAD(name, ...) write_sysreg(name, world->name);
#define SAVE_BY_EL12(name, el12) world->name = read_sysreg(el12);
#define LOAD_BY_EL12(name, el12) write_sysreg(el12, world->name);

struct world {
    struct trap frame;
    SHARED_REGISTERS(FIELD_OF)
    BANKED_REGISTERS(FIELD_OF)
};

enum kind { PLAIN, NVHE, VHE, UNSTEPPED, STEPPED, ALL };
static enum kind kind;
static struct world host, guest;
static u64 exits;

static void set_hcr(u64 hcr) {
    write_sysreg(hcr_el2, hcr);
    isb();
}

/* The host's own: nothing is trapped, and there is no stage 2. */
static void deactivate_traps(void) {
    write_sysreg(mdcr_el2, 0);
    write_sysreg(hstr_el2, 0);
    if (kind >= VHE) {
        set_hcr(HCR_RW | HCR_E2H | HCR_TGE);
        write_sysreg(cpacr_el1, FPEN_ALL); /* which is CPTR_EL2 */
    } else {
        set_hcr(HCR_RW);
        write_sysreg(cptr_el2, CPTR_NVHE);
    }
    write_sysreg(vttbr_el2, 0);
}

static void activate_traps(void) {
    write_sysreg(vttbr_el2, stage2_root());
    write_sysreg(mdcr_el2, MDCR_TDA | (kind == STEPPED ? MDCR_TDE : 0));
    write_sysreg(hstr_el2, 1 << 15);
    if (kind >= VHE) {
        set_hcr(HCR_GUEST | HCR_E2H);
        write_sysreg(cpacr_el1, 0);
    } else {
        set_hcr(HCR_GUEST);
        write_sysreg(cptr_el2, CPTR_NVHE | CPTR_TFP);
    }
}

static void save(struct world *world) {
    SHARED_REGISTERS(SAVE)
    BANKED_REGISTERS(SAVE)
}

static void load(const struct world *world) {
    SHARED_REGISTERS(LOAD)
    BANKED_REGISTERS(LOAD)
}

static void save_by_el12(struct world *world) {
    SHARED_REGISTERS(SAVE)
    BANKED_REGISTERS(SAVE_BY_EL12)
}

static void load_by_el12(const struct world *world) {
    SHARED_REGISTERS(LOAD)
    BANKED_REGISTERS(LOAD_BY_EL12)
}

/* From the one at EL1 to the other. */
static void change_world(struct trap *trap, struct world *from, struct world *to) {
    from->frame = *trap;
    save(from);
    if (to == &guest) {
        load(to);
        activate_traps();
    } else {
        deactivate_traps();
        load(to);
    }
    *trap = to->frame;
}

/* An exit of the guest to a host at EL2. */
static void leave_guest(void) {
    save_by_el12(&guest);
    deactivate_traps();
    load_by_el12(&host);
}

static void go_on(void) {
    save_by_el12(&host);
    load_by_el12(&guest);
    activate_traps();
}

/* The guest asks to be stepped, was stepped, or has had enough. */
static void on_step(struct trap *trap, u64 number) {
    leave_guest();
    if (number == END) {
        guest.mdscr_el1 &= ~MDSCR_SS;
    } else {
        exits += number == BEGIN ? 0 : 1;
        guest.mdscr_el1 |= MDSCR_SS;
        trap->spsr |= PSR_SS;
    }
    go_on();
}

/* The answer to a call is its double and one. */
void on_trap(struct trap *trap) {
    u64 number = ESR_EC(trap->esr) == EC_HVC ? trap->esr & 0xffff : 0;
    if (trap->level == 2 && (number == BEGIN || number == END || ESR_EC(trap->esr) == EC_STEP)) {
        on_step(trap, number);
        return;
    }
    if (trap->level != 2 || (number != CALL && number != ENTER)) {
        record_and_skip(trap);
        return;
    }
    if (number == ENTER) {
        guest.frame.x[0] = trap->x[0];
        change_world(trap, &host, &guest);
        return;
    }
    exits++;
    if (kind == NVHE) {
        u64 message = trap->x[0];
        change_world(trap, &guest, &host);
        trap->x[0] = message;
        return;
    }
    if (kind == VHE)
        leave_guest();
    trap->x[0] = 2 * trap->x[0] + 1;
    if (kind == VHE)
        go_on();
}

static u64 call(u64 message) {
    register u64 x0 asm("x0") = message;
    asm volatile("hvc #" STRINGIFY(CALL) : "+r"(x0)::"memory");
    return x0;
}

static u64 enter_guest(u64 answer) {
    register u64 x0 asm("x0") = answer;
    asm volatile("hvc #" STRINGIFY(ENTER) : "+r"(x0)::"memory");
    return x0;
}

/* The guest; its result is how many answers were wrong. Under nVHE it stays after its last call. */
static u64 guest_main(u64 rounds, u64 b) {
    (void)b;
    u64 wrong = 0;
    for (u64 message = 0; message < rounds; message++)
        wrong += call(message) != 2 * message + 1;
    if (kind == NVHE)
        call(~wrong);
    return wrong;
}

/* The guest that is stepped: two operations a round. Its result is how many rounds are left. */
static u64 stroll(u64 steps, u64 b) {
    (void)b;
    u64 rounds = steps / 2;
    if (!rounds)
        return 0;
    asm volatile("hvc #" STRINGIFY(BEGIN) "\n"
                 "1: subs %0, %0, #1\n"
                 " b.ne 1b\n"
                 "hvc #" STRINGIFY(END)
                 : "+r"(rounds)::"cc", "memory");
    return rounds;
}

/* The host at EL1 answers until the guest has counted wrong answers, which it tells inverted. */
static u64 host_main(u64 rounds, u64 b) {
    (void)b;
    for (u64 message = enter_guest(rounds);; message = enter_guest(2 * message + 1))
        if (message >> 63)
            return ~message;
}

static u8 guest_stack[4096] __attribute__((aligned(16)));

static void run(enum kind what, u64 rounds, const char *name) {
    u64 wrong;
    kind = what;
    exits = 0;
    prepare_el1();
    write_sysreg(tpidr_el1, 0x6e57);
    save(&guest);
    save(&host);
    host.tpidr_el1 = 0x4057;
    guest.sp_el1 = (u64)guest_stack + sizeof guest_stack;
    guest.frame = (struct trap){.elr = (u64)guest_main, .spsr = EL1H, .level = 2};
    if (kind == NVHE) {
        load(&host);
        deactivate_traps();
        wrong = call_at(EL1H, host_main, rounds, 0);
        is(read_sysreg(tpidr_el1), 0x4057, "the host's registers are its own");
    } else {
        activate_traps();
        wrong = call_at(EL1H, kind == STEPPED ? stroll : guest_main, rounds, 0);
        is(read_sysreg(tpidr_el1), 0x6e57, "the guest's registers are its own");
    }
    set_hcr(HCR_RW);
    write_sysreg(cptr_el2, CPTR_NVHE);
    is(wrong, 0, name);
    if (kind == STEPPED)
        is(exits, rounds / 2 * 2, "each operation came to the hypervisor once");
    else
        is(exits, rounds + (kind == NVHE), "each call came to the hypervisor once");
}

static u64 all(u64 a, u64 b) {
    (void)a, (void)b;
    u64 rounds = argument_number(1, 64), what = argument_number(2, ALL);
    bool unstepped = what == UNSTEPPED || what == ALL;
    write_sysreg(oslar_el1, 0);
    stage2_init();
    if (what == PLAIN || unstepped)
        run(PLAIN, rounds, "HVC and ERET: every answer is right");
    if (what == NVHE || unstepped)
        run(NVHE, rounds, "a host at EL1: every answer is right");
    if (what == VHE || unstepped)
        run(VHE, rounds, "a host at EL2: every answer is right");
    if (what == STEPPED || what == ALL)
        run(STEPPED, rounds, "the guest was stepped to its end");
    return 0;
}

int main(void) {
    if (current_el() < 2)
        return tap_skip_all("needs a start at EL2 or EL3");
    if (current_el() == 3) {
        write_sysreg(scr_el3, read_sysreg(scr_el3) | BIT(8)); /* HCE: HVC is UNDEFINED without */
        prepare_el2();
        call_at(EL2H, all, 0, 0);
    } else {
        all(0, 0);
    }
    return tap_done();
}
