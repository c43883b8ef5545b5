#include "firmware.h"

static unsigned count, failures;

bool ok(bool condition, const char *name) {
    print("%sok %u - %s\n", condition ? "" : "not ", ++count, name);
    if (!condition)
        failures++;
    return condition;
}

bool is(u64 actual, u64 expected, const char *name) {
    if (!ok(actual == expected, name))
        print("# got 0x%lx, expected 0x%lx\n", actual, expected);
    return actual == expected;
}

int tap_done(void) {
    print("1..%u\n", count);
    if (failures)
        print("# %u of %u failed\n", failures, count);
    return failures != 0;
}

int tap_skip_all(const char *reason) {
    print("1..0 # SKIP %s\n", reason);
    return 0;
}
