from __future__ import annotations

import os

import numpy as np

from spe_unicorn.compiled import large_table

SIZE = 64 << 20


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_table_is_of_zeros_and_can_be_written() -> None:
    table = large_table(3, 5)
    assert (table.shape, table.dtype) == ((3, 5), np.int64)
    assert not table.any()
    table[2, 4] = -7
    assert table.sum() == -7
    assert large_table(10, dtype=np.uint8).nbytes == 10


def test_pages_take_memory_when_they_are_written_and_go_back_with_the_table() -> None:
    before = resident()
    table = large_table(SIZE, dtype=np.uint8)
    assert resident() - before < SIZE // 4
    table.fill(1)
    assert resident() - before > SIZE * 3 // 4
    del table
    assert resident() - before < SIZE // 4


def test_a_forked_process_has_a_table_of_its_own() -> None:
    table = large_table(8)
    child = os.fork()
    if not child:
        table[0] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert table[0] == 0
