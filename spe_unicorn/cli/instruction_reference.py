"""The page of instructions by feature, ``docs/reference/instructions.md``, from the tables.

``python -m spe_unicorn.cli.instruction_reference docs/reference/instructions.md`` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.debug.advice.lacking import core_has
from spe_unicorn.instructions.known.features import ISA, Here, IsaFeature

CORES: Final = ("neoverse-n1", "neoverse-v1", "neoverse-n2", "neoverse-v2", "cortex-x4")
"""The profiles of silicon."""
_HEAD: Final = """\
# Instructions by feature

Generated from the tables in `spe_unicorn/instructions/known`; do not edit. `spe-unicorn cores NAME`
has the same for any core, and `spe-unicorn scan FIRMWARE --core NAME` looks for such instructions
in an ELF file.

A core has a feature (yes), or has it not (no), as its profile says, from the core's manual or the
version of the architecture. With "?" the profile leaves it open. Where it is "missing", the core
has a feature that this machine does not execute, and ID registers do not show it. Where the page
says no, the instructions are UNDEFINED on that core. With `--no-strict`, and on cores whose profile
is not `strict`, they are executed all the same where the engine executes them, but for SVE. What
spe_unicorn carries out is UNDEFINED on all cores without the feature.

Two things are not withheld from a core without FEAT_PAuth: the bits of SCTLR_ELx that enable it,
and its hints, which are NOPs until software sets these bits, but for XPACLRI.

Hints are NOPs where they are not implemented, so features that bring only hints are not here: BTI,
DGH, CLRBHB. FEAT_LSE2 brings none at all: with it exclusives and atomics need not be aligned. Nor
does FEAT_MTE3: with it tag checks can be synchronous for loads and asynchronous for stores. N1 is
neoverse-n1, V1 neoverse-v1, N2 neoverse-n2, V2 neoverse-v2, X4 cortex-x4.

[Below](#tests) is where it is tested that the instructions are executed. What is withheld from a
core is tested in `tests/host/test_strict.py`. System registers are on [another page](registers.md),
and what else is left out of a core on [a third](limits.md).
"""
_SHORT: Final = ("N1", "V1", "N2", "V2", "X4")
_TITLES: Final = ("Feature", "Since", "ID field", *_SHORT, "Executed by")
_INSTRUCTIONS: Final = "instructions/test_against_qemu.py"
_TLB: Final = "host/pe/access/test_tlb_maintenance.py"
_PSTATE: Final = "host/pe/access/test_speculation_and_timing.py"
_TESTS: Final = {
    "CMPBR": "instructions/test_compare_branch.py",
    "CSSC": "instructions/test_cssc.py",
    "DIT": _PSTATE,
    "F64MM": "instructions/test_f64mm.py",
    "HBC": "instructions/test_at_stops.py",
    "LRCPC3": "instructions/test_ordered.py",
    "LS64": "instructions/test_bytes_64.py",
    "LSE128": "instructions/test_at_stops.py",
    "LSE2": "host/pe/checks/test_unaligned_atomics.py",
    "LUT": "instructions/test_lookup.py",
    "MOPS": "host/pe/access/test_memory_copies.py",
    "MTE": "host/pe/access/test_tags.py",
    "MTE2": "host/pe/access/test_allocation_tags.py",
    "MTE3": "host/pe/access/test_asymmetric_checks.py",
    "SPECRES2": "host/pe/access/test_restriction.py",
    "SSBS2": _PSTATE,
    "SVE2p1": "instructions/sve2p1/test_data_processing.py",
    "TLBIOS": _TLB,
    "TLBIRANGE": _TLB,
    "WFxT": "host/pe/test_timed_waits.py",
    "XS": _TLB,
}


def instruction_reference() -> str:
    """The whole page, in Markdown."""
    return "\n".join((_HEAD, *_rows(), *_tests())) + "\n"


def _rows() -> Iterator[str]:
    yield f"| {' | '.join(_TITLES)} |"
    yield "|" + "---|" * len(_TITLES)
    cores = [load_core(name) for name in CORES]
    for feature in ISA:
        field = f"{feature.register.__name__}.{feature.field} >= {feature.least}"
        has = [_cell(core, feature) for core in cores]
        cells = (f"FEAT_{feature.name}", f"Armv{feature.since}", field, *has)
        yield f"| {' | '.join((*cells, feature.here.value))} |"


def _tests() -> Iterator[str]:
    yield from ("", "## Tests", "", "| Below `tests/` | Features |", "|---|---|")
    executed = [feature for feature in ISA if feature.here is not Here.NOBODY]
    for place in dict.fromkeys(map(_tested_in, executed)):
        names = (f"FEAT_{each.name}" for each in executed if _tested_in(each) == place)
        yield f"| {place} | {', '.join(names)} |"


def _tested_in(feature: IsaFeature) -> str:
    if feature.here is Here.ENGINE:
        return "host/test_id_fields.py"
    return _TESTS.get(feature.name, _INSTRUCTIONS)


def _cell(core: Core, feature: IsaFeature) -> str:
    there = core_has(core, feature)
    if there and feature.here is Here.NOBODY:
        return "missing"
    return "?" if there is None else "yes" if there else "no"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(instruction_reference(), encoding="utf-8")
