"""Who had which memory and name, and when: as a kernel tells of fork, execve and mmap."""

import numpy as np

from spe_unicorn.output.tasks import KERNEL, Act, Clock, Mapping, TaskEvent, Tasks

SHELL = Mapping("/bin/sh", 0x400000, 0x1000, 0)
PROGRAM = Mapping("/bin/program", 0x400000, 0x2000, 0)
LIBRARY = Mapping("/lib/library.so", 0x7F0000, 0x1000, 0)
TEXT = Mapping("[kernel.kallsyms]_text", 0xFFFF800080000000, 0x1000, 0)


def started():
    """A shell forks, and the child executes a program; the acts are not in the order of time."""
    return Tasks.of(
        [
            TaskEvent(Act.EXECUTE, 8, 8, 300, "program"),
            TaskEvent(Act.MAP, 8, 8, 310, mapping=PROGRAM),
            TaskEvent(Act.MAP, KERNEL, 0, mapping=TEXT),
            TaskEvent(Act.EXECUTE, 7, 7, 100, "sh"),
            TaskEvent(Act.MAP, 7, 7, 110, mapping=SHELL),
            TaskEvent(Act.FORK, 8, 8, 200, parent=7, parent_thread=7),
            TaskEvent(Act.FORK, 8, 9, 320, parent=8, parent_thread=8),
        ]
    )


def at(threads, times):
    return np.array(threads), np.array(times, np.uint64)


def mappings(tasks, threads, times):
    found = tasks.spaces_of(*at(threads, times)).tolist()
    return [None if space is None else space.mappings for space in found]


def test_a_child_has_the_memory_of_its_parent_until_it_executes_a_program():
    tasks = started()
    assert tasks.everywhere == [TEXT]
    assert mappings(tasks, [7, 8, 8], [150, 250, 350]) == [[SHELL], [SHELL], [PROGRAM]]
    assert tasks.names(*at([7, 8, 8], [150, 250, 350])).tolist() == ["sh", "sh", "program"]


def test_a_thread_is_in_the_memory_of_its_process():
    tasks = started()
    assert mappings(tasks, [9], [400]) == [[PROGRAM]]
    assert tasks.processes(np.array([7, 8, 9, 55])).tolist() == [7, 8, 8, 55]
    assert tasks.names(*at([9], [400])).tolist() == ["program"]


def test_of_what_was_before_the_recording_the_first_is_known():
    assert mappings(started(), [7, 55], [1, 150]) == [[SHELL], None]
    assert started().names(*at([55], [150])).tolist() == [""]


def test_a_fork_does_not_share_what_is_mapped_afterwards():
    tasks = Tasks.of(
        [
            TaskEvent(Act.MAP, 7, 7, 100, mapping=SHELL),
            TaskEvent(Act.FORK, 8, 8, 200, parent=7, parent_thread=7),
            TaskEvent(Act.MAP, 8, 8, 300, mapping=LIBRARY),
        ]
    )
    assert mappings(tasks, [7, 8], [400, 400]) == [[SHELL], [SHELL, LIBRARY]]


def test_a_clock_multiplies_without_losing_the_upper_bits():
    # 62.5 MHz as Linux has it: 16 ns a tick, shift 21, and a zero below 0
    clock = Clock(21, 16 << 21, (1 << 64) - 1000)
    ticks = np.array([100, 1 << 50], np.uint64)
    assert clock.nanoseconds(ticks).tolist() == [600, (16 << 50) - 1000]
