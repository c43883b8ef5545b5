/* Product of matrices of doubles with small whole values, checked by C*1 == A*(B*1), which is exact. */
#include "bench/bench.h"

#define N 96

static double a[N][N], b[N][N], c[N][N];

void bench_setup(void) {
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++) {
            a[i][j] = (double)(int)(bench_random() % 31) - 15;
            b[i][j] = (double)(int)(bench_random() % 31) - 15;
        }
}

bool bench_work(void) {
    memset(c, 0, sizeof c);
    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k < N; k++) {
            double x = a[i][k];
            for (unsigned j = 0; j < N; j++)
                c[i][j] += x * b[k][j];
        }
    double sums[N];
    for (unsigned k = 0; k < N; k++) {
        sums[k] = 0;
        for (unsigned j = 0; j < N; j++)
            sums[k] += b[k][j];
    }
    for (unsigned i = 0; i < N; i++) {
        double got = 0, expected = 0;
        for (unsigned j = 0; j < N; j++) {
            got += c[i][j];
            expected += a[i][j] * sums[j];
        }
        if (got != expected)
            return false;
    }
    return true;
}
