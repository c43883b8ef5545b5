"""Fakes of the things that devices drive."""

from __future__ import annotations


class FakeLine:
    """An interrupt line that remembers its level and how often it rose."""

    def __init__(self) -> None:
        self.level = False
        self.rises = 0

    def set_level(self, level: bool) -> None:
        if level and not self.level:
            self.rises += 1
        self.level = level
