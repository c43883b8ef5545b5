/* PSCI by HVC, as firmware at EL3 answers it: versions, features, states, and calls that are refused. */
#include "lib/firmware.h"

enum function {
    VERSION = 0x84000000,
    CPU_ON_32 = 0x84000003,
    AFFINITY_INFO_32 = 0x84000004,
    MIGRATE_INFO_TYPE = 0x84000006,
    FEATURES = 0x8400000a,
    NOTHING = 0x84001234,
    NOTHING_OF_OEM = 0xc3001234,
};
#define CPU_SUSPEND 0xc4000001ull
#define CPU_ON 0xc4000003ull
#define AFFINITY_INFO 0xc4000004ull

enum { NOT_SUPPORTED = -1, INVALID_PARAMETERS = -2, ALREADY_ON = -4 };

static u64 call(u64 function, u64 first, u64 second, u64 third) {
    register u64 x0 asm("x0") = function;
    register u64 x1 asm("x1") = first;
    register u64 x2 asm("x2") = second;
    register u64 x3 asm("x3") = third;
    asm volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)::"x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                 "x12", "x13", "x14", "x15", "x16", "x17", "memory");
    return (u64)(int)x0;
}

int main(void) {
    if (FIELD(read_sysreg(currentel), 3, 2) != 1)
        return tap_skip_all("needs a start at EL1, which calls by HVC");
    is(call(VERSION, 0, 0, 0), 0x10001, "PSCI 1.1");
    is(call(FEATURES, CPU_ON, 0, 0), 0, "CPU_ON is there");
    is(call(FEATURES, CPU_ON_32, 0, 0), 0, "and with 32 bits");
    is(call(FEATURES, AFFINITY_INFO, 0, 0), 0, "AFFINITY_INFO is there");
    is(call(FEATURES, CPU_SUSPEND, 0, 0), 0, "CPU_SUSPEND is there");
    is(call(FEATURES, NOTHING, 0, 0), NOT_SUPPORTED, "what is no function is not");
    is(call(AFFINITY_INFO, 0, 0, 0), 0, "this PE is on");
    is(call(AFFINITY_INFO_32, 0, 0, 0), 0, "and with 32 bits");
    is(call(AFFINITY_INFO, 0xff, 0, 0), INVALID_PARAMETERS, "there is no such PE");
    is(call(CPU_ON, 0, 0x40080000, 0), ALREADY_ON, "this PE cannot be turned on");
    is(call(CPU_ON, 0xff, 0x40080000, 0), INVALID_PARAMETERS, "no other can");
    is(call(MIGRATE_INFO_TYPE, 0, 0, 0), 2, "there is no trusted OS to migrate");
    is(call(NOTHING, 0, 0, 0), NOT_SUPPORTED, "an unknown function of the standard");
    is(call(NOTHING_OF_OEM, 0, 0, 0), NOT_SUPPORTED, "an unknown function of nobody");
    return tap_done();
}
