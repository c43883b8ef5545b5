"""What a program may rely on of the profiling unit's work, step by step (Arm ARM D17.9)."""

from __future__ import annotations

from spe_unicorn.debug.synchronization import Synchronization


def after(*steps: int | str) -> Synchronization:
    """A number is a context synchronization event after so many members of the population."""
    order = Synchronization()
    population = 0
    for step in steps:
        if isinstance(step, int):
            population = step
            order.context_synchronization(population)
        elif step == "dsb":
            order.dsb(population)
        else:
            order.psb_csync()
    return order


def test_fence_drain_fence_makes_everything_before_the_first_visible():
    assert after(7, "psb", 7).visible == 7


def test_drain_without_a_fence_in_front_synchronizes_what_an_earlier_one_fenced():
    order = after(3, "psb", 9)
    assert (order.drained, order.visible, order.fenced) == (3, 3, 9)


def test_drain_alone_makes_nothing_visible():
    order = after(7, "psb")
    assert (order.drained, order.visible) == (7, 0)


def test_fences_alone_drain_nothing():
    order = after(7, 7)
    assert (order.drained, order.visible) == (0, 0)


def test_what_comes_behind_the_fence_needs_another_drain():
    assert after(7, "psb", 9).visible == 7
    assert after(7, "psb", 9, "psb", 9).visible == 9


def test_memory_holds_what_was_drained_in_front_of_a_dsb():
    assert after(7, "psb", "dsb").written == 7
    assert after(7, "psb", 9, "dsb").written == 7
    assert after(7, "psb", 9).written == 0
    assert after(7, "dsb", "psb").written == 0


def test_a_dsb_before_the_psb_csync_that_it_was_to_follow_is_swapped():
    assert after(7, "dsb", "psb").swapped
    assert not after(7, "dsb").swapped  # no PSB CSYNC yet
    assert not after(7, "psb", "dsb").swapped
    assert not after(7, "dsb", "psb", "dsb").swapped
    assert not after(7, "psb", "dsb", "psb", 7).swapped
    assert after(7, "psb", "dsb", 9, "dsb", "psb").swapped
