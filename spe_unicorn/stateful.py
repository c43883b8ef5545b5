"""Claim every attribute: what is saved, what is derived from it, and what is wiring.

A class whose objects change keeps everything that must be saved in one plain dataclass, ``s``. A
class of one number or one array that is nothing but state names it in ``STATE`` instead.
:attr:`Stateful.DERIVED` names what follows from the state and is made anew by
:meth:`Stateful._derive`: caches, and what has been worked out in advance. :attr:`Stateful.TRANSIT`
names what belongs to the operation, or the run, that is on its way, and is empty between two of
them. Everything else is wiring, given at construction and never changed: other objects, lines,
callbacks, options.

Plain are numbers, truth values, bytes, text, enumerations, register values, and lists,
dictionaries, sets, deques and such dataclasses of them. ``tests/test_attributes_are_claimed.py``
walks a machine and fails on an attribute that is none of these.
"""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar, Generic, TypeVar

S = TypeVar("S")


class StateError(ValueError):
    """A state that cannot be restored on this host; the message is one line."""


def expect(condition: bool, what: str) -> None:
    """Raise StateError unless ``condition`` holds for ``what``: something of a saved state."""
    if not condition:
        raise StateError(f"{what} is none that there can be")


class Stateful(Generic[S]):
    """An object of which :attr:`s` is all that has to be saved."""

    DERIVED: ClassVar[tuple[str, ...]] = ()
    """Attributes that :meth:`_derive` makes, or that are looked up anew where they are missing."""

    TRANSIT: ClassVar[tuple[str, ...]] = ()
    """Attributes that mean something within an operation, or a run, alone."""
    WIRING: ClassVar[tuple[str, ...]] = ()
    """Wiring that is connected after the construction, once."""

    s: S
    """The saved state: a plain dataclass."""

    def save(self) -> S:
        """A copy of the state."""
        return deepcopy(self.s)

    def restore(self, state: S) -> None:
        """Take a state that :meth:`save` returned; it stays the caller's."""
        self.put(state)
        self.derive()

    def check(self, state: S) -> None:
        """Raise StateError for a state that this object cannot have: before any is put.

        That is one that needs what the host has not, and one of a file that was forged. The range
        of each value has been checked by then (``plain.decode``).
        """

    def put(self, state: S) -> None:
        """Take a state, with nothing derived from it before :meth:`derive`."""
        self.s = deepcopy(state)

    def derive(self) -> None:
        """Make what follows from the state anew, after :meth:`put`."""
        self._derive()

    def _derive(self) -> None:
        """Make what follows from the state anew; called after each change of it as a whole."""
