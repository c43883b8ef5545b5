"""Observers of one kind: a signal tells its listeners, and each listener can be taken off again.

    stop = pe.unit.recorded.connect(on_record)
    ...
    stop()

Whoever observes changes nothing: a signal's result is thrown away. What asks for an answer is a
Protocol, handed in where it is needed, and no signal. Where a machine goes again where it has been,
observers can be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Something that happens. Calling it tells all listeners, in the order in which they came.

    It is true while somebody listens, so that what only listeners need is made for them alone.
    """

    __slots__ = ("_listeners", "_numbers", "_told", "_wired", "muted")

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[P, object]] = {}
        self._numbers = count()
        self._told: tuple[Callable[P, object], ...] = ()
        self._wired: set[int] = set()
        self.muted = False
        """Whether observers are told nothing, since they have heard it before (:meth:`mute`)."""

    def wire(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Connect what is part of the machine and no observer: it is told always."""
        number = next(self._numbers)
        self._wired.add(number)
        return self._add(number, listener)

    def mute(self, muted: bool) -> None:
        """Tell observers nothing from now on, or tell them again; what is wired is told always."""
        self.muted = muted
        self._tell()

    def _tell(self) -> None:
        self._told = tuple(
            listener
            for number, listener in self._listeners.items()
            if not self.muted or number in self._wired
        )

    def connect(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Have ``listener`` told from now on; what is returned ends that, however often called.

        A listener that comes or goes while others are told is told, or not, from the next time on.
        """
        return self._add(next(self._numbers), listener)

    def _add(self, number: int, listener: Callable[P, object]) -> Callable[[], None]:
        self._listeners[number] = listener
        self._tell()

        def disconnect() -> None:
            self._listeners.pop(number, None)
            self._wired.discard(number)
            self._tell()

        return disconnect

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all listeners."""
        for listener in self._told:
            listener(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self._told)
