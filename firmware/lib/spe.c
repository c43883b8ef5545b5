#include "spe.h"

struct spe_id spe_probe(void) {
    static const u16 intervals[16] = {256, 0, 512, 768, 1024, 1536, 2048, 3072, 4096};
    struct spe_id id = {.version = FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32)};
    if (!id.version)
        return id;
    u64 pmbidr = read_sysreg(PMBIDR_EL1);
    id.usable = !FIELD(pmbidr, 4, 4);
    if (!id.usable) /* an access to any other register may trap */
        return id;
    u64 pmsidr = read_sysreg(PMSIDR_EL1);
    u64 mantissa = FIELD(pmbidr, 40, 32), exponent = FIELD(pmbidr, 45, 41);
    id.max_buffer = !FIELD(pmbidr, 47, 32) ? ~0ull : exponent ? (0x200 + mantissa) << (exponent + 11) : mantissa << 12;
    id.arch_inst = pmsidr & PMSIDR_ARCHINST;
    id.ernd = pmsidr & PMSIDR_ERND;
    id.crr = pmsidr & PMSIDR_CRR;
    id.fpf = pmsidr & PMSIDR_FPF;
    id.align = 1u << FIELD(pmbidr, 3, 0);
    id.max_size = 1u << FIELD(pmsidr, 15, 12);
    id.count_size = FIELD(pmsidr, 19, 16);
    id.min_interval = intervals[FIELD(pmsidr, 11, 8)];
    return id;
}

void spe_setup(const struct spe_session *session) {
    write_sysreg(PMSCR_EL1, 0);
    isb();
    write_sysreg(PMSFCR_EL1, session->pmsfcr);
    write_sysreg(PMSEVFR_EL1, session->pmsevfr);
    write_sysreg(PMSLATFR_EL1, session->pmslatfr);
    write_sysreg(PMSIRR_EL1, session->interval);
    isb();
    write_sysreg(PMSICR_EL1, 0);
    spe_set_buffer(session->buffer, 0,
                   (session->buffer + session->size) | (session->discard ? PMBLIMITR_FM_DISCARD : 0) | PMBLIMITR_E);
}

void spe_set_buffer(u64 pmbptr, u64 pmbsr, u64 pmblimitr) {
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
    write_sysreg(PMBSR_EL1, pmbsr);
    write_sysreg(PMBPTR_EL1, pmbptr);
    isb();
    write_sysreg(PMBLIMITR_EL1, pmblimitr);
    isb();
}

void spe_resume(u64 pmbptr) {
    spe_set_buffer(pmbptr, 0, read_sysreg(PMBLIMITR_EL1));
}

void spe_drain(void) {
    write_sysreg(PMSCR_EL1, 0);
    isb();
    psb_csync();
    dsb(nsh);
    isb();
}

void spe_stop(void) {
    spe_drain();
    write_sysreg(PMBLIMITR_EL1, 0);
    isb();
}

static u64 little_endian(u64 at, unsigned size) {
    u64 value = 0;
    for (unsigned i = size; i-- > 0;)
        value = value << 8 | *(const volatile u8 *)(at + i);
    return value;
}

#define PACKET_PADDING 0x00
#define PACKET_END 0x01
#define PACKET_TIMESTAMP 0x71
#define ADDRESS_BITS 0x00ffffffffffffffull

/* Takes the payload of one packet into the record; false for a packet that Arm does not define. */
static bool take(struct spe_record *r, unsigned header, unsigned index, u64 payload) {
    switch (header) {
    case 0x42:
    case 0x52:
    case 0x62:
    case 0x72:
        r->events = payload;
        r->has |= SPE_HAS_EVENTS;
        return true;
    case 0x43:
        r->source = (u8)payload;
        r->has |= SPE_HAS_SOURCE;
        return true;
    case 0x48:
    case 0x49:
    case 0x4a:
        r->class = (enum spe_class)(header - 0x48);
        r->op = (u8)payload;
        return true;
    case 0x64:
        r->context1 = (u32)payload;
        r->has |= SPE_HAS_CONTEXT1;
        return true;
    case 0x65:
        r->context2 = (u32)payload;
        r->has |= SPE_HAS_CONTEXT2;
        return true;
    case 0x98:
        if (index < ARRAY_SIZE(r->counter)) {
            r->counter[index] = (u16)payload;
            r->has |= SPE_HAS_TOTAL << index;
        }
        return true;
    case 0xb0:
        switch (index) {
        case 0:
            r->pc = payload & ADDRESS_BITS;
            r->pc_ns = payload >> 63;
            r->pc_el = FIELD(payload, 62, 61);
            r->has |= SPE_HAS_PC;
            return true;
        case 1:
            r->target = payload & ADDRESS_BITS;
            r->target_ns = payload >> 63;
            r->target_el = FIELD(payload, 62, 61);
            r->has |= SPE_HAS_TARGET;
            return true;
        case 2:
            r->va = payload & ADDRESS_BITS;
            r->has |= SPE_HAS_VA;
            return true;
        case 3:
            r->pa = payload & ADDRESS_BITS;
            r->has |= SPE_HAS_PA;
            return true;
        case 4:
            r->pbt = payload & ADDRESS_BITS;
            r->has |= SPE_HAS_PBT;
            return true;
        }
        return index == 6 || index == 7 || index >= 16; /* IMPLEMENTATION DEFINED ones */
    }
    return false;
}

u64 spe_read_record(u64 at, u64 end, unsigned align, struct spe_record *r) {
    *r = (struct spe_record){.at = at, .class = SPE_NO_CLASS};
    for (u64 p = at; p < end;) {
        unsigned header = *(const volatile u8 *)p++;
        if (header == PACKET_PADDING)
            continue;
        u64 payload = 0;
        if (header != PACKET_END) {
            unsigned index = 0;
            if (header >= 0x20 && header <= 0x23) { /* extended: the next byte says what it is */
                index = (header & 3) << 3;
                header = *(const volatile u8 *)p++;
            }
            if (header < 0x40)
                return 0;
            unsigned size = 1u << FIELD(header, 5, 4);
            if (p + size > end)
                return 0;
            payload = little_endian(p, size);
            p += size;
            if ((header & 0xf8) == 0x98 || (header & 0xf8) == 0xb0) {
                index |= header & 7;
                header &= 0xf8;
            }
            if (header != PACKET_TIMESTAMP) {
                if (!take(r, header, index, payload))
                    return 0;
                continue;
            }
            r->timestamp = payload;
            r->has |= SPE_HAS_TIMESTAMP;
        }
        u64 next = (p + align - 1) & -(u64)align;
        for (; p < next; p++)
            if (*(const volatile u8 *)p != 0)
                return 0;
        r->size = next - at;
        return next <= end ? next : 0;
    }
    return 0;
}

unsigned spe_read_all(u64 at, u64 end, unsigned align, struct spe_record *records, unsigned limit, u64 *next) {
    unsigned count = 0;
    while (at < end && count < limit) {
        u64 after = spe_read_record(at, end, align, &records[count]);
        if (!after)
            break;
        at = after;
        count++;
    }
    *next = at;
    return count;
}

bool spe_record_sane(const struct spe_record *r, const struct spe_id *id, unsigned el) {
    u64 wanted = SPE_HAS_PC | SPE_HAS_EVENTS | SPE_HAS_TOTAL | SPE_HAS_ISSUE;
    return (r->has & wanted) == wanted && r->class != SPE_NO_CLASS && r->pc_el == el && r->pc_ns &&
           r->events & SPE_EVENT_RETIRED && r->size <= id->max_size && r->at % id->align == 0 &&
           r->size % id->align == 0 && r->counter[1] <= r->counter[0];
}

void spe_print_record(const struct spe_record *r) {
    print("# record at 0x%lx: pc 0x%lx el %u, class %u op 0x%x, events 0x%lx, counters %u %u %u", r->at, r->pc,
          r->pc_el, r->class, r->op, r->events, r->counter[0], r->counter[1], r->counter[2]);
    if (r->has & SPE_HAS_TARGET)
        print(", target 0x%lx", r->target);
    if (r->has & SPE_HAS_VA)
        print(", va 0x%lx", r->va);
    if (r->has & SPE_HAS_PA)
        print(", pa 0x%lx", r->pa);
    if (r->has & SPE_HAS_TIMESTAMP)
        print(", time %lu", r->timestamp);
    print("\n");
}
