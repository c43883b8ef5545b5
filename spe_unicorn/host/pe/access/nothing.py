"""An accelerator that does nothing: what each needs, and no more."""

from __future__ import annotations

from spe_unicorn.host.native.requests import RunRequest


class Nothing:
    """Has compiled code answer nothing."""

    def offer(self, request: RunRequest) -> None:
        """Say so for each run."""
        request.nothing = True
