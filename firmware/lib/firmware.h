/* What every program here builds on: console, test results, exceptions, EL0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1ull << (n))
#define FIELD(value, msb, lsb) (((u64)(value) >> (lsb)) & (~0ull >> (63 - (msb) + (lsb))))

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)
#define read_sysreg(name)                                                 \
    ({                                                                    \
        u64 value_;                                                       \
        asm volatile("mrs %0, " STRINGIFY(name) : "=r"(value_)::"memory"); \
        value_;                                                           \
    })
#define write_sysreg(name, value) \
    asm volatile("msr " STRINGIFY(name) ", %x0" ::"rZ"((u64)(value)) : "memory")
#define isb() asm volatile("isb" ::: "memory")
#define dsb(domain) asm volatile("dsb " #domain ::: "memory")

/* Set by the start-up code. */
extern struct boot_info {
    u64 device_tree; /* x0 at reset */
    u64 exception_level; /* at reset; main() always runs at EL1 */
} boot_info;

int main(void); /* its result is the exit status */

/* --- console.c: the PL011 at 0x09000000, and semihosting --- */
void print_char(char c);
/* Knows %s, %c, %d (int), %u (unsigned), %x (unsigned), %ld, %lu, %lx (64 bits) and %%. */
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
u64 semihosting(u64 operation, u64 parameter);
void __attribute__((noreturn)) exit_with(int status);

/* --- tap.c: results in the Test Anything Protocol --- */
bool ok(bool condition, const char *name);
/* As ok(), and prints both values if they differ. */
bool is(u64 actual, u64 expected, const char *name);
/* The plan; the result is main()'s: 0 if every test passed. */
int tap_done(void);
/* For a machine that lacks what the program tests. */
int tap_skip_all(const char *reason);

/* --- exceptions.c, start.S --- */
struct frame {
    u64 x[31];
    u64 sp; /* SP_EL1 as it was */
    u64 sp_el0;
    u64 elr; /* with spsr, sp_el0, cpacr and the registers: what returning restores */
    u64 spsr;
    u64 esr;
    u64 far;
    u64 vector; /* 0 to 15: 4 is synchronous from EL1 with SP_EL1, 8 synchronous from EL0 */
    u64 fpsr;
    u64 fpcr;
    u64 cpacr;
    u64 unused;
    __uint128_t q[32];
};
_Static_assert(sizeof(struct frame) == 848, "start.S allocates it");

#define VECTOR_CURRENT_SYNC 4
#define VECTOR_LOWER_SYNC 8

#define ESR_EC(esr) FIELD(esr, 31, 26)
#define ESR_IL BIT(25)
#define EC_UNKNOWN 0x00
#define EC_WFX 0x01
#define EC_FP 0x07
#define EC_SVC 0x15
#define EC_SYSREG 0x18
#define EC_INSTRUCTION_ABORT_LOWER 0x20
#define EC_INSTRUCTION_ABORT 0x21
#define EC_DATA_ABORT_LOWER 0x24
#define EC_DATA_ABORT 0x25
#define EC_BRK 0x3c

/* A program that expects exceptions defines this; without it they end the run with status 99. */
void on_exception(struct frame *frame);

/* EL0 code lives in pages of its own and may touch only what is USER_BSS. */
#define USER_TEXT __attribute__((section(".user.text"), noinline))
#define USER_BSS __attribute__((section(".bss.user")))
u64 el0_call(u64 entry, u64 argument0, u64 argument1, u64 user_sp);
void __attribute__((noreturn)) el0_leave(u64 result);
extern u64 el0_caller; /* SP_EL1 while EL0 runs */

/* --- string.c: the compiler may call these too --- */
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
int strcmp(const char *a, const char *b);
