"""The one way in which commands refuse what they were given."""

from __future__ import annotations

import click


class UsageProblem(click.ClickException):
    """Wrong usage, or a file that cannot be used: one line, exit status 2."""

    exit_code = 2
