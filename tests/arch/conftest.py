from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases of the access matrix ran."""
    counts = [
        value
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == "access cases"
    ]
    if counts:
        terminalreporter.write_line(f"access matrix: {sum(counts)} cases in {len(counts)} sections")
