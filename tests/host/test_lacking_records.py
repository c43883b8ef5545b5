"""Records of instructions that the engine lacks, one of each operation type, as perf reads them."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.session.records import image_info
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.perf_reader import agree, clean, packets_of_ours, packets_of_perf, perf

CODE, DATA = 0x4000_0000, 0x4010_0000
CPACR = astuple(system.CPACR_EL1.encoding)
PTRUE_D, INDEX_D = 0x25D8_E3E1, 0x04E8_4421
"""P1.D; INDEX Z1.D, X1, #8."""
START = [*a.mov64(0, 0x33 << 16), a.msr(CPACR, 0), a.ISB]
USDOT, BFDOT = 0x4E82_9C23, 0x6E42_FC23
USDOT_SVE, BFCVT_SVE = 0x4482_7823, 0x658A_A423
LDNT1W, STNT1W = 0xC500_C000, 0xE500_2000
"""Of [Zn.D, Xm], with Zt and P0 as 0."""
GATHER = LDNT1W | 2 << 16 | 1 << 10 | 1 << 5 | 3
SCATTER = STNT1W | 3 << 16 | 1 << 10 | 1 << 5 | 3
MUL, SQABS, FMMLA, SM4E = 0x04A2_6023, 0x4488_A423, 0x64A2_E423, 0x4523_E023
CNT, DSB_NXS, TLBI_OS, MSR_DIT = 0xDAC0_1C84, 0xD503_323F, 0xD508_811F, 0xD503_415F
IRG, STG, LDG, STZ2G = 0x9ADF_1024, 0xD920_0822, 0xD960_0024, 0xD9E0_0822
STGP, DC_GVA, DC_GZVA = 0x6900_0822, 0xD50B_7461, 0xD50B_7481
LDGM, STGM, STZGM = 0xD9E0_0024, 0xD9A0_0022, 0xD920_0022
"""X4 and X2, by the address in X1."""
OTHER, MEMORY = OperationClass.OTHER, OperationClass.LOAD_STORE
FP, SIMD = 1 << 1, 1 << 2
SVE, PREDICATED = 1 << 3 | 2 << 4, 1 << 2
"""With EVL 2: vectors of 128 bits."""
STORE, SCATTERED = 1, 1 << 7
TAGS, NO_REGISTER = 0x14, 0x10
KINDS = {
    CNT: (OTHER, 0),
    DSB_NXS: (OTHER, 0),
    TLBI_OS: (OTHER, 0),
    MSR_DIT: (OTHER, 0),
    USDOT: (OTHER, SIMD),
    BFDOT: (OTHER, SIMD | FP),
    MUL: (OTHER, SVE),
    USDOT_SVE: (OTHER, SVE),
    SM4E: (OTHER, SVE),
    FMMLA: (OTHER, SVE | FP),
    SQABS: (OTHER, SVE | PREDICATED),
    BFCVT_SVE: (OTHER, SVE | FP | PREDICATED),
    IRG: (OTHER, 0),
    STG: (MEMORY, TAGS | STORE),
    LDG: (MEMORY, TAGS),
    STZ2G: (MEMORY, NO_REGISTER | STORE),
    STGP: (MEMORY, STORE),
    LDGM: (MEMORY, TAGS),
    STGM: (MEMORY, TAGS | STORE),
    STZGM: (MEMORY, NO_REGISTER | STORE),
    DC_GVA: (MEMORY, NO_REGISTER | STORE),
    DC_GZVA: (MEMORY, NO_REGISTER | STORE),
    GATHER: (MEMORY, SVE | PREDICATED | SCATTERED),
    SCATTER: (MEMORY, SVE | PREDICATED | SCATTERED | STORE),
}
"""What the Operation Type packet says of each (Arm ARM D18.2.7)."""


def sampled(**options: Any) -> Machine:
    code = [
        *(*START, PTRUE_D, *a.mov64(1, DATA), a.movz(2, 4), a.movz(3, 64)),
        *(INDEX_D, GATHER, SCATTER, *(w for w in KINDS if w not in (GATHER, SCATTER))),
        a.b(0),
    ]
    image = image_of({CODE: a.code(code), DATA: bytes(64)}, CODE)
    machine = Machine(image, core="max", period=1, **options)
    machine.run(len(code))
    return machine


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_each_has_its_operation_type(runner: type[Runner]) -> None:
    machine = sampled(runner=runner)
    found = {}
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        found[operation.instruction.word] = placed.record.op_class, placed.record.op_payload
    assert {word: found.get(word) for word in KINDS} == KINDS


def test_perf_reads_them_as_we_do(tmp_path: Path) -> None:
    machine = sampled()
    records = [one.record for one in machine.sampled]
    output = open_output(tmp_path / "run.data", info=RecordingInfo(image_info(machine.image)))
    for record in records:
        output.write(record)
    output.close()
    dump = clean(perf("report", "-D", "-i", tmp_path / "run.data"))
    theirs = [packet for trace in packets_of_perf(dump) for packet in trace]
    assert sum(text.split()[0] in ("TS", "END") for _, _, text in theirs) == len(records)
    data = b"".join(records)
    ours = packets_of_ours(data + bytes(-len(data) % 8))
    assert [packet for _, packet, _ in theirs] == [packet for _, packet, _ in ours]
    for (_, _, their_text), (_, _, our_text) in zip(theirs, ours, strict=True):
        assert agree(their_text, our_text), (their_text, our_text)
