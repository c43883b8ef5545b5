"""What the plugin takes and what it refuses, in a sentence each; what it shows of itself."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_MODE_ARM, UC_MODE_BIG_ENDIAN, Uc
from unicorn.arm64_const import UC_ARM64_REG_PC

import spe_unicorn
from spe_unicorn.cores.profile import load_core
from spe_unicorn.plugin.attach import AttachError, Attachment, DetachedError
from spe_unicorn.spe.filter import Flag
from tests.support.user_engine import CODE, end, engine, program

WORDS = program(200)


def attached(**options: Any) -> Attachment:
    return spe_unicorn.attach(engine(WORDS), **options)


def sampled(spe: Attachment) -> list[bytes]:
    raws: list[bytes] = []
    spe.on_record(lambda record, raw: raws.append(raw))
    spe.program(interval=100)
    spe.emu_start(CODE, end(WORDS))
    return raws


# attach()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "caches"}, "`model` is 'none' or 'cache', got 'caches'"),
        ({"model": None}, "`model` is 'none' or 'cache', got None"),
        ({"seed": "lucky"}, "`seed` is a whole number, got 'lucky'"),
        ({"seed": 1.5}, "`seed` is a whole number, got 1.5"),
        ({"core": 5}, "`core` is the name or the file of a profile, got 5"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(options: dict[str, Any], sentence: str) -> None:
    uc = engine(WORDS)
    with pytest.raises(AttachError, match=f"^{sentence}$"):
        spe_unicorn.attach(uc, **options)
    spe_unicorn.attach(uc).detach()  # nothing is left of the attempt


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(AttachError, match=r"`uc` is an engine, .*, got 'uc'"):
        spe_unicorn.attach("uc")  # type: ignore[arg-type]


def test_a_big_endian_engine_is_refused() -> None:
    with pytest.raises(AttachError, match=r"little-endian engine: .* without UC_MODE_BIG_ENDIAN"):
        spe_unicorn.attach(Uc(UC_ARCH_ARM64, UC_MODE_ARM | UC_MODE_BIG_ENDIAN))


def test_a_second_attach_is_refused_until_the_first_is_detached() -> None:
    uc = engine(WORDS)
    first = spe_unicorn.attach(uc)
    with pytest.raises(AttachError, match="has SPE already: detach it first"):
        spe_unicorn.attach(uc)
    assert sampled(first)
    first.detach()
    assert sampled(spe_unicorn.attach(uc))


def test_any_whole_number_is_a_seed_and_a_profile_may_be_a_path(tmp_path: Path) -> None:
    file = profile(tmp_path, '["FEAT_SPE", "FEAT_SPE_ArchInst"]')
    assert attached(seed=-3).core.name == "generic"
    assert attached(core=load_core("max"), seed=1 << 70).core.name == "max"
    assert attached(core=file).core.name == "mine"


def profile(folder: Path, features: str) -> Path:
    file = folder / "mine.toml"
    head = 'name = "mine"\ndescription = "Mine."\nmidr = 0x410FD000\n'
    file.write_text(f"{head}features = {features}\n")
    return file


def test_a_core_without_spe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AttachError, match=r"^core mine has no FEAT_SPE, so there is nothing to"):
        attached(core=profile(tmp_path, "[]"))


# program() and on_record()


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"interval": 2.5}, TypeError, "`interval` is a whole number of operations, got 2.5"),
        ({"interval": "9"}, TypeError, "`interval` is a whole number of operations, got '9'"),
        ({"interval": 0}, ValueError, "operations from 1 to 281474976710656, got 0"),
        ({"interval": 2**70}, ValueError, "to 281474976710656, got 1180591620717411303424"),
        ({"interval": 9, "min_latency": -1}, ValueError, "cycles from 0 to 65535, got -1"),
        ({"interval": 9, "min_latency": 0.5}, TypeError, "whole number of cycles, got 0.5"),
        ({"interval": 9, "types": "load"}, ValueError, "holds Flag.LD, .*, got 'l'"),
        ({"interval": 9, "types": [Flag.FP]}, ValueError, "`types` holds Flag.LD, Flag.ST, Flag.B"),
        ({"interval": 9, "types": None}, TypeError, "`types` is a list of Flag.LD, .*, got None"),
    ],
)
def test_sampling_that_cannot_be_is_refused(
    options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    spe = attached()
    with pytest.raises(error, match=sentence):
        spe.program(**options)
    assert sampled(spe)


def test_the_longest_interval_samples_nothing_here() -> None:
    spe = attached()
    spe.program(interval=1 << 48)
    spe.emu_start(CODE, end(WORDS))
    assert spe.statistics.population > 1000
    assert spe.statistics.written == 0


def test_what_cannot_be_called_is_no_callback() -> None:
    with pytest.raises(TypeError, match="takes a function of a record and its bytes, got 5"):
        attached().on_record(5)  # type: ignore[arg-type]


def test_a_callback_can_be_taken_off_again_and_others_stay() -> None:
    spe = attached()
    first: list[Any] = []
    second: list[Any] = []
    stop = spe.on_record(lambda record, raw: first.append(record.pc))
    spe.on_record(lambda record, raw: second.append(record.pc))
    spe.program(2)
    spe.emu_start(CODE, 0, count=4)
    assert len(first) == len(second) == 2
    stop()
    stop()
    spe.emu_start(CODE, 0, count=4)
    assert (len(first), len(second)) == (2, 4)


# Registers


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (-1, ValueError, "PMBPTR_EL1 takes 64 bits, got -0x1"),
        (2**70, ValueError, "PMBPTR_EL1 takes 64 bits, got 0x400000000000000000"),
        (0.5, TypeError, "PMBPTR_EL1 takes a whole number, got 0.5"),
        ("all", TypeError, "PMBPTR_EL1 takes a whole number, got 'all'"),
    ],
)
def test_what_no_register_holds_is_refused(
    value: Any, error: type[Exception], sentence: str
) -> None:
    spe = attached()
    spe.registers.PMBPTR_EL1 = 0x4018_0000
    with pytest.raises(error, match=sentence):
        spe.registers.PMBPTR_EL1 = value
    assert spe.registers.PMBPTR_EL1.value == 0x4018_0000


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (-1, ValueError, "FM takes 2 bits, got -0x1"),
        (4, ValueError, "FM takes 2 bits, got 0x4"),
        (0.5, TypeError, "PMBLIMITR_EL1.FM takes a whole number, got 0.5"),
    ],
)
def test_what_no_field_holds_is_refused(value: Any, error: type[Exception], sentence: str) -> None:
    spe = attached()
    with pytest.raises(error, match=sentence):
        spe.registers.PMBLIMITR_EL1.FM = value


def test_a_register_may_be_set_to_another() -> None:
    registers = attached().registers
    registers.PMBPTR_EL1 = 0x4018_0000
    registers.PMSICR_EL1 = 5
    registers.PMBPTR_EL1 = registers.PMSICR_EL1
    assert registers.PMBPTR_EL1.value & ~0x3F == 0


# emu_start()


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (("main", 0), TypeError, "`begin` is an address, got 'main'"),
        ((CODE, None), TypeError, "`until` is an address, got None"),
        ((CODE, 0, "1"), TypeError, "`timeout` is a whole number of microseconds, got '1'"),
        ((CODE, 0, 0, 2.0), TypeError, "`count` is a whole number of operations, got 2.0"),
        ((CODE, 0, -1), ValueError, "`timeout` is a number of microseconds from 0 to .*, got -1"),
        ((CODE, 0, 0, -1), ValueError, "`count` is a number of operations from 0 to .*, got -1"),
    ],
)
def test_a_start_that_cannot_be_is_refused_and_leaves_nothing_behind(
    arguments: tuple[Any, ...], error: type[Exception], sentence: str
) -> None:
    expected = sampled(attached())
    spe = attached()
    with pytest.raises(error, match=f"^{sentence}$"):
        spe.emu_start(*arguments)
    assert sampled(spe) == expected
    assert expected


def test_an_address_below_0_is_one_from_the_end_of_the_address_space_as_for_the_engine() -> None:
    spe = attached()
    spe.emu_start(CODE - (1 << 64), -1, count=4)
    assert spe.uc.reg_read(UC_ARM64_REG_PC) == CODE + 16


# Detached


def test_nothing_but_reading_works_after_detach() -> None:
    spe = attached()
    assert sampled(spe)
    spe.detach()
    for name, call in {
        "detach": spe.detach,
        "emu_start": lambda: spe.emu_start(CODE, end(WORDS)),
        "program": lambda: spe.program(interval=9),
        "on_record": lambda: spe.on_record(print),
    }.items():
        with pytest.raises(DetachedError, match=f"^{name}: SPE was detached from this engine;"):
            call()
    assert spe.statistics.written > 0
    assert spe.registers.PMSIDR_EL1.value


def test_a_hook_cannot_detach_what_runs() -> None:
    spe = attached()

    def on_code(uc: Uc, address: int, size: int, data: object) -> None:
        spe.detach()

    spe.uc.hook_add(UC_HOOK_CODE, on_code, begin=CODE, end=CODE)
    with pytest.raises(RuntimeError, match="detach: emu_start is running; call it from no hook"):
        spe.emu_start(CODE, end(WORDS))
    spe.detach()


def test_with_detaches_in_the_end_and_bears_that_it_was_done() -> None:
    uc = engine(WORDS)
    with spe_unicorn.attach(uc) as spe:
        assert sampled(spe)
    with pytest.raises(DetachedError):
        spe.detach()
    with spe_unicorn.attach(uc) as again:
        again.detach()
    with pytest.raises(ZeroDivisionError), spe_unicorn.attach(uc):
        raise ZeroDivisionError
    spe_unicorn.attach(uc)


# What it shows


def test_dir_names_what_there_is_to_use() -> None:
    spe = attached()
    assert dir(spe) == sorted(
        (
            *("core", "detach", "emu_start", "events", "on_record", "program", "registers"),
            *("restore", "save", "statistics", "uc"),
        )
    )
    for name in dir(spe):
        assert getattr(spe, name) is not None
    assert {"PMSCR_EL1", "PMBSR_EL1", "MDCR_EL2"} <= set(dir(spe.registers))
    assert {"E0SPE", "E1SPE", "TS", "value"} <= set(dir(spe.registers.PMSCR_EL1))
    assert not {"RES0"} & set(dir(spe.registers.PMSCR_EL1))


def test_help_has_a_sentence_for_everything() -> None:
    spe = attached()
    assert inspect.getdoc(spe_unicorn.attach)
    for name in dir(spe):
        if callable(getattr(spe, name)):
            assert inspect.getdoc(getattr(Attachment, name)), name
    named = inspect.getdoc(Attachment) or ""
    assert all(f"``{name}``" in named for name in ("uc", "core", "registers", "statistics"))
    shown = [name for name in vars(Attachment) if not name.startswith("_")]
    assert set(shown) <= set(dir(spe))


def test_repr_says_what_was_sampled() -> None:
    spe = attached()
    assert repr(spe) == "<SPE of core generic: 0 records of 0 operations>"
    written = len(sampled(spe))
    spe.detach()
    said = f"{written} records of {spe.statistics.population} operations"
    assert repr(spe) == f"<SPE of core generic: {said}, detached>"


@pytest.mark.parametrize(
    "path",
    [
        "spe_unicorn.attach",
        "spe_unicorn.record_dict",
        "spe_unicorn.record_row",
        "spe_unicorn.debug.misuse.watch_misuse",
        "spe_unicorn.plugin.attach.AttachError",
        "spe_unicorn.spe.feed.SampleEvent",
        "spe_unicorn.spe.filter.Flag",
    ],
)
def test_names_of_the_page_can_be_imported(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(module), name)
