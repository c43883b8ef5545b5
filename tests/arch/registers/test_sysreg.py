from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1, PMBPTR_EL1, PMSDSFR_EL1, PMSIRR_EL1
from spe_unicorn.arch.registers.sysreg import Encoding, OwnCell, ReadOnlyCell, RegisterFile, SysReg

FEATURES = frozenset({Feature.FEAT_SPE})


def file_of(*registers: type[SysReg]) -> RegisterFile:
    return RegisterFile(FEATURES, registers, ImpDef(align=6))


@given(st.integers(0, 0xFFFF))
def test_an_encoding_key_is_16_bits_and_inverts(key: int) -> None:
    assert Encoding.from_key(key).key == key


def test_an_encoding_prints_as_assemblers_take_it() -> None:
    assert str(Encoding(3, 0, 9, 10, 1)) == "S3_0_C9_C10_1"


def test_a_write_leaves_reserved_bits_and_tells_observers() -> None:
    file = file_of(PMSIRR_EL1)
    seen: list[tuple[type[SysReg], int, int]] = []
    file.written.connect(lambda register, old, new: seen.append((register, old, new)))
    file.write(PMSIRR_EL1, 0xFFFF_FFFF_FFFF_FFFF)
    file.write(PMSIRR_EL1, 0x100)
    assert seen == [(PMSIRR_EL1, 0, 0xFFFF_FF01), (PMSIRR_EL1, 0xFFFF_FF01, 0x100)]
    assert file.read(PMSIRR_EL1).INTERVAL == 1


def test_hardware_writes_every_bit_and_tells_observers() -> None:
    file = file_of(PMBPTR_EL1)
    seen: list[int] = []
    file.written.connect(lambda register, old, new: seen.append(new))
    file.write(PMBPTR_EL1, 0x1001)
    file.update(PMBPTR_EL1(0x1001))
    assert seen == [0x1000, 0x1001]
    assert file.raw(PMBPTR_EL1) == 0x1001


def test_reset_save_and_restore_tell_nobody() -> None:
    file = file_of(PMSIRR_EL1, PMBLIMITR_EL1)
    file.written.connect(lambda *_: pytest.fail("nobody is to be told"))
    file.reset(lambda: (1 << 64) - 1)
    saved = file.save()
    assert saved == {PMSIRR_EL1: 0xFFFF_FF01, PMBLIMITR_EL1: 0xFFFF_FFFF_FFFF_F006}
    file.set_raw(PMSIRR_EL1, 0)
    file.restore(saved)
    assert file.save() == saved


def test_reset_draws_unknown_values_in_the_order_of_encodings() -> None:
    draws = iter((0x100, 0x200))
    file = file_of(PMBLIMITR_EL1, PMSIRR_EL1)
    file.reset(lambda: next(draws))
    assert file.raw(PMSIRR_EL1) == 0x100  # 3,0,9,9,3 comes before 3,0,9,10,0
    assert file.raw(PMBLIMITR_EL1) == 0


def test_a_register_that_the_core_lacks_is_zero() -> None:
    file = file_of(PMSDSFR_EL1)
    file.reset(lambda: (1 << 64) - 1)
    file.write(PMSDSFR_EL1, 1)
    assert file.raw(PMSDSFR_EL1) == 0
    assert file.writable(PMSDSFR_EL1) == file.present(PMSDSFR_EL1) == 0


def test_a_register_that_the_file_lacks_is_a_key_error() -> None:
    file = file_of(PMSIRR_EL1)
    assert PMSIRR_EL1 in file
    assert PMBPTR_EL1 not in file
    assert list(file) == [PMSIRR_EL1]
    with pytest.raises(KeyError):
        file.read(PMBPTR_EL1)


def test_a_cell_can_be_kept_elsewhere() -> None:
    file = file_of(PMSIRR_EL1)
    cell = OwnCell(0x300)
    file.add(PMSIRR_EL1, cell)
    assert file.raw(PMSIRR_EL1) == 0x300
    file.write(PMSIRR_EL1, 0x401)
    assert cell.value == 0x401


def test_a_read_only_cell_ignores_what_is_stored() -> None:
    file = file_of(PMSIRR_EL1)
    file.add(PMSIRR_EL1, ReadOnlyCell(lambda: 0x500))
    file.write(PMSIRR_EL1, 0)
    file.set_raw(PMSIRR_EL1, 0)
    assert file.raw(PMSIRR_EL1) == 0x500
