/* A linked list in scattered memory: built, sorted by merging, reversed, walked. */
#include "bench/bench.h"

#define N 8192

static struct node {
    struct node *next;
    u64 key;
} nodes[N];
static u32 order[N];

void bench_setup(void) {
    for (u32 i = 0; i < N; i++)
        order[i] = i;
    for (u32 i = N - 1; i > 0; i--) {
        u32 j = (u32)(bench_random() % (i + 1));
        u32 t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static struct node *merge(struct node *a, struct node *b) {
    struct node *head, **tail = &head;
    while (a && b) {
        struct node **least = a->key <= b->key ? &a : &b;
        *tail = *least;
        tail = &(*least)->next;
        *least = (*least)->next;
    }
    *tail = a ? a : b;
    return head;
}

static struct node *sort(struct node *list) {
    struct node *runs[32] = {0};
    while (list) {
        struct node *run = list;
        list = list->next;
        run->next = NULL;
        unsigned i = 0;
        for (; runs[i]; i++) {
            run = merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    struct node *all = NULL;
    for (unsigned i = 0; i < ARRAY_SIZE(runs); i++)
        all = merge(runs[i], all);
    return all;
}

static struct node *reverse(struct node *list) {
    struct node *done = NULL;
    while (list) {
        struct node *next = list->next;
        list->next = done;
        done = list;
        list = next;
    }
    return done;
}

bool bench_work(void) {
    struct node *list = NULL;
    for (u32 i = 0; i < N; i++) {
        struct node *node = &nodes[i];
        node->key = order[i];
        node->next = list;
        list = node;
    }
    list = reverse(sort(list));
    u64 key = N;
    for (; list; list = list->next)
        if (list->key != --key)
            return false;
    return key == 0;
}
