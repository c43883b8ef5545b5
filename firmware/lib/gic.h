/* GICv3, as software in one Security state sees it: distributor, this PE's redistributor, CPU interface. */
#pragma once

#include "firmware.h"

#define SPURIOUS 1023
#define PPI_EL1_PHYSICAL 30
#define PPI_EL1_VIRTUAL 27
#define PPI_EL2_PHYSICAL 26
#define PPI_EL2_VIRTUAL 28
#define PPI_SECURE_PHYSICAL 29
#define PPI_SPE 21
#define SPI_UART 33

#define GICD_BASE 0x08000000ull
#define GICD_CTLR 0x0000
#define GICD_CTLR_RWP BIT(31)
#define GIC_IGROUPR 0x0080 /* the same offsets in the distributor and in the SGI frame of a redistributor */
#define GIC_ISENABLER 0x0100
#define GIC_ICENABLER 0x0180
#define GIC_ISPENDR 0x0200
#define GIC_ICPENDR 0x0280
#define GIC_ISACTIVER 0x0300
#define GIC_ICACTIVER 0x0380
#define GIC_IPRIORITYR 0x0400
#define GIC_ICFGR 0x0c00
#define GIC_IGRPMODR 0x0d00
#define GICD_IROUTER 0x6000

/* Distributor on, every interrupt off; then this PE's redistributor and CPU interface: all SGIs and PPIs
   Group 1, disabled, priority 0xa0; PMR 0xff, BPR 0, EOImode 0, groups 0 and 1 enabled. */
void gic_init(void);
/* The second half alone, for further PEs. */
void gic_init_pe(void);

/* The base of the frame that holds the registers of this interrupt; and one of its bits. */
u64 gic_frame(unsigned intid);
bool gic_bit(unsigned registers, unsigned intid);
void gic_write_bit(unsigned registers, unsigned intid);

void gic_set_group(unsigned intid, unsigned group);
void gic_set_priority(unsigned intid, u8 priority);
u8 gic_priority(unsigned intid);
void gic_set_edge(unsigned intid, bool edge);
/* SPIs only: to the PE with this affinity. */
void gic_route(unsigned intid, u64 affinity);
/* All of it, and enabled. */
void gic_set_up(unsigned intid, unsigned group, u8 priority, bool edge);

#define gic_enable(intid) gic_write_bit(GIC_ISENABLER, intid)
#define gic_disable(intid) gic_write_bit(GIC_ICENABLER, intid)
#define gic_pend(intid) gic_write_bit(GIC_ISPENDR, intid)
#define gic_unpend(intid) gic_write_bit(GIC_ICPENDR, intid)
#define gic_is_pending(intid) gic_bit(GIC_ISPENDR, intid)
#define gic_is_active(intid) gic_bit(GIC_ISACTIVER, intid)

/* A Group 1 SGI to the PEs with these numbers as Aff0 (bits), Aff1 to Aff3 being 0. */
void gic_sgi(unsigned intid, u64 targets);

static inline u64 mmio_read(u64 address) {
    return *(volatile u32 *)address;
}
static inline void mmio_write(u64 address, u64 value) {
    *(volatile u32 *)address = (u32)value;
}
