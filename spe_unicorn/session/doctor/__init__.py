"""One program on several cores, seeds and starts, and what is wrong with it."""
