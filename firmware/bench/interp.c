/* A small stack machine whose program counts primes with a sieve. */
#include "bench/bench.h"

#define LIMIT 8000
#define PRIMES_BELOW_LIMIT 1007

enum opcode { PUSH, LOAD, STORE, ADD, LESS, PEEK, POKE, JUMP, JUMP_IF_ZERO, HALT };
enum variable { I, J, COUNT, VARIABLES };

static const struct instruction {
    u16 opcode, operand;
} program[] = {
    [0] = {PUSH, 2},
    [1] = {STORE, I},
    [2] = {LOAD, I}, /* while i < LIMIT */
    [3] = {PUSH, LIMIT},
    [4] = {LESS, 0},
    [5] = {JUMP_IF_ZERO, 35},
    [6] = {LOAD, I}, /* if i is not crossed out: count it */
    [7] = {PEEK, 0},
    [8] = {JUMP_IF_ZERO, 10},
    [9] = {JUMP, 30},
    [10] = {LOAD, COUNT},
    [11] = {PUSH, 1},
    [12] = {ADD, 0},
    [13] = {STORE, COUNT},
    [14] = {LOAD, I},
    [15] = {LOAD, I},
    [16] = {ADD, 0},
    [17] = {STORE, J},
    [18] = {LOAD, J}, /* and while j < LIMIT cross out j */
    [19] = {PUSH, LIMIT},
    [20] = {LESS, 0},
    [21] = {JUMP_IF_ZERO, 30},
    [22] = {PUSH, 1},
    [23] = {LOAD, J},
    [24] = {POKE, 0},
    [25] = {LOAD, J},
    [26] = {LOAD, I},
    [27] = {ADD, 0},
    [28] = {STORE, J},
    [29] = {JUMP, 18},
    [30] = {LOAD, I}, /* i++ */
    [31] = {PUSH, 1},
    [32] = {ADD, 0},
    [33] = {STORE, I},
    [34] = {JUMP, 2},
    [35] = {HALT, 0},
};

static u8 memory[LIMIT];

void bench_setup(void) {
}

static u32 interpret(void) {
    u32 stack[8], variables[VARIABLES] = {0};
    u32 *top = stack; /* the next free place */
    for (const struct instruction *pc = program;;) {
        const struct instruction instruction = *pc++;
        switch (instruction.opcode) {
        case PUSH:
            *top++ = instruction.operand;
            break;
        case LOAD:
            *top++ = variables[instruction.operand];
            break;
        case STORE:
            variables[instruction.operand] = *--top;
            break;
        case ADD:
            top--;
            top[-1] += top[0];
            break;
        case LESS:
            top--;
            top[-1] = top[-1] < top[0];
            break;
        case PEEK:
            top[-1] = memory[top[-1]];
            break;
        case POKE:
            top -= 2;
            memory[top[1]] = (u8)top[0];
            break;
        case JUMP:
            pc = &program[instruction.operand];
            break;
        case JUMP_IF_ZERO:
            if (!*--top)
                pc = &program[instruction.operand];
            break;
        default:
            return variables[COUNT];
        }
    }
}

bool bench_work(void) {
    memset(memory, 0, sizeof memory);
    return interpret() == PRIMES_BELOW_LIMIT;
}
