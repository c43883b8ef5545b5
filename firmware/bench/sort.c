/* Quicksort of random words, with insertion sort for the short runs. */
#include "bench/bench.h"

#define N 32768

static u32 input[N], words[N];
static u64 input_sum;

void bench_setup(void) {
    for (unsigned i = 0; i < N; i++) {
        input[i] = (u32)bench_random();
        input_sum += input[i];
    }
}

static void insertion_sort(u32 *a, long n) {
    for (long i = 1; i < n; i++) {
        u32 x = a[i];
        long j = i;
        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

static void quicksort(u32 *a, long n) {
    while (n > 16) {
        u32 x = a[0], y = a[n / 2], z = a[n - 1];
        u32 pivot = x < y ? (y < z ? y : x < z ? z : x) : (x < z ? x : y < z ? z : y);
        long i = -1, j = n;
        for (;;) {
            do
                i++;
            while (a[i] < pivot);
            do
                j--;
            while (a[j] > pivot);
            if (i >= j)
                break;
            u32 t = a[i];
            a[i] = a[j];
            a[j] = t;
        }
        quicksort(a, j + 1);
        a += j + 1;
        n -= j + 1;
    }
    insertion_sort(a, n);
}

bool bench_work(void) {
    memcpy(words, input, sizeof words);
    quicksort(words, N);
    u64 sum = words[0];
    for (unsigned i = 1; i < N; i++) {
        if (words[i - 1] > words[i])
            return false;
        sum += words[i];
    }
    return sum == input_sum;
}
