// Records a command with SPE by perf_event_open, and counts events, without perf.
//
//     spe_client [-e EVENT]... [-c PERIOD] [-m PAGES] [-a] [-o FILE] COMMAND [ARGUMENT]...
//
// EVENT is PMU/TERM[=VALUE],.../[u][k], with the terms and names that sysfs has of the PMU. One of arm_spe is recorded,
// on each CPU; any other is counted. What SPE writes is in FILE.0, FILE.1 and so on, for each CPU. Output, all
// numbers in decimal:
//
//     aux CPU bytes N pieces N truncated N collided N partial N lost N
//     count EVENT VALUE

#include "sys.h"

enum { EVENTS = 16, CPUS = 64, RING_PAGES = 8 };
enum { SIG_BLOCK = 0, SIG_UNBLOCK = 1, PROT_READ_WRITE = 3, MAP_SHARED = 1, POLLIN = 1 };
enum { RECORD_LOST = 2, RECORD_AUX = 11, TRUNCATED = 1, PARTIAL = 4, COLLIDED = 8 };
enum { ENABLE = 0x2400, DISABLE = 0x2401 };
enum { DISABLED = 1, INHERIT = 2, EXCLUDE_USER = 1 << 4, EXCLUDE_KERNEL = 1 << 5, ENABLE_ON_EXEC = 1 << 12 };

struct attributes {
    u32 type, size;
    u64 config, period, sample_type, read_format, flags;
    u32 wakeup, breakpoint;
    u64 config1, config2, branches, user_registers;
    u32 user_stack, clock;
    u64 interrupt_registers;
    u32 aux_watermark;
    unsigned short deepest, reserved;
    u32 aux_sample, reserved_too;
    u64 signal_data, config3, config4;
};

struct ring { // struct perf_event_mmap_page; what lies in front of data_head is not needed
    u8 before[1024];
    u64 head, tail, offset, size, aux_head, aux_tail, aux_offset, aux_size;
};

struct event {
    const char *text;
    struct attributes attributes;
    int records;
    int files[CPUS];
} events[EVENTS];

static struct recording {
    struct ring *ring;
    const u8 *aux;
    int file;
    u64 bytes, pieces, truncated, collided, partial, lost;
} recordings[CPUS];

static u64 page = 4096, aux_bytes;
static unsigned event_count, cpu_count, cpus[CPUS];
static char **environment;

static void fail(const char *what, const char *name, long error)
{
    if (error)
        SAY(2, "spe_client: ", what, " ", name, ": error ", decimal((u64)-error), "\n");
    else
        SAY(2, "spe_client: ", what, " ", name, "\n");
    leave(125);
}

// Put a value into the bits that a file of sysfs names, such as config1:0-3,8.
static int place_bits(struct attributes *to, const char *format, u64 value)
{
    u64 *word = &to->config;
    if (begins(format, "config1:"))
        word = &to->config1;
    else if (begins(format, "config2:"))
        word = &to->config2;
    else if (begins(format, "config3:"))
        word = &to->config3;
    else if (begins(format, "config4:"))
        word = &to->config4;
    else if (!begins(format, "config:"))
        return 0;
    while (*format && *format != ':')
        format++;
    unsigned done = 0;
    while (*format == ':' || *format == ',') {
        u64 low = number_of(format + 1, &format), high = low;
        if (*format == '-')
            high = number_of(format + 1, &format);
        for (u64 bit = low; bit <= high && bit < 64; bit++, done++)
            *word |= (value >> done & 1) << bit;
    }
    return done >= 64 || value >> done == 0;
}

// The terms of a text that ends at a 0, a line or a slash; where it ends.
static const char *add_terms(struct attributes *to, const char *folder, const char *text, int deep)
{
    while (*text && *text != '/' && *text != '\n') {
        char name[128] = "", path[256] = "", format[256];
        u64 length = 0, value = 1;
        while (text[length] && text[length] != '=' && text[length] != ',' && text[length] != '/' && text[length] != '\n')
            length++;
        if (length >= sizeof(name))
            fail("a term is too long:", text, 0);
        memcpy(name, text, length);
        text += length;
        int given = *text == '=';
        if (given)
            value = number_of(text + 1, &text);
        append(path, sizeof(path), folder);
        append(path, sizeof(path), "/format/");
        append(path, sizeof(path), name);
        if (read_file(path, format, sizeof(format)) > 0) {
            if (!place_bits(to, format, value))
                fail("the value does not fit into the term, or is not known how:", name, 0);
        } else {
            path[0] = 0;
            append(path, sizeof(path), folder);
            append(path, sizeof(path), "/events/");
            append(path, sizeof(path), name);
            if (given || deep || read_file(path, format, sizeof(format)) <= 0)
                fail("no term or event of this PMU is called", name, 0);
            add_terms(to, folder, format, 1);
        }
        if (*text != ',' && *text && *text != '/' && *text != '\n')
            fail("this is no value, or no term:", text, 0);
        text += *text == ',';
    }
    return text;
}

static void add_event(const char *text)
{
    if (event_count == EVENTS)
        fail("too many events:", text, 0);
    struct event *event = &events[event_count++];
    char pmu[64] = "", path[256] = "/sys/bus/event_source/devices/", type[32];
    u64 length = 0;
    while (text[length] && text[length] != '/')
        length++;
    if (!text[length] || length >= sizeof(pmu))
        fail("an event is PMU/TERM=VALUE,.../, not", text, 0);
    memcpy(pmu, text, length);
    append(path, sizeof(path), pmu);
    u64 folder = length_of(path);
    append(path, sizeof(path), "/type");
    if (read_file(path, type, sizeof(type)) <= 0)
        fail("the kernel has no PMU that is called", pmu, 0);
    path[folder] = 0;
    const char *end;
    event->text = text;
    event->records = begins(pmu, "arm_spe");
    for (unsigned other = 0; event->records && other + 1 < event_count; other++)
        if (events[other].records)
            fail("one event of arm_spe can be recorded at a time, not also", text, 0);
    event->attributes.size = sizeof(struct attributes);
    event->attributes.type = (u32)number_of(type, &end);
    event->attributes.flags = DISABLED | INHERIT;
    end = add_terms(&event->attributes, path, text + length + 1, 0);
    if (*end == '/')
        end++;
    if (*end)
        event->attributes.flags |= EXCLUDE_USER | EXCLUDE_KERNEL;
    for (; *end; end++) {
        if (*end != 'u' && *end != 'k')
            fail("a modifier is u or k, in", text, 0);
        event->attributes.flags &= ~(u64)(*end == 'u' ? EXCLUDE_USER : EXCLUDE_KERNEL);
    }
}

static void find_cpus(void)
{
    char text[256];
    const char *at = text;
    if (read_file("/sys/devices/system/cpu/online", text, sizeof(text)) <= 0)
        text[0] = '0', text[1] = 0;
    while (*at >= '0' && *at <= '9') {
        u64 low = number_of(at, &at), high = low;
        if (*at == '-')
            high = number_of(at + 1, &at);
        for (u64 cpu = low; cpu <= high && cpu_count < CPUS; cpu++)
            cpus[cpu_count++] = (unsigned)cpu;
        at += *at == ',';
    }
}

static void start_recording(struct recording *to, int file, const char *name, unsigned cpu)
{
    long ring = call(MMAP, 0, (RING_PAGES + 1) * page, PROT_READ_WRITE, MAP_SHARED, file, 0);
    if (ring < 0)
        fail("cannot map the buffer of", "records", ring);
    to->ring = (struct ring *)ring;
    to->ring->aux_offset = (RING_PAGES + 1) * page;
    to->ring->aux_size = aux_bytes;
    long aux = call(MMAP, 0, aux_bytes, PROT_READ_WRITE, MAP_SHARED, file, to->ring->aux_offset);
    if (aux < 0)
        fail("cannot map the buffer of", "SPE", aux);
    to->aux = (const u8 *)aux;
    char path[PATH] = "";
    append(path, sizeof(path), name);
    append(path, sizeof(path), ".");
    append(path, sizeof(path), decimal(cpu));
    long out = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (out < 0)
        fail("cannot write", path, out);
    to->file = (int)out;
}

static u64 ring_word(const struct recording *from, u64 at)
{
    const u64 *data = (const u64 *)((const u8 *)from->ring + page);
    return data[at / 8 % (RING_PAGES * page / 8)];
}

// Write what SPE has written, and count what the kernel says of it.
static void drain(struct recording *from)
{
    u64 head = __atomic_load_n(&from->ring->head, __ATOMIC_ACQUIRE), at = from->ring->tail;
    while (at < head) {
        u64 header = ring_word(from, at);
        if ((u32)header == RECORD_AUX) {
            u64 start = ring_word(from, at + 8), bytes = ring_word(from, at + 16), flags = ring_word(from, at + 24);
            u64 begin = start % aux_bytes;
            u64 first = bytes < aux_bytes - begin ? bytes : aux_bytes - begin;
            if (bytes > aux_bytes)
                fail("the kernel says that there is more than the buffer holds:", decimal(bytes), 0);
            if (write_all(from->file, from->aux + begin, first) < 0 ||
                write_all(from->file, from->aux, bytes - first) < 0)
                fail("cannot write", "what is recorded", 0);
            __atomic_store_n(&from->ring->aux_tail, start + bytes, __ATOMIC_RELEASE);
            from->bytes += bytes;
            from->pieces++;
            from->truncated += !!(flags & TRUNCATED);
            from->collided += !!(flags & COLLIDED);
            from->partial += !!(flags & PARTIAL);
        } else if ((u32)header == RECORD_LOST) {
            from->lost += ring_word(from, at + 16);
        }
        at += header >> 48;
        if (!(header >> 48))
            fail("a record of the kernel has no", "size", 0);
    }
    __atomic_store_n(&from->ring->tail, at, __ATOMIC_RELEASE);
}

static void drain_all(void)
{
    for (unsigned cpu = 0; cpu < cpu_count; cpu++)
        if (recordings[cpu].ring)
            drain(&recordings[cpu]);
}

static void control(long request)
{
    for (unsigned at = 0; at < event_count; at++)
        for (unsigned cpu = 0; cpu < cpu_count; cpu++)
            call(IOCTL, events[at].files[cpu], request, 0);
}

static void open_events(long target, const char *out)
{
    for (unsigned at = 0; at < event_count; at++)
        for (unsigned cpu = 0; cpu < cpu_count; cpu++) {
            struct event *event = &events[at];
            long file = call(PERF_EVENT_OPEN, &event->attributes, target, cpus[cpu], -1, 8); // 8: close on exec
            if (file < 0)
                fail("the kernel refuses", event->text, file);
            event->files[cpu] = (int)file;
            if (event->records)
                start_recording(&recordings[cpu], (int)file, out, cpus[cpu]);
        }
}

static u64 page_size(void)
{
    char smaps[2048], *at = smaps;
    const char *end;
    if (read_file("/proc/self/smaps", smaps, sizeof(smaps)) > 0)
        for (; *at; at++)
            if (begins(at, "KernelPageSize:")) {
                for (at += 15; *at == ' '; at++)
                    ;
                return number_of(at, &end) * 1024;
            }
    return 4096;
}

int run(int count, char **words, char **given)
{
    const char *out = "spe.data", *end;
    u64 period = 0, pages = 64, mask = 1UL << (SIGCHLD - 1);
    int everywhere = 0, at = 1, waited = 0;
    environment = given;
    for (; at < count && words[at][0] == '-' && words[at][1] && !words[at][2]; at++) {
        char option = words[at][1];
        if (option == '-') {
            at++;
            break;
        }
        if (option == 'a') {
            everywhere = 1;
            continue;
        }
        if (++at == count)
            fail("this option takes a value:", words[at - 1], 0);
        if (option == 'e')
            add_event(words[at]);
        else if (option == 'c')
            period = number_of(words[at], &end);
        else if (option == 'm')
            pages = number_of(words[at], &end);
        else if (option == 'o')
            out = words[at];
        else
            fail("no option is called", words[at - 1], 0);
    }
    if (at >= count || !event_count)
        fail("use: [-a] [-c PERIOD] [-m PAGES] [-o FILE] -e PMU/TERM=VALUE,.../ ...", "COMMAND [ARGUMENT]...", 0);
    find_cpus();
    page = page_size();
    aux_bytes = pages * page;
    for (unsigned event = 0; event < event_count; event++) {
        if (events[event].records)
            events[event].attributes.period = period ? period : 4096;
        if (!everywhere)
            events[event].attributes.flags |= ENABLE_ON_EXEC;
    }
    // the child waits at a lock until its events are there
    long ready = call(SIGNALFD4, -1, &mask, 8, O_CLOEXEC);
    call(SIGPROCMASK, SIG_BLOCK, &mask, 0, 8);
    int gate[2];
    call(59, gate, O_CLOEXEC); // pipe2
    long child = fork();
    if (child == 0) {
        char go;
        call(CLOSE, gate[1]);
        call(SIGPROCMASK, SIG_UNBLOCK, &mask, 0, 8);
        if (call(READ, gate[0], &go, 1) != 1)
            leave(125);
        run_program(words + at, environment);
    }
    open_events(everywhere ? -1 : child, out);
    if (everywhere)
        control(ENABLE);
    call(WRITE, gate[1], "", 1);
    for (;;) {
        struct {
            int file;
            short wanted, seen;
        } polled[CPUS + 1] = {{(int)ready, POLLIN, 0}};
        unsigned files = 1;
        for (unsigned event = 0; event < event_count; event++)
            for (unsigned cpu = 0; events[event].records && cpu < cpu_count && files <= CPUS; cpu++) {
                polled[files].file = events[event].files[cpu];
                polled[files++].wanted = POLLIN;
            }
        call(PPOLL, polled, files, 0, 0, 8);
        drain_all();
        if (call(WAIT4, child, &waited, 1, 0) == child) // 1: without waiting
            break;
    }
    control(DISABLE);
    drain_all();
    for (unsigned cpu = 0; cpu < cpu_count; cpu++) {
        const struct recording *r = &recordings[cpu];
        if (!r->ring)
            continue;
        SAY(1, "aux ", decimal(cpus[cpu]), " bytes ", decimal(r->bytes), " pieces ", decimal(r->pieces), " truncated ",
            decimal(r->truncated), " collided ", decimal(r->collided), " partial ", decimal(r->partial), " lost ",
            decimal(r->lost), "\n");
    }
    for (unsigned event = 0; event < event_count; event++) {
        u64 total = 0, value = 0;
        if (events[event].records)
            continue;
        for (unsigned cpu = 0; cpu < cpu_count; cpu++)
            if (call(READ, events[event].files[cpu], &value, 8) == 8)
                total += value;
        SAY(1, "count ", events[event].text, " ", decimal(total), "\n");
    }
    return status_of(waited);
}
