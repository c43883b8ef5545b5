#include "gic.h"

#define GICR_BASE 0x080a0000ull
#define GICR_STRIDE 0x20000ull
#define GICR_TYPER 0x0008
#define GICR_TYPER_LAST BIT(4)
#define GICR_WAKER 0x0014
#define WAKER_PROCESSOR_SLEEP BIT(1)
#define WAKER_CHILDREN_ASLEEP BIT(2)
#define SGI_FRAME 0x10000ull

#define DEFAULT_PRIORITY 0xa0a0a0a0

static u64 affinity(void) {
    u64 mpidr = read_sysreg(mpidr_el1);
    return FIELD(mpidr, 39, 32) << 24 | FIELD(mpidr, 23, 0);
}

static u64 redistributor(void) {
    for (u64 base = GICR_BASE;; base += GICR_STRIDE) {
        u64 typer = mmio_read(base + GICR_TYPER);
        if (mmio_read(base + GICR_TYPER + 4) == affinity())
            return base;
        if (typer & GICR_TYPER_LAST) {
            print("# no redistributor of this PE\n");
            exit_with(97);
        }
    }
}

u64 gic_frame(unsigned intid) {
    return intid < 32 ? redistributor() + SGI_FRAME : GICD_BASE;
}

bool gic_bit(unsigned registers, unsigned intid) {
    return mmio_read(gic_frame(intid) + registers + intid / 32 * 4) >> (intid % 32) & 1;
}

static void wait_for_distributor(void) {
    while (mmio_read(GICD_BASE + GICD_CTLR) & GICD_CTLR_RWP) {
    }
}

void gic_write_bit(unsigned registers, unsigned intid) {
    mmio_write(gic_frame(intid) + registers + intid / 32 * 4, BIT(intid % 32));
    wait_for_distributor();
}

static void change(unsigned registers, unsigned intid, unsigned width, u32 value) {
    u64 address = gic_frame(intid) + registers + intid * width / 32 * 4;
    unsigned shift = intid * width % 32;
    u32 mask = (u32)((1ull << width) - 1) << shift;
    mmio_write(address, (mmio_read(address) & ~mask) | (u64)value << shift);
}

void gic_set_group(unsigned intid, unsigned group) {
    change(GIC_IGROUPR, intid, 1, group);
}

void gic_set_priority(unsigned intid, u8 priority) {
    change(GIC_IPRIORITYR, intid, 8, priority);
}

u8 gic_priority(unsigned intid) {
    return (u8)(mmio_read(gic_frame(intid) + GIC_IPRIORITYR + intid / 4 * 4) >> (intid % 4 * 8));
}

void gic_set_edge(unsigned intid, bool edge) {
    if (intid >= 16) /* SGIs are edge-triggered */
        change(GIC_ICFGR, intid, 2, edge ? 2 : 0);
}

void gic_route(unsigned intid, u64 to) {
    *(volatile u64 *)(GICD_BASE + GICD_IROUTER + 8ull * intid) = to;
}

void gic_set_up(unsigned intid, unsigned group, u8 priority, bool edge) {
    gic_disable(intid);
    gic_set_group(intid, group);
    gic_set_priority(intid, priority);
    gic_set_edge(intid, edge);
    if (intid >= 32)
        gic_route(intid, read_sysreg(mpidr_el1) & 0xff00ffffff);
    gic_enable(intid);
}

void gic_sgi(unsigned intid, u64 targets) {
    dsb(ish);
    write_sysreg(icc_sgi1r_el1, (u64)intid << 24 | targets);
    isb();
}

void gic_init_pe(void) {
    u64 base = redistributor(), sgis = base + SGI_FRAME;
    mmio_write(base + GICR_WAKER, mmio_read(base + GICR_WAKER) & ~WAKER_PROCESSOR_SLEEP);
    while (mmio_read(base + GICR_WAKER) & WAKER_CHILDREN_ASLEEP) {
    }
    mmio_write(sgis + GIC_ICENABLER, ~0u);
    mmio_write(sgis + GIC_ICPENDR, ~0u);
    mmio_write(sgis + GIC_ICACTIVER, ~0u);
    mmio_write(sgis + GIC_IGROUPR, ~0u);
    for (unsigned i = 0; i < 32; i += 4)
        mmio_write(sgis + GIC_IPRIORITYR + i, DEFAULT_PRIORITY);
    wait_for_distributor();
    if (read_sysreg(CurrentEL) >> 2 == 2)
        write_sysreg(icc_sre_el2, 0xf);
    isb();
    write_sysreg(icc_sre_el1, 7);
    isb();
    write_sysreg(icc_ctlr_el1, 0);
    write_sysreg(icc_bpr0_el1, 0);
    write_sysreg(icc_bpr1_el1, 0);
    write_sysreg(icc_pmr_el1, 0xff);
    write_sysreg(icc_igrpen0_el1, 1);
    write_sysreg(icc_igrpen1_el1, 1);
    isb();
}

void gic_init(void) {
    mmio_write(GICD_BASE + GICD_CTLR, 0);
    wait_for_distributor();
    mmio_write(GICD_BASE + GICD_CTLR, BIT(4)); /* affinity routing, before groups are enabled */
    wait_for_distributor();
    for (unsigned i = 32; i < 64; i += 32) {
        mmio_write(GICD_BASE + GIC_ICENABLER + i / 8, ~0u);
        mmio_write(GICD_BASE + GIC_ICPENDR + i / 8, ~0u);
        mmio_write(GICD_BASE + GIC_ICACTIVER + i / 8, ~0u);
    }
    mmio_write(GICD_BASE + GICD_CTLR, BIT(4) | BIT(1) | BIT(0));
    wait_for_distributor();
    gic_init_pe();
}
