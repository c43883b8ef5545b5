/* Interrupts to and fro between two PEs. The first argument is how many times (64). The second is how PE 0 waits for
   the answer: "wfi" (as built) sleeps until an interrupt brings it, "poll" looks at memory until PE 1 has stored it, as a
   kernel does that waits for a function on another CPU. PE 1 sleeps in both. */
#include "lib/arguments.h"
#include "lib/gic.h"
#include "lib/smp.h"

#define SGI 1

static volatile u64 pings, pongs; /* taken by PE 1, and answered to PE 0 */
static bool polls;

void on_interrupt(struct trap *trap) {
    (void)trap;
    u64 intid = read_sysreg(icc_iar1_el1);
    if (pe() == 0) {
        pongs++;
    } else {
        pings++;
        if (polls)
            store_release(&pongs, pongs + 1);
        else
            gic_sgi(SGI, BIT(0));
    }
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

static void set_up_gic(unsigned index) {
    if (index)
        gic_init_pe();
    gic_set_up(SGI, 1, 0x80, true);
}

/* Interrupts are masked but between WFI and the next look, so that none is missed. */
static void sleep_until(volatile u64 *count, u64 value) {
    while (*count < value)
        asm volatile("wfi\n msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
}

static u64 rounds;

static void play(unsigned index) {
    if (index) {
        sleep_until(&pings, rounds);
        return;
    }
    for (u64 round = 1; round <= rounds; round++) {
        gic_sgi(SGI, BIT(1));
        if (!polls) {
            sleep_until(&pongs, round);
        } else {
            while (load_acquire(&pongs) < round) {
            }
        }
    }
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    rounds = argument_number(1, 64);
    const char *how = argument(2);
    polls = how && strcmp(how, "poll") == 0;
    if (how && !polls && strcmp(how, "wfi") != 0) {
        print("not a way to wait: %s (wfi, poll)\n", how);
        return 2;
    }
    mmu_on();
    if (smp_start(1, 0) != PSCI_SUCCESS)
        return tap_skip_all("needs two PEs");
    gic_init();
    on_all(2, set_up_gic);
    on_all(2, play);
    is(pings, rounds, "PE 1 took every interrupt");
    is(pongs, rounds, "PE 0 had every answer");
    return tap_done();
}
