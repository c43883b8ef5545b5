"""Why a run failed, in a sentence: by its row, and by what it printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def failed_check(console: str) -> str | None:
    """The first line of TAP that says that a check failed."""
    return next((line for line in console.splitlines() if line.startswith("not ok")), None)


def why_skipped(console: str) -> str | None:
    """Why a program of TAP skipped all that it has, None where it did not."""
    plans = (line.partition("# SKIP") for line in console.splitlines() if line.startswith("1..0"))
    return next((reason.strip() for _, skip, reason in plans if skip), None)


def why_failed(row: Mapping[str, Any], console: str) -> str:
    """Why a run failed, empty where it did not. A run that reached its limit failed."""
    wrong = failed_check(console)
    if wrong is not None:
        return wrong
    ending = row["ending"]
    if ending == "limit":
        return f"still running after {row['operations']} operations: it hangs, or needs more"
    if ending != "exit":
        return f"{ending}: {row['cause']}"
    return f"exit status {row['exit_status']}" if row["exit_status"] else ""
