"""The options that ``run``, ``record`` and ``stat`` have in common, by group.

They are named as in ``cli.run.settings`` and ``machine.options``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, get_args

import click

from spe_unicorn.cli import completing
from spe_unicorn.cli.parameters import (
    Whole,
    address,
    console,
    hertz,
    number,
    seconds,
    size,
    trace,
    trace_filter,
)
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.run.snapshots import point
from spe_unicorn.cli.run.symbols import symbols_option
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.devices.gicv3 import MAX_PES
from spe_unicorn.machine.options import LONGEST_TURN, MachineOptions
from spe_unicorn.output.calls import CALL_GRAPHS
from spe_unicorn.output.formats import FORMATS

Decorator: TypeAlias = Callable[[Any], Any]
Group: TypeAlias = tuple[Decorator, ...]
"""Options and arguments that belong together, in the order in which the help lists them."""

_PROGRAM: Final[Group] = (
    click.argument("firmware", required=False, shell_complete=completing.files),
    click.argument("arguments", nargs=-1),
    click.option(
        "--kernel",
        metavar="FILE",
        shell_complete=completing.files,
        help="Start this instead of FIRMWARE: an arm64 Image (also packed by gzip), a flat"
        " image or an ELF file, with the address of the device tree in X0.",
    ),
    click.option("--append", metavar="TEXT", help="Command line for the kernel."),
    click.option(
        "--initrd",
        metavar="FILE",
        shell_complete=completing.files,
        help="Initial RAM disk for the kernel.",
    ),
    click.option(
        "--dtb",
        metavar="FILE",
        shell_complete=completing.files,
        help="Device tree to use instead of the machine's own.",
    ),
    click.option(
        "--bios",
        metavar="FILE",
        shell_complete=completing.files,
        help="Plain bytes for the flash at 0x0, where the PEs then start.",
    ),
    click.option(
        "--pflash",
        multiple=True,
        metavar="FILE[,readonly]",
        shell_complete=completing.files,
        help="The flash at 0x0, given twice that at 0x4000000, with --bios the second alone."
        " 64 MiB each; what the guest programs is in the file at once.",
    ),
    click.option(
        "--fw-cfg",
        multiple=True,
        metavar="NAME=FILE",
        help="A file that firmware finds by that name in fw_cfg.",
    ),
    click.option(
        "--load",
        multiple=True,
        metavar="FILE@ADDRESS",
        help="Plain data in memory, from the start on.",
    ),
)
"""What runs, and what lies in its memory."""

_DUMP: Final[Group] = (
    click.option(
        "--dump-dtb",
        metavar="FILE",
        shell_complete=completing.files,
        help="Write the device tree there, and run nothing.",
    ),
)
"""What is written in place of a run."""

_MACHINE: Final[Group] = (
    click.option(
        "--core",
        default=MachineOptions.core,
        metavar="NAME|FILE.toml[,KEY=VALUE...]",
        shell_complete=completing.core_profiles,
        show_default=True,
        help='Core profile; "spe-unicorn cores" lists them. After it what is to be otherwise:'
        " midr=0x410fd0c1, FEAT_SVE=off, max_size=8.",
    ),
    click.option(
        "--strict/--no-strict",
        default=None,
        help="Whether instructions that the core lacks are UNDEFINED, also where this machine could"
        " execute them; else as the core profile says.",
    ),
    click.option(
        "--model",
        type=click.Choice(get_args(ModelName)),
        default=MachineOptions.model,
        show_default=True,
        help="Core model: constant latencies, or caches, TLBs and a branch predictor, which"
        " all accesses and branches of the guest then go through.",
    ),
    click.option(
        "--ram",
        type=size,
        default="128M",
        metavar="SIZE",
        show_default=True,
        help="RAM at 0x40000000.",
    ),
    click.option(
        "--smp",
        type=Whole(1, MAX_PES),
        metavar="N",
        default=MachineOptions.smp,
        show_default=True,
        help=f"Number of PEs, up to {MAX_PES}.",
    ),
    click.option(
        "--turn",
        type=Whole(1, LONGEST_TURN),
        metavar="N",
        default=MachineOptions.turn,
        show_default=True,
        help="With --smp: operations of a PE's turn; fewer are slower, and show what PEs do to each"
        " other's caches.",
    ),
    click.option(
        "--secure",
        is_flag=True,
        help="Secure RAM at 0xe000000 and a GIC with two Security states; firmware starts at EL3.",
    ),
    click.option(
        "--el",
        type=Whole(1, 3),
        metavar="1|2|3",
        help="Exception level to start at: 1, or 3 with --bios or --secure.",
    ),
    click.option(
        "--clock",
        type=hertz,
        metavar="HZ",
        help="Operations in a second of the guest: 100M or 62.5MHz makes its waits cheaper,"
        " 2.5G gives it time; 1G unless the core profile says otherwise.",
    ),
    click.option(
        "--seed",
        type=number,
        default=str(MachineOptions.seed),
        metavar="N",
        show_default=True,
        help="Source of all chance in the machine.",
    ),
    click.option(
        "--check-alignment",
        is_flag=True,
        help="Refuse misaligned accesses to Device memory (RAM without the MMU, too), by a"
        " misaligned SP, and by LDAR, STLR and the like, as silicon does. Slow.",
    ),
    click.option(
        "--ram-fill",
        default=MachineOptions.ram_fill,
        metavar="zero|random|0xNN",
        show_default=True,
        help="What RAM holds where nothing was loaded.",
    ),
    click.option(
        "--no-reboot", is_flag=True, help="End the run when the guest resets the machine."
    ),
)
"""The machine that it runs on."""

_CHECKS: Final[Group] = (
    click.option(
        "--check",
        multiple=True,
        metavar="text|null|uninitialised|heap|noncoherent|stack=SYMBOL[:SYMBOL]",
        help="Check memory, and tell at the end: writes to code and execution of data, null"
        " pointers, loads of RAM that nobody has written, accesses beside or after the blocks of"
        " malloc, loads past the cache of lines that are not clean, a stack that runs over."
        " Repeatable.",
    ),
)
"""What is checked of memory."""

_DEVICES: Final[Group] = (
    click.option(
        "--drive",
        multiple=True,
        metavar="FILE[,readonly|,write]",
        shell_complete=completing.files,
        help="A virtio disk of that file, which stays as it is: writes are kept in the machine"
        " alone, or with ,write go to the file.",
    ),
    click.option(
        "--entropy", is_flag=True, help="A virtio source of random numbers, from the seed."
    ),
    click.option(
        "--share",
        multiple=True,
        metavar="DIR[,readonly][,virtiofs]",
        shell_complete=completing.files,
        help="A folder that the guest mounts, by 9P or virtiofs, and may change: share0, then"
        " share1.",
    ),
    click.option(
        "--semihosting-dir",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="Let the guest open, change and remove files in this folder.",
    ),
)
"""Devices and folders that can be left out."""

_CONSOLES: Final[Group] = (
    click.option(
        "--console",
        type=console("stdio", "none"),
        default=Settings.console,
        metavar="stdio|file:PATH|none",
        show_default=True,
        help="The guest's console: standard input and output, or output alone.",
    ),
    click.option(
        "--secure-console",
        type=console("stderr", "stdio", "none"),
        metavar="stderr|stdio|file:PATH|none",
        help="Output of the second UART, which --secure adds. By default its lines go to"
        ' standard error after "secure: ".',
    ),
    click.option(
        "--virtio-console",
        type=console("stdio", "stderr", "none"),
        metavar="stdio|stderr|file:PATH|none",
        help="A virtio console beside the UART, hvc0 of Linux. With stdio what is typed goes to"
        ' it, and not to the UART; with stderr its lines go there after "virtio: ".',
    ),
)
"""Where consoles lead."""

_ENDS: Final[Group] = (
    click.option(
        "--until",
        type=point,
        metavar="POINT",
        help="End with exit status 0 there: a number of operations, 0x and an address,"
        " SYMBOL[+0xN] or console:TEXT.",
    ),
    click.option(
        "--max-insns",
        type=Whole(min=1),
        metavar="N",
        help="Stop after exactly N operations, with exit status 124.",
    ),
    click.option(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="Stop after that much time of the host, with exit status 124.",
    ),
)
"""What ends the run."""

_TRACES: Final[Group] = (
    click.option(
        "--timeline",
        metavar="FILE",
        shell_complete=completing.files,
        help="Write what happened to SPE as a time line: a page (FILE.html), or JSON for Perfetto"
        " (FILE.json): registers, records, the buffer, interrupt 21, barriers, mistakes of --warn.",
    ),
    click.option(
        "--trace",
        type=trace,
        multiple=True,
        metavar="KIND[,KIND][:FILE]",
        help="Print what happens: sysreg, exception, irq, mmu, spe, pmu, insn, memory. To FILE,"
        " as JSON Lines where its name ends in .jsonl, or to standard error.",
    ),
    click.option(
        "--trace-filter",
        type=trace_filter,
        multiple=True,
        metavar="KEY=VALUE[,KEY=VALUE]",
        help="Trace only what is there: cpu=N, el=N, range=0xFIRST-0xLAST, symbol=NAME. Given"
        " more than once: what any of them lets pass.",
    ),
    click.option(
        "--trace-start",
        type=point,
        metavar="POINT",
        help="Trace from there on: a number of operations, 0x and an address, SYMBOL[+0xN] or"
        " console:TEXT.",
    ),
    click.option(
        "--trace-stop", type=point, metavar="POINT", help="Trace up to there, once it began."
    ),
)
"""What is printed of what happens."""

_GDB: Final[Group] = (
    click.option(
        "--gdb",
        type=address,
        metavar="[HOST:]PORT|unix:PATH",
        help="Wait there for GDB, which then holds the machine. Loopback, if there is no HOST.",
    ),
    click.option(
        "--gdb-continue", is_flag=True, help="With --gdb: run at once; GDB may connect later."
    ),
    click.option(
        "--history",
        type=size,
        default="256M",
        metavar="SIZE",
        show_default=True,
        help="With --gdb: memory of the host for the past that GDB can go back to.",
    ),
)
"""A debugger."""


def _outputs(*, required: bool) -> Group:
    """What is written of the run; whether records have to be is ``required``."""
    return (
        click.option(
            "-o",
            "--output",
            metavar="FILE",
            shell_complete=completing.files,
            required=required,
            help='Write the records: FILE.spe, FILE.data, FILE.jsonl, or "-" with --format.',
        ),
        click.option(
            "--format",
            type=click.Choice(FORMATS),
            help="Format of -o, where its suffix does not say.",
        ),
        click.option(
            "-g",
            "--calls",
            "call_graph",
            flag_value="calls",
            help="With -o: --call-graph calls.",
        ),
        click.option(
            "--call-graph",
            type=click.Choice(CALL_GRAPHS),
            help="With -o: write with each record the calls that led to it: by frame records (fp),"
            " by call frame information (cfi), or as they were executed (calls).",
        ),
        click.option(
            "--heap",
            is_flag=True,
            help="With -o FILE.data: write the blocks that malloc and the like give the program, so"
            " that report names data in them by the call that got them.",
        ),
        click.option(
            "--interrupts",
            is_flag=True,
            help="With -o FILE.data: write when interrupts are acknowledged and end, so that report"
            " tells which of them samples were taken in.",
        ),
        click.option(
            "--json",
            metavar="FILE",
            shell_complete=completing.files,
            help="Write what the run came to as JSON.",
        ),
        click.option(
            "--coverage",
            metavar="FILE",
            shell_complete=completing.files,
            help="Write which lines, branches and functions were executed: FILE.info (lcov),"
            " FILE.xml (Cobertura), FILE.drcov, or FILE.json, which can be merged.",
        ),
        symbols_option,
        click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary."),
    )


def _decorated(function: Any, groups: tuple[Group, ...]) -> Any:
    for group in reversed(groups):
        for decorator in reversed(group):
            function = decorator(function)
    return function


def program_options(function: object) -> Any:
    """The options and arguments that say what runs, on which machine."""
    return _decorated(function, (_PROGRAM, _MACHINE, _CHECKS, _DEVICES))


def common_options(*, output_required: bool, checks: bool = True) -> Decorator:
    """The options and arguments of every command that runs firmware.

    Without ``checks`` not that of checks of memory: the command has a ``--check`` of its own.
    """
    outputs = _outputs(required=output_required)
    groups = (
        _PROGRAM,
        _DUMP,
        _MACHINE,
        *([_CHECKS] if checks else []),
        _DEVICES,
        _CONSOLES,
        _ENDS,
        _TRACES,
        outputs,
        _GDB,
    )

    def decorate(function: object) -> Any:
        return _decorated(function, groups)

    return decorate
