"""What a shell offers after options and arguments, and the command that sets a shell up for it."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from spe_unicorn.cli import PROGRAM
from spe_unicorn.cores.profile import core_names

SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_VARIABLE = "_SPE_UNICORN_COMPLETE"
"""The environment variable by which a shell asks: the one that click makes of the name."""
_BETTER: Final = {
    "fish": {
        # a description may have commas
        'string split ","': 'string split --max 1 ","',
        "for completion in $response;": (
            "set -l begun (string match --regex -- '^--[^=]*=' (commandline -t));\n\n"
            "    for completion in $response;"
        ),
        "__fish_complete_directories $metadata[2];": (
            'string replace --regex -- "^" "$begun" (__fish_complete_directories $metadata[2]);'
        ),
        "__fish_complete_path $metadata[2];": (
            'string replace --regex -- "^" "$begun" (__fish_complete_path $metadata[2]);'
        ),
        "echo $metadata[2];": 'echo "$begun"$metadata[2];',
    },
    "zsh": {
        "    for type key descr in ${response}; do": (
            "    local begun=${(M)words[CURRENT]#--*=}\n"
            "    compset -P 1 '--*='\n\n"
            "    for type key descr in ${response}; do"
        ),
        'completions+=("$key")': 'completions+=("$begun$key")',
        'completions_with_descriptions+=("$key":': (
            'completions_with_descriptions+=("$begun$key":'
        ),
    },
}
"""What click's scripts say, and what has to stand there instead.

Of ``--core=neo`` click completes what stands behind the ``=``, these shells the whole word.
"""


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
    script = SHELLS[shell](ctx.find_root().command, {}, PROGRAM, _VARIABLE).source()
    for has, better in _BETTER.get(shell, {}).items():
        script = script.replace(has, better)
    click.echo(script)
