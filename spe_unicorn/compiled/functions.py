"""Functions to be compiled, and the name of everything that their machine code depends on.

A function depends on its own instructions, and on the values of the global names that it reads.
Numbers, tuples of numbers and structured types become part of its key by their value, routines by
what they depend on themselves. Anything else is refused before it is compiled: the compiler would
freeze it, and a later change would go unnoticed.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from hashlib import blake2b
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeVar, cast

import numpy as np

from spe_unicorn.compiled import cache, machine_code, making, prepared
from spe_unicorn.compiled.calls import Builtin, ForeignCall, check_kinds
from spe_unicorn.compiled.layouts import Pointer

_F = TypeVar("_F", bound=Callable[..., Any])
_ROUTINES: Final[set[FunctionType]] = set()

_C_TYPES: Final[dict[str, Any]] = {
    "void": None,
    "bool": ctypes.c_bool,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "pointer": ctypes.c_void_p,
}


def routine(function: _F) -> _F:
    """Allow compiled code to call ``function``, which stays the function of Python that it is.

    One that uses only numbers can be called by both, and so is the one source of its rule.
    Numbers have 64 bits and a sign in compiled code. Raises TypeError for a closure and for
    default values, which could change unseen.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no plain function")
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        raise TypeError(f"{function.__qualname__} has a closure or default values")
    _ROUTINES.add(function)
    return function


def routine_of(value: object) -> FunctionType | None:
    """The routine that compiled code calls by ``value``, which is one or an :class:`Entry`."""
    function = value.function if isinstance(value, Entry) else value
    return function if isinstance(function, FunctionType) and function in _ROUTINES else None


class _Kept:
    """Machine code with one function to be called from outside."""

    name: str
    optimized = True

    @cached_property
    def key(self) -> str:
        """Names everything that the machine code depends on."""
        return named(*machine_code.environment(), *self._parts())

    @cached_property
    def address(self) -> int:
        """Where the function is: read from the cache, or compiled if it is not there."""
        with making.measured():
            return machine_code.load(self._object_code())

    def _object_code(self) -> bytes:
        code = cache.read(self.name, self.key)
        if code is None:
            making.go_on()
            code = making.made_by(self._made)
            cache.write(self.name, self.key, code)
        return code

    def _made(self) -> bytes:
        return machine_code.emit(self.ir(), machine_code.SYMBOL, optimized=self.optimized)

    def ir(self) -> str:
        """The LLVM code of the function ``machine_code.SYMBOL``."""
        raise NotImplementedError

    def _parts(self) -> tuple[str, ...]:
        raise NotImplementedError


class Entry(_Kept):
    """A function that is called at its :attr:`address`, or from Python with numbers."""

    def __init__(self, function: Callable[..., Any], result: str, *arguments: str) -> None:
        check_kinds(result, arguments)
        self.function: Any = routine(function)
        self.result = result
        self.arguments = arguments
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.__doc__ = function.__doc__

    def _parts(self) -> tuple[str, ...]:
        return (self.result, *self.arguments, *dependencies(self.function))

    @cached_property
    def text_key(self) -> str:
        """Names all that the LLVM code depends on, whatever the processor and version of Python.

        Raises OSError where the text of a routine is not there, or SyntaxError where it is none.
        """
        prototype = self.result, *self.arguments
        return named(
            *machine_code.compiling_code(), *prototype, *dependencies(self.function, _text)
        )

    def _made(self) -> bytes:
        ir = prepared.read(self)
        if ir is not None:
            with suppress(RuntimeError):  # LLVM code of another version of LLVM
                code = machine_code.emit(ir, machine_code.SYMBOL, optimized=False)
                cache.say_if_lost()
                return code
        cache.say_once()
        return super()._made()

    def ir(self) -> str:
        """The LLVM code of the function ``machine_code.SYMBOL``.

        Raises TypeError for a global name that could change unseen.
        """
        from spe_unicorn.compiled.translate import llvm_of  # takes a quarter of a second

        for known in _known_from(self.function):
            _check(known)
        return llvm_of(self)

    @cached_property
    def called(self) -> Any:
        """The function for ``ctypes``: a call of it is one of the entry, and takes less time."""
        kinds = [_C_TYPES[kind] for kind in self.arguments]
        return ctypes.CFUNCTYPE(_C_TYPES[self.result], *kinds)(self.address)

    def __call__(self, *arguments: int | Pointer) -> int:
        """Call it; pointers are addresses in Python. What one without a result returns is None."""
        return cast(int, self.called(*arguments))


def entry(result: str, *arguments: str) -> Callable[[Callable[..., Any]], Entry]:
    """Make a function an :class:`Entry` with that prototype, in the words of ``calls.KINDS``."""
    return lambda function: Entry(function, result, *arguments)


class HandWritten(_Kept):
    """A function of which ``write`` makes the LLVM code, with ``arguments``.

    The text is its key.
    """

    optimized = False

    def __init__(self, name: str, write: Callable[..., str], *arguments: Any) -> None:
        self.name = name
        self._write = write
        self._arguments = arguments

    def _parts(self) -> tuple[str, ...]:
        return (self.ir(),)

    def ir(self) -> str:
        """The LLVM code of the function ``machine_code.SYMBOL``."""
        return self._write(*self._arguments)


def named(*parts: str) -> str:
    """A short name for some texts."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def dependencies(
    function: FunctionType, said: Callable[[FunctionType], str] | None = None
) -> Iterator[str]:
    """What the machine code of a function depends on, each in a line of text.

    ``said`` says what a function does, by default its instructions.
    """
    said = said or _code
    for known in _known_from(function):
        yield f"def {known.__name__} {said(known)}"
        for name, value in reached(known):
            called = routine_of(value)
            what = f"is routine {called.__name__}" if called else f"= {_constant(value)}"
            yield f"{name} {what}"


def _known_from(function: FunctionType) -> list[FunctionType]:
    """A function, and the routines that it calls, or that those call."""
    known = [function]
    for one in known:
        for _, value in reached(one):
            called = routine_of(value)
            if called is not None and called not in known:
                known.append(called)
    return known


def reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global names that a function reads, with their values.

    Among them may be one that an attribute has as well, and that is not read.
    """
    namespace = function.__globals__
    for name in _names(function.__code__):
        if name in namespace:
            yield name, namespace[name]


def _check(function: FunctionType) -> None:
    """Raise TypeError for a global name that a function reads and that could change unseen."""
    namespace = function.__globals__
    for name in _globals_read(function.__code__):
        if name in namespace:
            value = namespace[name]
            if routine_of(value) is None and _constant(value) is None:
                raise TypeError(
                    f"{function.__qualname__} reads the global name {name}, a"
                    f" {type(value).__name__}: compiled code takes numbers, tuples of numbers,"
                    " dtypes, routines and numpy"
                )
        elif not hasattr(builtins, name):
            raise TypeError(f"{function.__qualname__} reads {name}, which is not defined")


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that are read, in a fixed order."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _globals_read(code: CodeType) -> frozenset[str]:
    names = {str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _globals_read(constant)
    return frozenset(names)


class _Plain(ast.NodeTransformer):
    """Leaves annotations out, at which no compiler looks."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return ast.Assign(targets=[node.target], value=node.value)


@lru_cache(maxsize=1 << 12)
def _text(function: FunctionType) -> str:
    """What a function says as it is written, whatever the version of Python.

    Comments, annotations, decorators and the docstring are left out.
    """
    definition = _Plain().visit(ast.parse(dedent(inspect.getsource(function)))).body[0]
    if isinstance(definition, ast.FunctionDef):
        definition.decorator_list = []
        if ast.get_docstring(definition) is not None:
            del definition.body[0]
    return _tree(definition)


def _tree(node: object) -> str:
    """A syntax tree as text. Versions of Python differ in which fields they have that are empty."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
        return f"{type(node).__name__}({', '.join(f'{n}={_tree(value)}' for n, value in fields)})"
    return f"[{', '.join(map(_tree, node))}]" if isinstance(node, list) else repr(node)


def _code(function: FunctionType) -> str:
    return _instructions(function.__code__, function.__doc__)


def _instructions(code: CodeType, doc: str | None) -> str:
    constants = [
        _instructions(constant, None) if isinstance(constant, CodeType) else repr(constant)
        for constant in code.co_consts
        if constant is None or constant != doc
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _constant(value: Any) -> str | None:
    """A value that the compiler may freeze, as text; None for any other."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return str(tuple(map(int, value)))
    if isinstance(value, np.dtype):
        return f"dtype {value.descr}"
    if isinstance(value, Builtin | ForeignCall):
        return f"word {value!r}"
    if value is np.int64:
        return "int64"
    if isinstance(value, ModuleType) and value is sys.modules.get("numpy"):
        return "module numpy"
    return None
