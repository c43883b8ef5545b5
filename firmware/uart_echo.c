/* Says again what is typed, upper case, until the end of transmission: by interrupts, asleep in between. */
#include "lib/gic.h"

#define UART_BASE 0x09000000ull
#define UART_DR (UART_BASE + 0x00)
#define UART_FR (UART_BASE + 0x18)
#define UART_LCR_H (UART_BASE + 0x2c)
#define UART_IMSC (UART_BASE + 0x38)
#define FR_RXFE BIT(4)
#define LCR_H_FEN BIT(4)
#define INT_RX_RT (BIT(4) | BIT(6))
#define UART_INTID 33
#define END_OF_TRANSMISSION 4

static void echo(char c) {
    if (c == END_OF_TRANSMISSION) {
        print("bye\n");
        exit_with(0);
    }
    print_char(c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c);
}

int main(void) {
    gic_init();
    gic_set_up(UART_INTID, 1, 0x80, false);
    gic_enable(UART_INTID);
    mmio_write(UART_LCR_H, LCR_H_FEN);
    mmio_write(UART_IMSC, INT_RX_RT);
    for (;;) {
        asm volatile("wfi"); /* IRQ is masked: a pending one ends the wait and is not taken */
        while (!(mmio_read(UART_FR) & FR_RXFE))
            echo((char)mmio_read(UART_DR));
    }
}
