"""Machine code: made of LLVM code, and loaded into this process. llvmlite is all it takes."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import llvmlite
from llvmlite import binding

SYMBOL: Final = "entry"
"""The name of the function by which machine code is entered."""
_COMPILING: Final = ("calls.py", "machine_code.py", "translate.py")
"""What decides how code is compiled."""
_OPTIMIZE: Final = 3
_NAMES: Final = re.compile(r"_ZN[\w$.]*|\.const\.[\w$.]*")
"""Names that numba gives. They depend on what it has compiled before."""
_OF_THE_HOST: Final = re.compile(r"^(; ModuleID|source_filename|target triple).*\n", re.M)
"""Lines of LLVM code that do not matter, or that :func:`emit` sets."""
_engines: Final[list[Any]] = []
"""What keeps loaded machine code where it is, as long as this process lives."""


class Host(NamedTuple):
    """A kind of host, in LLVM's words: its triple, and the processor to optimize for."""

    triple: str
    cpu: str


HOSTS: Final = (
    Host("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Host("aarch64-unknown-linux-gnu", "generic"),
)
"""The kinds of hosts that have prepared code. Older processors of a kind run it too, for what LLVM
makes of the code is for the processor that it is on."""


@lru_cache(maxsize=1)
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _target() -> Any:
    """The processor that is here, to make code for."""
    _initialize()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=_OPTIMIZE,
        jit=True,
    )


def _target_of(host: Host) -> Any:
    """A processor of another kind of host, to make code for."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features="", opt=_OPTIMIZE, jit=True
    )


def llvm_version() -> int:
    """The version of LLVM that is here, without what stands after the first dot."""
    return int(binding.llvm_version_info[0])


def layout() -> str:
    """How data lie in memory on this host, as LLVM code says it."""
    return f'target datalayout = "{_target().target_data}"\n'


def compiling_code() -> tuple[str, ...]:
    """The text of what decides how code is compiled."""
    return tuple((Path(__file__).parent / name).read_text("utf-8") for name in _COMPILING)


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
        *compiling_code(),
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


def improved(ir: str, name: str, host: Host) -> str:
    """The LLVM code of which :func:`emit` would make an object file, optimized for a kind of host.

    It is the same text wherever it is made by the same compiler. The LLVM code that it is made of
    is as good for one kind of host as for the other: numbers and addresses have 64 bits on each,
    and lie in memory alike. Raises RuntimeError if this LLVM cannot make code for such a host.
    """
    target = _target_of(host)
    module = _module(ir, name)
    module.triple = host.triple
    module.data_layout = str(target.target_data)
    _optimize(module, target)
    known: dict[str, str] = {}
    text = _NAMES.sub(lambda found: known.setdefault(found[0], f"n{len(known)}"), str(module))
    return _OF_THE_HOST.sub("", text)


def _module(ir: str, name: str) -> Any:
    """LLVM code of which only the function ``name`` is to be called."""
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
