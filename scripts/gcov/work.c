#include "zlib.h"
typedef unsigned long size;
static unsigned char arena[1 << 20], from[60000], packed[70000], back[60000];
static size used;
static void *get(void *opaque, unsigned number, unsigned bytes) {
    (void)opaque;
    void *block = arena + used;
    used += ((size)number * bytes + 15) & ~15ul;
    return used <= sizeof arena ? block : 0;
}
static void give_back(void *opaque, void *block) {
    (void)opaque, (void)block;
}
static unsigned next(unsigned *state) {
    *state = *state * 1103515245 + 12345;
    return *state >> 16;
}
/* Text, noise, or one byte again and again. */
static void fill(unsigned kind) {
    unsigned state = 1;
    for (size n = 0; n < sizeof from; n++)
        from[n] = kind == 0 ? "the quick brown fox jumps over the lazy dog, "[(n + next(&state) % 3) % 45]
                            : kind == 1 ? next(&state) : 'a';
}
static int there_and_back(int level, int strategy) {
    z_stream out = {.zalloc = get, .zfree = give_back}, in = {.zalloc = get, .zfree = give_back};
    used = 0;
    if (deflateInit2(&out, level, Z_DEFLATED, 15, 8, strategy) != Z_OK)
        return 1;
    out.next_in = from, out.avail_in = sizeof from;
    out.next_out = packed, out.avail_out = sizeof packed;
    if (deflate(&out, Z_FINISH) != Z_STREAM_END)
        return 2;
    size length = out.total_out;
    deflateEnd(&out);
    if (inflateInit2(&in, 15) != Z_OK)
        return 3;
    in.next_in = packed, in.next_out = back;
    for (size done = 0; done < length; done += 777) {
        in.avail_in = length - done < 777 ? length - done : 777;
        in.avail_out = sizeof back - in.total_out;
        int status = inflate(&in, Z_NO_FLUSH);
        if (status == Z_STREAM_END)
            break;
        if (status != Z_OK)
            return 4;
    }
    inflateEnd(&in);
    for (size n = 0; n < sizeof from; n++)
        if (from[n] != back[n])
            return 5;
    return 0;
}
int work(void);
int work(void) {
    static const int levels[] = {0, 1, 6};
    for (unsigned kind = 0; kind < 3; kind++) {
        fill(kind);
        for (unsigned n = 0; n < 3; n++) {
            int failed = there_and_back(levels[n], kind == 1 ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY);
            if (failed)
                return failed;
        }
    }
    packed[20] ^= 0xFF; /* it must be refused, or be something else */
    z_stream in = {.zalloc = get, .zfree = give_back, .next_in = packed, .avail_in = 500};
    in.next_out = back, in.avail_out = sizeof back;
    inflateInit2(&in, 15);
    inflate(&in, Z_FINISH);
    return crc32(0, from, 100) == 0;
}
