/* SVE operations, each sampled: vector length, predicates and addresses in its records. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define INTERVAL 256
#define TURNS 400
#define RECORDS 256

#define SOME BIT(17) /* an inactive element, at least */
#define NONE BIT(18) /* no active element */
#define NO_VA ~0ull

/* As the assembler text below lays it out. */
struct expectation {
    u64 pc, va, events;
    u8 class, op; /* with vectors of 32 bits, EVL 0 */
    u8 unused[6];
};
extern const struct expectation sve_table[], sve_table_end[];
extern char sve[], sve_end[];

/* P0 has the first of its elements, P1 all, P2 none; X1 points to data, Z4 holds offsets of 0. */
asm("    .arch armv8.2-a+sve\n"
    "    .macro op class, payload, events, va, instruction:vararg\n"
    "    .pushsection .rodata.sve, \"a\"\n"
    "    .quad 77f, \\va, \\events\n"
    "    .byte \\class, \\payload, 0, 0, 0, 0, 0, 0\n"
    "    .popsection\n"
    "77: \\instruction\n"
    "    .endm\n"
    "    .section .rodata.sve, \"a\"\n"
    "    .balign 8\n"
    "    .global sve_table, sve_table_end\n"
    "sve_table:\n"
    "    .text\n"
    "    .global sve, sve_end\n"
    "    .type sve, %function\n"
    "sve:\n"
    "    adrp x1, sve_data\n"
    "    add x1, x1, :lo12:sve_data\n"
    "    mov x2, #1\n"
    "    mov z4.s, #0\n"
    "    mov z5.d, #0\n"
    "    whilelo p0.s, xzr, x2\n"
    "    ptrue p1.s\n"
    "    pfalse p2.b\n"
    "1:\n"
    "    op 0, 0x08, 0, -1, add z0.s, z1.s, z2.s\n"
    "    op 0, 0x0c, 0, -1, add z0.s, p1/m, z0.s, z2.s\n"
    "    op 0, 0x0c, 1 << 17, -1, add z0.s, p0/m, z0.s, z2.s\n"
    "    op 0, 0x0c, 3 << 17, -1, add z0.s, p2/m, z0.s, z2.s\n"
    "    op 0, 0x0a, 0, -1, fadd z0.s, z1.s, z2.s\n"
    "    op 0, 0x0e, 1 << 17, -1, fmla z0.s, p0/m, z1.s, z2.s\n"
    "    op 0, 0x08, 0, -1, ptrue p3.b\n"
    "    op 0, 0x08, 0, -1, cntp x3, p1, p0.s\n"
    "    op 1, 0x08, 0, sve_data, ldr z1, [x1]\n"
    "    op 1, 0x09, 0, sve_data, str z1, [x1]\n"
    "    op 1, 0x0c, 0, sve_data, ld1w {z1.s}, p1/z, [x1]\n"
    "    op 1, 0x0c, 1 << 17, sve_data, ld1w {z1.s}, p0/z, [x1]\n"
    "    op 1, 0x0c, 3 << 17, -1, ld1w {z1.s}, p2/z, [x1]\n"
    "    op 1, 0x0c, 0, sve_data + 4, ld1rw {z1.s}, p1/z, [x1, #4]\n"
    "    op 1, 0x0d, 0, sve_data, st1w {z1.s}, p1, [x1]\n"
    "    op 1, 0x0d, 1 << 17, sve_data, st1w {z1.s}, p0, [x1]\n"
    "    op 1, 0x0c, 0, sve_data, ld2w {z1.s, z2.s}, p1/z, [x1]\n"
    "    op 1, 0x8c, 0, sve_data, ld1w {z1.s}, p1/z, [x1, z4.s, uxtw]\n"
    "    op 1, 0x8c, 1 << 17, sve_data, ld1d {z1.d}, p0/z, [x1, z5.d]\n"
    "    op 1, 0x8d, 0, sve_data, st1w {z1.s}, p1, [x1, z4.s, uxtw]\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    ret\n"
    "sve_end:\n"
    "    .size sve, . - sve\n"
    "    .section .rodata.sve, \"a\"\n"
    "sve_table_end:\n"
    "    .section .bss.user, \"aw\", %nobits\n"
    "    .balign 4096\n"
    "sve_data:\n"
    "    .skip 4096\n"
    "    .text\n");

static u8 buffer[RECORDS * 128] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];

static unsigned vector_bits(void) {
    u64 bytes;
    asm volatile(".inst 0x04bf5020\n\tmov %0, x0" : "=r"(bytes) : : "x0"); /* RDVL X0, #1 */
    return (unsigned)bytes * 8;
}

static bool fits(const struct spe_record *r, const struct expectation *e, const struct spe_id *id, unsigned evl) {
    bool no_address = !(r->has & (SPE_HAS_VA | SPE_HAS_PA));
    if (!id->arch_inst && e->class == SPE_MEMORY && r->class == SPE_OTHER)
        return no_address; /* a micro-operation that moves data */
    if (id->version < 2)
        return r->class == e->class; /* before FEAT_SPEv1p1 nothing of SVE is told */
    u8 op = (u8)(e->op | evl << 4);
    if (id->version < 3 && (op & 0x0d) == 0x0c && e->class == SPE_MEMORY)
        op &= (u8)~4; /* loads tell predicates from FEAT_SPEv1p2 on */
    bool first = id->arch_inst || e->va == NO_VA || r->va == e->va || r->va == e->va + (1u << (evl + 2));
    bool va_fits = e->va == NO_VA ? no_address : r->has & SPE_HAS_VA && first && (!id->arch_inst || r->va == e->va);
    if (e->class == SPE_MEMORY && e->op & 0x80 && e->events & SOME && no_address)
        va_fits = true; /* of a gather, the element that was chosen is not active */
    return r->class == e->class && r->op == op && (r->events & (SOME | NONE)) == e->events && va_fits;
}

int main(void) {
    struct spe_id id = spe_probe();
    if (boot_info.exception_level != 1)
        return tap_skip_all("needs a start at EL1: where this begins higher, SVE is trapped");
    if (!id.usable)
        return tap_skip_all("no SPE");
    if (!(read_sysreg(ID_AA64PFR0_EL1) >> 32 & 15))
        return tap_skip_all("no SVE");
    write_sysreg(CPACR_EL1, read_sysreg(CPACR_EL1) | 3 << 16);
    isb();
    mmu_on();
    unsigned bits = vector_bits(), evl = 0;
    while (32u << evl < bits)
        evl++;
    print("# vectors of %u bits\n", bits);
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE | PMSCR_PA, (u64)sve, TURNS, 0, 0);
    u64 end = read_sysreg(PMBPTR_EL1), next;
    u64 pmbsr = read_sysreg(PMBSR_EL1);
    spe_stop();

    is(pmbsr & ~PMBSR_COLL, 0, "no management event");
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
    is(next, end, "whole records lie in front of PMBPTR_EL1");
    unsigned kinds = (unsigned)(sve_table_end - sve_table), told = 0, good = 0, seen = 0;
    for (unsigned k = 0; k < kinds; k++) {
        unsigned before = told;
        for (unsigned i = 0; i < count; i++) {
            if (records[i].pc != sve_table[k].pc)
                continue;
            told++;
            bool fit = fits(&records[i], &sve_table[k], &id, evl);
            good += fit;
            if (!fit) {
                print("# operation 0x%x should be class %u op 0x%x, events 0x%x\n", *(const u32 *)records[i].pc,
                      sve_table[k].class, sve_table[k].op | evl << 4, (unsigned)sve_table[k].events);
                spe_print_record(&records[i]);
            }
        }
        seen += told > before;
    }
    print("# %u records, %u of SVE\n", count, told);
    is(seen, kinds, "every kind was sampled");
    is(good, told, "type, predicates and address are those of the instruction");
    return tap_done();
}
