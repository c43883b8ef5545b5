/* Alignment faults: of the program counter, and of data with SCTLR_EL1.A and for exclusives: with FEAT_LSE2 only where
   they do not lie within 16 bytes. */
#include "lib/el.h"

#define SCTLR_A BIT(1)

static u64 data[4] __attribute__((aligned(16)));

static void __attribute__((noinline)) call(u64 address) {
    ((void (*)(void))address)();
}

#define ACCESS(instruction, offset)                                                                       \
    asm volatile(".arch armv8.4-a\n " instruction ::"r"((u64)data + (offset)) : "x1", "x2", "x3", "memory")

#define CHECK(instruction, offset, esr)                                                                   \
    do {                                                                                                  \
        ACCESS(instruction, offset);                                                                      \
        if (esr)                                                                                          \
            is_trap(1, FROM_CURRENT(VECTOR_SYNC), esr, instruction);                                      \
        else                                                                                              \
            is_no_trap(instruction);                                                                      \
    } while (0)

#define READ 0x96000021
#define WRITE 0x96000061

/* `exclusive` is for exclusives that lie within 16 bytes. */
static void data_accesses(u64 read, u64 write, u64 exclusive) {
    CHECK("ldrh w1, [%0]", 1, read);
    CHECK("ldr w1, [%0]", 2, read);
    CHECK("ldr x1, [%0]", 4, read);
    CHECK("ldp x1, x2, [%0]", 4, read);
    CHECK("strh w1, [%0]", 1, write);
    CHECK("str w1, [%0]", 2, write);
    CHECK("str x1, [%0]", 4, write);
    CHECK("ldrb w1, [%0]", 3, 0);
    CHECK("ldr x1, [%0]", 8, 0);
    CHECK("ldp x1, x2, [%0]", 8, 0);
    CHECK("ldxr x1, [%0]", 4, exclusive);
    CHECK("ldaxr w1, [%0]", 2, exclusive);
    CHECK("ldxp x1, x2, [%0]", 8, READ);
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    mmu_on();
    print("# the program counter\n");
    for (u64 low = 1; low < 4; low++) {
        u64 address = (u64)call + low;
        call(address);
        is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x8a000000, "a call to an unaligned address");
        is(caught.far, address, "FAR_EL1 is it");
        is(caught.elr, address, "and ELR_EL1");
    }
    print("# SCTLR_EL1.A = 0\n");
    bool lse2 = FIELD(read_sysreg(id_aa64mmfr2_el1), 35, 32) != 0;
    data_accesses(0, 0, lse2 ? 0 : READ);
    print("# SCTLR_EL1.A = 1\n");
    write_sysreg(sctlr_el1, read_sysreg(sctlr_el1) | SCTLR_A);
    isb();
    data_accesses(READ, WRITE, READ);
    return tap_done();
}
