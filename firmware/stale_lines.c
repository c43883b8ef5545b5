/* A buffer that is mapped as Normal and as Device memory, and a word that is read with the MMU off. With an argument one
   mistake that passes unnoticed: alias, off, late. `--check noncoherent` finds them (docs/how-to/ci.md). */
#include "lib/arguments.h"
#include "lib/el.h"
#include "lib/mmu.h"

#define ALIAS 0x80000000ull
#define WORDS 32
#define M_C (BIT(0) | BIT(2))

static const char *planted;
static volatile u64 buffer[PAGE / 8] __attribute__((aligned(4096)));

static bool has(const char *mistake) {
    return planted && strcmp(planted, mistake) == 0;
}

static void clean(const volatile void *at, u64 bytes) {
    for (u64 line = (u64)at & ~63ull; line < (u64)at + bytes; line += 64)
        asm volatile("dc cvac, %0" ::"r"(line) : "memory");
    dsb(sy);
}

static u64 __attribute__((noinline, noclone)) sum_of(const volatile u64 *words) {
    u64 sum = 0;
    for (unsigned i = 0; i < WORDS; i++)
        sum += words[i];
    return sum;
}

/* No stack here: with the MMU off it would be read past the cache. */
static u64 __attribute__((noinline, noclone)) read_with_mmu_off(const volatile u64 *word) {
    u64 on = read_sysreg(sctlr_el1), value;
    asm volatile("msr sctlr_el1, %1\n isb\n ldr %0, [%2]\n msr sctlr_el1, %3\n isb"
                 : "=&r"(value)
                 : "r"(on & ~M_C), "r"(word), "r"(on)
                 : "memory");
    return value;
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    planted = argument(1);
    mmu_on();
    map_page(ALIAS, (u64)buffer, PROT_DEVICE);
    const volatile u64 *alias = (const volatile u64 *)ALIAS;

    for (unsigned i = 0; i < WORDS; i++)
        buffer[i] = i;
    if (!has("alias"))
        clean(buffer, sizeof(u64) * WORDS);
    u64 seen = sum_of(alias);
    ok(seen == WORDS * (WORDS - 1) / 2 || has("alias"), "a device sees what was stored");

    buffer[0] = 1;
    if (has("late"))
        sum_of(buffer); /* that it was read does not write it back */
    if (!has("late"))
        clean(buffer, 8);
    ok(alias[0] == 1 || has("late"), "and what was stored later");

    buffer[WORDS] = 7;
    if (!has("off"))
        clean(&buffer[WORDS], 8);
    ok(read_with_mmu_off(&buffer[WORDS]) == 7 || has("off"), "so does a PE without translation");

    ok(sum_of(buffer) == WORDS * (WORDS - 1) / 2 + 1, "the PE sees all of it by the cache");
    return tap_done();
}
