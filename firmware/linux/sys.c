#include "sys.h"

__asm__(".globl _start\n"
        "_start: mov x29, #0\n"
        "ldr x0, [sp]\n"
        "add x1, sp, #8\n"
        "add x2, x1, x0, lsl #3\n"
        "add x2, x2, #8\n"
        "bl run\n"
        "mov x8, #93\n"
        "svc #0\n");

long call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

// What the compiler calls by itself.
void *memset(void *to, int value, u64 bytes)
{
    for (u8 *at = to; bytes; bytes--)
        *at++ = (u8)value;
    return to;
}

void *memcpy(void *to, const void *from, u64 bytes)
{
    u8 *at = to;
    for (const u8 *source = from; bytes; bytes--)
        *at++ = *source++;
    return to;
}

u64 length_of(const char *text)
{
    u64 length = 0;
    while (text[length])
        length++;
    return length;
}

int begins(const char *text, const char *start)
{
    while (*start && *text == *start)
        text++, start++;
    return !*start;
}

int equal(const char *one, const char *other)
{
    return begins(one, other) && length_of(one) == length_of(other);
}

void append(char *to, u64 room, const char *text)
{
    u64 at = length_of(to);
    while (*text && at + 1 < room)
        to[at++] = *text++;
    to[at] = 0;
}

u64 number_of(const char *text, const char **end)
{
    u64 base = 10, value = 0;
    if (begins(text, "0x"))
        base = 16, text += 2;
    for (;; text++) {
        u64 digit = (u64)(*text - '0');
        if (digit > 9)
            digit = (u64)((*text | 0x20) - 'a') + 10;
        if (digit >= base || *text < '0')
            break;
        value = value * base + digit;
    }
    *end = text;
    return value;
}

const char *decimal(u64 number)
{
    static char texts[8][24];
    static unsigned next;
    char *at = texts[next++ % 8] + 23;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    return at;
}

void say(int file, const char *first, ...)
{
    // one write, so that lines of two processes do not mix
    char line[1024] = "";
    __builtin_va_list more;
    __builtin_va_start(more, first);
    for (const char *text = first; text; text = __builtin_va_arg(more, const char *))
        append(line, sizeof(line), text);
    __builtin_va_end(more);
    write_all(file, line, length_of(line));
}

long open_file(const char *path, int flags)
{
    return call(OPENAT, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
}

long read_file(const char *path, char *to, u64 room)
{
    long file = open_file(path, O_RDONLY), got;
    u64 length = 0;
    if (file < 0)
        return file;
    while (length + 1 < room && (got = call(READ, file, to + length, room - 1 - length)) > 0)
        length += (u64)got;
    to[length] = 0;
    call(CLOSE, file);
    return (long)length;
}

long write_all(int file, const void *data, u64 bytes)
{
    for (u64 done = 0; done < bytes;) {
        long put = call(WRITE, file, (const u8 *)data + done, bytes - done);
        if (put <= 0)
            return put;
        done += (u64)put;
    }
    return (long)bytes;
}

long fork(void)
{
    return call(CLONE, SIGCHLD);
}

void run_program(char **words, char **environment)
{
    const char *path = "/bin:/usr/bin:/sbin:/usr/sbin:/usr/local/bin";
    long failed = -ENOENT;
    if (!words[0])
        leave(127);
    for (const char *at = words[0]; *at; at++)
        if (*at == '/') {
            failed = call(EXECVE, words[0], words, environment);
            path = "";
            break;
        }
    while (*path) {
        char name[PATH] = "";
        u64 length = 0;
        while (path[length] && path[length] != ':')
            length++;
        memcpy(name, path, length);
        append(name, sizeof(name), "/");
        append(name, sizeof(name), words[0]);
        long error = call(EXECVE, name, words, environment);
        if (error != -ENOENT)
            failed = error;
        path += length + (path[length] == ':');
    }
    if (failed == -ENOENT)
        SAY(2, words[0], ": there is no such program, or not what it is to be run by\n");
    else
        SAY(2, words[0], ": cannot be run: error ", decimal((u64)-failed), "\n");
    leave(failed == -ENOENT ? 127 : 126);
}

int status_of(int waited)
{
    return waited & 0x7F ? 128 + (waited & 0x7F) : waited >> 8 & 0xFF;
}

void leave(int status)
{
    for (;;)
        call(EXIT, status);
}
