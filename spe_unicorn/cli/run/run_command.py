"""The help of the commands that run firmware, in groups, and a word for those who know QEMU's."""

from __future__ import annotations

from collections.abc import Callable

import click

_GROUPS = {
    "What runs": (
        "--kernel",
        "--append",
        "--initrd",
        "--dtb",
        "--dump-dtb",
        "--bios",
        "--el",
        "--semihosting-dir",
        "--no-reboot",
    ),
    "The machine": (
        "--core",
        "--strict",
        "--model",
        "--ram",
        "--smp",
        "--turn",
        "--secure",
        "--check-alignment",
        "--check",
        "--ram-fill",
        "--seed",
    ),
    "Its consoles": ("--console", "--secure-console", "--virtio-console"),
    "Sampling": ("--event", "--count", "--no-jitter", "--filter", "--min-latency"),
    "What is written": (
        "--output",
        "--format",
        "--json",
        "--calls",
        "--call-graph",
        "--heap",
        "--interrupts",
        "--coverage",
        "--timeline",
        "--symbols",
        "--trace",
        "--trace-filter",
        "--trace-start",
        "--trace-stop",
        "--warn",
        "--warn-format",
        "--quiet",
    ),
    "Snapshots": ("--snapshot-at", "--snapshot", "--restore"),
    "Faults and interrupts": ("--interrupt-sweep", "--inject"),
    "A debugger": ("--gdb", "--gdb-continue", "--history"),
    "When it ends": ("--until", "--max-insns", "--timeout"),
}
"""Options by the heading that they stand under; what is not named here stands at the end."""

_QEMU = {
    **dict.fromkeys(("-M", "-machine"), "the board is always laid out like virt; see --secure"),
    "-cpu": "here it is --core NAME",
    "-m": "here it is --ram SIZE",
    "-smp": "here it is --smp N",
    "-s": "here it is --gdb 1234 --gdb-continue",
    "-S": "here it is --gdb 1234, which waits for GDB",
    "-gdb": "here it is --gdb [HOST:]PORT or --gdb unix:PATH, which waits for GDB",
    "-d": "here it is --trace KIND, such as --trace exception for -d int",
    "-D": "here it is the file of --trace KIND:FILE",
    "-dfilter": "here it is --trace-filter with range= and two addresses",
    "-kernel": "an ELF file stands without an option; for a kernel image it is --kernel FILE",
    "-append": "here it is --append TEXT",
    "-initrd": "here it is --initrd FILE",
    "-dtb": "here it is --dtb FILE",
    "-bios": "here it is --bios FILE",
    "-pflash": "here it is --pflash FILE[,readonly]",
    **dict.fromkeys(
        ("-nographic", "-display", "-serial", "-monitor", "-chardev"),
        "the console is standard input and output already; see --console",
    ),
    **dict.fromkeys(
        ("-semihosting", "-semihosting-config"),
        "semihosting is always there; --semihosting-dir DIR gives it files",
    ),
    "-no-reboot": "here it is --no-reboot",
    "-seed": "here it is --seed N",
    "-icount": "time is counted in operations already; see --seed and --max-insns",
    "-drive": "here it is --drive FILE[,readonly|,write]",
    **dict.fromkeys(("-virtfs", "-fsdev"), "here it is --share DIR[,readonly][,virtiofs]"),
    "-device": "virtio devices are --drive FILE, --share DIR, --entropy and --virtio-console stdio",
    **dict.fromkeys(
        ("-netdev", "-nic", "-net"), "the board has no network; files come by --share DIR"
    ),
    "-fw_cfg": "here it is --fw-cfg NAME=FILE",
    "-accel": "there is nothing to choose; see --model for what is modelled",
}
"""What QEMU spells with one dash, and what to use here."""


class RunCommand(click.Command):
    """A command that runs firmware."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; say what an option of QEMU's is called here."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            ours = given[: given.index("--")] if "--" in given else given
            known = [word for word in ours if word in _QEMU]
            if known:
                said = error.format_message().removesuffix(".")
                hint = f"{said}. QEMU's {known[0]}: {_QEMU[known[0]]}."
                raise click.UsageError(hint, ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, each in the order in which it is declared."""
        left: dict[str, tuple[str, str]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                left[_long_name(parameter)] = record
        for heading, names in _GROUPS.items():
            rows = [left.pop(name) for name in names if name in left]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        with formatter.section("Other options"):
            formatter.write_dl(list(left.values()))


def _long_name(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len, default="")


def run_command(example: str) -> Callable[[Callable[..., None]], RunCommand]:
    """Makes a function a :class:`RunCommand`; ``example`` stands at the end of its help."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in example.splitlines())
    return click.command(cls=RunCommand, epilog=epilog)
