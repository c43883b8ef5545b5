#include <stdarg.h>

#include "firmware.h"

#define UART 0x09000000ull
#define UART_DR (*(volatile u32 *)(UART + 0x00))
#define UART_FR (*(volatile u32 *)(UART + 0x18))
#define UART_CR (*(volatile u32 *)(UART + 0x30))
#define UART_FR_TXFF BIT(5)
#define UART_CR_ENABLE 0x301 /* RXE, TXE, UARTEN */

#define SYS_EXIT_EXTENDED 0x20
#define ADP_STOPPED_APPLICATION_EXIT 0x20026

static void put(char c) {
    static bool enabled;
    if (!enabled) {
        UART_CR = UART_CR_ENABLE;
        enabled = true;
    }
    while (UART_FR & UART_FR_TXFF) {
    }
    UART_DR = (u8)c;
}

void print_char(char c) {
    put(c);
}

static void print_number(u64 value, unsigned base) {
    char digits[20];
    int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n)
        put(digits[--n]);
}

static void print_signed(int64_t value) {
    if (value < 0)
        put('-');
    print_number(value < 0 ? -(u64)value : (u64)value, 10);
}

void print(const char *format, ...) {
    va_list list;
    va_start(list, format);
    for (const char *f = format; *f; f++) {
        if (*f != '%') {
            put(*f);
            continue;
        }
        bool wide = *++f == 'l';
        if (wide)
            f++;
        switch (*f) {
        case 's':
            for (const char *s = va_arg(list, const char *); *s; s++)
                put(*s);
            break;
        case 'c':
            put((char)va_arg(list, int));
            break;
        case 'd':
            print_signed(wide ? va_arg(list, int64_t) : va_arg(list, int));
            break;
        case 'u':
            print_number(wide ? va_arg(list, u64) : va_arg(list, unsigned), 10);
            break;
        case 'x':
            print_number(wide ? va_arg(list, u64) : va_arg(list, unsigned), 16);
            break;
        default:
            put(*f);
        }
    }
    va_end(list);
}

u64 semihosting(u64 operation, u64 parameter) {
    register u64 x0 asm("x0") = operation;
    register u64 x1 asm("x1") = parameter;
    asm volatile("hlt #0xf000" : "+r"(x0) : "r"(x1) : "memory");
    return x0;
}

void exit_with(int status) {
    volatile u64 block[2] = {ADP_STOPPED_APPLICATION_EXIT, (u64)status};
    semihosting(SYS_EXIT_EXTENDED, (u64)block);
    for (;;)
        asm volatile("wfi");
}
