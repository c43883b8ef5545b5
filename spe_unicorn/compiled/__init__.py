"""The one way to machine code: functions that are compiled when they are first needed, and kept.

:func:`routine` marks a function that compiled code calls, :func:`entry` one that the engine or
Python calls at an address. Neither compiles anything when it is applied, and no module with
compiled code imports a compiler:

- the first time that an entry is asked for its address, its machine code is read from the
  user's cache (``cache``), which takes a millisecond and needs only llvmlite;
- if it is not there, it is made of LLVM code that is in the package (``prepared``), which takes a
  tenth of a second, is said once on standard error, and is written to the cache;
- if that is of another text than the function, LLVM code is made by numba (``translate``), which
  takes seconds.

What is in the cache goes by a key that is made of everything that the code depends on
(``functions``): the instructions of the function and of the routines that it calls, all numbers
that they reach wherever these are defined, the compiler, and the processor. An edit of any of them
makes another key; there is no machine code of an older text to be had.

Compiled code is written in the part of Python that numba compiles: numbers of 64 bits, records and
arrays at addresses. It raises nothing and allocates nothing, so it can run without the interpreter.
"""

from spe_unicorn.compiled.cache import say_nothing
from spe_unicorn.compiled.calls import (
    ForeignCall,
    address_of,
    array_at,
    int64,
    pointer_to,
    record_at,
)
from spe_unicorn.compiled.functions import Entry, HandWritten, entry, routine
from spe_unicorn.compiled.layouts import Layout, Pointer, Rows, Table, Words, layout
from spe_unicorn.compiled.making import checked, end_if_left, interruptible, is_left, seconds_spent
from spe_unicorn.compiled.tables import large_table

__all__ = [
    "Entry",
    "ForeignCall",
    "HandWritten",
    "Layout",
    "Pointer",
    "Rows",
    "Table",
    "Words",
    "address_of",
    "array_at",
    "checked",
    "end_if_left",
    "entry",
    "int64",
    "interruptible",
    "is_left",
    "large_table",
    "layout",
    "pointer_to",
    "record_at",
    "routine",
    "say_nothing",
    "seconds_spent",
]
