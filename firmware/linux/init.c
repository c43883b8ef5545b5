// The first program of a Linux guest. It does what /init.steps says, tells the status of the command and powers off.
//
// Steps are texts, each with a 0 at its end:
//
//     module FILE                 load a module
//     share TAG PLACE OPTIONS     mount a folder of the host by 9P; what is written is there at once
//     fs TAG PLACE                the same by virtiofs
//     root TAG OPTIONS            mount one, and have it be / from here on
//     disk NAME PLACE             mount the ext2 disk of that name; what is written is on it at once
//     diskroot NAME               mount one, and have it be / from here on
//     copy FILE FILE              copy the first to the second, and say so
//     do N WORD...                run a program, and say so if it fails
//     ready                       say so, and take further steps from the console: hexadecimal digits, a line
//     run N WORD...               run the command, or sh if N is 0; names of the kernel go beside recordings of perf's

#include "sys.h"

enum { STEPS = 1 << 16, WORDS = 512 };
enum { TCGETS = 0x5401, TCSETS = 0x5402, TIOCSCTTY = 0x540E, ICRNL = 0400, ICANON = 2, ECHO = 010, VTIME = 5, VMIN = 6 };

struct termios {
    u32 input, output, control, local;
    u8 line, characters[19];
};

#define PERFILE2 0x32454C4946524550ul // of the text, as a number
enum { DT_REG = 8 };
enum { MS_SYNCHRONOUS = 16, MS_DIRSYNC = 128, LABEL = 1024 + 120 };
enum { OPTIONAL = 1 << 30 }; // of mount: nothing is said if the kernel does not have it

static char steps[STEPS], typed[2 * STEPS];
static u64 steps_length, next;
static int mounted;
static char *words[WORDS + 1], places[16][PATH];
static char *environment[] = {
    "PATH=/bin:/usr/bin:/sbin:/usr/sbin:/usr/local/bin", "HOME=/root", "TERM=dumb", "PAGER=cat", 0};

static char *step(void)
{
    char *text = steps + next;
    if (next >= steps_length)
        return "";
    next += length_of(text) + 1;
    return text;
}

static void failed(const char *what, const char *name, long error)
{
    SAY(2, "init: ", what, " ", name, ": error ", decimal((u64)-error), "\n");
}

static void mount(const char *kind, const char *source, const char *place, const char *options, u64 flags)
{
    call(MKDIRAT, AT_FDCWD, place, 0755);
    long error = call(MOUNT, source, place, kind, flags & ~OPTIONAL, options);
    if (error < 0 && error != -EBUSY && !(flags & OPTIONAL))
        failed("cannot mount", place, error);
}

static void mount_usual(void)
{
    mount("proc", "proc", "/proc", "", 0);
    mount("sysfs", "sysfs", "/sys", "", 0);
    mount("devtmpfs", "devtmpfs", "/dev", "", 0);
    mount("tmpfs", "tmpfs", "/tmp", "", 0);
    mount("tracefs", "tracefs", "/sys/kernel/tracing", "", OPTIONAL);
    mount("debugfs", "debugfs", "/sys/kernel/debug", "", OPTIONAL);
}

static void load(const char *path)
{
    long file = open_file(path, O_RDONLY);
    long error = file < 0 ? file : call(FINIT_MODULE, file, "", 0);
    if (error < 0 && error != -EEXIST)
        failed("cannot load", path, error);
    call(CLOSE, file);
}

// Have the console be this session's terminal, so that Ctrl-C reaches the program.
static void take_terminal(void)
{
    char names[256] = "", path[300] = "/dev/";
    call(SETSID);
    if (read_file("/sys/class/tty/console/active", names, sizeof(names)) <= 1)
        return;
    char *last = names;
    for (char *at = names; *at; at++) {
        if (*at == '\n')
            *at = 0;
        else if (*at == ' ')
            last = at + 1;
    }
    append(path, sizeof(path), last);
    long terminal = call(OPENAT, AT_FDCWD, path, O_RDWR, 0);
    if (terminal < 0)
        return;
    call(IOCTL, terminal, TIOCSCTTY, 0);
    for (int file = 0; file < 3; file++)
        call(24, terminal, file, 0); // dup3
    if (terminal > 2)
        call(CLOSE, terminal);
}

// Read as much of a file as there is room for: one of /proc gives a page at a time, and each write to /out goes out alone.
static long fill(long file, char *piece, u64 room)
{
    u64 length = 0;
    long got = 0;
    while (length < room && (got = call(READ, file, piece + length, room - length)) > 0)
        length += (u64)got;
    return got < 0 ? got : (long)length;
}

static void copy(const char *from, const char *to)
{
    static char piece[1 << 18];
    long source = open_file(from, O_RDONLY), target = open_file(to, O_WRONLY | O_CREAT | O_TRUNC), got = source;
    while (source >= 0 && target >= 0 && (got = fill(source, piece, sizeof(piece))) > 0)
        if (write_all((int)target, piece, (u64)got) < 0)
            break;
    if (got || target < 0)
        failed("cannot copy", from, got < 0 ? got : target);
    else
        SAY(1, "=== copied ", from, "\n");
    call(CLOSE, source);
    call(CLOSE, target);
}

// Whether a file of a folder is perf's.
static int has_recording(long folder)
{
    struct entry {
        u64 number, next;
        unsigned short size;
        u8 kind;
        char name[];
    };
    static char entries[1 << 12] __attribute__((aligned(8)));
    long got;
    while ((got = call(GETDENTS64, folder, entries, sizeof(entries))) > 0)
        for (long at = 0; at < got; at += ((struct entry *)(entries + at))->size) {
            struct entry *entry = (struct entry *)(entries + at);
            char start[8] = "";
            if (entry->kind != DT_REG)
                continue;
            long file = call(OPENAT, folder, entry->name, O_RDONLY | O_CLOEXEC, 0);
            long size = call(READ, file, start, sizeof(start));
            call(CLOSE, file);
            if (size == sizeof(start) && *(u64 *)start == PERFILE2)
                return 1;
        }
    return 0;
}

// Put beside recordings of perf's in a folder what names the kernel's addresses in them, for this boot alone.
static void keep_names(const char *place)
{
    static const char *names[] = {"kallsyms", "modules"};
    long folder = open_file(place, O_RDONLY);
    if (folder >= 0 && has_recording(folder))
        for (int which = 0; which < 2; which++) {
            char from[32] = "/proc/", to[PATH] = "";
            append(from, sizeof(from), names[which]);
            append(to, sizeof(to), place);
            append(to, sizeof(to), "/");
            append(to, sizeof(to), names[which]);
            copy(from, to);
        }
    call(CLOSE, folder);
}

static void take_words(void)
{
    const char *end;
    u64 count = number_of(step(), &end);
    for (u64 at = 0; at < count && at < WORDS; at++)
        words[at] = step();
    words[count < WORDS ? count : WORDS] = 0;
}

static int run_words(void)
{
    long child = fork();
    if (child == 0) {
        take_terminal();
        run_program(words, environment);
    }
    int waited = 0;
    long ended;
    // orphans come to the first program
    do
        ended = call(WAIT4, -1, &waited, 0, 0);
    while (ended != child && ended > 0);
    return ended == child ? status_of(waited) : 126;
}

// Say that the guest is ready, and take what is typed as the steps that follow.
static void take_typed(void)
{
    struct termios terminal, raw;
    long known = call(IOCTL, 0, TCGETS, &terminal);
    raw = terminal;
    raw.input &= ~(u32)ICRNL;
    raw.local &= ~(u32)(ICANON | ECHO);
    raw.characters[VMIN] = 1;
    raw.characters[VTIME] = 0;
    if (known >= 0)
        call(IOCTL, 0, TCSETS, &raw);
    SAY(1, "=== ready\n");
    u64 length = 0;
    long got;
    while (length < sizeof(typed) && (got = call(READ, 0, typed + length, sizeof(typed) - length)) > 0) {
        length += (u64)got;
        if (typed[length - 1] == '\n')
            break;
    }
    if (known >= 0)
        call(IOCTL, 0, TCSETS, &terminal);
    next = steps_length = 0;
    for (u64 at = 0; at + 1 < length && steps_length + 1 < STEPS; at += 2) {
        char pair[5] = {'0', 'x', typed[at], typed[at + 1], 0};
        const char *end;
        u64 value = number_of(pair, &end);
        if (end != pair + 4)
            break;
        steps[steps_length++] = (char)value;
    }
    steps[steps_length] = 0;
}

// Mount the disk whose superblock has this name. With `flags` 0 its writes wait as long as the kernel likes.
static void mount_disk(const char *name, const char *place, u64 flags)
{
    static char start[2048];
    long error = -ENOENT;
    call(MKDIRAT, AT_FDCWD, place, 0755);
    for (char letter = 'a'; letter <= 'z'; letter++) {
        char device[] = "/dev/vda";
        device[7] = letter;
        if (read_file(device, start, sizeof(start)) < 1200 || !equal(start + LABEL, name))
            continue;
        error = call(MOUNT, device, place, "ext4", flags, "barrier=0"); // the host keeps what it was given
        if (error < 0)
            error = call(MOUNT, device, place, "ext2", flags, 0);
        break;
    }
    if (error < 0)
        failed("cannot mount", place, error);
}

static void enter_root(void)
{
    if (call(CHDIR, "/new") < 0 || call(CHROOT, ".") < 0)
        SAY(2, "init: cannot enter the folder of --root\n");
    mount_usual();
}

// Note a place that is unmounted at the end.
static void keep(const char *place)
{
    if (mounted < 16) {
        places[mounted][0] = 0;
        append(places[mounted++], PATH, place);
    }
}

int run(int count, char **unused, char **given)
{
    (void)count, (void)unused, (void)given;
    int status = 0;
    mount_usual();
    long got = read_file("/init.steps", steps, STEPS);
    steps_length = got > 0 ? (u64)got : 0;
    while (next < steps_length) {
        char *verb = step();
        if (equal(verb, "module")) {
            load(step());
        } else if (equal(verb, "share")) {
            char *tag = step(), *place = step(), *options = step();
            mount("9p", tag, place, options, MS_SYNCHRONOUS);
            keep(place);
        } else if (equal(verb, "fs")) {
            char *tag = step(), *place = step();
            mount("virtiofs", tag, place, "", 0);
            keep(place);
        } else if (equal(verb, "root")) {
            char *tag = step();
            mount("9p", tag, "/new", step(), 0);
            enter_root();
        } else if (equal(verb, "disk")) {
            char *name = step(), *place = step();
            mount_disk(name, place, MS_SYNCHRONOUS | MS_DIRSYNC);
            keep(place);
        } else if (equal(verb, "diskroot")) {
            mount_disk(step(), "/new", 0);
            enter_root();
        } else if (equal(verb, "copy")) {
            char *from = step();
            copy(from, step());
        } else if (equal(verb, "do")) {
            take_words();
            int ended = run_words();
            if (ended)
                SAY(2, "init: ", words[0], " ended with status ", decimal((u64)ended), "\n");
        } else if (equal(verb, "ready")) {
            take_typed();
        } else if (equal(verb, "run")) {
            take_words();
            if (!words[0]) {
                words[0] = "sh";
                words[1] = 0;
            }
            if (call(CHDIR, "/root") < 0)
                call(CHDIR, "/");
            status = run_words();
            call(CHDIR, "/");
            for (int place = 0; place < mounted; place++)
                if (equal(places[place], "/out"))
                    keep_names("/out");
        } else {
            SAY(2, "init: no step is called ", verb, "\n");
        }
    }
    while (mounted)
        call(UMOUNT2, places[--mounted], 0);
    call(SYNC);
    call(SYSLOG, 8, 0, 1); // nothing of the kernel's between this and the end
    SAY(1, "\n=== exit status ", decimal((u64)status), "\n");
    for (;;)
        call(REBOOT, 0xFEE1DEAD, 0x28121969, 0x4321FEDC, 0); // power off
}
