/* Interrupts at EL1 through a GICv3 without Security states: groups, priorities, masking, preemption,
   active and pending states, both EOI modes, edge and level. */
#include "lib/el.h"
#include "lib/gic.h"

#define SGI_A 1
#define SGI_B 2
#define SGI_C 3
#define SPI_A 40
#define SPI_B 41

#define IDLE 0xff /* ICC_RPR_EL1 */

#define UART 0x09000000ull
#define UART_DR (UART + 0x00)
#define UART_IMSC (UART + 0x38)
#define UART_RIS (UART + 0x3c)
#define UART_MIS (UART + 0x40)
#define UART_ICR (UART + 0x44)
#define UART_TX BIT(5)

#define ICC_CTLR_EOIMODE BIT(1) /* in ICC_CTLR_EL1 */

static volatile unsigned count, depth, deepest;
static unsigned order[8];
static struct trap interrupted;
static void (*in_handler)(unsigned intid); /* with the interrupt active */

void on_interrupt(struct trap *trap) {
    bool fiq = trap->vector % 4 == VECTOR_FIQ;
    interrupted = *trap;
    u64 intid = fiq ? read_sysreg(icc_iar0_el1) : read_sysreg(icc_iar1_el1);
    if (count < ARRAY_SIZE(order))
        order[count] = (unsigned)intid;
    if (++count > 50) {
        print("# too many interrupts\n");
        exit_with(96);
    }
    if (++depth > deepest)
        deepest = depth;
    if (in_handler)
        in_handler((unsigned)intid);
    depth--;
    if (fiq)
        write_sysreg(icc_eoir0_el1, intid);
    else
        write_sysreg(icc_eoir1_el1, intid);
    isb();
}

#define unmask() asm volatile("msr daifclr, #3" ::: "memory")
#define mask() asm volatile("msr daifset, #3" ::: "memory")

/* Lets in what is pending. */
static void window(void) {
    unmask();
    isb();
    mask();
}

static void are(unsigned expected, const char *name) {
    is(count, expected, name);
    count = depth = deepest = 0;
}

static void software_generated(void) {
    print("# SGIs\n");
    gic_set_up(SGI_A, 1, 0x80, true);
    is(read_sysreg(icc_rpr_el1), IDLE, "the running priority is idle");
    is(read_sysreg(icc_hppir1_el1), SPURIOUS, "nothing is pending");
    is(read_sysreg(icc_iar1_el1), SPURIOUS, "nothing to acknowledge");
    gic_sgi(SGI_A, 1);
    ok(gic_is_pending(SGI_A), "sent, it is pending");
    is(read_sysreg(isr_el1), BIT(7), "ISR_EL1.I");
    is(read_sysreg(icc_hppir1_el1), SGI_A, "ICC_HPPIR1_EL1");
    are(0, "masked by PSTATE.I");
    is(read_sysreg(icc_iar1_el1), SGI_A, "acknowledged");
    is(read_sysreg(icc_rpr_el1), 0x80, "its priority is running");
    ok(!gic_is_pending(SGI_A), "not pending");
    ok(gic_is_active(SGI_A), "but active");
    is(read_sysreg(isr_el1), 0, "ISR_EL1.I is clear");
    write_sysreg(icc_eoir1_el1, SGI_A);
    isb();
    is(read_sysreg(icc_rpr_el1), IDLE, "ended: the running priority is idle");
    ok(!gic_is_active(SGI_A), "not active");
    gic_sgi(SGI_A, 1);
    window();
    are(1, "unmasked, it is taken once");
    is(order[0], SGI_A, "its INTID");
    is(interrupted.vector, FROM_CURRENT(VECTOR_IRQ), "at the IRQ vector");
    is(interrupted.spsr & SPSR_CHECKED & 0xfffffff, EL1H & ~(PSR_I | PSR_F), "SPSR_EL1");
    gic_sgi(SGI_A, 2);
    window();
    are(0, "an SGI to another PE");
    gic_sgi(SGI_A, 1);
    gic_sgi(SGI_A, 1);
    window();
    are(1, "two SGIs are one");
    gic_sgi(SGI_A, 1);
    gic_unpend(SGI_A);
    window();
    are(0, "taken back by GICR_ICPENDR0");
    gic_pend(SGI_A);
    window();
    are(1, "made pending by GICR_ISPENDR0");
    gic_disable(SGI_A);
    gic_sgi(SGI_A, 1);
    window();
    are(0, "disabled");
    gic_enable(SGI_A);
    window();
    are(1, "enabled again");
    asm volatile("msr spsel, #0" ::: "memory");
    gic_sgi(SGI_A, 1);
    window();
    asm volatile("msr spsel, #1" ::: "memory");
    are(1, "on SP_EL0");
    is(interrupted.vector, FROM_SP_EL0(VECTOR_IRQ), "at that vector");
    gic_sgi(SGI_A, 1);
    asm volatile("wfi" ::: "memory");
    are(0, "WFI ends for a pending interrupt that is masked");
    window();
    are(1, "which is then taken");
}

/* The instruction after the one that lets the interrupt in. */
#define TAKEN_AT(name, before, change)                                                  \
    do {                                                                                \
        u64 at;                                                                         \
        before;                                                                         \
        asm volatile("adr %0, 1f\n" change "\n1: nop\n msr daifset, #3" : "=&r"(at)::"x9", "memory"); \
        is(interrupted.elr, at, name);                                                  \
        are(1, "once");                                                                 \
    } while (0)

static void promptness(void) {
    print("# where it is taken\n");
    TAKEN_AT("right after MSR DAIFClr", gic_sgi(SGI_A, 1), "msr daifclr, #2");
    TAKEN_AT("right after MSR DAIF", gic_sgi(SGI_A, 1), "msr daif, xzr");
    TAKEN_AT("right after ERET", gic_sgi(SGI_A, 1),
             "mov x9, #0x345\n msr spsr_el1, x9\n adr x9, 1f\n msr elr_el1, x9\n eret");
    TAKEN_AT("right after ICC_SGI1R_EL1", unmask(), "mov x9, #0x01000000\n movk x9, #1\n msr icc_sgi1r_el1, x9");
    write_sysreg(icc_pmr_el1, 0x40);
    gic_sgi(SGI_A, 1);
    TAKEN_AT("right after ICC_PMR_EL1", unmask(), "mov x9, #0xff\n msr icc_pmr_el1, x9");
    write_sysreg(icc_igrpen1_el1, 0);
    gic_sgi(SGI_A, 1);
    TAKEN_AT("right after ICC_IGRPEN1_EL1", unmask(), "mov x9, #1\n msr icc_igrpen1_el1, x9");
}

static void masking(void) {
    print("# masks\n");
    for (u64 pmr = 0x60; pmr <= 0xa0; pmr += 0x10) {
        write_sysreg(icc_pmr_el1, pmr);
        isb();
        gic_sgi(SGI_A, 1); /* priority 0x80 */
        window();
        print("# PMR 0x%lx\n", pmr);
        are(pmr > 0x80, "taken only if its priority is above PMR");
        gic_unpend(SGI_A);
    }
    write_sysreg(icc_pmr_el1, 0xff);
    write_sysreg(icc_igrpen1_el1, 0);
    isb();
    gic_sgi(SGI_A, 1);
    window();
    are(0, "Group 1 off in the CPU interface");
    write_sysreg(icc_igrpen1_el1, 1);
    isb();
    window();
    are(1, "and on");
    mmio_write(GICD_BASE + GICD_CTLR, BIT(4) | BIT(0));
    gic_sgi(SGI_A, 1);
    window();
    are(0, "Group 1 off in the distributor");
    mmio_write(GICD_BASE + GICD_CTLR, BIT(4) | BIT(1) | BIT(0));
    while (mmio_read(GICD_BASE + GICD_CTLR) & GICD_CTLR_RWP) {
    }
    window();
    are(1, "and on");
}

static void preempt_with_b(unsigned intid) {
    if (intid == SGI_A) {
        gic_sgi(SGI_B, 1);
        window();
    }
}

static void rpr_order(unsigned intid) {
    if (intid == SGI_A)
        is(read_sysreg(icc_rpr_el1), 0x80, "ICC_RPR_EL1 in the first handler");
    else if (intid == SGI_B)
        is(read_sysreg(icc_rpr_el1), 0x40, "ICC_RPR_EL1 in the second");
    preempt_with_b(intid);
}

static void priorities(void) {
    print("# priorities\n");
    gic_set_up(SGI_A, 1, 0x80, true);
    gic_set_up(SGI_B, 1, 0x40, true);
    gic_set_up(SGI_C, 1, 0xc0, true);
    is(gic_priority(SGI_B), 0x40, "a priority is read back");
    gic_sgi(SGI_C, 1);
    gic_sgi(SGI_A, 1);
    gic_sgi(SGI_B, 1);
    is(read_sysreg(icc_hppir1_el1), SGI_B, "the highest priority is first");
    unmask();
    isb();
    mask();
    ok(order[0] == SGI_B && order[1] == SGI_A && order[2] == SGI_C, "taken in the order of priorities");
    are(3, "all three");

    print("# preemption\n");
    in_handler = rpr_order;
    gic_sgi(SGI_A, 1);
    window();
    is(deepest, 2, "a higher priority preempts");
    ok(order[0] == SGI_A && order[1] == SGI_B, "in this order");
    are(2, "both");
    gic_set_priority(SGI_B, 0x80);
    in_handler = preempt_with_b;
    gic_sgi(SGI_A, 1);
    window();
    is(deepest, 1, "an equal priority does not");
    are(2, "both");
    gic_set_priority(SGI_B, 0xc0);
    gic_sgi(SGI_A, 1);
    window();
    is(deepest, 1, "nor a lower one");
    are(2, "both");

    print("# binary point\n");
    gic_set_priority(SGI_B, 0x60);
    /* For Group 1 without a common binary point the value n splits priorities above bit n - 1. */
    for (u64 bpr = 4; bpr <= 7; bpr++) {
        write_sysreg(icc_bpr1_el1, bpr);
        isb();
        gic_sgi(SGI_A, 1);
        window();
        print("# BPR1 = %lu\n", bpr);
        is(deepest, 2, "0x60 preempts 0x80");
        are(2, "both");
        gic_set_priority(SGI_A, 0x70);
        gic_sgi(SGI_A, 1);
        window();
        is(deepest, bpr <= 4 ? 2 : 1, "0x60 preempts 0x70 if the group priority says so");
        are(2, "both");
        gic_set_priority(SGI_A, 0x80);
    }
    write_sysreg(icc_bpr1_el1, 0);
    isb();
    in_handler = 0;
}

static void active_state(void) {
    print("# active\n");
    gic_set_up(SPI_A, 1, 0x80, true);
    gic_pend(SPI_A);
    is(read_sysreg(icc_hppir1_el1), SPI_A, "a shared interrupt made pending");
    is(read_sysreg(icc_iar1_el1), SPI_A, "acknowledged");
    gic_pend(SPI_A);
    ok(gic_is_active(SPI_A) && gic_is_pending(SPI_A), "again while active: active and pending");
    is(read_sysreg(icc_hppir1_el1), SPURIOUS, "but not the next");
    write_sysreg(icc_eoir1_el1, SPI_A);
    isb();
    is(read_sysreg(icc_hppir1_el1), SPI_A, "until it is ended");
    window();
    are(1, "then taken");
    gic_write_bit(GIC_ISACTIVER, SPI_A);
    gic_pend(SPI_A);
    window();
    are(0, "made active by software, it is not taken");
    gic_write_bit(GIC_ICACTIVER, SPI_A);
    window();
    are(1, "made inactive, it is");

    print("# EOImode = 1\n");
    write_sysreg(icc_ctlr_el1, ICC_CTLR_EOIMODE);
    isb();
    gic_pend(SPI_A);
    is(read_sysreg(icc_iar1_el1), SPI_A, "acknowledged");
    write_sysreg(icc_eoir1_el1, SPI_A);
    isb();
    is(read_sysreg(icc_rpr_el1), IDLE, "EOIR drops the priority");
    ok(gic_is_active(SPI_A), "and leaves it active");
    gic_pend(SPI_A);
    window();
    are(0, "so it is not taken again");
    write_sysreg(icc_dir_el1, SPI_A);
    isb();
    ok(!gic_is_active(SPI_A), "DIR deactivates it");
    write_sysreg(icc_ctlr_el1, 0);
    isb();
    window();
    are(1, "and it is taken");
    gic_disable(SPI_A);
}

static void group0(void) {
    print("# Group 0\n");
    gic_set_up(SGI_A, 0, 0x80, true);
    gic_set_up(SGI_B, 1, 0xa0, true);
    write_sysreg(icc_sgi0r_el1, (u64)SGI_A << 24 | 1);
    isb();
    is(read_sysreg(isr_el1), BIT(6), "an FIQ");
    is(read_sysreg(icc_hppir0_el1), SGI_A, "ICC_HPPIR0_EL1");
    is(read_sysreg(icc_iar1_el1), SPURIOUS, "Group 1 has nothing to acknowledge");
    asm volatile("msr daifclr, #2\n isb\n msr daifset, #2" ::: "memory");
    are(0, "not let in by PSTATE.I");
    asm volatile("msr daifclr, #1\n isb\n msr daifset, #1" ::: "memory");
    is(interrupted.vector, FROM_CURRENT(VECTOR_FIQ), "the FIQ vector");
    are(1, "let in by PSTATE.F");
    gic_sgi(SGI_A, 1);
    window();
    are(0, "ICC_SGI1R_EL1 does not send Group 0");
    gic_sgi(SGI_B, 1);
    write_sysreg(icc_sgi0r_el1, (u64)SGI_A << 24 | 1);
    isb();
    window();
    ok(order[0] == SGI_A && order[1] == SGI_B, "the higher priority is first, of whichever group");
    are(2, "both");
    write_sysreg(icc_igrpen0_el1, 0);
    write_sysreg(icc_sgi0r_el1, (u64)SGI_A << 24 | 1);
    isb();
    window();
    are(0, "Group 0 off in the CPU interface");
    write_sysreg(icc_igrpen0_el1, 1);
    isb();
    window();
    are(1, "and on");
    gic_disable(SGI_A);
}

static void silence_third(unsigned intid) {
    if (intid == SPI_UART && count == 3)
        mmio_write(UART_IMSC, 0);
}

static void clear_uart(unsigned intid) {
    if (intid == SPI_UART)
        mmio_write(UART_ICR, UART_TX);
}

static void stop_timer(unsigned intid) {
    if (intid == PPI_EL1_PHYSICAL)
        write_sysreg(cntp_ctl_el0, 0);
}

static void levels(void) {
    print("# level: the UART's transmit interrupt\n");
    gic_set_up(SPI_UART, 1, 0x80, false);
    mmio_write(UART_ICR, 0x7ff);
    is(mmio_read(UART_RIS) & UART_TX, 0, "cleared");
    window();
    are(0, "not yet");
    mmio_write(UART_DR, '#');
    mmio_write(UART_DR, '\n');
    is(mmio_read(UART_RIS) & UART_TX, UART_TX, "characters were sent");
    is(mmio_read(UART_MIS), 0, "masked in the UART");
    ok(!gic_is_pending(SPI_UART), "its line is low");
    mmio_write(UART_IMSC, UART_TX);
    ok(gic_is_pending(SPI_UART), "unmasked there its line is high");
    gic_unpend(SPI_UART);
    ok(gic_is_pending(SPI_UART), "which GICD_ICPENDR does not change");
    in_handler = silence_third;
    window();
    are(3, "taken until the UART is silent");
    ok(!gic_is_pending(SPI_UART), "its line is low again");
    mmio_write(UART_IMSC, UART_TX);
    in_handler = clear_uart;
    window();
    are(1, "taken once if the handler clears it");
    mmio_write(UART_ICR, 0);
    gic_set_edge(SPI_UART, true);
    mmio_write(UART_IMSC, 0);
    mmio_write(UART_ICR, UART_TX);
    gic_unpend(SPI_UART);
    in_handler = 0;
    mmio_write(UART_DR, '#');
    mmio_write(UART_DR, '\n');
    mmio_write(UART_IMSC, UART_TX);
    window();
    are(1, "edge-triggered it is taken once, though the line stays high");
    mmio_write(UART_IMSC, 0);
    mmio_write(UART_IMSC, UART_TX);
    window();
    are(1, "and once more after another edge");
    mmio_write(UART_IMSC, 0);
    gic_disable(SPI_UART);

    print("# level: a timer\n");
    gic_set_up(PPI_EL1_PHYSICAL, 1, 0x80, false);
    in_handler = stop_timer;
    write_sysreg(cntp_cval_el0, 0);
    write_sysreg(cntp_ctl_el0, 1);
    isb();
    ok(gic_is_pending(PPI_EL1_PHYSICAL), "an expired timer's line is high");
    window();
    are(1, "taken");
    ok(!gic_is_pending(PPI_EL1_PHYSICAL), "stopped, its line is low");
    write_sysreg(cntp_ctl_el0, 1);
    isb();
    write_sysreg(cntp_ctl_el0, 3);
    isb();
    window();
    are(0, "masked in the timer before it was let in: not taken");
    write_sysreg(cntp_ctl_el0, 0);
    gic_disable(PPI_EL1_PHYSICAL);
    in_handler = 0;

    print("# level: made pending by software\n");
    gic_set_up(SPI_B, 1, 0x80, false);
    gic_pend(SPI_B);
    window();
    are(1, "GICD_ISPENDR is taken once");
    gic_pend(SPI_B);
    gic_unpend(SPI_B);
    window();
    are(0, "and taken back by GICD_ICPENDR");
    gic_disable(SPI_B);
}

static void identification(void) {
    print("# identification\n");
    is(mmio_read(GICD_BASE + 0xffe8) >> 4 & 15, 3, "GICD_PIDR2 says GICv3");
    is(mmio_read(GICD_BASE + GICD_CTLR) & (BIT(6) | BIT(4)), BIT(6) | BIT(4), "GICD_CTLR: DS, ARE");
    is(FIELD(read_sysreg(id_aa64pfr0_el1), 27, 24), 1, "ID_AA64PFR0_EL1.GIC");
    is(read_sysreg(icc_sre_el1) & 1, 1, "ICC_SRE_EL1.SRE");
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    gic_init();
    identification();
    software_generated();
    promptness();
    masking();
    priorities();
    active_state();
    group0();
    levels();
    return tap_done();
}
