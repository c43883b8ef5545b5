// Linux's own interface on arm64, and the little of a C library that programs without one need.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

enum {
    IOCTL = 29, MKDIRAT = 34, UMOUNT2 = 39, MOUNT = 40, CHDIR = 49, CHROOT = 51, OPENAT = 56, CLOSE = 57,
    GETDENTS64 = 61, READ = 63, WRITE = 64, PPOLL = 73, SIGNALFD4 = 74, SYNC = 81, EXIT = 93, SYSLOG = 116,
    KILL = 129, SIGPROCMASK = 135, REBOOT = 142, SETSID = 157, MUNMAP = 215, CLONE = 220, EXECVE = 221,
    MMAP = 222, PERF_EVENT_OPEN = 241, WAIT4 = 260, FINIT_MODULE = 273,
};
enum { AT_FDCWD = -100, SIGCHLD = 17 };
enum { O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0100, O_TRUNC = 01000, O_CLOEXEC = 02000000 };
enum { ENOENT = 2, E2BIG = 7, EACCES = 13, EBUSY = 16, EEXIST = 17, PATH = 4096 };

long call6(long number, long a, long b, long c, long d, long e, long f);
#define CALL_(number, a, b, c, d, e, f, ...) \
    call6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define call(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

void *memset(void *to, int value, u64 bytes);
void *memcpy(void *to, const void *from, u64 bytes);
u64 length_of(const char *text);
int equal(const char *one, const char *other);
int begins(const char *text, const char *start);
// Append to `to`, which has room for `room` bytes and is kept terminated.
void append(char *to, u64 room, const char *text);
// A number of the base that its prefix says; `*end` is where it ends, which may be where it begins.
u64 number_of(const char *text, const char **end);
// Texts, one after the other, until a null pointer.
void say(int file, const char *first, ...);
#define SAY(file, ...) say(file, __VA_ARGS__, (char *)0)
// A number as text; eight of them hold at a time.
const char *decimal(u64 number);
long open_file(const char *path, int flags);
// The whole of a file, at most room - 1 bytes, and a 0 behind them; the bytes, or an error.
long read_file(const char *path, char *to, u64 room);
long write_all(int file, const void *data, u64 bytes);
long fork(void);
// Replace this process by a program that is looked for in PATH, and end it if that cannot be.
void run_program(char **words, char **environment) __attribute__((noreturn));
// What a shell says of a status that wait gave.
int status_of(int waited);
void leave(int status) __attribute__((noreturn));

int run(int count, char **words, char **environment);
