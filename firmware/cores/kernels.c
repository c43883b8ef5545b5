/* The kinds of work that processors are rated by: a linked list, matrices, pictures, a state machine, and a CRC of each. */
#include "cores/program.h"

#ifdef __ARM_FEATURE_SVE2
#include <arm_sve.h>
#endif

static u32 seed;

static u32 next(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* --- A list that is sorted by its values, searched, reversed, and sorted by its places again --- */

#define NODES 600

struct node {
    struct node *next;
    s16 value, place;
};
static struct node nodes[NODES];

static bool by_value(const struct node *a, const struct node *b) {
    return a->value <= b->value;
}

static bool by_place(const struct node *a, const struct node *b) {
    return a->place <= b->place;
}

static struct node *sorted(struct node *list, unsigned length, bool (*in_order)(const struct node *, const struct node *)) {
    if (length < 2) {
        if (list)
            list->next = NULL;
        return list;
    }
    struct node *half = list, *head, **end = &head;
    for (unsigned i = 0; i < length / 2; i++)
        half = half->next;
    struct node *last = sorted(half, length - length / 2, in_order);
    struct node *first = sorted(list, length / 2, in_order);
    while (first && last) {
        struct node **from = in_order(first, last) ? &first : &last;
        *end = *from;
        *from = (*from)->next;
        end = &(*end)->next;
    }
    *end = first ? first : last;
    return head;
}

static struct node *reversed(struct node *list) {
    struct node *back = NULL;
    while (list) {
        struct node *rest = list->next;
        list->next = back;
        back = list;
        list = rest;
    }
    return back;
}

static u32 crc_of_list(const struct node *list) {
    u32 crc = 0;
    for (; list; list = list->next)
        crc = crc32(crc, &list->value, sizeof(s16));
    return crc;
}

static void lists(void) {
    u32 unsorted = 0;
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = (struct node){i + 1 < NODES ? &nodes[i + 1] : NULL, (s16)(next() % 2000 - 1000), (s16)i};
        unsorted = crc32(unsorted, &nodes[i].value, sizeof(s16));
    }
    struct node *list = sorted(nodes, NODES, by_value);
    bool rises = true;
    for (const struct node *node = list; node->next; node = node->next)
        rises &= by_value(node, node->next);
    ok(rises, "the list is sorted");
    unsigned found = 0;
    for (int value = -1000; value < 1000; value += 50)
        for (const struct node *node = list; node; node = node->next)
            found += node->value == value;
    print("# list: CRC 0x%x, %u found\n", crc_of_list(list), found);
    list = sorted(reversed(list), NODES, by_place);
    is(crc_of_list(list), unsorted, "it is what it was when sorted by place");
}

/* --- Matrices: of numbers of 8, 16 and 32 bits and of floats --- */

#define ORDER 48

static s16 left[ORDER][ORDER], right[ORDER][ORDER];
static u8 weights[ORDER][ORDER];
static s8 inputs[ORDER][ORDER];
static float real_left[ORDER][ORDER], real_right[ORDER][ORDER], real_product[ORDER][ORDER];
static s32 product[ORDER][ORDER], byte_product[ORDER][ORDER];

static void multiply(void) {
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++) {
            s32 sum = 0;
            for (unsigned k = 0; k < ORDER; k++)
                sum += left[i][k] * right[j][k]; /* the right one is transposed */
            product[i][j] = sum;
        }
}

static void multiply_bits(void) {
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++) {
            s32 bits = product[i][j] * left[j][i];
            product[i][j] += (bits >> 2 & 15) * (bits >> 5 & 127);
        }
}

/* As neural networks do: unsigned bytes by signed ones, summed in 32 bits, and scaled to bytes again. */
static void multiply_bytes(void) {
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++) {
            s32 sum = 0;
            for (unsigned k = 0; k < ORDER; k++)
                sum += weights[i][k] * inputs[j][k];
            byte_product[i][j] = sum;
        }
}

static void multiply_floats(void) {
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++)
            real_product[i][j] = 0;
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned k = 0; k < ORDER; k++)
            for (unsigned j = 0; j < ORDER; j++)
                real_product[i][j] += real_left[i][k] * real_right[k][j]; /* whole numbers below 2^24: exact in any order */
}

static void matrices(void) {
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++) {
            left[i][j] = (s16)(next() % 400 - 200);
            right[i][j] = i == j;
            weights[i][j] = (u8)next();
            inputs[i][j] = (s8)next();
            real_left[i][j] = (float)(s32)(next() % 200) - 100;
            real_right[i][j] = (float)(s32)(next() % 200) - 100;
        }
    multiply();
    s32 differences = 0;
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++)
            differences += product[i][j] != left[i][j];
    is((u64)differences, 0, "a matrix by the unit matrix is itself");
    for (unsigned i = 0; i < ORDER; i++)
        for (unsigned j = 0; j < ORDER; j++)
            right[i][j] = (s16)(next() % 400 - 200);
    multiply();
    print("# 16 bits: CRC 0x%x\n", crc32(0, product, sizeof product));
    multiply_bits();
    print("# bits: CRC 0x%x\n", crc32(0, product, sizeof product));
    multiply_bytes();
    print("# bytes: CRC 0x%x\n", crc32(0, byte_product, sizeof byte_product));
    multiply_floats();
    print("# floats: CRC 0x%x\n", crc32(0, real_product, sizeof real_product));
}

/* --- Two pictures: their mean, their distance, a blur, a change of contrast that saturates --- */

#define PIXELS 4096

static u8 one[PIXELS], two[PIXELS], out[PIXELS];
static s16 sound[PIXELS], louder[PIXELS];

static void blend(void) {
    for (unsigned i = 0; i < PIXELS; i++)
        out[i] = (u8)((one[i] + two[i] + 1) >> 1);
}

static void blur(void) {
    for (unsigned i = 1; i + 1 < PIXELS; i++)
        out[i] = (u8)((one[i - 1] + 2 * one[i] + one[i + 1] + 2) >> 2);
}

static void contrast(void) {
    for (unsigned i = 0; i < PIXELS; i++) {
        s32 value = sound[i] * 3 / 2;
        louder[i] = (s16)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
    }
}

#ifdef __ARM_FEATURE_SVE2
/* Loops as they are written by hand for SVE2, for vectors of any length. */
static u32 distance(void) {
    svuint32_t sum = svdup_u32(0);
    for (u32 i = 0; i < PIXELS; i += (u32)svcntb()) {
        svbool_t on = svwhilelt_b8(i, (u32)PIXELS);
        svuint8_t x = svld1(on, one + i), y = svld1(on, two + i);
        sum = svadalp_x(svptrue_b32(), sum, svabalt(svabdlb(x, y), x, y));
    }
    return (u32)svaddv(svptrue_b32(), sum);
}

static void scale(void) {
    for (u32 i = 0; i < PIXELS; i += (u32)svcnth()) {
        svbool_t on = svwhilelt_b16(i, (u32)PIXELS);
        svst1(on, louder + i, svqrdmulh(svld1(on, sound + i), 23170));
    }
}

static void merge(u8 *to, const u8 *from, const u8 *mask) {
    for (u32 i = 0; i < PIXELS; i += (u32)svcntb()) {
        svbool_t on = svwhilelt_b8(i, (u32)PIXELS);
        svst1(on, to + i, svbsl(svld1(on, from + i), svld1(on, to + i), svld1(on, mask + i)));
    }
}

/* How many pixels are one of four shades. */
static u32 shades(void) {
    svuint8_t wanted = svreinterpret_u8(svdup_u32(0x80ff0011));
    u32 sum = 0;
    for (u32 i = 0; i < PIXELS; i += (u32)svcntb()) {
        svbool_t on = svwhilelt_b8(i, (u32)PIXELS);
        sum += (u32)svcntp_b8(on, svmatch(on, svld1(on, one + i), wanted));
    }
    return sum;
}
#else
static u32 distance(void) {
    u32 sum = 0;
    for (unsigned i = 0; i < PIXELS; i++) {
        int apart = one[i] - two[i];
        sum += (u32)(apart < 0 ? -apart : apart);
    }
    return sum;
}

/* As a decoder of sound or pictures scales: the high half of a product, rounded. */
static void scale(void) {
    for (unsigned i = 0; i < PIXELS; i++)
        louder[i] = (s16)((sound[i] * 23170 + 0x4000) >> 15);
}

static void merge(u8 *to, const u8 *from, const u8 *mask) {
    for (unsigned i = 0; i < PIXELS; i++)
        to[i] = (u8)((from[i] & mask[i]) | (to[i] & ~mask[i]));
}

static u32 shades(void) {
    u32 sum = 0;
    for (unsigned i = 0; i < PIXELS; i++)
        sum += one[i] == 0x11 || one[i] == 0 || one[i] == 0xff || one[i] == 0x80;
    return sum;
}
#endif

static void pictures(void) {
    for (unsigned i = 0; i < PIXELS; i++) {
        one[i] = (u8)next();
        two[i] = (u8)next();
        sound[i] = (s16)next();
    }
    blend();
    print("# mean: CRC 0x%x\n", crc32(0, out, sizeof out));
    print("# distance: %u, shades: %u\n", distance(), shades());
    blur();
    print("# blur: CRC 0x%x\n", crc32(0, out, sizeof out));
    contrast();
    print("# contrast: CRC 0x%x\n", crc32(0, louder, sizeof louder));
    scale();
    print("# scale: CRC 0x%x\n", crc32(0, louder, sizeof louder));
    merge(out, two, one);
    print("# merge: CRC 0x%x\n", crc32(0, out, sizeof out));
    u32 before = crc32(0, out, sizeof out);
    merge(out, out, two);
    is(crc32(0, out, sizeof out), before, "a picture merged with itself is itself");
}

/* --- A machine that tells kinds of numbers --- */

enum state { START, SIGN, WHOLE, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, SCIENTIFIC, INVALID, STATES };

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static enum state after(enum state state, char c) {
    switch (state) {
    case START:
        if (c == '+' || c == '-')
            return SIGN;
        /* fall through */
    case SIGN:
        return digit(c) ? WHOLE : c == '.' ? POINT : INVALID;
    case WHOLE:
        return digit(c) ? WHOLE : c == '.' ? FRACTION : c == 'e' ? EXPONENT : INVALID;
    case POINT:
    case FRACTION:
        return digit(c) ? FRACTION : c == 'e' && state == FRACTION ? EXPONENT : INVALID;
    case EXPONENT:
        return c == '+' || c == '-' ? EXPONENT_SIGN : digit(c) ? SCIENTIFIC : INVALID;
    case EXPONENT_SIGN:
    case SCIENTIFIC:
        return digit(c) ? SCIENTIFIC : INVALID;
    default:
        return INVALID;
    }
}

static void states(void) {
    static const char text[] = "5012,+874,-0.25,.5,3.,1e9,-2.5e-3,7e,+,.,12a,1.2.3,6e+40,";
    static const u8 expected[STATES] = {[SIGN] = 1, [WHOLE] = 2, [POINT] = 1, [FRACTION] = 3, [EXPONENT] = 1, [SCIENTIFIC] = 3, [INVALID] = 2};
    unsigned ends[STATES] = {0}, wrong = 0;
    for (unsigned times = 0; times < 100; times++) {
        enum state state = START;
        for (const char *c = text; *c; c++)
            if (*c == ',') {
                ends[state]++;
                state = START;
            } else
                state = after(state, *c);
    }
    for (unsigned i = 0; i < STATES; i++)
        wrong += ends[i] != 100u * expected[i];
    is(wrong, 0, "each number is of the kind that it is");
}

void program(void) {
    is(crc32(0, "123456789", 9), 0xcbf43926, "the CRC of the digits is the published one");
    for (u32 turn = 1; turn < 3; turn++) {
        seed = turn;
        lists();
        matrices();
        pictures();
        states();
    }
}
