/* The smallest program: one line on the console, exit status 0. Knows nothing of SPE. */
#include "lib/firmware.h"

/* Pointers in data need relocation in the position-independent variant. */
static const char *volatile greetings[] = {"Hello", "bare metal"};

int main(void) {
    print("%s from %s AArch64\n", greetings[0], greetings[1]);
    return 0;
}
