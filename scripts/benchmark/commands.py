"""Figures of whole commands: how long the user waits, and beside it QEMU where it is installed.

Each figure is made of the CPU times of a few commands. Most are a difference of two that do the
same thing more or less often, so that the start of the process falls out.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arithmetic import is_refused, lower_quartile, per_count, spread
from iterations import with_iterations
from sides import ROOT, ProgramError, Side, cpu_seconds

QEMU: Final = "qemu-system-aarch64"
PREBUILT: Final = ROOT / "firmware" / "prebuilt"
FEW, MANY = 64, 1024
"""Round trips of interrupts and between worlds."""
_SORTED: Final = 100
"""Iterations of ``bench_sort`` that take seconds."""
SPARSE, DENSE = 65536, 256
"""Operations between samples."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure: its unit, the commands whose times it is made of, and how.

    ``commands`` gives words for spe-unicorn, ``qemu`` what stands behind QEMU's name to do the
    same, ``value`` makes the figure of their CPU seconds; None where the times give none.
    """

    name: str
    title: str
    unit: str
    commands: Callable[[Work], list[Words]]
    value: Callable[..., float | None]
    qemu: Callable[[Work], list[Words]] | None = None
    cold: bool = False
    """With no compiled code kept from an earlier run."""
    slow: bool = False
    """So slow that three rounds must do."""


@dataclass(frozen=True)
class Finding:
    """A figure as it was found. The value is None if refused, or if there is none.

    ``older`` is the value of the commit that was compared with.
    """

    name: str
    title: str
    unit: str
    value: float | None
    spread: float | None
    refused: bool
    qemu: float | None = None
    older: float | None = None


class NotHereError(Exception):
    """What a figure needs is not to be had."""


class Work:
    """Files that the commands need, made when one asks for them. Raises NotHereError."""

    def __init__(self, folder: Path, here: Side) -> None:
        self.folder = folder
        self._here = here
        self._samples: dict[int, tuple[Path, int]] = {}
        self._linux: tuple[Words, Words] | None = None
        self._sorting: Path | None = None

    def sorting(self) -> Path:
        """``bench_sort.elf`` with more iterations, as it takes less time than its start."""
        if self._sorting is None:
            self._sorting = self.folder / "bench_sort.elf"
            elf = Path(firmware("bench_sort")).read_bytes()
            self._sorting.write_bytes(with_iterations(elf, _SORTED))
        return self._sorting

    def samples(self, period: int) -> tuple[Path, int]:
        """A file of raw records, and how many: those of a program sampled with this period."""
        if period not in self._samples:
            file, facts = self.folder / f"{period}.spe", self.folder / f"{period}.json"
            self._here.seconds(*record(period, file), "--json", str(facts))
            self._samples[period] = file, json.loads(facts.read_text())["written"]
        return self._samples[period]

    def more_samples(self) -> int:
        """How many samples the dense period gives more than the sparse one."""
        return self.samples(DENSE)[1] - self.samples(SPARSE)[1]

    def linux(self) -> tuple[Words, Words]:
        """Words that boot Linux and turn it off: for spe-unicorn, and for QEMU."""
        if self._linux is None:
            self._linux = self._fetch_linux()
        return self._linux

    def _fetch_linux(self) -> tuple[Words, Words]:
        sys.path.insert(0, str(ROOT / "scripts/linux_guest"))
        from guest import Guest, scenario

        from spe_unicorn.session.linux.archive import ArchiveError, fetch

        try:
            guest = Guest.of(fetch(ROOT / ".cache/linux", "bookworm"))
        except (ArchiveError, OSError) as error:
            raise NotHereError(f"Debian's Linux cannot be had: {error}") from error
        initrd = self.folder / "initrd"
        initrd.write_bytes(guest.initrd(scenario("boot")))
        files = ("-kernel", str(guest.kernel), "-initrd", str(initrd))
        append = f"console=ttyAMA0 {guest.append}"
        return (
            (
                *("run", "-q", "--ram", guest.ram, "--kernel", str(guest.kernel)),
                *("--initrd", str(initrd), "--append", append),
            ),
            ("-machine", "virt,gic-version=3", "-m", guest.ram, *files, "-append", append),
        )


def firmware(name: str) -> str:
    """The file of a shipped program."""
    return str(PREBUILT / f"{name}.elf")


def run(name: str, *arguments: object, options: Sequence[str] = ()) -> Words:
    """The words that run a shipped program."""
    return ("run", "-q", *options, firmware(name), *map(str, arguments))


def record(period: int, file: Path) -> Words:
    """The words that sample a program of some million operations."""
    return ("record", "-q", "-c", str(period), "-o", str(file), firmware("bench_sort"))


def on_qemu(name: str, *arguments: object, machine: str = "", pes: int = 1) -> Words:
    """What stands behind QEMU's name to run a shipped program."""
    return on_virt(firmware(name), name, *arguments, machine=machine, pes=pes)


def on_virt(kernel: str, *words: object, machine: str = "", pes: int = 1) -> Words:
    """What stands behind QEMU's name to run a file; ``words`` are what semihosting hands it."""
    handed = "".join(f",arg={word}" for word in words)
    return (
        *("-machine", f"virt,gic-version=3{machine}", "-m", "128", "-smp", str(pes)),
        *("-semihosting-config", f"enable=on{handed}", "-kernel", kernel),
    )


def _few_and_many(make: Callable[[int], Words]) -> Callable[[Work], list[Words]]:
    return lambda work: [make(FEW), make(MANY)]


def _microseconds(counts: int) -> Callable[[float, float], float | None]:
    def value(few: float, many: float) -> float | None:
        each = per_count(few, many, counts)
        return each and each * 1e6

    return value


def _decode(format_: str) -> Callable[[Work], list[Words]]:
    def commands(work: Work) -> list[Words]:
        return [
            ("decode", "--format", format_, str(work.samples(period)[0]))
            for period in (SPARSE, DENSE)
        ]

    return commands


def _record(work: Work) -> list[Words]:
    return [record(period, work.folder / f"{period}.data") for period in (SPARSE, DENSE)]


def _ipi(how: str) -> tuple[Callable[[Work], list[Words]], Callable[[Work], list[Words]]]:
    return (
        _few_and_many(lambda n: run("ipi_pingpong", n, how, options=("--smp", "2"))),
        _few_and_many(lambda n: on_qemu("ipi_pingpong", n, how, pes=2)),
    )


def _guest_exit(kind: int) -> tuple[Callable[[Work], list[Words]], Callable[[Work], list[Words]]]:
    """Ours and QEMU's: exits of a guest to its hypervisor."""
    return (
        _few_and_many(lambda n: run("world_switch", n, kind, options=("--el", "2"))),
        _few_and_many(lambda n: on_qemu("world_switch", n, kind, machine=",virtualization=on")),
    )


_UNITS: Final = {
    "uart": ("a read of the UART's flags", 100_000),
    "rtc": ("a read of the clock's seconds, which Python answers", 20_000),
    "zero": ("DC ZVA", 200_000),
    "svc": ("an SVC and its return", 20_000),
}
"""What `unit_costs` does many times, and how often."""
_CORES: Final[dict[str, tuple[str, Words]]] = {
    "": ("", ()),
    "-cache": (", neoverse-n1 with caches", ("--core", "neoverse-n1", "--model", "cache")),
    "-max": (", max", ("--core", "max")),
}


def _unit_costs() -> Iterator[Figure]:
    """What one of something costs, on cores that differ in what compiled code follows."""
    for kind, (what, times) in _UNITS.items():

        def qemu(work: Work, kind: str = kind, times: int = times) -> list[Words]:
            return [on_qemu("unit_costs", n, kind) for n in (FEW, FEW + times)]

        for suffix, (core, options) in _CORES.items():

            def ours(
                work: Work, kind: str = kind, times: int = times, options: Words = options
            ) -> list[Words]:
                return [run("unit_costs", n, kind, options=options) for n in (FEW, FEW + times)]

            name = f"{kind}{suffix}"
            yield Figure(name, f"{what}{core}", "µs", ours, _microseconds(times), qemu)


_TO_EL3: Final = ("--el", "3", "--secure")
_MISUSE: Final = ("--warn", "misuse")
_RECORDS: Final = "records/s"


def _times(start: float, plain: float, watched: float) -> float | None:
    return (watched - start) / (plain - start) if plain > start else None


def _times_apart(start: float, watched_start: float, plain: float, watched: float) -> float | None:
    return (watched - watched_start) / (plain - start) if plain > start else None


def _watched(*options: str) -> Callable[[Work], list[Words]]:
    """A program that does nothing and a long one, each without these options and with them."""

    def commands(work: Work) -> list[Words]:
        named = [option.format(work.folder) for option in options]
        files = firmware("hello"), str(work.sorting())
        return [("run", "-q", *more, file) for file in files for more in ((), named)]

    return commands


def figures(work: Work) -> Iterator[Figure]:
    """All figures, in the order of the table."""

    def rate(few: float, many: float) -> float | None:
        each = per_count(few, many, work.more_samples())
        return each and 1 / each

    yield Figure(
        "startup-cold",
        "hello.elf, nothing compiled yet",
        "s",
        lambda work: [run("hello")],
        lambda seconds: seconds,
        cold=True,
        slow=True,
    )
    yield Figure(
        "startup",
        "hello.elf",
        "s",
        lambda work: [run("hello")],
        lambda seconds: seconds,
        lambda work: [on_qemu("hello")],
    )
    yield Figure("decode-text", "decode as text", _RECORDS, _decode("text"), rate)
    yield Figure("decode-json", "decode as JSON", _RECORDS, _decode("json"), rate)
    yield Figure("record", "record into perf.data", _RECORDS, _record, rate)
    for how, title in (("wfi", "both asleep"), ("poll", "one polls")):
        ours, qemu = _ipi(how)
        value = _microseconds(MANY - FEW)
        yield Figure(f"ipi-{how}", f"IPI round trip, {title}", "µs", ours, value, qemu)
    yield Figure(
        "world-switch",
        "world switch at EL3",
        "µs",
        _few_and_many(lambda n: run("smc_pingpong", n, options=_TO_EL3)),
        _microseconds(2 * (MANY - FEW)),
        _few_and_many(lambda n: on_qemu("smc_pingpong", n, machine=",secure=on,virtualization=on")),
    )
    for kind, (name, what) in {
        0: ("hvc", "HVC and ERET"),
        1: ("nvhe", "to a host at EL1"),
        2: ("vhe", "to a host at EL2"),
        4: ("step", "a step that a host at EL2 has it make"),
    }.items():
        ours, qemu = _guest_exit(kind)
        value = _microseconds(MANY - FEW)
        yield Figure(f"exit-{name}", f"a guest's exit, {what}", "µs", ours, value, qemu)
    yield from _unit_costs()
    yield Figure(
        "misuse",
        "a driver with --warn misuse",
        "times",
        lambda work: [run("hello"), run("spe_el0"), run("spe_el0", options=_MISUSE)],
        _times,
    )
    yield Figure(
        "coverage",
        "a program with --coverage",
        "times",
        _watched("--coverage", "{}/covered.json"),
        _times_apart,
    )
    yield Figure(
        "check",
        "a program with --check text, null and stack",
        "times",
        _watched(
            *("--check", "text", "--check", "null", "--check", "stack=__bss_end:__stack_top"),
        ),
        _times_apart,
    )
    yield Figure(
        "linux",
        "Linux, from reset to power off",
        "s",
        lambda work: [work.linux()[0]],
        lambda seconds: seconds,
        lambda work: [work.linux()[1]],
        slow=True,
    )


NAMES: Final = (
    *("startup-cold", "startup", "decode-text", "decode-json", "record", "ipi-wfi", "ipi-poll"),
    *("world-switch", "exit-hvc", "exit-nvhe", "exit-vhe", "exit-step"),
    *(f"{kind}{suffix}" for kind in _UNITS for suffix in _CORES),
    "misuse",
    *("coverage", "check", "linux"),
)

Times = list[list[float]]
"""CPU seconds by command, then by round."""


def find(
    names: Sequence[str],
    there: Sequence[Side],
    rounds: int,
    tell: Callable[[str], None],
    warn: Callable[[str], None],
) -> list[Finding]:
    """Measure figures on each side and on QEMU. ``warn`` hears what cannot be measured.

    Raises ProgramError.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = Work(Path(folder), there[0])
        for figure in figures(work):
            if figure.name in names:
                tell(figure.name)
                try:
                    found.append(_find(figure, work, there, rounds))
                except NotHereError as why:
                    warn(f"{figure.name}: {why}")
    return found


def _find(figure: Figure, work: Work, there: Sequence[Side], rounds: int) -> Finding:
    commands = figure.commands(work)
    by_qemu = figure.qemu(work) if figure.qemu and shutil.which(QEMU) else []
    times: list[Times] = [[[] for _ in commands] for _ in there]
    on_qemu_: Times = [[] for _ in by_qemu]
    if not figure.cold:
        _all(figure, commands, there, [[[] for _ in commands] for _ in there], work)
    for number in range(min(rounds, 3) if figure.slow else rounds):
        order = there if number % 2 == 0 else there[::-1]
        by_side = times if number % 2 == 0 else times[::-1]
        _all(figure, commands, order, by_side, work)
        for words, list_ in zip(by_qemu, on_qemu_, strict=True):
            list_.append(qemu_seconds(words))
    return finding(figure, times, on_qemu_)


_QEMU_OPTIONS: Final = ("-cpu", "max", "-accel", "tcg", "-nographic", "-nic", "none")


def qemu_seconds(words: Words) -> float:
    """CPU seconds of QEMU with these words. Raises ProgramError if it fails."""
    return cpu_seconds([QEMU, *_QEMU_OPTIONS, *words])


def _all(
    figure: Figure,
    commands: list[Words],
    there: Sequence[Side],
    times: Sequence[Times],
    work: Work,
) -> None:
    """Each command once on each side, its time after the earlier ones."""
    for side, by_command in zip(there, times, strict=True):
        for words, list_ in zip(commands, by_command, strict=True):
            list_.extend(_once(figure, side, words, work))


def _once(figure: Figure, side: Side, words: Words, work: Work) -> Iterator[float]:
    """The seconds of a command; none if it is what an older commit cannot do."""
    try:
        if figure.cold:
            with tempfile.TemporaryDirectory(dir=work.folder) as caches:
                yield side.seconds(*words, caches=Path(caches))
        else:
            yield side.seconds(*words)
    except ProgramError:
        if side.commit is None:
            raise


def finding(figure: Figure, times: Sequence[Times], qemu: Times) -> Finding:
    """What the times of a figure's commands come to: this side's first, then the older one's."""
    apart = max((s for s in map(spread, times[0]) if s is not None), default=None)
    refused = is_refused(apart)
    return Finding(
        figure.name,
        figure.title,
        figure.unit,
        None if refused else _value(figure, times[0]),
        apart,
        refused,
        _value(figure, qemu) if qemu else None,
        _value(figure, times[1]) if len(times) > 1 else None,
    )


def _value(figure: Figure, times: Times) -> float | None:
    if not all(times):
        return None
    return figure.value(*map(lower_quartile, times))
