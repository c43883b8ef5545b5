/* What stands behind the program's name on the command line, by semihosting. */
#pragma once

#include "firmware.h"

/* The number-th word, from 1, or NULL if there are fewer. */
const char *argument(unsigned number);
/* It as a decimal number; `otherwise` if there is none. Anything else ends the program with status 2. */
u64 argument_number(unsigned number, u64 otherwise);
