/* Sorts numbers, again and again. A board has no C library: _start is here, and turns it off at the end. */
enum { NUMBERS = 4096, ROUNDS = 3 };

__asm__(".globl _start\n"
        "_start: ldr x0, =0x48000000\n"
        "        mov sp, x0\n"
        "        bl  main\n"
        "        ldr x0, =0x84000008\n" /* PSCI SYSTEM_OFF */
        "        hvc #0\n");

static unsigned numbers[NUMBERS];

static void quicksort(unsigned *low, unsigned *high) {
    while (high - low > 12) {
        unsigned pivot = low[(high - low) / 2], *left = low, *right = high;
        for (;;) {
            while (*left < pivot)
                left++;
            while (pivot < *right)
                right--;
            if (left >= right)
                break;
            unsigned kept = *left;
            *left++ = *right;
            *right-- = kept;
        }
        quicksort(low, left - 1);
        low = right + 1;
    }
    for (unsigned *next = low + 1; next <= high; next++) {
        unsigned value = *next, *place = next;
        while (place > low && place[-1] > value) {
            *place = place[-1];
            place--;
        }
        *place = value;
    }
}

__attribute__((noinline)) static void fill(void) {
    static unsigned long state = 88172645463325252ul;
    for (int n = 0; n < NUMBERS; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers[n] = (unsigned)state;
    }
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        fill();
        quicksort(numbers, numbers + NUMBERS - 1);
        for (int n = 1; n < NUMBERS; n++)
            if (numbers[n - 1] > numbers[n])
                return 1;
    }
    return 0;
}
