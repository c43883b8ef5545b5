"""What a shell offers after options and arguments, and the command that sets a shell up for it."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from spe_unicorn.cores.profile import core_names

PROGRAM = "spe-unicorn"
SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_SPE_UNICORN_COMPLETE"
"""The environment variable by which a shell asks: the one that click makes of the name."""


def files(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of files."""
    return [CompletionItem(begun, type="file")]


def core_profiles(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Names of core profiles, and of files."""
    names = [CompletionItem(name) for name in core_names() if name.startswith(begun)]
    # a shell that is told of a file forgets what it was told before
    return [*files(ctx, parameter, begun), *names]


def registers(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of registers, also of what was begun in small letters."""
    from spe_unicorn.cli.commands.regs import register_names

    return [CompletionItem(name) for name in register_names() if name.startswith(begun.upper())]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    r"""Print what makes a shell complete our commands, options, registers, cores and files.

    \b
    bash: spe-unicorn completion bash > ~/.local/share/bash-completion/completions/spe-unicorn
    zsh:  spe-unicorn completion zsh > ~/.zfunc/_spe-unicorn      (a folder of fpath)
    fish: spe-unicorn completion fish > ~/.config/fish/completions/spe-unicorn.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, PROGRAM, _VARIABLE).source()
    # click's script for fish ends a description at its first comma
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
