"""Access to the registers of FEAT_MTE2: every combination of ``data/tag_order.txt``."""

from __future__ import annotations

from typing import Final

import pytest

from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.tag_registers import TAG_ACCESSORS
from spe_unicorn.arch.access.verdicts import SysRegTable
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.system import TFSR_EL2
from tests.arch.access_matrix import EVERYTHING, Section, load_sections, run

SECTIONS: Final = load_sections("tag_order.txt")
TABLE: Final = SysRegTable(TAG_ACCESSORS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_verdicts_follow_the_hand_written_order(section: Section) -> None:
    outcomes = list(run(section, TABLE))
    wrong = [o for o in outcomes if o.expected != o.actual]
    assert not wrong, f"{len(wrong)} of {len(outcomes)}, first: {wrong[0]}"


def test_every_register_is_in_the_matrix_at_every_exception_level() -> None:
    covered = {
        (name, direction, el)
        for section in SECTIONS
        for name in section.names
        for direction in section.directions
        for el in section.levels
    }
    ways = [(a.name, d) for a in TAG_ACCESSORS for d in "rw" if d == "r" or a.write is not None]
    assert covered == {(name, d, el) for name, d in ways for el in range(4)}


def test_tfsr_el2_is_res0_without_el2() -> None:
    """D24.2.200: "If EL2 is not implemented, this register is RES0 from EL3"."""
    assert StillPE(EVERYTHING).registers.present(TFSR_EL2) == 0b11
    assert StillPE(EVERYTHING - {Feature.FEAT_EL2}).registers.present(TFSR_EL2) == 0
