#include "firmware.h"

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    u8 *t = to;
    const u8 *f = from;
    if ((((uintptr_t)t | (uintptr_t)f) & 7) == 0)
        for (; size >= 8; size -= 8, t += 8, f += 8)
            *(u64 *)t = *(const u64 *)f;
    while (size--)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    u8 *t = to;
    const u8 *f = from;
    if (t <= f)
        return memcpy(to, from, size); /* copies upwards */
    while (size--)
        t[size] = f[size];
    return to;
}

void *memset(void *to, int byte, size_t size) {
    u8 *t = to;
    u64 pattern = (u8)byte * 0x0101010101010101ull;
    if (((uintptr_t)t & 7) == 0)
        for (; size >= 8; size -= 8, t += 8)
            *(u64 *)t = pattern;
    while (size--)
        *t++ = (u8)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t size) {
    const u8 *x = a, *y = b;
    if ((((uintptr_t)x | (uintptr_t)y) & 7) == 0)
        for (; size >= 8 && *(const u64 *)x == *(const u64 *)y; size -= 8)
            x += 8, y += 8;
    for (; size; size--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

int strcmp(const char *a, const char *b) {
    for (; *a && *a == *b; a++, b++) {
    }
    return (u8)*a - (u8)*b;
}
