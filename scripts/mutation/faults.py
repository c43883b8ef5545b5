"""Which faults can be planted in a file: those of cosmic-ray, less what tests cannot see."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_item import MutationSpec

COMPILERS: Final = {"entry", "routine"}
"""What makes machine code of a function: each fault in one takes seconds to compile.

See ``spe_unicorn.compiled``.
"""
UNSEEN: Final = {"core/RemoveDecorator", "core/VariableReplacer", "core/VariableInserter"}
"""Operators left out: without @abstractmethod nothing differs, the others need configuration."""

Place = tuple[int, int]
"""A line and a column, from 1 and from 0."""
Span = tuple[Place, Place]


def faults(file: Path) -> Iterator[MutationSpec]:
    """Every fault that can be planted in ``file``, in no particular order."""
    hidden = list(spans_left_out(ast.parse(file.read_text())))
    tree = get_ast_from_path(file)
    for name in sorted(set(operator_names()) - UNSEEN):
        operator = get_operator(name)()
        occurrence = 0
        for node in ast_nodes(tree):
            for start, end in operator.mutation_positions(node):
                if not any(first <= start and end <= last for first, last in hidden):
                    yield MutationSpec(file, name, occurrence, start, end)
                occurrence += 1


def spans_left_out(tree: ast.AST) -> Iterator[Span]:
    """Where a fault means nothing to a test: annotations, and functions that are compiled."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.AnnAssign(annotation=ast.expr() as annotation)
                | ast.arg(annotation=ast.expr() as annotation)
                | ast.FunctionDef(returns=ast.expr() as annotation)
            ):
                yield _span(annotation)
        if isinstance(node, ast.FunctionDef) and _is_compiled(node):
            yield _span(node)


def _is_compiled(function: ast.FunctionDef) -> bool:
    """Whether it is compiled, or compiles a function within it."""
    inner = any(isinstance(node, ast.FunctionDef) for node in function.body)
    looked_at = [*function.decorator_list, *(function.body if inner else [])]
    return not COMPILERS.isdisjoint(_names(looked_at))


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found.add(part.id)
            elif isinstance(part, ast.Attribute):
                found.add(part.attr)
    return found


def _span(node: ast.expr | ast.FunctionDef) -> Span:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
