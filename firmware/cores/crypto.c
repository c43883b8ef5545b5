/* Ciphers and hashes test themselves with the vectors of their standards, then work on more data: SHA-256 and SHA-512
   (FIPS 180-4), SHA3-256 and SHAKE128 of several messages at once (FIPS 202), AES (FIPS 197) in counter mode, ChaCha20 (RFC 8439). */
#include "cores/program.h"

#ifdef __ARM_FEATURE_SVE2
#include <arm_sve.h>
#endif

#define SIZE (16 * 1024)

static u8 data[SIZE];

static void same(const void *actual, const void *expected, size_t size, const char *name) {
    if (!ok(memcmp(actual, expected, size) == 0, name))
        for (size_t i = 0; i < size; i++)
            print("%s%x%x%s", i ? "" : "# ", ((const u8 *)actual)[i] >> 4, ((const u8 *)actual)[i] & 15, i + 1 < size ? "" : "\n");
}

/* --- SHA-2 --- */

static u32 right32(u32 value, unsigned by) {
    return value >> by | value << (32 - by);
}

static u64 right64(u64 value, unsigned by) {
    return value >> by | value << (64 - by);
}

/* The first 64 bits of the fractional parts of the cube roots of the first 80 primes; SHA-256 has the upper halves. */
static u64 roots[80];

/* The integer part of the cube root of `prime`, and 64 bits of fraction, bit by bit. */
static u64 fraction_of_cube_root(u64 prime) {
    unsigned __int128 root = 0; /* in 2^-64 */
    for (int bit = 67; bit >= 0; bit--) {
        unsigned __int128 tried = root | (unsigned __int128)1 << bit;
        /* tried^3 <= prime * 2^192, in limbs of 32 bits */
        u32 t[3] = {(u32)tried, (u32)(tried >> 32), (u32)(tried >> 64)}, square[6] = {0}, cube[9] = {0};
        for (int i = 0; i < 3; i++) {
            u64 carry = 0;
            for (int j = 0; j < 3; j++) {
                carry += square[i + j] + (u64)t[i] * t[j];
                square[i + j] = (u32)carry;
                carry >>= 32;
            }
            square[i + 3] = (u32)carry;
        }
        for (int i = 0; i < 3; i++) {
            u64 carry = 0;
            for (int j = 0; j < 6; j++) {
                carry += cube[i + j] + (u64)t[i] * square[j];
                cube[i + j] = (u32)carry;
                carry >>= 32;
            }
            cube[i + 6] = (u32)carry;
        }
        if (((u64)cube[7] << 32 | cube[6]) < prime)
            root = tried;
    }
    return (u64)root;
}

static void find_roots(void) {
    unsigned found = 0;
    for (unsigned n = 2; found < ARRAY_SIZE(roots); n++) {
        bool prime = true;
        for (unsigned d = 2; d * d <= n; d++)
            prime &= n % d != 0;
        if (prime)
            roots[found++] = fraction_of_cube_root(n);
    }
}

static void sha256_block(u32 state[8], const u8 *block) {
    u32 w[64];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (u32)block[4 * i] << 24 | (u32)block[4 * i + 1] << 16 | (u32)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        u32 x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (right32(x, 7) ^ right32(x, 18) ^ x >> 3) + w[i - 7] + (right32(y, 17) ^ right32(y, 19) ^ y >> 10);
    }
    u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (unsigned i = 0; i < 64; i++) {
        u32 one = h + (right32(e, 6) ^ right32(e, 11) ^ right32(e, 25)) + ((e & f) ^ (~e & g)) + (u32)(roots[i] >> 32) + w[i];
        u32 two = (right32(a, 2) ^ right32(a, 13) ^ right32(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    u32 all[8] = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++)
        state[i] += all[i];
}

static void sha512_block(u64 state[8], const u8 *block) {
    u64 w[80];
    for (unsigned i = 0; i < 16; i++) {
        w[i] = 0;
        for (unsigned j = 0; j < 8; j++)
            w[i] = w[i] << 8 | block[8 * i + j];
    }
    for (unsigned i = 16; i < 80; i++) {
        u64 x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (right64(x, 1) ^ right64(x, 8) ^ x >> 7) + w[i - 7] + (right64(y, 19) ^ right64(y, 61) ^ y >> 6);
    }
    u64 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (unsigned i = 0; i < 80; i++) {
        u64 one = h + (right64(e, 14) ^ right64(e, 18) ^ right64(e, 41)) + ((e & f) ^ (~e & g)) + roots[i] + w[i];
        u64 two = (right64(a, 28) ^ right64(a, 34) ^ right64(a, 39)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    u64 all[8] = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++)
        state[i] += all[i];
}

static const u64 start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, /* of the square roots; */
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179, /* SHA-256 has the upper halves */
};

/* The hash by blocks of `block` bytes (64: SHA-256, 128: SHA-512). */
static void sha2(u8 *hash, unsigned block, const u8 *message, unsigned size) {
    u32 small[8];
    u64 large[8];
    u8 last[256] = {0};
    for (unsigned i = 0; i < 8; i++) {
        large[i] = start[i];
        small[i] = (u32)(start[i] >> 32);
    }
    unsigned rest = size % block, padded = rest + 1 + block / 8 > block ? 2 * block : block;
    for (unsigned i = 0; i < rest; i++)
        last[i] = message[size - rest + i];
    last[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        last[padded - 1 - i] = (u8)((u64)size * 8 >> (8 * i));
    for (unsigned at = 0; at < size - rest + padded; at += block) {
        const u8 *from = at < size - rest ? message + at : last + (at - (size - rest));
        if (block == 64)
            sha256_block(small, from);
        else
            sha512_block(large, from);
    }
    for (unsigned i = 0; i < block / 2; i++)
        hash[i] = block == 64 ? (u8)(small[i / 4] >> (24 - 8 * (i % 4))) : (u8)(large[i / 8] >> (56 - 8 * (i % 8)));
}

/* --- SHA-3, of four messages at once, as lattice ciphers have it --- */

#define LANES 4

typedef u64 keccak[25][LANES];

static u64 round_constants[24];

static void find_round_constants(void) {
    u8 lfsr = 1;
    for (unsigned round = 0; round < 24; round++)
        for (unsigned j = 0; j < 7; j++) {
            if (lfsr & 1)
                round_constants[round] |= BIT((1 << j) - 1);
            lfsr = (u8)(lfsr << 1 ^ (lfsr & 0x80 ? 0x71 : 0));
        }
}

/* MOVE(to, from, by): a lane goes to another place, turned left. */
#define MOVES                                                                                          \
    MOVE(10, 1, 1) MOVE(7, 10, 3) MOVE(11, 7, 6) MOVE(17, 11, 10) MOVE(18, 17, 15) MOVE(3, 18, 21)     \
    MOVE(5, 3, 28) MOVE(16, 5, 36) MOVE(8, 16, 45) MOVE(21, 8, 55) MOVE(24, 21, 2) MOVE(4, 24, 14)     \
    MOVE(15, 4, 27) MOVE(23, 15, 41) MOVE(19, 23, 56) MOVE(13, 19, 8) MOVE(12, 13, 25) MOVE(2, 12, 43) \
    MOVE(20, 2, 62) MOVE(14, 20, 18) MOVE(22, 14, 39) MOVE(9, 22, 61) MOVE(6, 9, 20) MOVE(1, 6, 44)

#ifdef __ARM_FEATURE_SVE2
static void permute(keccak s) {
    keccak b;
    u64 c[5][LANES], d[5][LANES];
    for (unsigned i = 0; i < LANES; i += (unsigned)svcntd()) {
        svbool_t on = svwhilelt_b64(i, (unsigned)LANES);
#define GET(from) svld1(on, &(from)[i])
        for (unsigned round = 0; round < 24; round++) {
            for (unsigned x = 0; x < 5; x++)
                svst1(on, &c[x][i], sveor3(sveor3(GET(s[x]), GET(s[x + 5]), GET(s[x + 10])), GET(s[x + 15]), GET(s[x + 20])));
            for (unsigned x = 0; x < 5; x++)
                svst1(on, &d[x][i], sveor_x(on, GET(c[(x + 4) % 5]), svxar(GET(c[(x + 1) % 5]), svdup_u64(0), 63)));
            svst1(on, &b[0][i], sveor_x(on, GET(s[0]), GET(d[0])));
#define MOVE(to, from, by) svst1(on, &b[to][i], svxar(GET(s[from]), GET(d[from % 5]), 64 - by));
            MOVES
#undef MOVE
            for (unsigned y = 0; y < 25; y += 5)
                for (unsigned x = 0; x < 5; x++)
                    svst1(on, &s[y + x][i], svbcax(GET(b[y + x]), GET(b[y + (x + 2) % 5]), GET(b[y + (x + 1) % 5])));
            svst1(on, &s[0][i], sveor_x(on, GET(s[0]), round_constants[round]));
        }
    }
}
#else
static void permute(keccak s) {
    keccak b;
    u64 c[5][LANES], d[5][LANES];
    for (unsigned round = 0; round < 24; round++) {
        for (unsigned x = 0; x < 5; x++)
            for (unsigned i = 0; i < LANES; i++)
                c[x][i] = s[x][i] ^ s[x + 5][i] ^ s[x + 10][i] ^ s[x + 15][i] ^ s[x + 20][i];
        for (unsigned x = 0; x < 5; x++)
            for (unsigned i = 0; i < LANES; i++)
                d[x][i] = c[(x + 4) % 5][i] ^ right64(c[(x + 1) % 5][i], 63);
        for (unsigned i = 0; i < LANES; i++)
            b[0][i] = s[0][i] ^ d[0][i];
#define MOVE(to, from, by)               \
    for (unsigned i = 0; i < LANES; i++) \
        b[to][i] = right64(s[from][i] ^ d[from % 5][i], 64 - by);
        MOVES
        for (unsigned y = 0; y < 25; y += 5)
            for (unsigned x = 0; x < 5; x++)
                for (unsigned i = 0; i < LANES; i++)
                    s[y + x][i] = b[y + x][i] ^ (~b[y + (x + 1) % 5][i] & b[y + (x + 2) % 5][i]);
        for (unsigned i = 0; i < LANES; i++)
            s[0][i] ^= round_constants[round];
    }
}
#endif

/* 32 bytes of each hash; message `i` is `size` bytes at `messages + i * size`. */
static void sha3(u8 hashes[LANES][32], const u8 *messages, unsigned size, unsigned rate, u8 suffix) {
    keccak state = {0};
    for (unsigned at = 0; at <= size; at += rate) {
        for (unsigned i = 0; i < LANES; i++) {
            u8 block[168] = {0};
            unsigned count = size - at < rate ? size - at : rate;
            for (unsigned j = 0; j < count; j++)
                block[j] = messages[i * size + at + j];
            if (count < rate) {
                block[count] ^= suffix;
                block[rate - 1] ^= 0x80;
            }
            for (unsigned j = 0; j < rate; j++)
                state[j / 8][i] ^= (u64)block[j] << (8 * (j % 8));
        }
        permute(state);
    }
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned j = 0; j < 32; j++)
            hashes[i][j] = (u8)(state[j / 8][i] >> (8 * (j % 8)));
}

/* --- AES --- */

static u8 box[256];

static u8 twice(u8 x) {
    return (u8)(x << 1 ^ (x & 0x80 ? 0x1b : 0));
}

static void find_box(void) {
    u8 p = 1, q = 1; /* each the inverse of the other: powers of 3 and of 1/3 */
    do {
        p ^= twice(p);
        q ^= (u8)(q << 1);
        q ^= (u8)(q << 2);
        q ^= (u8)(q << 4);
        if (q & 0x80)
            q ^= 0x09;
        u8 x = q;
        for (unsigned i = 1; i < 5; i++)
            x ^= (u8)(q << i | q >> (8 - i));
        box[p] = x ^ 0x63;
    } while (p != 1);
    box[0] = 0x63;
}

struct aes {
    u8 keys[15][16];
    unsigned rounds;
};

static void aes_key(struct aes *aes, const u8 *key, unsigned words) {
    u8 *w = aes->keys[0], power = 1;
    aes->rounds = words + 6;
    for (unsigned i = 0; i < 4 * words; i++)
        w[i] = key[i];
    for (unsigned i = words; i < 4 * (aes->rounds + 1); i++) {
        u8 t[4];
        for (unsigned j = 0; j < 4; j++)
            t[j] = w[4 * (i - 1) + j];
        if (i % words == 0) {
            u8 first = t[0];
            t[0] = box[t[1]] ^ power, t[1] = box[t[2]], t[2] = box[t[3]], t[3] = box[first];
            power = twice(power);
        } else if (words > 6 && i % words == 4)
            for (unsigned j = 0; j < 4; j++)
                t[j] = box[t[j]];
        for (unsigned j = 0; j < 4; j++)
            w[4 * i + j] = w[4 * (i - words) + j] ^ t[j];
    }
}

#ifdef __ARM_FEATURE_SVE2_AES
static void aes_block(const struct aes *aes, u8 *block) {
    svbool_t one = svptrue_pat_b8(SV_VL16);
    svuint8_t state = svld1(one, block);
    for (unsigned round = 0; round + 1 < aes->rounds; round++)
        state = svaesmc(svaese(state, svld1(one, aes->keys[round])));
    state = svaese(state, svld1(one, aes->keys[aes->rounds - 1]));
    svst1(one, block, sveor_x(one, state, svld1(one, aes->keys[aes->rounds])));
}
#else
static void aes_block(const struct aes *aes, u8 *block) {
    u8 s[16], t[16];
    for (unsigned i = 0; i < 16; i++)
        s[i] = block[i] ^ aes->keys[0][i];
    for (unsigned round = 1; round <= aes->rounds; round++) {
        for (unsigned i = 0; i < 16; i++)
            t[i] = box[s[(i + 4 * (i % 4)) % 16]];
        for (unsigned i = 0; i < 16; i++) {
            const u8 *column = t + i / 4 * 4;
            u8 a = column[i % 4], b = column[(i + 1) % 4], c = column[(i + 2) % 4], d = column[(i + 3) % 4];
            s[i] = (round < aes->rounds ? (u8)(twice(a) ^ twice(b) ^ b ^ c ^ d) : a) ^ aes->keys[round][i];
        }
    }
    for (unsigned i = 0; i < 16; i++)
        block[i] = s[i];
}
#endif

static void aes_counter(const struct aes *aes, u8 *to, unsigned size) {
    for (unsigned at = 0; at < size; at += 16) {
        u8 block[16] = {0};
        for (unsigned i = 0; i < 4; i++)
            block[15 - i] = (u8)(at / 16 >> (8 * i));
        aes_block(aes, block);
        for (unsigned i = 0; i < 16; i++)
            to[at + i] ^= block[i];
    }
}

/* --- ChaCha20, eight blocks at once --- */

#define BLOCKS 8

#ifdef __ARM_FEATURE_SVE2
static void quarter(u32 s[16][BLOCKS], unsigned a, unsigned b, unsigned c, unsigned d) {
    for (unsigned i = 0; i < BLOCKS; i += (unsigned)svcntw()) {
        svbool_t on = svwhilelt_b32(i, (unsigned)BLOCKS);
        svuint32_t p = svld1(on, &s[a][i]), q = svld1(on, &s[b][i]), r = svld1(on, &s[c][i]), t = svld1(on, &s[d][i]);
        p = svadd_x(on, p, q), t = svxar(t, p, 16), r = svadd_x(on, r, t), q = svxar(q, r, 20);
        p = svadd_x(on, p, q), t = svxar(t, p, 24), r = svadd_x(on, r, t), q = svxar(q, r, 25);
        svst1(on, &s[a][i], p), svst1(on, &s[b][i], q), svst1(on, &s[c][i], r), svst1(on, &s[d][i], t);
    }
}
#else
static void quarter(u32 s[16][BLOCKS], unsigned a, unsigned b, unsigned c, unsigned d) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        s[a][i] += s[b][i];
        s[d][i] = right32(s[d][i] ^ s[a][i], 16);
        s[c][i] += s[d][i];
        s[b][i] = right32(s[b][i] ^ s[c][i], 20);
        s[a][i] += s[b][i];
        s[d][i] = right32(s[d][i] ^ s[a][i], 24);
        s[c][i] += s[d][i];
        s[b][i] = right32(s[b][i] ^ s[c][i], 25);
    }
}
#endif

static void chacha20(u8 *to, unsigned size, const u8 key[32], const u8 nonce[12], u32 counter) {
    u32 s[16][BLOCKS], first[16][BLOCKS];
    for (unsigned at = 0; at < size; at += 64 * BLOCKS, counter += BLOCKS) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            static const u8 words[] = "expand 32-byte k";
            for (unsigned j = 0; j < 16; j++) {
                const u8 *from = j < 4 ? words + 4 * j : j < 12 ? key + 4 * (j - 4) : nonce + 4 * (j - 13);
                first[j][i] = j == 12 ? counter + i : from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24;
            }
        }
        for (unsigned j = 0; j < 16; j++)
            for (unsigned i = 0; i < BLOCKS; i++)
                s[j][i] = first[j][i];
        for (unsigned round = 0; round < 10; round++) {
            quarter(s, 0, 4, 8, 12);
            quarter(s, 1, 5, 9, 13);
            quarter(s, 2, 6, 10, 14);
            quarter(s, 3, 7, 11, 15);
            quarter(s, 0, 5, 10, 15);
            quarter(s, 1, 6, 11, 12);
            quarter(s, 2, 7, 8, 13);
            quarter(s, 3, 4, 9, 14);
        }
        for (unsigned j = 0; j < 16; j++)
            for (unsigned i = 0; i < BLOCKS; i++)
                s[j][i] += first[j][i];
        for (unsigned i = 0; i < 64 * BLOCKS && at + i < size; i++)
            to[at + i] ^= (u8)(s[i % 64 / 4][i / 64] >> (8 * (i % 4)));
    }
}

/* --- The tests --- */

static void fill(void) {
    for (u32 i = 0; i < SIZE; i++)
        data[i] = (u8)(i * 2654435761u >> 13);
}

static void hashes(void) {
    u8 hash[64], four[LANES][32];
    sha2(hash, 64, (const u8 *)"abc", 3);
    same(hash, "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad", 32, "SHA-256");
    sha2(hash, 128, (const u8 *)"abc", 3);
    same(hash, "\xdd\xaf\x35\xa1\x93\x61\x7a\xba\xcc\x41\x73\x49\xae\x20\x41\x31\x12\xe6\xfa\x4e\x89\xa9\x7e\xa2\x0a\x9e\xee\xe6\x4b\x55\xd3\x9a"
        "\x21\x92\x99\x2a\x27\x4f\xc1\xa8\x36\xba\x3c\x23\xa3\xfe\xeb\xbd\x45\x4d\x44\x23\x64\x3c\xe8\x0e\x2a\x9a\xc9\x4f\xa5\x4c\xa4\x9f", 64, "SHA-512");
    sha3(four, (const u8 *)"abcabcabcabc", 3, 136, 0x06);
    for (unsigned i = 0; i < LANES; i++)
        same(four[i], "\x3a\x98\x5d\xa7\x4f\xe2\x25\xb2\x04\x5c\x17\x2d\x6b\xd3\x90\xbd\x85\x5f\x08\x6e\x3e\x9d\x52\x5b\x46\xbf\xe2\x45\x11\x43\x15\x32", 32, "SHA3-256");
    sha3(four, data, 0, 168, 0x1f);
    same(four[0], "\x7f\x9c\x2b\xa4\xe8\x8f\x82\x7d\x61\x60\x45\x50\x76\x05\x85\x3e\xd7\x3b\x80\x93\xf6\xef\xbc\x88\xeb\x1a\x6e\xac\xfa\x66\xef\x26", 32, "SHAKE128");
    sha2(hash, 64, data, SIZE);
    print("# SHA-256: CRC 0x%x\n", crc32(0, hash, 32));
    sha2(hash, 128, data, SIZE);
    print("# SHA-512: CRC 0x%x\n", crc32(0, hash, 64));
    sha3(four, data, SIZE / LANES, 136, 0x06);
    print("# SHA3-256: CRC 0x%x\n", crc32(0, four, sizeof four));
}

static void ciphers(void) {
    static const u8 text[] = "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", nonce[12] = {0, 0, 0, 9, 0, 0, 0, 0x4a};
    static const u8 sunscreen[12] = {[7] = 0x4a};
    u8 key[32], block[16];
    struct aes aes;
    for (unsigned i = 0; i < 32; i++)
        key[i] = (u8)i;
    memcpy(block, text, 16);
    aes_key(&aes, key, 4);
    aes_block(&aes, block);
    same(block, "\x69\xc4\xe0\xd8\x6a\x7b\x04\x30\xd8\xcd\xb7\x80\x70\xb4\xc5\x5a", 16, "AES-128");
    memcpy(block, text, 16);
    aes_key(&aes, key, 8);
    aes_block(&aes, block);
    same(block, "\x8e\xa2\xb7\xca\x51\x67\x45\xbf\xea\xfc\x49\x90\x4b\x49\x60\x89", 16, "AES-256");
    u8 stream[64] = {0}, message[] = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    chacha20(stream, 64, key, nonce, 1);
    same(stream, "\x10\xf1\xe7\xe4\xd1\x3b\x59\x15\x50\x0f\xdd\x1f\xa3\x20\x71\xc4\xc7\xd1\xf4\xc7\x33\xc0\x68\x03\x04\x22\xaa\x9a\xc3\xd4\x6c\x4e"
        "\xd2\x82\x64\x46\x07\x9f\xaa\x09\x14\xc2\xd7\x05\xd9\x8b\x02\xa2\xb5\x12\x9c\xd1\xde\x16\x4e\xb9\xcb\xd0\x83\xe8\xa2\x50\x3c\x4e", 64, "ChaCha20");
    chacha20(message, 114, key, sunscreen, 1);
    same(message, "\x6e\x2e\x35\x9a\x25\x68\xf9\x80\x41\xba\x07\x28\xdd\x0d\x69\x81", 16, "ChaCha20 of a text");
    u32 before = crc32(0, data, SIZE);
    aes_counter(&aes, data, SIZE);
    print("# AES: CRC 0x%x\n", crc32(0, data, SIZE));
    aes_counter(&aes, data, SIZE);
    is(crc32(0, data, SIZE), before, "what AES hides it shows again");
    chacha20(data, SIZE, key, nonce, 0);
    print("# ChaCha20: CRC 0x%x\n", crc32(0, data, SIZE));
    chacha20(data, SIZE, key, nonce, 0);
    is(crc32(0, data, SIZE), before, "what ChaCha20 hides it shows again");
}

void program(void) {
    find_roots();
    find_round_constants();
    find_box();
    fill();
    hashes();
    ciphers();
}
