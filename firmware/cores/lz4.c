/* Blocks in the format of LZ4, packed and unpacked, with the checksums xxHash32 and Adler-32 of what went in and came out.
   Written from the descriptions of the formats; a packed block is one that any reader of LZ4 blocks takes. */
#include "cores/program.h"

#ifdef __ARM_FEATURE_SVE2
#include <arm_sve.h>
#endif

#define SIZE (64 * 1024)
#define PACKED (SIZE + SIZE / 255 + 16)
#define HASH_BITS 12
#define LEAST 4 /* bytes of a match */
#define LAST_LITERALS 5
#define NO_MATCH_NEAR_END 12
#define FARTHEST 65535

static u8 input[SIZE], output[SIZE], packed[PACKED];

static u32 word(const u8 *at) {
    u32 value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static u8 *put_length(u8 *to, unsigned length) {
    for (; length >= 255; length -= 255)
        *to++ = 255;
    *to++ = (u8)length;
    return to;
}

/* A token, its literals and, but for the last, its match. */
static u8 *put_sequence(u8 *to, const u8 *literals, unsigned count, unsigned offset, unsigned match) {
    u8 *token = to++;
    *token = (u8)((count < 15 ? count : 15) << 4);
    if (count >= 15)
        to = put_length(to, count - 15);
    for (unsigned i = 0; i < count; i++)
        to[i] = literals[i];
    to += count;
    if (!match)
        return to;
    *to++ = (u8)offset;
    *to++ = (u8)(offset >> 8);
    match -= LEAST;
    *token |= (u8)(match < 15 ? match : 15);
    return match < 15 ? to : put_length(to, match - 15);
}

static unsigned pack(u8 *to, const u8 *from, unsigned size) {
    static u32 places[1 << HASH_BITS];
    for (unsigned i = 0; i < 1 << HASH_BITS; i++)
        places[i] = 0;
    u8 *end = to;
    unsigned anchor = 0, at = 1;
    while (at + NO_MATCH_NEAR_END < size) {
        u32 *place = &places[word(from + at) * 2654435761u >> (32 - HASH_BITS)];
        unsigned candidate = *place;
        *place = at;
        if (at - candidate > FARTHEST || word(from + candidate) != word(from + at)) {
            at++;
            continue;
        }
        unsigned length = LEAST;
        while (at + length < size - LAST_LITERALS && from[candidate + length] == from[at + length])
            length++;
        end = put_sequence(end, from + anchor, at - anchor, at - candidate, length);
        anchor = at += length;
    }
    return (unsigned)(put_sequence(end, from + anchor, size - anchor, 0, 0) - to);
}

/* The rest of a length whose four bits in the token were all ones; beyond `room` where the input is at fault. */
static unsigned rest_of_length(const u8 **from, const u8 *end, unsigned room) {
    unsigned length = 15;
    while (*from < end && length <= room) {
        u8 more = *(*from)++;
        length += more;
        if (more < 255)
            return length;
    }
    return room + 1;
}

/* How many bytes came out; ~0u where the block is none. */
static unsigned unpack(u8 *to, unsigned room, const u8 *from, unsigned size) {
    const u8 *end = from + size;
    unsigned out = 0;
    while (from < end) {
        u8 token = *from++;
        unsigned count = token >> 4;
        if (count == 15)
            count = rest_of_length(&from, end, room);
        if (count > (unsigned)(end - from) || count > room - out)
            return ~0u;
        for (unsigned i = 0; i < count; i++)
            to[out + i] = from[i];
        out += count;
        from += count;
        if (from == end)
            return out;
        if (end - from < 2)
            return ~0u;
        unsigned offset = from[0] | (unsigned)from[1] << 8, match = token & 15;
        from += 2;
        if (match == 15)
            match = rest_of_length(&from, end, room);
        match += LEAST;
        if (!offset || offset > out || match > room - out)
            return ~0u;
        for (unsigned i = 0; i < match; i++, out++)
            to[out] = to[out - offset];
    }
    return ~0u;
}

/* --- Checksums --- */

#define PRIME1 2654435761u
#define PRIME2 2246822519u
#define PRIME3 3266489917u
#define PRIME4 668265263u
#define PRIME5 374761393u

static u32 left(u32 value, unsigned by) {
    return value << by | value >> (32 - by);
}

static u32 xxhash32(const u8 *data, unsigned size, u32 seed) {
    u32 hash = seed + PRIME5;
    unsigned at = 0;
    if (size >= 16) {
        u32 lanes[4] = {seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1};
        for (; at + 16 <= size; at += 16)
            for (unsigned i = 0; i < 4; i++)
                lanes[i] = left(lanes[i] + word(data + at + 4 * i) * PRIME2, 13) * PRIME1;
        hash = left(lanes[0], 1) + left(lanes[1], 7) + left(lanes[2], 12) + left(lanes[3], 18);
    }
    hash += size;
    for (; at + 4 <= size; at += 4)
        hash = left(hash + word(data + at) * PRIME3, 17) * PRIME4;
    for (; at < size; at++)
        hash = left(hash + data[at] * PRIME5, 11) * PRIME1;
    hash = (hash ^ hash >> 15) * PRIME2;
    hash = (hash ^ hash >> 13) * PRIME3;
    return hash ^ hash >> 16;
}

static u32 adler32(const u8 *data, unsigned size) {
    u32 low = 1, high = 0;
    while (size) {
        unsigned count = size < 1024 ? size : 1024;
        u32 sum = 0, weighted = 0;
        for (unsigned i = 0; i < count; i++) {
            sum += data[i];
            weighted += (count - i) * data[i];
        }
        high = (high + count * low + weighted) % 65521;
        low = (low + sum) % 65521;
        data += count;
        size -= count;
    }
    return high << 16 | low;
}

/* How many bytes have each value in their lowest four bits. */
static void count(u32 counts[16], const u8 *data, unsigned size) {
    for (unsigned i = 0; i < 16; i++)
        counts[i] = 0;
#ifdef __ARM_FEATURE_SVE2
    svbool_t all = svptrue_pat_b8(SV_VL16);
    for (unsigned i = 0; i < size; i += 16) {
        svbool_t on = svand_z(all, svwhilelt_b8(i, size), all);
        svuint8_t those = svsel(on, svand_x(on, svld1(on, data + i), 15), svdup_u8(255));
        u8 found[16];
        svst1(all, found, svhistseg(svindex_u8(0, 1), those));
        for (unsigned j = 0; j < 16; j++)
            counts[j] += found[j];
    }
#else
    for (unsigned i = 0; i < size; i++)
        counts[data[i] & 15]++;
#endif
}

/* --- What is packed --- */

static u32 scattered(u32 n) {
    n = (n ^ n >> 16) * 0x7feb352du;
    n = (n ^ n >> 15) * 0x846ca68bu;
    return n ^ n >> 16;
}

static void fill_text(void) {
    static const char words[][8] = {"load ", "store ", "branch ", "the ", "of ", "a ", "sample ", "record\n"};
    unsigned at = 0;
    for (u32 n = 0; at < SIZE; n++)
        for (const char *c = words[scattered(n) % ARRAY_SIZE(words)]; *c && at < SIZE; c++)
            input[at++] = (u8)*c;
}

static void fill_noise(void) {
    for (u32 i = 0; i < SIZE; i++)
        input[i] = (u8)scattered(i);
}

static void fill_waves(void) {
    for (u32 i = 0; i < SIZE; i++)
        input[i] = (u8)((i * i >> 12) + (i >> 3));
}

static void fill_zeros(void) {
    for (u32 i = 0; i < SIZE; i++)
        input[i] = 0;
}

static const struct {
    const char *name;
    void (*fill)(void);
} kinds[] = {{"text", fill_text}, {"noise", fill_noise}, {"waves", fill_waves}, {"zeros", fill_zeros}};

void program(void) {
    is(xxhash32((const u8 *)"", 0, 0), 0x02cc5d05, "xxHash32 of nothing is the published one");
    is(xxhash32((const u8 *)"Nobody inspects the spammish repetition", 39, 0), 0xe2293b2f, "and of a line");
    is(adler32((const u8 *)"Wikipedia", 9), 0x11e60398, "Adler-32 is the published one");
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        kinds[i].fill();
        for (unsigned j = 0; j < SIZE; j++)
            output[j] = 0xa5;
        unsigned size = pack(packed, input, SIZE);
        u32 hash = xxhash32(input, SIZE, 0);
        print("# %s: %u bytes, xxHash32 0x%x, Adler-32 0x%x, input 0x%x\n", kinds[i].name, size, xxhash32(packed, size, 0),
            adler32(packed, size), hash);
        u32 counts[16];
        count(counts, packed, size);
        print("# lowest bits: %u %u %u %u\n", counts[0], counts[5], counts[10], counts[15]);
        is(unpack(output, SIZE, packed, size), SIZE, kinds[i].name);
        is(xxhash32(output, SIZE, 0), hash, "comes out as it went in");
        is(unpack(output, SIZE, packed, size - 1), ~0u, "a block without its end is refused");
    }
}
