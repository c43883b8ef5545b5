#include "arguments.h"

#define SYS_GET_CMDLINE 0x15
#define LENGTH 256

static char line[LENGTH];

const char *argument(unsigned number) {
    volatile u64 block[2] = {(u64)line, LENGTH};
    if (semihosting(SYS_GET_CMDLINE, (u64)block) != 0)
        return NULL;
    char *at = line;
    for (;;) {
        while (*at == ' ')
            at++;
        if (!*at)
            return NULL;
        char *word = at;
        while (*at && *at != ' ')
            at++;
        if (number-- == 0) {
            *at = 0;
            return word;
        }
    }
}

u64 argument_number(unsigned number, u64 otherwise) {
    const char *word = argument(number);
    if (!word)
        return otherwise;
    u64 value = 0;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9') {
            print("not a number: %s\n", word);
            exit_with(2);
        }
        value = 10 * value + (u64)(*c - '0');
    }
    return value;
}
