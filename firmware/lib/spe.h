/* The Statistical Profiling Extension as a driver sees it, and a reader of its records. */
#pragma once

#include "firmware.h"

#define PMSCR_EL1 S3_0_C9_C9_0
#define PMSNEVFR_EL1 S3_0_C9_C9_1
#define PMSICR_EL1 S3_0_C9_C9_2
#define PMSIRR_EL1 S3_0_C9_C9_3
#define PMSFCR_EL1 S3_0_C9_C9_4
#define PMSEVFR_EL1 S3_0_C9_C9_5
#define PMSLATFR_EL1 S3_0_C9_C9_6
#define PMSIDR_EL1 S3_0_C9_C9_7
#define PMBLIMITR_EL1 S3_0_C9_C10_0
#define PMBPTR_EL1 S3_0_C9_C10_1
#define PMBSR_EL1 S3_0_C9_C10_3
#define PMBIDR_EL1 S3_0_C9_C10_7

#define PMSCR_E0SPE BIT(0)
#define PMSCR_E1SPE BIT(1)
#define PMSCR_CX BIT(3)
#define PMSCR_PA BIT(4)
#define PMSCR_TS BIT(5)

#define PMSFCR_FE BIT(0)
#define PMSFCR_FT BIT(1)
#define PMSFCR_FL BIT(2)
#define PMSFCR_FNE BIT(3)
#define PMSFCR_B BIT(16)
#define PMSFCR_LD BIT(17)
#define PMSFCR_ST BIT(18)

#define PMSIRR_RND BIT(0)

#define PMSIDR_ERND BIT(5)
#define PMSIDR_ARCHINST BIT(3)
#define PMSIDR_CRR BIT(25)
#define PMSIDR_FPF BIT(27)

#define PMBLIMITR_E BIT(0)
#define PMBLIMITR_FM_DISCARD (2ull << 1)

#define PMBSR_COLL BIT(16)
#define PMBSR_S BIT(17)
#define PMBSR_EA BIT(18)
#define PMBSR_DL BIT(19)
#define PMBSR_EC(value) FIELD(value, 31, 26)
#define PMBSR_MSS(value) FIELD(value, 15, 0)
#define PMBSR_FULL (PMBSR_S | 1) /* EC 0, BSC 1 */
#define PMBSR_STAGE2(fsc) (0x25ull << 26 | PMBSR_S | (fsc))
#define PMBSR_STAGE1(fsc) (0x24ull << 26 | PMBSR_S | (fsc))

#define psb_csync() asm volatile("hint #17" ::: "memory")

/* What the ID registers say. */
struct spe_id {
    unsigned version; /* PMSVer: 0 is no SPE */
    bool usable; /* there is one, and PMBIDR_EL1.P lets us program it */
    bool arch_inst; /* samples architecture instructions, not micro-operations */
    bool ernd, crr, fpf;
    unsigned align; /* in bytes, as is max_size */
    unsigned max_size;
    unsigned count_size;
    unsigned min_interval; /* recommended, in operations */
    u64 max_buffer; /* the largest, in bytes */
};
struct spe_id spe_probe(void);

/* What a session is programmed with; fields left 0 filter nothing. */
struct spe_session {
    u64 buffer; /* first byte, aligned to struct spe_id.align */
    u64 size; /* in bytes; buffer + size is a multiple of 4096 */
    u64 interval; /* PMSIRR_EL1: a multiple of 256 operations, and PMSIRR_RND */
    u64 pmsfcr, pmsevfr, pmslatfr;
    bool discard;
};

/* Writes everything but PMSCR_EL1, the buffer last. PMSICR_EL1 starts at 0. */
void spe_setup(const struct spe_session *session);
/* Writes the registers of a buffer that nothing is drained to. While PMBLIMITR_EL1.E is 1 the others may be ignored, so
   it is cleared first and written last; they are in force before it is. */
void spe_set_buffer(u64 pmbptr, u64 pmbsr, u64 pmblimitr);
/* PMBPTR_EL1 := pmbptr and PMBSR_EL1 := 0, the limit as it is. */
void spe_resume(u64 pmbptr);
/* Profiles function(a, b, c): PMSCR_EL1 := pmscr; ISB; call; PMSCR_EL1 := 0; drain. Apart from the
   function, SPE_PROFILE_OVERHEAD operations are in the sample population: ISB, BLR, MSR. */
u64 spe_profile(u64 pmscr, u64 function, u64 a, u64 b, u64 c);
#define SPE_PROFILE_OVERHEAD 3
/* Stops: PMSCR_EL1 := 0; ISB; PSB CSYNC; DSB; ISB. Afterwards PMBPTR_EL1 and PMBSR_EL1 are valid. */
void spe_drain(void);
/* Drains and disables the buffer. */
void spe_stop(void);
/* The first instruction of spe_profile and the one after its last. */
extern char spe_profile_end[];

enum spe_class { SPE_OTHER, SPE_MEMORY, SPE_BRANCH, SPE_NO_CLASS };

#define SPE_HAS_PC BIT(0)
#define SPE_HAS_TARGET BIT(1)
#define SPE_HAS_VA BIT(2)
#define SPE_HAS_PA BIT(3)
#define SPE_HAS_PBT BIT(4)
#define SPE_HAS_TIMESTAMP BIT(5)
#define SPE_HAS_CONTEXT1 BIT(6)
#define SPE_HAS_CONTEXT2 BIT(7)
#define SPE_HAS_SOURCE BIT(8)
#define SPE_HAS_EVENTS BIT(9)
#define SPE_HAS_TOTAL BIT(16) /* counter n: bit 16 + n */
#define SPE_HAS_ISSUE BIT(17)
#define SPE_HAS_TRANSLATION BIT(18)

#define SPE_EVENT_EXCEPTION BIT(0)
#define SPE_EVENT_RETIRED BIT(1)
#define SPE_EVENT_NOT_TAKEN BIT(6)

/* One record. Addresses are bits 55:0; byte 7 of PC, target and PA is kept apart. */
struct spe_record {
    u64 at; /* address of the record */
    u64 size; /* in bytes, with the padding behind it */
    u64 has; /* SPE_HAS_* */
    u64 pc, target, va, pa, pbt;
    unsigned pc_el, target_el;
    bool pc_ns, target_ns;
    u64 events;
    u64 timestamp;
    u32 context1, context2;
    u16 counter[3]; /* total, issue, translation */
    enum spe_class class;
    u8 op; /* payload of the Operation Type packet */
    u8 source;
} __attribute__((aligned(16))); /* cleared by 16-byte stores, which RAM wants aligned while the MMU is off */

/* Reads the record at `at`, which ends at or before `end`, and the padding up to `align` behind it.
   Returns the address after it, or 0 if there is no whole record or a packet is not as Arm says. */
u64 spe_read_record(u64 at, u64 end, unsigned align, struct spe_record *record);

/* Reads a whole buffer into `records`, at most `limit`; *next is where reading ended. */
unsigned spe_read_all(u64 at, u64 end, unsigned align, struct spe_record *records, unsigned limit, u64 *next);

/* What every record here has: PC, Events with retired set, operation type, total and issue latency,
   size and alignment as the ID registers say, PC at Non-secure EL `el`. */
bool spe_record_sane(const struct spe_record *record, const struct spe_id *id, unsigned el);
void spe_print_record(const struct spe_record *record);
