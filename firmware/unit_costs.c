/* One thing, many times, for whoever measures what it costs: `unit_costs.elf TIMES KIND`, KIND "uart" (as built) for a
   read of the UART's flags, "rtc" for one of the clock's seconds, "zero" for DC ZVA, "svc" for an exception at EL1 and
   the way back, "none" for the loop alone. Starts at EL1. */
#include "lib/arguments.h"
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/mmu.h"

#define UART_FR 0x09000018ull
#define UART_FR_TXFE BIT(7) /* nothing waits to be sent */
#define RTC_DR 0x09010000ull
#define ZEROED 65536

static char memory[ZEROED] __attribute__((aligned(2048)));
static u64 calls;

void on_trap(struct trap *trap) {
    if (ESR_EC(trap->esr) != EC_SVC) {
        record_and_skip(trap);
        return;
    }
    calls++;
}

static bool uart(u64 times) {
    u64 empty = 0;
    for (u64 n = 0; n < times; n++)
        empty += (mmio_read(UART_FR) & UART_FR_TXFE) != 0;
    return ok(empty == times, "the UART has sent all, each time");
}

static bool rtc(u64 times) {
    u64 first = mmio_read(RTC_DR), last = first;
    for (u64 n = 0; n < times; n++)
        last = mmio_read(RTC_DR);
    return ok(last >= first, "the clock does not go back");
}

static bool zero(u64 times) {
    u64 block = 4ull << (read_sysreg(dczid_el0) & 15), place = 0, left = 0;
    memset(memory, 0xff, sizeof memory);
    for (u64 n = 0; n < times; n++) {
        asm volatile("dc zva, %0" ::"r"(memory + place) : "memory");
        place = (place + block) % sizeof memory;
    }
    for (u64 n = 0; n < sizeof memory; n++)
        left += memory[n] != 0;
    u64 zeroed = times * block;
    return ok(left == (zeroed < sizeof memory ? sizeof memory - zeroed : 0), "so many bytes are zero");
}

static bool svc(u64 times) {
    for (u64 n = 0; n < times; n++)
        asm volatile("svc #0" ::: "memory");
    return ok(calls == times, "each SVC was taken");
}

static bool none(u64 times) {
    u64 n = 0;
    while (n < times)
        asm volatile("add %0, %0, #1" : "+r"(n));
    return ok(n == times, "so many rounds");
}

static const struct kind {
    const char *name;
    bool (*cost)(u64 times);
} kinds[] = {{"uart", uart}, {"rtc", rtc}, {"zero", zero}, {"svc", svc}, {"none", none}};

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    u64 times = argument_number(1, 64);
    const char *name = argument(2) ? argument(2) : kinds[0].name;
    mmu_on();
    for (unsigned n = 0; n < sizeof kinds / sizeof *kinds; n++)
        if (!strcmp(kinds[n].name, name)) {
            kinds[n].cost(times);
            return tap_done();
        }
    print("not a kind: %s (uart, rtc, zero, svc, none)\n", name);
    return 2;
}
