/* The Performance Monitors: fields of their registers, numbers of events, counters by their numbers. */
#pragma once

#include "firmware.h"

#define PMCR_E BIT(0)
#define PMCR_P BIT(1)
#define PMCR_C BIT(2)
#define PMCR_DP BIT(5)
#define PMCR_LP BIT(7)
#define PMCR_FZO BIT(9)
#define PMCR_FZS BIT(32)
#define PMCR_N(value) FIELD(value, 15, 11)

#define PM_CYCLES BIT(31) /* in the maps of counters */
#define PM_INSTRUCTIONS BIT(32)

#define PMEVTYPER_SH BIT(24)
#define PMEVTYPER_M BIT(26)
#define PMEVTYPER_NSH BIT(27)
#define PMEVTYPER_NSU BIT(28)
#define PMEVTYPER_NSK BIT(29)
#define PMEVTYPER_U BIT(30)
#define PMEVTYPER_P BIT(31)
#define PMEVTYPER_SYNC BIT(58)
#define PMEVTYPER_TH(limit) ((u64)(limit) << 32)
#define PMEVTYPER_TC(control) ((u64)(control) << 61)

#define PMICNTR_EL0 S3_3_C9_C4_0
#define PMICFILTR_EL0 S3_3_C9_C6_0
#define PMZR_EL0 S3_3_C9_C13_4
#define PMUACR_EL1 S3_0_C9_C14_4
#define PMECR_EL1 S3_0_C9_C14_5
#define PMMIR_EL1 S3_0_C9_C14_6
#define PMIAR_EL1 S3_0_C9_C14_7

#define PPI_PMU 23

enum pmu_event {
    SW_INCR = 0x00,
    LD_RETIRED = 0x06,
    ST_RETIRED = 0x07,
    INST_RETIRED = 0x08,
    EXC_TAKEN = 0x09,
    EXC_RETURN = 0x0a,
    BR_IMMED_RETIRED = 0x0d,
    CPU_CYCLES = 0x11,
    CHAIN = 0x1e,
    BR_RETIRED = 0x21,
    EXC_SVC = 0x82,
};

/* FEAT_PMUv3, p1, p4, p5, p7, p8, p9; 0 is no Performance Monitors. */
enum pmu_version { PMUV3 = 1, PMUV3P1 = 4, PMUV3P4 = 5, PMUV3P5 = 6, PMUV3P7 = 7, PMUV3P8 = 8, PMUV3P9 = 9 };
unsigned pmu_version(void);

/* Stops all counters of this Exception level; none is enabled, none has overflowed, none is noticed. */
void pmu_stop(void);
/* Overflows are interrupts: with FEAT_EBEP PMECR_EL1 is UNKNOWN after a reset. */
void pmu_interrupts(void);
/* The first six event counters, by number, and 31 for the cycle counter. */
u64 pmu_count(unsigned counter);
void pmu_set_count(unsigned counter, u64 value);
/* PMEVTYPER<n>_EL0 or PMCCFILTR_EL0. */
void pmu_set_type(unsigned counter, u64 type);

/* One of many conditions that are a line of TAP together; of the first that does not hold the values are printed. */
void expect(bool condition, const char *what, u64 which, u64 got, u64 expected);
/* The line: whether every condition since the last one held. */
void ok_group(const char *name);
