/* The PL061 at 0x09030000: identification, directions, masks in the address, levels. */
#include "lib/firmware.h"

#define BASE 0x09030000ull
#define REGISTER(offset) (*(volatile u32 *)(BASE + (offset)))
#define DATA(pins) REGISTER((pins) << 2)

enum offset {
    DIR = 0x400,
    IS = 0x404,
    IBE = 0x408,
    IEV = 0x40c,
    IE = 0x410,
    RIS = 0x414,
    MIS = 0x418,
    IC = 0x41c,
    AFSEL = 0x420,
};

static void identification(void) {
    static const u8 expected[] = {0x61, 0x10, 0x04, 0x00, 0x0d, 0xf0, 0x05, 0xb1};
    bool same = true;
    for (u64 n = 0; n < ARRAY_SIZE(expected); n++)
        same = same && REGISTER(0xfe0 + 4 * n) == expected[n];
    ok(same, "what it is");
}

static void registers(void) {
    static const enum offset stored[] = {DIR, IS, IBE, IEV, IE, AFSEL};
    bool zero = true, kept = true;
    for (u64 n = 0; n < ARRAY_SIZE(stored); n++) {
        zero = zero && REGISTER(stored[n]) == 0;
        REGISTER(stored[n]) = 0x5a;
        kept = kept && REGISTER(stored[n]) == 0x5a;
        REGISTER(stored[n]) = 0;
    }
    ok(zero, "registers are zero after reset");
    ok(kept, "registers keep what is written");
    REGISTER(IC) = 0xff;
}

static void pins(void) {
    is(DATA(0xff), 0, "nobody drives an input");
    REGISTER(DIR) = 0xf0;
    DATA(0xff) = 0xff;
    is(DATA(0xff), 0xf0, "outputs alone are set");
    DATA(0x30) = 0;
    is(DATA(0xff), 0xc0, "the address chooses pins of a write");
    is(DATA(0x60), 0x40, "and of a read");
    is(DATA(0), 0, "none of none");
    DATA(0xff) = 0;
    REGISTER(DIR) = 0;
    REGISTER(IC) = 0xff;
}

static void levels(void) {
    REGISTER(IS) = 0xff;
    is(REGISTER(RIS), 0xff, "inputs are at the low level");
    is(REGISTER(MIS), 0, "which is masked");
    REGISTER(IE) = 0x0f;
    is(REGISTER(MIS), 0x0f, "or is not");
    REGISTER(IE) = 0;
    REGISTER(IS) = 0;
    REGISTER(IC) = 0xff;
    is(REGISTER(RIS), 0, "no edge was there");
}

int main(void) {
    identification();
    registers();
    pins();
    levels();
    return tap_done();
}
