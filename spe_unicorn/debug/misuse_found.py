"""The mistakes that were found: one for each rule and place, with a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spe_unicorn.debug.misuse_rules import Rule
from spe_unicorn.debug.places import Place
from spe_unicorn.symbols.lines import Line


@dataclass
class Misuse:
    """A rule that was broken at one place.

    ``operation`` is the number of the operation that broke it first, on ``cpu``; that is None on a
    machine of one PE.
    """

    rule: Rule
    pc: int
    symbol: str | None
    el: int
    operation: int
    cpu: int | None
    what: str
    count: int = 1
    line: str | None = None
    """The source line, as ``main.c:42``."""
    inlined: tuple[str, ...] = ()
    """The functions that the compiler has inlined there, the innermost first."""

    @property
    def place(self) -> str:
        """Where, for people."""
        return f"{Place(self.pc, self.symbol, line=self.line, inlined=self.inlined)} EL{self.el}"

    def __str__(self) -> str:
        rule = self.rule
        cpu = "" if self.cpu is None else f" of cpu {self.cpu}"
        return (
            f"{rule.name} at {self.place}, operation {self.operation}{cpu}\n"
            f"  {self.what}\n"
            f"  rule: {rule.text} (Arm ARM {rule.source})\n"
            f"  do: {rule.advice}"
        )


class Misuses:
    """The mistakes found so far. ``on_first`` is told of each the first time at its place."""

    def __init__(
        self,
        symbolize: Callable[[int], str | None] = lambda _: None,
        on_first: Callable[[Misuse], None] | None = None,
        locate: Callable[[int], Line | None] = lambda _: None,
        inlined: Callable[[int], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.found: list[Misuse] = []
        self.on_first = on_first
        self.identified = False
        """Whether PMBIDR_EL1 was read on any PE, or it was reported that it was not."""
        self.at_end: list[Callable[[int], None]] = []
        """Checks that :meth:`finish` makes, once; each is told of its patience."""
        self._symbolize = symbolize
        self._locate = locate
        self._inlined = inlined
        self._places: dict[tuple[Rule, int], Misuse] = {}

    def finish(self, patience: int = 0) -> None:
        """The run is over: find the mistakes that show at its end.

        The guest had to do something for at least ``patience`` operations of its PE, and has not.
        """
        looks, self.at_end = self.at_end, []
        for look in looks:
            look(patience)

    def add(self, rule: Rule, pc: int, el: int, operation: int, cpu: int | None, what: str) -> None:
        """``rule`` was broken at ``pc``."""
        known = self._places.get((rule, pc))
        if known is not None:
            known.count += 1
            return
        misuse = Misuse(rule, pc, self._symbolize(pc), el, operation, cpu, what)
        line = self._locate(pc)
        misuse.line = None if line is None else line.short
        misuse.inlined = self._inlined(pc)
        self._places[rule, pc] = misuse
        self.found.append(misuse)
        if self.on_first is not None:
            self.on_first(misuse)
