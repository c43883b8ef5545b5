"""Which faults can be planted in a file, and what each changes in its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

COMPILERS: Final = {"entry", "routine"}
"""What makes machine code of a function, which does not change with the function's code.

See ``spe_unicorn.compiled``.
"""
OTHERS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
}
"""The operators that stand in an operator's place."""
WORDS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


Place = tuple[ast.AST, str, "int | None", ast.AST]
"""A node: its parent, the parent's field, the index in it where that is a list, and itself."""


@dataclass(frozen=True)
class Fault:
    """One fault: ``new`` stands at a place. All faults of a file share its tree.

    ``function`` is the line at which the function begins, as code objects have it. Outside of
    functions it is None, and ``constant`` is the name that gets another value.
    """

    path: Path
    tree: ast.Module
    place: Place
    new: ast.AST
    function: int | None = None
    constant: str | None = None

    @property
    def line(self) -> int:
        """Where it is in the text."""
        line: int = getattr(self.new, "lineno", 0)
        return line

    def __str__(self) -> str:
        before, after = (_first_line(node) for node in (self.place[3], self.new))
        return f"{before}  ->  {after}"

    def plant(self) -> None:
        """Change the tree, for good."""
        parent, name, index, _ = self.place
        if index is None:
            setattr(parent, name, self.new)
        else:
            getattr(parent, name)[index] = self.new


def faults(path: Path) -> list[Fault]:
    """Every fault that can be planted in ``path``, in the order of the text."""
    tree = ast.parse(path.read_text(), str(path))
    found = []
    for node in tree.body:
        name = _constant(node)
        if name is not None:
            for place in _below(node, "value"):
                found += [Fault(path, tree, place, new, constant=name) for new in _others(place)]
    for function in _functions(tree):
        line = min(part.lineno for part in (function, *function.decorator_list))
        for place in _below(function, "body"):
            found += [Fault(path, tree, place, new, function=line) for new in _others(place)]
    return sorted(found, key=lambda fault: (fault.line, str(fault)))


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]


def _constant(node: ast.stmt) -> str | None:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Each function, also within others, but for those that are compiled or compile others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            inner = any(isinstance(part, ast.FunctionDef) for part in node.body)
            looked_at = [*node.decorator_list, *(node.body if inner else [])]
            if COMPILERS.isdisjoint(_names(looked_at)):
                yield node


def _names(nodes: list[Any]) -> set[str]:
    parts = [part for node in nodes for part in ast.walk(node)]
    return {p.id for p in parts if isinstance(p, ast.Name)} | {
        p.attr for p in parts if isinstance(p, ast.Attribute)
    }


def _below(node: ast.AST, *only: str) -> Iterator[Place]:
    """The places below a node, without annotations, functions within it and texts for people."""
    for name, value in ast.iter_fields(node):
        if (only and name not in only) or name in ("annotation", "returns"):
            continue
        for index, part in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(part, ast.AST) and not isinstance(part, (ast.FunctionDef, ast.ClassDef)):
                yield node, name, index if isinstance(value, list) else None, part
                if not isinstance(part, ast.JoinedStr):
                    yield from _below(part)


def _others(place: Place) -> Iterator[ast.AST]:
    """What can stand in a node's place."""
    parent, _, _, node = place
    for new in _variants(node):
        yield ast.copy_location(new, node)
    if isinstance(parent, ast.comprehension) and node in parent.ifs:
        yield ast.copy_location(ast.Constant(True), node)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]):
            for other in OTHERS.get(type(operator), ()):
                yield _with(node, ops=[other()])
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) | ast.AugAssign(op=operator):
            for other in OTHERS.get(type(operator), ()):
                yield _with(node, op=other())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield copy.copy(operand)
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value)):
            yield _with(node, value=value + 1)
            if value:
                yield _with(node, value=value - 1)
        case ast.Slice():
            for name in ("lower", "upper", "step"):
                if getattr(node, name) is not None:
                    yield _with(node, **{name: None})
        case ast.IfExp() | ast.If() | ast.While():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Call(func=ast.Name(id=name)) if name in WORDS:
            yield _with(node, func=ast.Name(WORDS[name], ast.Load()))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Return(value=ast.Constant(value=None)):
            pass
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
    if _may_be_left_out(node):
        yield ast.Pass()


def _may_be_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.Raise():
            return True
        case ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            return True
    return False


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
