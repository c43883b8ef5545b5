"""Machine code: made of LLVM code, and loaded into this process. llvmlite is all it takes."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import llvmlite
from llvmlite import binding

SYMBOL: Final = "entry"
"""The name of the function by which machine code is entered."""
_THIS_ROOM: Final = ("calls.py", "machine_code.py", "translate.py")
"""What decides how code is compiled."""
_OPTIMIZE: Final = 3
_NAMES: Final = re.compile(r"_ZN[\w$.]*|\.const\.[\w$.]*")
"""Names that numba gives. They depend on what it has compiled before."""
_OF_THE_HOST: Final = re.compile(r"^(; ModuleID|source_filename|target triple).*\n", re.M)
"""Lines of LLVM code that do not matter, or that :func:`emit` sets."""
_engines: Final[list[Any]] = []
"""What keeps loaded machine code where it is, as long as this process lives."""


@lru_cache(maxsize=1)
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _target(cpu: str | None = None) -> Any:
    """The processor to make code for: this one, or ``cpu``."""
    _initialize()
    this = binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name() if cpu is None else cpu,
        features=this if cpu is None else "",
        opt=_OPTIMIZE,
        jit=True,
    )


def layout() -> str:
    """How data lie in memory on this host, as LLVM code says it."""
    return f'target datalayout = "{_target().target_data}"\n'


def room() -> tuple[str, ...]:
    """The text of what decides how code is compiled."""
    return tuple((Path(__file__).parent / name).read_text("utf-8") for name in _THIS_ROOM)


@lru_cache(maxsize=1)
def environment() -> tuple[str, ...]:
    """What machine code depends on beside the function: the processor, and all that compiles."""
    numba = find_spec("numba")
    made = None if numba is None or numba.origin is None else Path(numba.origin).stat().st_mtime_ns
    return (
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        f"{sys.implementation.cache_tag} llvmlite {llvmlite.__version__} numba of {made}",
        *room(),
    )


def emit(ir: str, name: str, *, optimized: bool = True) -> bytes:
    """An object file with the function ``name`` of some LLVM code, and all that it needs of it.

    Code that is not to be ``optimized`` keeps its branches as they are written. Raises RuntimeError
    if it needs something that a process without a compiler does not have.
    """
    target = _target()
    module = _module(ir, name)
    if optimized:
        _optimize(module, target)
    lacking = [f.name for f in module.functions if f.is_declaration and not _known(f.name)]
    if lacking:
        raise RuntimeError(f"{name} would need {', '.join(lacking)} to be there when it runs")
    code: bytes = target.emit_object(module)
    return code


def improved(ir: str, name: str, cpu: str) -> str:
    """The LLVM code of which :func:`emit` would make an object file, optimized for ``cpu``.

    It is the same text wherever it is made by the same compiler.
    """
    module = _module(ir, name)
    _optimize(module, _target(cpu))
    known: dict[str, str] = {}
    text = _NAMES.sub(lambda found: known.setdefault(found[0], f"n{len(known)}"), str(module))
    return _OF_THE_HOST.sub("", text)


def _module(ir: str, name: str) -> Any:
    """LLVM code, of which nobody is to call anything but the function ``name``."""
    module = binding.parse_assembly(ir)
    module.triple = binding.get_process_triple()
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != name:
            value.linkage = "internal"
    return module


def _optimize(module: Any, target: Any) -> None:
    builder = binding.create_pass_builder(
        target, binding.create_pipeline_tuning_options(speed_level=_OPTIMIZE)
    )
    for _ in range(2):  # that no routine raises shows after the first time
        builder.getModulePassManager().run(module, builder)


def _known(function: str) -> bool:
    """Whether every process has a function: one of LLVM's own, or one of C's for memory."""
    return function.startswith("llvm.") or function in {"memcpy", "memmove", "memset"}


def load(code: bytes) -> int:
    """Load an object file; the address of its function :data:`SYMBOL`.

    The bytes must be what :func:`emit` made on this machine: LLVM ends the process for others.
    Raises RuntimeError if there is no such function.
    """
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = int(engine.get_function_address(SYMBOL))
    if not address:
        raise RuntimeError(f"the machine code has no function {SYMBOL!r}")
    _engines.append(engine)
    return address
