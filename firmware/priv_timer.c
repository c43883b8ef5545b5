/* The generic timer at EL1: counters, the physical and the virtual timer, their registers, interrupts at or
   after the deadline and never before, WFI. Nothing here depends on how fast time goes: on a busy host QEMU may
   stand still between any two instructions, for longer than any deadline here. */
#include "lib/el.h"
#include "lib/gic.h"

#define ENABLE BIT(0)
#define IMASK BIT(1)
#define ISTATUS BIT(2)
#define SOON 2000 /* ticks */
#define FREQUENCY 62500000 /* of QEMU's virt */

static u64 physical_count(void) {
    isb();
    return read_sysreg(cntpct_el0);
}

static u64 virtual_count(void) {
    isb();
    return read_sysreg(cntvct_el0);
}

/* One of the two timers, by what it is called. */
struct timer {
    const char *name;
    unsigned ppi;
    u64 (*count)(void);
    bool is_virtual;
};
static const struct timer timers[] = {
    {"physical", PPI_EL1_PHYSICAL, physical_count, false},
    {"virtual", PPI_EL1_VIRTUAL, virtual_count, true},
};

#define ACCESSORS(field)                                                                 \
    static u64 get_##field(const struct timer *t) {                                      \
        isb();                                                                           \
        return t->is_virtual ? read_sysreg(cntv_##field##_el0) : read_sysreg(cntp_##field##_el0); \
    }                                                                                    \
    static void set_##field(const struct timer *t, u64 value) {                          \
        if (t->is_virtual)                                                               \
            write_sysreg(cntv_##field##_el0, value);                                     \
        else                                                                             \
            write_sysreg(cntp_##field##_el0, value);                                     \
        isb();                                                                           \
    }
ACCESSORS(ctl)
ACCESSORS(cval)
ACCESSORS(tval)

enum action { STOP, MASK, LATER, AGAIN };

static volatile unsigned count, early;
static volatile enum action action;
static unsigned order[8];
static u64 taken_at[8]; /* read after the interrupt was acknowledged */
static u64 period;
static unsigned periods;

void on_interrupt(struct trap *trap) {
    (void)trap;
    u64 intid = read_sysreg(icc_iar1_el1), now = physical_count();
    for (unsigned i = 0; i < ARRAY_SIZE(timers); i++) {
        const struct timer *t = &timers[i];
        if (t->ppi != intid)
            continue;
        if (t->count() < get_cval(t) || get_ctl(t) != (ENABLE | ISTATUS))
            early++;
        switch (action) {
        case STOP:
            set_ctl(t, 0);
            break;
        case MASK:
            set_ctl(t, ENABLE | IMASK);
            break;
        case LATER: /* a last time: who handles one for longer than a period would never be done */
            if (count + 1 < periods)
                set_cval(t, get_cval(t) + period);
            else
                set_ctl(t, 0);
            break;
        case AGAIN: /* its line stays high */
            action = STOP;
        }
    }
    if (count < ARRAY_SIZE(order)) {
        order[count] = (unsigned)intid;
        taken_at[count] = now;
    }
    count++;
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

#define unmask() asm volatile("msr daifclr, #3" ::: "memory")
#define mask() asm volatile("msr daifset, #3" ::: "memory")

static void are(unsigned expected, const char *name) {
    is(count, expected, name);
    is(early, 0, "none too early");
    count = early = 0;
}

/* With interrupts masked between looking and waiting, lest the interrupt comes there. */
static void wait_for_interrupts(unsigned number) {
    while (count < number) {
        asm volatile("wfi" ::: "memory");
        unmask();
        isb();
        mask();
    }
}

/* ISTATUS may follow the deadline a little later (QEMU's does). */
static bool is_on_time(const struct timer *t, u64 deadline) {
    while (!(get_ctl(t) & ISTATUS)) {
    }
    return t->count() >= deadline;
}

static void counters(void) {
    is(read_sysreg(cntfrq_el0), FREQUENCY, "CNTFRQ_EL0");
    unsigned back = 0, apart = 0;
    u64 last = physical_count();
    for (unsigned i = 0; i < 1000; i++) {
        u64 v = virtual_count(), p = physical_count();
        back += v < last || p < v;
        last = p;
    }
    is(back, 0, "the counters never go back, and with no offset are one");
    u64 start = physical_count();
    for (unsigned i = 0; i < 100000 && physical_count() == start; i++)
        apart++;
    ok(apart < 100000, "and they advance");
}

static void registers(const struct timer *t) {
    set_ctl(t, IMASK);
    is(get_ctl(t) & ~ISTATUS, IMASK, "CTL: IMASK is kept");
    set_ctl(t, 0);
    is(get_ctl(t) & ~ISTATUS, 0, "CTL: and cleared");
    set_cval(t, 0x123456789abcdef0);
    is(get_cval(t), 0x123456789abcdef0, "CVAL has 64 bits");

    u64 before = t->count();
    set_tval(t, 0x10000);
    u64 cval = get_cval(t), after = t->count();
    ok(before + 0x10000 <= cval && cval <= after + 0x10000, "TVAL is written: CVAL is the count and it");
    before = t->count();
    u64 tval = get_tval(t);
    after = t->count();
    long left = (int)tval; /* negative if the deadline has gone by meanwhile */
    ok(left <= (long)(cval - before) && left >= (long)(cval - after), "TVAL is read: CVAL less the count");
    before = t->count();
    set_tval(t, 0xfffffffffffff000);
    cval = get_cval(t);
    after = t->count();
    ok(before - 0x1000 <= cval && cval <= after - 0x1000, "TVAL is signed");
    ok(get_tval(t) >= 0x80000000 && get_tval(t) <= 0xffffffff, "negative after the deadline, in 32 bits");
    before = t->count();
    set_tval(t, 0x180000000);
    cval = get_cval(t) + 0x80000000;
    after = t->count();
    ok(before <= cval && cval <= after, "TVAL takes 32 bits");
}

static void deadlines(const struct timer *t) {
    gic_set_up(t->ppi, 1, 0x80, false);
    mask();
    set_cval(t, ~0ull);
    set_ctl(t, ENABLE);
    is(get_ctl(t), ENABLE, "no deadline: CTL");
    ok(!gic_is_pending(t->ppi), "and no interrupt");
    set_cval(t, t->count() + SOON);
    ok(is_on_time(t, get_cval(t)), "at the deadline, not before: CTL.ISTATUS");
    ok(gic_is_pending(t->ppi), "and its interrupt is pending");
    set_ctl(t, ENABLE | IMASK);
    is(get_ctl(t), ENABLE | IMASK | ISTATUS, "IMASK leaves ISTATUS");
    ok(!gic_is_pending(t->ppi), "but takes the interrupt away");
    set_ctl(t, ENABLE);
    ok(gic_is_pending(t->ppi), "until it is cleared");
    set_cval(t, ~0ull);
    is(get_ctl(t), ENABLE, "a later deadline clears ISTATUS");
    ok(!gic_is_pending(t->ppi), "and takes the interrupt away");
    set_cval(t, 0);
    ok(gic_is_pending(t->ppi), "one in the past brings it back");
    set_ctl(t, 0);
    ok(!gic_is_pending(t->ppi), "CTL.ENABLE = 0 takes it away");

    action = STOP;
    set_cval(t, t->count() + SOON);
    set_ctl(t, ENABLE);
    unmask();
    while (!count) {
    }
    mask();
    are(1, "an interrupt in a loop");
    u64 deadline = t->count() + SOON;
    set_cval(t, deadline);
    set_ctl(t, ENABLE);
    asm volatile("wfi" ::: "memory");
    ok(t->count() >= deadline, "WFI with the interrupt masked ends at the deadline");
    are(0, "not taken");
    unmask();
    isb();
    mask();
    are(1, "taken when unmasked");
    set_tval(t, SOON);
    set_ctl(t, ENABLE);
    wait_for_interrupts(1);
    are(1, "taken out of WFI");
    action = MASK;
    set_tval(t, 0);
    set_ctl(t, ENABLE);
    unmask();
    isb();
    mask();
    are(1, "TVAL = 0 is now; the handler sets IMASK");
    action = AGAIN;
    set_cval(t, 0);
    set_ctl(t, ENABLE);
    unmask();
    isb();
    mask();
    are(2, "the line stays high: taken again");
    action = LATER;
    period = SOON;
    periods = 10;
    set_cval(t, t->count() + period);
    deadline = get_cval(t) + (periods - 1) * period;
    set_ctl(t, ENABLE);
    wait_for_interrupts(periods);
    ok(t->count() >= deadline, "ten periods take their time");
    are(10, "ten ticks");
}

/* The deadline of the second is so much after that of the first; whether the first came before it. */
static bool one_before_the_other(const struct timer *a, const struct timer *b, u64 apart) {
    u64 now = physical_count();
    set_cval(a, now + SOON);
    set_cval(b, now + SOON + apart);
    set_ctl(a, ENABLE);
    set_ctl(b, ENABLE);
    wait_for_interrupts(2);
    return taken_at[0] < now + SOON + apart;
}

static void both(void) {
    print("# both\n");
    action = STOP;
    for (unsigned first = 0; first < 2; first++) {
        const struct timer *a = &timers[first], *b = &timers[!first];
        /* if both have come before one is taken, the number decides, not the deadline: try again, further apart */
        for (u64 apart = 500 * SOON; !one_before_the_other(a, b, apart); apart *= 2)
            count = 0;
        ok(order[0] == a->ppi && order[1] == b->ppi, "in the order of their deadlines");
        are(2, "each once");
    }
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    gic_init();
    counters();
    for (unsigned i = 0; i < ARRAY_SIZE(timers); i++) {
        print("# the %s timer\n", timers[i].name);
        registers(&timers[i]);
        deadlines(&timers[i]);
    }
    both();
    return tap_done();
}
