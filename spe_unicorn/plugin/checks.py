"""What a caller may hand to the plugin, and the sentences that refuse all else."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Collection
from typing import Any, Final, get_args

from unicorn import UC_ARCH_ARM64, UC_MODE_BIG_ENDIAN, Uc
from unicorn import unicorn_const as uc_const
from unicorn.unicorn_py3.arch.arm64 import HOOK_INSN_SYS_CFUNC

from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import Core, ModelName, load_core
from spe_unicorn.spe.filter import Flag

MOST_INTERVAL: Final = 1 << 48
"""Operations: three days of the guest's time."""
MOST_LATENCY: Final = 0xFFFF
"""Cycles, as PMSLATFR_EL1.MINLAT has them."""
MOST: Final = (1 << 64) - 1
"""The most microseconds and operations that a run is given, and the last address."""
_TYPES: Final = {Flag.LD: "Flag.LD", Flag.ST: "Flag.ST", Flag.B: "Flag.B"}


class AttachError(ValueError):
    """An engine that SPE cannot be attached to, or a choice that there is not; says which."""


def checked_engine(uc: object) -> Uc:
    """An engine that SPE can be attached to. Raises AttachError."""
    if not isinstance(uc, Uc):
        raise AttachError(f"`uc` is an engine, unicorn.Uc(UC_ARCH_ARM64, ...), got {uc!r}")
    if uc.query(uc_const.UC_QUERY_ARCH) != UC_ARCH_ARM64:
        raise AttachError("SPE needs an engine of the AArch64 architecture (UC_ARCH_ARM64)")
    if uc.ctl_get_mode() & UC_MODE_BIG_ENDIAN:
        raise AttachError(
            "SPE needs a little-endian engine: make it without UC_MODE_BIG_ENDIAN"
            " (a guest that sets SCTLR_ELx.EE may well be big-endian)"
        )
    if any(isinstance(hook, HOOK_INSN_SYS_CFUNC) for hook in uc._callbacks.values()):
        raise AttachError(
            "the engine calls only the first hook for MRS, MSR or SYS, and this one has such a hook"
            " already: attach first"
        )
    return uc


def checked_core(core: object) -> Core:
    """A core with SPE, by its name, file or profile. Raises AttachError and CoreError."""
    if isinstance(core, (str, os.PathLike)):
        core = load_core(os.fspath(core))
    if not isinstance(core, Core):
        raise AttachError(f"`core` is the name or the file of a profile, got {core!r}")
    if Feature.FEAT_SPE not in core.features:
        raise AttachError(f"core {core.name} has no FEAT_SPE, so there is nothing to attach")
    return core


def checked_model(model: object) -> ModelName:
    """The name of a core model. Raises AttachError."""
    for name in get_args(ModelName):
        if name == model:
            return name  # type: ignore[no-any-return]
    names = " or ".join(repr(name) for name in get_args(ModelName))
    raise AttachError(f"`model` is {names}, got {model!r}")


def checked_seed(seed: object) -> int:
    """Any whole number. Raises AttachError."""
    try:
        return operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise AttachError(f"`seed` is a whole number, got {seed!r}") from None


def whole_number(name: str, value: Any, least: int, most: int, unit: str) -> int:
    """A whole number within bounds. Raises TypeError or ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` is a whole number of {unit}, got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"`{name}` is a number of {unit} from {least} to {most}, got {number}")
    return number


def checked_address(name: str, value: Any) -> int:
    """An address as the engine takes it: its low 64 bits. Raises TypeError."""
    try:
        return operator.index(value) & MOST
    except TypeError:
        raise TypeError(f"`{name}` is an address, got {value!r}") from None


def checked_types(types: Any) -> Collection[Flag]:
    """The kinds of operation to keep. Raises TypeError or ValueError."""
    names = ", ".join(_TYPES.values())
    try:
        found = list(types)
    except TypeError:
        raise TypeError(f"`types` is a list of {names}, got {types!r}") from None
    for flag in found:
        if flag not in _TYPES:
            raise ValueError(f"`types` holds {names} (of spe_unicorn.spe.filter), got {flag!r}")
    return found


def checked_callback(callback: Any) -> Callable[..., None]:
    """A function. Raises TypeError."""
    if not callable(callback):
        raise TypeError(f"on_record takes a function of a record and its bytes, got {callback!r}")
    return callback  # type: ignore[no-any-return]
