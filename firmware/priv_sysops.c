/* System operations and the extensions that system software leans on: maintenance, address translation, ASIDs,
   exclusives, LSE, CRC32, pointer authentication, random numbers. */
#include "lib/el.h"

#define WINDOW 0x44000000ull
#define HOLE WINDOW
#define READ_ONLY (WINDOW + PAGE)
#define UNACCESSED (WINDOW + 2 * PAGE)
#define USER (WINDOW + 3 * PAGE)
#define CODE (WINDOW + 4 * PAGE)
#define VA 0x2000000000ull

static u64 page[2][512] __attribute__((aligned(4096)));
static u32 code[1024] __attribute__((aligned(4096)));

/* --- Maintenance --- */

static void maintenance(void) {
    print("# maintenance\n");
    u64 address = (u64)page;
    asm volatile("dc ivac, %0\n dc cvac, %0\n dc cvau, %0\n dc civac, %0" ::"r"(address) : "memory");
    is_no_trap("DC by address");
    u64 persistence = FIELD(read_sysreg(id_aa64isar1_el1), 3, 0);
    if (persistence >= 1)
        asm volatile("sys #3, c7, c12, #1, %0" ::"r"(address) : "memory");
    if (persistence >= 2)
        asm volatile("sys #3, c7, c13, #1, %0" ::"r"(address) : "memory");
    is_no_trap("DC CVAP, CVADP");
    asm volatile("dc isw, xzr\n dc csw, xzr\n dc cisw, xzr" ::: "memory");
    is_no_trap("DC by set and way");
    asm volatile("ic iallu\n ic ialluis\n ic ivau, %0\n dsb ish\n isb" ::"r"(address) : "memory");
    is_no_trap("IC");
    asm volatile("dmb ish\n dmb ld\n dsb nshst\n dsb sy\n isb\n hint #16\n hint #20\n nop\n yield\n sev\n sevl" ::: "memory");
    is_no_trap("barriers and hints");
    asm volatile("tlbi vmalle1\n tlbi vae1, xzr\n tlbi aside1, xzr\n tlbi vaae1, xzr\n tlbi vale1, xzr\n tlbi vaale1, xzr\n"
                 "tlbi vmalle1is\n tlbi vae1is, xzr\n tlbi aside1is, xzr\n tlbi vaae1is, xzr\n tlbi vale1is, xzr\n"
                 "tlbi vaale1is, xzr\n dsb ish\n isb" ::: "memory");
    is_no_trap("TLBI");
    u64 block = 4ull << FIELD(read_sysreg(dczid_el0), 3, 0);
    memset(page, 0xff, sizeof page);
    asm volatile("dc zva, %0" ::"r"((u64)page[0] + block + 8) : "memory");
    unsigned wrong = 0;
    for (u64 i = 0; i < sizeof page[0]; i++)
        wrong += ((u8 *)page)[i] != (i >= block && i < 2 * block ? 0 : 0xff);
    is(wrong, 0, "DC ZVA clears its block and nothing else");
    asm volatile("dc zva, %0" ::"r"(HOLE + 0x800) : "memory");
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000047, "DC ZVA of no page");
    is(caught.far & ~(block - 1), (HOLE + 0x800) & ~(block - 1), "FAR_EL1 is in the block");

    map_page(CODE, (u64)code, PROT_RX);
    for (u32 value = 1; value < 4; value++) {
        code[0] = 0xd2800000 | value << 5; /* MOV X0, #value */
        code[1] = 0xd65f03c0; /* RET */
        asm volatile("dc cvau, %0\n dsb ish\n ic ivau, %1\n dsb ish\n isb" ::"r"(code), "r"(CODE) : "memory");
        is(((u64(*)(void))CODE)(), value, "patched code");
    }
}

/* --- AT --- */

#define AT(operation, address)                                          \
    ({                                                                  \
        asm volatile(operation "\n isb" ::"r"(address) : "memory");     \
        read_sysreg(par_el1);                                           \
    })
#define S1E1R "at s1e1r, %0"
#define S1E1W "at s1e1w, %0"
#define S1E0R "at s1e0r, %0"
#define S1E0W "at s1e0w, %0"
#define S1E1RP "sys #0, c7, c9, #0, %0"
#define S1E1WP "sys #0, c7, c9, #1, %0"
#define PAR_ADDRESS(par) ((par) & 0x0000fffffffff001ull)
#define PAR_FAULT(par) ((par) & 0x37f) /* F, FST, PTW, S */
#define FAULT(fst) (1 | (fst) << 1)
#define set_pan(n) asm volatile(".inst 0xd500409f | (" #n " << 8)" ::: "memory")

static void translation(void) {
    print("# AT\n");
    u64 address = (u64)page + 0x123, pa = (u64)page;
    u64 par = AT(S1E1R, address);
    is(PAR_ADDRESS(par), pa, "S1E1R: the address");
    is(FIELD(par, 63, 56), 0xff, "S1E1R: the attributes");
    is(FIELD(par, 8, 7), 3, "S1E1R: the shareability");
    is(PAR_ADDRESS(AT(S1E1W, address)), pa, "S1E1W");
    is(PAR_FAULT(AT(S1E0R, address)), FAULT(0x0f), "S1E0R of EL1's page");
    is(PAR_FAULT(AT(S1E0W, address)), FAULT(0x0f), "S1E0W of EL1's page");
    is(PAR_ADDRESS(AT(S1E0R, USER)), USER, "S1E0R of EL0's page");
    is(PAR_ADDRESS(AT(S1E0W, USER)), USER, "S1E0W of EL0's page");
    is(PAR_ADDRESS(AT(S1E1R, READ_ONLY)), READ_ONLY, "S1E1R of a read-only page");
    is(PAR_FAULT(AT(S1E1W, READ_ONLY)), FAULT(0x0f), "S1E1W of it");
    is(PAR_FAULT(AT(S1E1R, HOLE)), FAULT(0x07), "translation fault, level 3");
    is(PAR_FAULT(AT(S1E1R, 0x0c000000ull)), FAULT(0x06), "level 2");
    is(PAR_FAULT(AT(S1E1R, VA)), FAULT(0x05), "level 1");
    is(PAR_FAULT(AT(S1E1R, 1ull << 47)), FAULT(0x04), "an address too large");
    is(PAR_FAULT(AT(S1E1R, UNACCESSED)), FAULT(0x0b), "Access flag fault");
    is(FIELD(AT(S1E1R, 0x09000000ull), 63, 56), 0x00, "a device");
    set_pan(1);
    is(PAR_ADDRESS(AT(S1E1R, USER)), USER, "PAN = 1: S1E1R");
    is(PAR_FAULT(AT(S1E1RP, USER)), FAULT(0x0f), "PAN = 1: S1E1RP");
    is(PAR_FAULT(AT(S1E1WP, USER)), FAULT(0x0f), "PAN = 1: S1E1WP");
    set_pan(0);
    is(PAR_ADDRESS(AT(S1E1RP, USER)), USER, "PAN = 0: S1E1RP");
    is_no_trap("no exception from any");
    write_sysreg(par_el1, 0x1234000);
    is(PAR_ADDRESS(read_sysreg(par_el1)), 0x1234000, "PAR_EL1 is written");
}

/* --- ASIDs --- */

static u64 roots[2][512] __attribute__((aligned(4096)));
static u64 level2[2][512] __attribute__((aligned(4096)));
static u64 level3[2][512] __attribute__((aligned(4096)));

#define TABLE 3ull
#define OWN_PAGE (3 | 1 << 2 | 3 << 8 | BIT(10) | BIT(11) | BIT(53) | BIT(54)) /* nG */

static u64 __attribute__((noinline)) load(u64 address) {
    u64 value = 0;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static void asids(void) {
    print("# ASIDs\n");
    u64 ttbr0 = read_sysreg(ttbr0_el1);
    for (u64 i = 0; i < 2; i++) {
        memcpy(roots[i], (void *)(ttbr0 & 0x0000fffffffff000), sizeof roots[i]);
        roots[i][VA >> 30] = (u64)level2[i] | TABLE;
        level2[i][0] = (u64)level3[i] | TABLE;
        level3[i][0] = (u64)page[i] | OWN_PAGE;
        page[i][0] = 0x100 + i;
    }
    dsb(ish);
    for (u64 round = 0; round < 4; round++) {
        write_sysreg(ttbr0_el1, (u64)roots[round % 2] | (round % 2 + 1) << 48);
        isb();
        is(load(VA), 0x100 + round % 2, "an address space of its own");
    }
    /* Another ASID on the same tables, whose entry changes: TLBI ASIDE1 is enough. */
    level3[1][0] = (u64)page[0] | OWN_PAGE;
    dsb(ish);
    asm volatile("tlbi aside1, %0\n dsb ish\n isb" ::"r"(2ull << 48) : "memory");
    is(load(VA), 0x100, "TLBI ASIDE1");
    level3[1][0] = (u64)page[1] | OWN_PAGE;
    dsb(ish);
    asm volatile("tlbi vae1, %0\n dsb ish\n isb" ::"r"(2ull << 48 | VA >> 12) : "memory");
    is(load(VA), 0x101, "TLBI VAE1");
    level3[1][0] = 0;
    dsb(ish);
    asm volatile("tlbi vale1, %0\n dsb ish\n isb" ::"r"(2ull << 48 | VA >> 12) : "memory");
    load(VA);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000007, "TLBI VALE1");
    write_sysreg(ttbr0_el1, ttbr0);
    isb();
    load(VA);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000005, "and back");
}

/* --- Exclusives --- */

static void exclusives(void) {
    print("# exclusives\n");
    static u64 pair[2] __attribute__((aligned(16)));
    static u64 other;
    u32 failed;
    u64 value;
    asm volatile("ldxr %0, [%2]\n add %0, %0, #1\n stxr %w1, %0, [%2]" : "=&r"(value), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 0, "STXR after LDXR");
    is(pair[0], 1, "stores");
    asm volatile("stxr %w0, %1, [%2]" : "=&r"(failed) : "r"(7ull), "r"(pair) : "memory");
    is(failed, 1, "STXR alone fails");
    asm volatile("ldxr %0, [%2]\n clrex\n stxr %w1, %0, [%2]" : "=&r"(value), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 1, "after CLREX it fails");
    asm volatile("ldxr %0, [%2]\n svc #1\n stxr %w1, %0, [%2]" : "=&r"(value), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 1, "after an exception return it fails");
    taken = 0;
    asm volatile("ldxr %0, [%2]\n stxr %w1, %0, [%3]" : "=&r"(value), "=&r"(failed) : "r"(pair), "r"(&other) : "memory");
    is(failed, 1, "to another address it fails");
    is(other, 0, "and stores nothing");
    u64 high;
    asm volatile("ldxp %0, %1, [%3]\n stxp %w2, %1, %0, [%3]" : "=&r"(value), "=&r"(high), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 0, "STXP after LDXP");
    ok(pair[0] == 0 && pair[1] == 1, "stores both");
    asm volatile("ldaxrb %w0, [%2]\n stlxrb %w1, %w0, [%2]" : "=&r"(value), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 0, "LDAXRB, STLXRB");
    asm volatile("ldaxrh %w0, [%2]\n stlxrh %w1, %w0, [%2]" : "=&r"(value), "=&r"(failed) : "r"(pair) : "memory");
    is(failed, 0, "LDAXRH, STLXRH");
}

/* --- LSE --- */

static void lse(void) {
    print("# LSE\n");
    if (!FIELD(read_sysreg(id_aa64isar0_el1), 23, 20)) {
        print("# not implemented\n");
        return;
    }
    static u64 word;
    u64 old;
#define ATOMIC(instruction, before, operand, after)                                                               \
    do {                                                                                                           \
        word = before;                                                                                             \
        asm volatile(".arch_extension lse\n " instruction : "=&r"(old) : "r"((u64)(operand)), "r"(&word) : "memory"); \
        ok(old == (before) && word == (after), instruction);                                                       \
        if (word != (after))                                                                                       \
            print("# got 0x%lx\n", word);                                                                          \
    } while (0)
    ATOMIC("ldadd %1, %0, [%2]", 0xfffffffffffffffe, 3, 1);
    ATOMIC("ldclral %1, %0, [%2]", 0xff, 0x0f, 0xf0);
    ATOMIC("ldeora %1, %0, [%2]", 0xff, 0x0f, 0xf0);
    ATOMIC("ldsetl %1, %0, [%2]", 0xf0, 0x0f, 0xff);
    ATOMIC("ldsmax %1, %0, [%2]", 0xffffffffffffffff, 1, 1);
    ATOMIC("ldsmin %1, %0, [%2]", 5, -3, -3ull);
    ATOMIC("ldumax %1, %0, [%2]", 0xffffffffffffffff, 1, 0xffffffffffffffff);
    ATOMIC("ldumin %1, %0, [%2]", 5, 3, 3);
    ATOMIC("swpal %1, %0, [%2]", 0x1234, 0x5678, 0x5678);
    ATOMIC("ldadd %w1, %w0, [%2]", 0xffffffff, 2, 1);
    ATOMIC("ldaddb %w1, %w0, [%2]", 0xff, 2, 1);
    ATOMIC("ldaddh %w1, %w0, [%2]", 0xffff, 2, 1);
    ATOMIC("swpb %w1, %w0, [%2]", 0x12, 0x9934, 0x34);
#define COMPARE(instruction, before, expected, replacement, after)                        \
    do {                                                                                   \
        word = before;                                                                     \
        old = expected;                                                                    \
        asm volatile(".arch_extension lse\n " instruction                                  \
                     : "+r"(old)                                                           \
                     : "r"((u64)(replacement)), "r"(&word)                                 \
                     : "memory");                                                          \
        ok(old == (before) && word == (after), instruction);                               \
    } while (0)
    COMPARE("cas %0, %1, [%2]", 5, 5, 9, 9);
    COMPARE("casal %0, %1, [%2]", 5, 6, 9, 5);
    COMPARE("casb %w0, %w1, [%2]", 5, 5, 0x109, 9);
    static u64 pair[2] __attribute__((aligned(16))) = {1, 2};
    register u64 x0 asm("x0") = 1;
    register u64 x1 asm("x1") = 2;
    register u64 x2 asm("x2") = 3;
    register u64 x3 asm("x3") = 4;
    asm volatile(".arch_extension lse\n caspal x0, x1, x2, x3, [%4]"
                 : "+r"(x0), "+r"(x1)
                 : "r"(x2), "r"(x3), "r"(pair)
                 : "memory");
    ok(pair[0] == 3 && pair[1] == 4, "caspal x0, x1, x2, x3, [%4]");
}

/* --- CRC32 --- */

static u32 crc_of(u32 crc, u64 value, unsigned bytes, u32 polynomial) {
    for (unsigned i = 0; i < bytes * 8; i++) {
        u32 bit = (crc ^ (u32)(value >> i)) & 1;
        crc = crc >> 1 ^ (bit ? polynomial : 0);
    }
    return crc;
}

static void crc(void) {
    print("# CRC32\n");
    u64 value = 0x0123456789abcdef;
    u32 out;
#define CRC(instruction, bytes, polynomial)                                                                       \
    asm volatile(".arch_extension crc\n " instruction : "=r"(out) : "r"(0xdeadbeef), "r"(value));                  \
    is(out, crc_of(0xdeadbeef, value, bytes, polynomial), instruction)
    CRC("crc32b %w0, %w1, %w2", 1, 0xedb88320);
    CRC("crc32h %w0, %w1, %w2", 2, 0xedb88320);
    CRC("crc32w %w0, %w1, %w2", 4, 0xedb88320);
    CRC("crc32x %w0, %w1, %x2", 8, 0xedb88320);
    CRC("crc32cb %w0, %w1, %w2", 1, 0x82f63b78);
    CRC("crc32ch %w0, %w1, %w2", 2, 0x82f63b78);
    CRC("crc32cw %w0, %w1, %w2", 4, 0x82f63b78);
    CRC("crc32cx %w0, %w1, %x2", 8, 0x82f63b78);
}

/* --- Pointer authentication --- */

#define SCTLR_ENIA BIT(31)
#define SCTLR_ENIB BIT(30)
#define SCTLR_ENDA BIT(27)
#define SCTLR_ENDB BIT(13)
#define APIAKeyLo_EL1 S3_0_C2_C1_0
#define APIAKeyHi_EL1 S3_0_C2_C1_1
#define APDBKeyLo_EL1 S3_0_C2_C2_2
#define APDBKeyHi_EL1 S3_0_C2_C2_3
#define APGAKeyLo_EL1 S3_0_C2_C3_0
#define APGAKeyHi_EL1 S3_0_C2_C3_1

#define PAUTH(instruction, value, modifier)                                                                \
    ({                                                                                                     \
        u64 v_ = (value);                                                                                  \
        asm volatile(".arch armv8.4-a\n " instruction " %0, %1" : "+r"(v_) : "r"((u64)(modifier)));         \
        v_;                                                                                                \
    })

static void pointer_authentication(void) {
    print("# pointer authentication\n");
    if (!FIELD(read_sysreg(id_aa64isar1_el1), 11, 4)) {
        print("# not implemented\n");
        return;
    }
    u64 pointer = (u64)page, sctlr = read_sysreg(sctlr_el1);
    is(PAUTH("pacia", pointer, 5), pointer, "PACIA does nothing with EnIA = 0");
    write_sysreg(APIAKeyLo_EL1, 0x0011223344556677);
    write_sysreg(APIAKeyHi_EL1, 0x8899aabbccddeeff);
    write_sysreg(APDBKeyLo_EL1, 0xfedcba9876543210);
    write_sysreg(APDBKeyHi_EL1, 0x0123456789abcdef);
    write_sysreg(APGAKeyHi_EL1, 0x84be85ce9804e94b);
    write_sysreg(APGAKeyLo_EL1, 0xec2802d4e0a488e9);
    is(read_sysreg(APIAKeyHi_EL1), 0x8899aabbccddeeff, "keys are read back");
    write_sysreg(sctlr_el1, sctlr | SCTLR_ENIA | SCTLR_ENIB | SCTLR_ENDA | SCTLR_ENDB);
    isb();
    u64 signed_a = PAUTH("pacia", pointer, 5), signed_b = PAUTH("pacdb", pointer, 5);
    ok(signed_a != pointer, "PACIA signs");
    ok(signed_a != signed_b, "PACDB signs otherwise");
    is(signed_a << 25 >> 25, pointer, "the low 39 bits stay");
    is(PAUTH("autia", signed_a, 5), pointer, "AUTIA gives the pointer back");
    is(PAUTH("autdb", signed_b, 5), pointer, "AUTDB, too");
    ok(PAUTH("autia", signed_a, 6) != pointer, "not with another modifier");
    ok(PAUTH("autib", signed_a, 5) != pointer, "not with another key");
    u64 stripped = signed_a;
    asm volatile(".arch armv8.4-a\n xpaci %0" : "+r"(stripped));
    is(stripped, pointer, "XPACI strips");
    u64 generic;
    asm volatile(".arch armv8.4-a\n pacga %0, %1, %2" : "=r"(generic) : "r"(0xfb623599da6e8127), "r"(0x477d469dec0b8762));
    is(generic & 0xffffffff, 0, "PACGA has 32 bits");
    ok(generic != 0, "which are not zero");
    /* Keys, tweak and text of the QARMA paper's example: w0 is the upper half of the key, k0 the lower. */
    if (FIELD(read_sysreg(id_aa64isar1_el1), 7, 4))
        is(generic >> 32, 0xc003b939, "PACGA by QARMA");
    write_sysreg(sctlr_el1, sctlr);
    isb();
    is_no_trap("no exception");
}

/* --- Others --- */

static void others(void) {
    print("# others\n");
    if (FIELD(read_sysreg(id_aa64isar0_el1), 63, 60)) {
        u64 random[4], flags = 0;
        for (unsigned i = 0; i < 2; i++)
            asm volatile("mrs %0, s3_3_c2_c4_0\n mrs %1, nzcv" : "=r"(random[i]), "=r"(flags)::"cc");
        for (unsigned i = 2; i < 4; i++)
            asm volatile("mrs %0, s3_3_c2_c4_1\n mrs %1, nzcv" : "=r"(random[i]), "=r"(flags)::"cc");
        ok(random[0] != random[1] && random[1] != random[2] && random[2] != random[3],
           "RNDR and RNDRRS give other numbers each time");
        is(flags, 0, "and clear the flags");
    }
    write_sysreg(tpidr_el0, 0x1111);
    write_sysreg(tpidr_el1, 0x2222);
    write_sysreg(tpidrro_el0, 0x3333);
    is(read_sysreg(tpidr_el0), 0x1111, "TPIDR_EL0");
    is(read_sysreg(tpidr_el1), 0x2222, "TPIDR_EL1");
    is(read_sysreg(tpidrro_el0), 0x3333, "TPIDRRO_EL0");
    u64 out, nzcv;
    page[0][0] = 0x1234567890;
    u64 ordered = FIELD(read_sysreg(id_aa64isar1_el1), 23, 20);
    if (ordered >= 1) {
        asm volatile(".arch armv8.4-a\n ldapr %0, [%1]" : "=r"(out) : "r"(page) : "memory");
        is(out, 0x1234567890, "LDAPR");
    }
    if (ordered >= 2) {
        asm volatile(".arch armv8.4-a\n ldapur %w0, [%1, #-4]" : "=r"(out) : "r"(&page[0][1]) : "memory");
        is(out, 0x12, "LDAPUR");
    }
    if (FIELD(read_sysreg(id_aa64isar0_el1), 55, 52)) {
        asm volatile(".arch armv8.4-a\n msr nzcv, xzr\n cfinv\n mrs %0, nzcv" : "=r"(nzcv)::"cc");
        is(nzcv, 0x20000000, "CFINV");
        asm volatile(".arch armv8.4-a\n msr nzcv, xzr\n setf8 %w1\n mrs %0, nzcv" : "=r"(nzcv) : "r"(0x80) : "cc");
        is(nzcv, 0x90000000, "SETF8");
        asm volatile(".arch armv8.4-a\n msr nzcv, xzr\n rmif %1, #4, #15\n mrs %0, nzcv"
                     : "=r"(nzcv) : "r"(0xa0ull) : "cc");
        is(nzcv, 0xa0000000, "RMIF");
    }
    is_no_trap("no exception");
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    mmu_on();
    unmap_page(HOLE);
    map_page(READ_ONLY, READ_ONLY, PROT_RO);
    map_page_unaccessed(UNACCESSED, UNACCESSED, PROT_RW);
    map_page(USER, USER, PROT_USER_RW);
    maintenance();
    translation();
    asids();
    exclusives();
    lse();
    crc();
    pointer_authentication();
    others();
    return tap_done();
}
