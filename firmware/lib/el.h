/* Programs that stay at the exception level of their reset: vectors of EL1, EL2 and EL3, and calls to
   lower levels. Linked with el.S instead of start.S, and without floating point in compiled code. */
#pragma once

#include "mmu.h"

#define EL0T 0x3c0ull /* SPSR values: level and stack pointer, DAIF masked */
#define EL1T 0x3c4ull
#define EL1H 0x3c5ull
#define EL2H 0x3c9ull
#define PSR_F BIT(6)
#define PSR_I BIT(7)
#define PSR_A BIT(8)
#define PSR_D BIT(9)
#define PSR_IL BIT(20)
#define PSR_PAN BIT(22)
#define SPSR_CHECKED 0xf03003dfull /* NZCV, SS, IL, DAIF, M */

/* An exception, as the vectors of the level that took it store it. Returning restores x, elr, spsr, sp_el0. */
struct trap {
    u64 x[31];
    u64 sp; /* the handler's own, before */
    u64 elr;
    u64 spsr;
    u64 esr;
    u64 far;
    u64 level; /* 1 to 3 */
    u64 vector; /* 0 to 15 */
    u64 hpfar; /* at EL2 */
    u64 sp_el0;
};
_Static_assert(sizeof(struct trap) == 320, "el.S allocates it");

enum { VECTOR_SYNC, VECTOR_IRQ, VECTOR_FIQ, VECTOR_SERROR };
#define FROM_SP_EL0(v) (v)
#define FROM_CURRENT(v) (4 + (v))
#define FROM_LOWER(v) (8 + (v))

#define EC_ILLEGAL 0x0e
#define EC_HVC 0x16
#define EC_SMC 0x17
#define EC_PC_ALIGNMENT 0x22
#define EC_SERROR 0x2f

/* The last synchronous exception and how many there were. Each is skipped: the instruction that was
   trapped, the call to where no instruction is, or the illegal state. */
extern struct trap caught;
extern volatile unsigned taken;
void record_and_skip(struct trap *trap);
/* That, unless a program defines its own. */
void on_trap(struct trap *trap);
/* IRQ, FIQ and SError. Without it they end the run with status 99. */
void on_interrupt(struct trap *trap);

/* Whether one exception was taken since the last call, to this level, vector and syndrome. */
bool is_trap(unsigned level, unsigned vector, u64 esr, const char *name);
bool is_no_trap(const char *name);

/* Run f(a, b) at the lower level that `spsr` names, on a stack of that level's own, until it returns or
   an exception handler at this level calls come_back(); the result is f's or the handler's. */
typedef u64 function(u64 a, u64 b);
u64 call_at(u64 spsr, function *f, u64 a, u64 b);
void __attribute__((noreturn)) come_back(u64 result);

unsigned current_el(void);

/* Registers of a lower level as its software would have set them: nothing trapped, MMU off. */
void prepare_el1(void);
void prepare_el2(void);

#define SCTLR_EL1_INITIAL 0x34d5d800ull /* RES1, EL0 may WFx, DC ZVA, read CTR */
#define SCTLR_EL2_INITIAL 0x30c50830ull /* RES1 */
#define HCR_RW BIT(31)

extern char vectors_el1[], vectors_el2[], vectors_el3[];
