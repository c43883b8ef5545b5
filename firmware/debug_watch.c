/* Watchpoints at the level of the reset and at lower ones: which accesses match, and what is then known. */
#include "lib/debug.h"

#define WNR BIT(6)

static u64 data[64] USER_BSS __attribute__((aligned(256)));

static void watch(unsigned n, u64 address, u64 control) {
    if (n) {
        write_sysreg(dbgwvr1_el1, address);
        write_sysreg(dbgwcr1_el1, control);
    } else {
        write_sysreg(dbgwvr0_el1, address);
        write_sysreg(dbgwcr0_el1, control);
    }
    isb();
}

#define DO(instruction, offset)                                                                             \
    do {                                                                                                    \
        register u64 at asm("x4") = (u64)data + (offset);                                                   \
        register u64 first asm("x1") = 0xabcd;                                                              \
        unmask_debug();                                                                                     \
        asm volatile(".arch armv8.4-a\n" instruction : "+r"(at), "+r"(first) : : "x2", "x3", "memory");     \
        mask_debug();                                                                                       \
        after = first;                                                                                      \
        base = at;                                                                                          \
    } while (0)

static u64 after, base;

#define STOPS(instruction, offset, iss, address)                                                            \
    do {                                                                                                    \
        DO(instruction, offset);                                                                            \
        is_debug(FROM_CURRENT(VECTOR_SYNC), EC_WATCHPOINT, iss, instruction);                               \
        is(caught.far, (u64)data + (address), "FAR");                                                       \
    } while (0)

#define GOES_ON(instruction, offset)                                                                        \
    do {                                                                                                    \
        DO(instruction, offset);                                                                            \
        is_no_trap(instruction);                                                                            \
    } while (0)

#define LOAD_AND_STORE(name, section_attribute)                                                             \
    static u64 section_attribute name(u64 address, u64 value) {                                             \
        asm volatile("ldr x2, [%0]\n str %1, [%0]" ::"r"(address), "r"(value) : "x2", "memory");            \
        return 0;                                                                                           \
    }
LOAD_AND_STORE(load_and_store, )
LOAD_AND_STORE(load_and_store_el0, __attribute__((section(".user.text"))))

static unsigned watched;

void on_trap(struct trap *trap) {
    if (ESR_EC(trap->esr) == EC_WATCHPOINT)
        watched++;
    record_and_skip(trap);
}

static void lower(unsigned el, u64 spsr, function *f, u64 privilege) {
    watch(0, (u64)data, ENABLED | PRIVILEGE(privilege) | BYTES(0xff) | LOADS | STORES);
    data[0] = 5;
    watched = 0;
    call_at(spsr, f, (u64)data, 7);
    print("# EL%u\n", el);
    is(watched, 2, "a load and a store are stopped");
    is(caught.esr, ESR(EC_WATCHPOINT, WNR | DEBUG_ISS), "the store's syndrome");
    is(caught.far, (u64)data, "its address");
    is(data[0], 5, "memory is as it was");
    watch(0, (u64)data, ENABLED | PRIVILEGE(privilege ^ 3) | BYTES(0xff) | LOADS | STORES);
    watched = 0;
    call_at(spsr, f, (u64)data, 7);
    is(watched, 0, "a watchpoint of another level is not for it");
    is(data[0], 7, "and the store was made");
    taken = 0;
}

int main(void) {
    if (current_el() == 3)
        return tap_skip_all("needs a start at EL1 or EL2");
    u64 all = ENABLED | own_level() | BYTES(0xff) | LOADS | STORES;
    mmu_on();
    debug_on(MDSCR_MDE | MDSCR_KDE);
    for (unsigned n = 0; n < 64; n++)
        data[n] = n;

    print("# loads and stores\n");
    watch(0, (u64)data + 16, all);
    STOPS("ldr x1, [x4]", 16, 0, 16);
    is(after, 0xabcd, "the register is as it was");
    STOPS("str x1, [x4]", 16, WNR, 16);
    is(data[2], 2, "memory is as it was");
    GOES_ON("ldr x1, [x4]", 8);
    GOES_ON("str x1, [x4]", 24);
    STOPS("ldrb w1, [x4]", 19, 0, 19);
    STOPS("ldp x1, x2, [x4]", 8, 0, 16);
    STOPS("stp x1, x2, [x4], #16", 16, WNR, 16);
    is(base, (u64)data + 16, "no write-back");
    STOPS("stlr x1, [x4]", 16, WNR, 16);
    GOES_ON("prfm pldl1keep, [x4]", 16);
    GOES_ON("dc civac, x4", 16);

    print("# kinds of accesses\n");
    watch(0, (u64)data + 16, all & ~STORES);
    STOPS("ldr x1, [x4]", 16, 0, 16);
    GOES_ON("str x1, [x4]", 16);
    watch(0, (u64)data + 16, all & ~LOADS);
    GOES_ON("ldr x1, [x4]", 16);
    STOPS("str x1, [x4]", 16, WNR, 16);
    watch(0, (u64)data + 16, all & ~(LOADS | STORES));
    GOES_ON("str x1, [x4]", 16);

    print("# bytes\n");
    watch(0, (u64)data + 16, (all & ~BYTES(0xff)) | BYTES(0x30));
    GOES_ON("ldr w1, [x4]", 16);
    STOPS("ldr w1, [x4]", 20, 0, 20);
    GOES_ON("ldrh w1, [x4]", 22);
    STOPS("ldr x1, [x4]", 16, 0, 20);
    watch(0, (u64)data + 20, (all & ~BYTES(0xff)) | BYTES(0x0f));
    STOPS("ldr w1, [x4]", 20, 0, 20);
    GOES_ON("ldr w1, [x4]", 16);

    print("# a range\n");
    watch(0, (u64)data + 64, all | MASK(6));
    GOES_ON("ldr x1, [x4]", 56);
    STOPS("ldr x1, [x4]", 64, 0, 64);
    STOPS("str x1, [x4]", 120, WNR, 120);
    GOES_ON("ldr x1, [x4]", 128);
    STOPS("dc zva, x4", 64, WNR, 64);
    is(data[8], 8, "nothing is zeroed");

    print("# two watchpoints\n");
    watch(0, (u64)data + 16, all & ~STORES);
    watch(1, (u64)data + 24, all & ~LOADS);
    STOPS("ldp x1, x2, [x4]", 16, 0, 16);
    STOPS("stp x1, x2, [x4]", 16, WNR, 24);
    watch(1, 0, 0);

    print("# what disables them\n");
    watch(0, (u64)data + 16, all & ~ENABLED);
    GOES_ON("ldr x1, [x4]", 16);
    watch(0, (u64)data + 16, all);
    debug_on(MDSCR_KDE);
    GOES_ON("ldr x1, [x4]", 16);
    debug_on(MDSCR_MDE);
    GOES_ON("ldr x1, [x4]", 16);
    debug_on(MDSCR_MDE | MDSCR_KDE);
    STOPS("ldr x1, [x4]", 16, 0, 16);
    asm volatile("ldr x1, [%0]" ::"r"((u64)data + 16) : "x1");
    is_no_trap("nothing while PSTATE.D is 1");

    if (current_el() == 2) {
        prepare_el1();
        debug_on(MDSCR_MDE | MDSCR_KDE);
        lower(1, EL1H, load_and_store, 1);
    } else {
        lower(0, EL0T, load_and_store_el0, 2);
    }
    return tap_done();
}
