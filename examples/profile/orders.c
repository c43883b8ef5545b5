/* Adds up the prices of many orders, again and again. A board has no C library: _start is here, and turns it off at the end. */
enum { ORDERS = 16384, ROUNDS = 20 };

__asm__(".globl _start\n"
        "_start: ldr x0, =0x48000000\n"
        "        mov sp, x0\n"
        "        bl  main\n"
        "        ldr x0, =0x84000008\n" /* PSCI SYSTEM_OFF */
        "        hvc #0\n");

struct order {
    unsigned long price, customer, item, day, address[4];
};

#ifndef APART
struct order orders[ORDERS];
#define PRICE(n) orders[n].price
#else
unsigned long prices[ORDERS]; /* what each round reads lies side by side */
struct order orders[ORDERS];
#define PRICE(n) prices[n]
#endif

__attribute__((noinline)) static unsigned long total(void) {
    unsigned long sum = 0;
    for (int n = 0; n < ORDERS; n++)
        sum += PRICE(n);
    return sum;
}

int main(void) {
    unsigned long sum = 0, expected = 0;
    for (int n = 0; n < ORDERS; n++) {
        PRICE(n) = n;
        orders[n].customer = n % 7;
        expected += n;
    }
    expected *= ROUNDS;
    for (int round = 0; round < ROUNDS; round++) {
        PRICE(round)++; /* one price changes */
        expected += round + 1;
        sum += total();
    }
    return sum != expected;
}
