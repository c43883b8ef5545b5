/* Where interrupts are taken: in front of the operation that follows the one which made them deliverable. Exact for
   every cause; QEMU is not for stores to devices. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"

#define SGI 3
#define SPI 45
#define UART_DR 0x09000000ull
#define UART_IMSC 0x09000038ull
#define UART_ICR 0x09000044ull
#define UART_TX BIT(5)
#define ENABLE BIT(0)

static volatile unsigned interrupts;
static u64 elr, intid, count;

void on_interrupt(struct trap *trap) {
    count = read_sysreg(cntvct_el0);
    elr = trap->elr;
    intid = read_sysreg(icc_iar1_el1);
    interrupts++;
    write_sysreg(cntv_ctl_el0, 0);
    mmio_write(UART_IMSC, 0);
    if (intid == PPI_SPE)
        write_sysreg(PMBSR_EL1, 0);
    dsb(sy);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

#define unmask() asm volatile("msr daifclr, #2" ::: "memory")
#define mask() asm volatile("msr daifset, #2" ::: "memory")

/* x9 is `address`, x10 `value`; the interrupt must come in front of label 1. */
#define AT(name, id, address, value, instructions)                                        \
    do {                                                                                  \
        u64 at;                                                                           \
        register u64 x9 asm("x9") = (u64)(address);                                       \
        register u64 x10 asm("x10") = (u64)(value);                                       \
        asm volatile("adr %0, 1f\n" instructions "\n1: nop\n nop\n msr daifset, #2"        \
                     : "=&r"(at), "+r"(x9), "+r"(x10)::"memory");                          \
        bool good = interrupts == 1 && intid == (id) && elr == at;                        \
        if (!ok(good, name))                                                              \
            print("# interrupts %u, INTID %lu, ELR 0x%lx, expected 0x%lx\n", interrupts, intid, elr, at); \
        interrupts = 0;                                                                   \
    } while (0)

static void pend(void) {
    mask();
    gic_sgi(SGI, 1);
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    bool spe = FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32) != 0;
    if (!spe)
        return tap_skip_all("no SPE");
    mmu_on();
    write_sysreg(PMBSR_EL1, 0); /* UNKNOWN after reset */
    gic_init();
    gic_set_up(SGI, 1, 0x80, true);
    gic_set_up(SPI, 1, 0x80, true);
    gic_set_up(SPI_UART, 1, 0x80, false);
    gic_set_up(PPI_EL1_VIRTUAL, 1, 0x80, false);
    gic_set_up(PPI_SPE, 1, 0x80, false);
    u64 own_frame = gic_frame(SGI);

    pend();
    AT("MSR DAIFClr", SGI, 0, 0, "msr daifclr, #2");
    pend();
    AT("MSR DAIF", SGI, 0, 0, "msr daif, x10");
    pend();
    AT("ERET", SGI, 0, 0x345, "msr spsr_el1, x10\n adr x9, 1f\n msr elr_el1, x9\n eret");
    write_sysreg(icc_pmr_el1, 0x40);
    pend();
    unmask();
    AT("ICC_PMR_EL1", SGI, 0, 0xff, "msr icc_pmr_el1, x10");
    write_sysreg(icc_igrpen1_el1, 0);
    pend();
    unmask();
    AT("ICC_IGRPEN1_EL1", SGI, 0, 1, "msr icc_igrpen1_el1, x10");
    unmask();
    AT("ICC_SGI1R_EL1", SGI, 0, SGI << 24 | 1, "msr icc_sgi1r_el1, x10");
    unmask();
    AT("a store to GICR_ISPENDR0", SGI, own_frame + GIC_ISPENDR, BIT(SGI), "str w10, [x9]");
    unmask();
    AT("a store to GICD_ISPENDR", SPI, GICD_BASE + GIC_ISPENDR + 4, BIT(SPI - 32), "str w10, [x9]");
    gic_disable(SGI);
    pend();
    unmask();
    AT("a store to GICR_ISENABLER0", SGI, own_frame + GIC_ISENABLER, BIT(SGI), "str w10, [x9]");
    mmio_write(UART_DR, '#');
    mmio_write(UART_DR, '\n');
    unmask();
    AT("a store to a device that raises its line", SPI_UART, UART_IMSC, UART_TX, "str w10, [x9]");
    mmio_write(UART_ICR, UART_TX);
    write_sysreg(cntv_ctl_el0, ENABLE);
    write_sysreg(cntv_cval_el0, ~0ull);
    isb();
    unmask();
    AT("CNTV_CVAL_EL0 in the past", PPI_EL1_VIRTUAL, 0, 0, "msr cntv_cval_el0, x10");
    write_sysreg(cntv_cval_el0, 0);
    isb();
    unmask();
    AT("CNTV_CTL_EL0", PPI_EL1_VIRTUAL, 0, ENABLE, "msr cntv_ctl_el0, x10");
    write_sysreg(cntv_tval_el0, 1000);
    write_sysreg(cntv_ctl_el0, ENABLE);
    isb();
    unmask();
    AT("WFI", PPI_EL1_VIRTUAL, 0, 0, "wfi");
    u64 deadline = read_sysreg(cntv_cval_el0);
    ok(count >= deadline && count <= deadline + 8, "at the deadline");
    unmask();
    AT("PMBSR_EL1.S", PPI_SPE, 0, PMBSR_S, "msr S3_0_C9_C10_3, x10");
    write_sysreg(PMBSR_EL1, PMBSR_S);
    mask();
    AT("MSR DAIFClr, the buffer management interrupt", PPI_SPE, 0, 0, "msr daifclr, #2");

    /* A timer that expires in a loop: the handler finds the time of the deadline. */
    unsigned late = 0;
    for (unsigned i = 0; i < 20; i++) {
        write_sysreg(cntv_cval_el0, read_sysreg(cntvct_el0) + 40 + i);
        write_sysreg(cntv_ctl_el0, ENABLE);
        unmask();
        while (!interrupts) {
        }
        mask();
        deadline = read_sysreg(cntv_cval_el0);
        late += count < deadline || count > deadline + 4; /* a tick is 16 operations; the handler has begun */
        interrupts = 0;
    }
    is(late, 0, "a timer in a loop, at its deadline");
    return tap_done();
}
