"""The hooks and fixtures that pytest finds. Nothing heavy is imported before it is used."""

from __future__ import annotations

import atexit
import itertools
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from spe_unicorn.pytest_plugin.elf import Results
    from spe_unicorn.pytest_plugin.linux import LinuxOfTest
    from spe_unicorn.pytest_plugin.machine import MachineOfTest, MakeMachine
    from spe_unicorn.pytest_plugin.settings import ElfTests
    from spe_unicorn.session.record_set import RecordSet

_MACHINES: Final[pytest.StashKey[list[MachineOfTest]]] = pytest.StashKey()
_STARTS: Final = pytest.StashKey[dict[Any, Any]]()
_ELVES: Final[pytest.StashKey[dict[Path, ElfTests]]] = pytest.StashKey()
_RESULTS: Final[pytest.StashKey[Results]] = pytest.StashKey()
_UPDATED: Final[pytest.StashKey[list[Path]]] = pytest.StashKey()
_MARKER: Final = (
    "spe_matrix(core=[...], seed=[...], interval=[...], ...): repeat the test with each combination"
    " of these machine options; interval samples every N-th operation from outside"
)
_SWEEP: Final = (
    "spe_interrupt_sweep('INTID[,POINT-POINT]'): what spe_run runs must also pass with that"
    " interrupt pending before each operation from the first point to the second"
)
_SILICON: Final = (
    "spe_silicon(runs=50, seed=0, only=[...]): repeat the test on so many implementations that Arm"
    " allows; one that fails is made small"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin, all of which begin with ``--spe-``."""
    group = parser.getgroup("spe-unicorn", "firmware on spe-unicorn")
    group.addoption(
        "--spe-elf",
        action="append",
        default=[],
        metavar="PATTERN",
        help="ELF files that are tests: one a line of TAP, else one by the exit status; may be"
        " given more than once",
    )
    group.addoption(
        "--spe-until",
        metavar="POINT",
        help="the files of --spe-elf end well there, as by console:PASSED, instead of by the exit"
        " status of the guest",
    )
    group.addoption(
        "--spe-seeds",
        metavar="FIRST-LAST",
        help="run the files of --spe-elf with each of these seeds, as 0-31",
    )
    group.addoption(
        "--spe-silicon",
        type=int,
        default=0,
        metavar="N",
        help="try each file of --spe-elf on N implementations that Arm allows, as one more test",
    )
    group.addoption(
        "--spe-cov",
        metavar="FILE",
        help="write what all machines of the tests have executed: FILE.info (lcov), FILE.xml"
        " (Cobertura), FILE.drcov or FILE.json",
    )
    group.addoption(
        "--spe-update-golden",
        action="store_true",
        help="write the golden files of spe_golden anew instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker, and which ELF files are tests."""
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _SWEEP)
    config.addinivalue_line("markers", _SILICON)
    config.stash[_UPDATED] = []
    config.stash[_ELVES] = {}
    if config.getoption("--spe-cov") is not None:
        from spe_unicorn.pytest_plugin.covering import prepare

        prepare(config)
    patterns = config.getoption("--spe-elf")
    pyproject = config.rootpath / "pyproject.toml"
    until = config.getoption("--spe-until")
    seeds = config.getoption("--spe-seeds")
    for option, value in (("--spe-until", until), ("--spe-seeds", seeds)):
        if value is not None and not patterns:
            raise pytest.UsageError(f"{option} needs --spe-elf")
    if not patterns and not (pyproject.is_file() and b"spe-unicorn" in pyproject.read_bytes()):
        return
    from spe_unicorn.pytest_plugin.settings import ElfTests, SettingsError, from_pyproject, seeds_of
    from spe_unicorn.session.point import PointError, parse_point

    elves = config.stash[_ELVES]
    try:
        if until is not None:
            parse_point(until)
        for tests in from_pyproject(pyproject):
            elves.update(dict.fromkeys(tests.paths(), tests))
        asked = ElfTests(
            config.invocation_params.dir,
            tuple(patterns),
            until=until,
            seeds=() if seeds is None else seeds_of(seeds),
        )
        for path in asked.paths():
            known = elves.setdefault(path, asked)
            if asked.seeds and known is not asked:  # a table of pyproject.toml says the rest
                elves[path] = replace(known, seeds=asked.seeds)
    except PointError as error:
        raise pytest.UsageError(f"--spe-until: {error}") from None
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None
    named = [path for path, tests in elves.items() if tests is asked]
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        named = list(elves)
    config.args += [str(path) for path in named]


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Look into folders that pytest passes over, such as ``build``, for the ELF files alone."""
    elves = config.stash[_ELVES]
    if not elves or str(collection_path) in config.args or collection_path in elves:
        return None
    passed_over = config.getini("norecursedirs")

    def is_passed_over(folder: Path) -> bool:
        return any(fnmatch(folder.name, pattern) for pattern in passed_over)

    leads_to_one = any(collection_path in path.parents for path in elves)
    if leads_to_one:
        return False if is_passed_over(collection_path) else None
    opened = {folder for path in elves for folder in path.parents if is_passed_over(folder)}
    return True if opened.intersection(collection_path.parents) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """An ELF file that is a test."""
    elves = parent.config.stash[_ELVES]
    tests = elves.get(file_path) if elves else None
    if tests is None:
        return None
    from spe_unicorn.pytest_plugin.elf import ElfFile

    file = ElfFile.of(parent, file_path, tests, _results(parent.config))
    file.silicon = parent.config.getoption("--spe-silicon")
    return file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each test of an ELF file once: its folder may have been looked through as well."""
    if config.stash[_ELVES]:
        from spe_unicorn.pytest_plugin.elf import ElfItem

        seen: set[str] = set()
        kept = []
        for item in items:
            if not isinstance(item, ElfItem) or item.nodeid not in seen:
                kept.append(item)
            seen.add(item.nodeid)
        items[:] = kept


def _results(config: pytest.Config) -> Results:
    """The runs so far, of all processes of pytest-xdist."""
    if _RESULTS not in config.stash:
        from spe_unicorn.pytest_plugin.elf import Results

        covers = config.getoption("--spe-cov") is not None
        config.stash[_RESULTS] = Results(_shared(config), covers=covers)
    return config.stash[_RESULTS]


def _shared(config: pytest.Config) -> Path:
    """The folder that all processes of this session have in common."""
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return (base.parent if hasattr(config, "workerinput") else base) / "spe-unicorn"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat tests that are marked with ``spe_matrix`` or ``spe_silicon``."""
    silicon = metafunc.definition.get_closest_marker("spe_silicon")
    marker = metafunc.definition.get_closest_marker("spe_matrix")
    if silicon is not None:
        from spe_unicorn.pytest_plugin.silicon import KEY, trials_of

        node = metafunc.definition.nodeid
        if marker is not None or "spe_options" not in metafunc.fixturenames:
            raise pytest.UsageError(
                f"{node}: spe_silicon is for tests that use spe_machine or spe_run, without"
                " spe_matrix"
            )
        trials = [{KEY: trial} for trial in trials_of(silicon, node)]
        metafunc.parametrize("spe_options", trials, ids=[f"{KEY}={t[KEY]}" for t in trials])
        return
    if marker is None:
        return
    if marker.args or not marker.kwargs or "spe_options" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: spe_matrix takes lists by name, as seed=[0, 1], and"
            " is for tests that use spe_machine or spe_run"
        )
    names = list(marker.kwargs)
    combinations = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(list(marker.kwargs[name]) for name in names))
    ]
    ids = ["-".join(f"{name}={value}" for name, value in c.items()) for c in combinations]
    metafunc.parametrize("spe_options", combinations, ids=ids)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Make a trial of ``spe_silicon`` that fails small, and fail with what is left of it."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception):
        options = pyfuncitem.funcargs.get("spe_options")
        trial = options.get("silicon") if isinstance(options, dict) else None
        if trial is None:
            raise
        machines = pyfuncitem.stash[_MACHINES]
        names = pyfuncitem._fixtureinfo.argnames

        def again() -> int:
            for machine in machines:
                machine.machine.close()
            machines.clear()
            pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
            return sum(machine.machine.operations for machine in machines)

        trial.smallest(again)
        pyfuncitem.add_report_section("call", "spe-unicorn: silicon", trial.told)
        again()
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what its machines can say."""
    machines = item.stash.get(_MACHINES, None)
    if machines is not None and call.excinfo and not item.config.getoption("fulltrace"):
        from spe_unicorn.pytest_plugin.evidence import cut_to_the_test

        cut_to_the_test(call.excinfo.value)
    report = yield
    if machines and report.failed and call.when != "teardown":
        from spe_unicorn.pytest_plugin.evidence import evidence

        sections = [section for machine in machines for section in evidence(machine)]
        _attach(report, [(f"spe-unicorn: {h}", text.rstrip()) for h, text in sections if text])
    return report


def _attach(report: pytest.TestReport, sections: list[tuple[str, str]]) -> None:
    """Show sections with a failure, whether it has a traceback or is a text alone."""
    add = getattr(report.longrepr, "addsection", None)
    if add is not None:
        for heading, text in sections:
            add(heading, text, "-")
    elif isinstance(report.longrepr, str):
        parts = [f"{heading}\n{text}" for heading, text in sections]
        report.longrepr = "\n\n".join([report.longrepr, *parts])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the file of ``--spe-cov``, or the part of a process of pytest-xdist.

    A compiler that a signal has interrupted keeps the process from no end.
    """
    compiled = sys.modules.get("spe_unicorn.compiled")
    if compiled is not None and compiled.is_left():
        atexit.register(compiled.end_if_left, int(exitstatus))
    if session.config.getoption("--spe-cov") is not None:
        from spe_unicorn.pytest_plugin.covering import finish

        finish(session.config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which golden files were written, and how much was covered."""
    if config.getoption("--spe-cov") is not None:
        from spe_unicorn.pytest_plugin.covering import said

        terminalreporter.write_line(said(config))
    for path in config.stash[_UPDATED]:
        terminalreporter.write_line(f"spe-unicorn: wrote {path}")


@pytest.fixture
def spe_options() -> dict[str, Any]:
    """Machine options of this test, by ``spe_matrix``."""
    return {}


@pytest.fixture
def spe_machine(
    request: pytest.FixtureRequest, spe_options: dict[str, Any]
) -> Iterator[MakeMachine]:
    """Makes machines: ``spe_machine("firmware.elf", smp=2, seed=7)``.

    Options are those of MachineOptions; ``interval=N`` samples every N-th operation from outside,
    ``deadline`` is in operations, ``trace`` the kinds of lines that a failure shows, ``misuse``
    looks for mistakes. With ``after`` it starts at that POINT: it goes there once in a session, and
    equal machines start from a snapshot. A relative path is looked for beside the test, then from
    the working folder.
    """
    machines: list[MachineOfTest] = []
    request.node.stash[_MACHINES] = machines

    def make(
        firmware: str | Path | None = None,
        *,
        interval: int | None = None,
        deadline: int | None = None,
        trace: tuple[str, ...] = ("sysreg", "exception", "spe"),
        misuse: bool = False,
        after: str | None = None,
        **options: object,
    ) -> MachineOfTest:
        __tracebackhide__ = True
        from spe_unicorn.compiled import interruptible
        from spe_unicorn.machine.options import Sampling
        from spe_unicorn.pytest_plugin.machine import DEADLINE, MachineOfTest
        from spe_unicorn.session.choices import machine_options

        chosen = {**options, **spe_options}
        interval = chosen.pop("interval", interval)
        if interval is not None and interval < 1:
            raise ValueError(f"interval is a number of operations from 1 on, got {interval}")
        if interval is not None:
            chosen["sampling"] = Sampling(interval)
        path = None if firmware is None else _found(request.path.parent, Path(firmware))
        limit = DEADLINE if deadline is None else deadline
        trial = chosen.pop("silicon", None)
        asked = machine_options(path, chosen)
        if trial is not None:
            asked = replace(asked, core=trial.core_of(asked.core))
        with interruptible():
            machine = MachineOfTest(asked, limit, trace, misuse=misuse)
        machines.append(machine)
        if trial is not None:
            trial.watch(machine)
        if request.config.getoption("--spe-cov") is not None:
            machine.machine.cover()
        if after is not None:
            machine.start_after(after, request.config.stash.setdefault(_STARTS, {}))
        return machine

    yield make
    for machine in machines:
        if request.config.getoption("--spe-cov") is not None:
            from spe_unicorn.pytest_plugin.covering import add

            add(request.config, machine.machine.coverage)
        machine.machine.close()


@pytest.fixture(scope="session")
def spe_linux(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LinuxOfTest]:
    """Makes Linux guests: ``spe_linux(module=["arm_spe_pmu.ko"], smp=2).run("spe_client", ...)``.

    Options are those of ``spe-unicorn linux`` and of the machine; ``after`` is ``--from``,
    ``misuse`` looks for mistakes. A guest boots once, and equal options give the same one; each
    command starts where it waited.
    """
    made: dict[str, LinuxOfTest] = {}

    def make(**options: Any) -> LinuxOfTest:
        from spe_unicorn.compiled import interruptible
        from spe_unicorn.pytest_plugin.linux import LinuxOfTest

        key = repr(sorted(options.items()))
        if key not in made:
            with interruptible():
                made[key] = LinuxOfTest.of(tmp_path_factory.mktemp("linux"), **options)
        return made[key]

    return make


@pytest.fixture
def spe_run(request: pytest.FixtureRequest, spe_machine: MakeMachine) -> MakeMachine:
    """Makes a machine as ``spe_machine`` does and runs it to its end; fails if it has none.

    With the mark ``spe_interrupt_sweep`` it fails as well if a run with that interrupt does.
    """

    def run(firmware: str | Path | None = None, **options: Any) -> MachineOfTest:
        __tracebackhide__ = True
        machine = spe_machine(firmware, **options)
        machine.run_to_exit()
        marker = request.node.get_closest_marker("spe_interrupt_sweep")
        if marker is not None:
            from spe_unicorn.pytest_plugin.sweeping import swept

            said = swept(machine.machine.options, *marker.args, **marker.kwargs)
            if said is not None:
                pytest.fail(said, pytrace=False)
        return machine

    return run


@pytest.fixture
def spe_golden(request: pytest.FixtureRequest) -> Callable[[RecordSet, str], None]:
    """Compares records with a file in the folder ``golden`` beside the test.

    ``spe_golden(machine.records, "copy.spe")`` fails with what differs, packet by packet. A file is
    for one test: the second that asks for it fails, and writes nothing. So each combination of
    ``spe_matrix`` needs a name of its own.
    """

    def compare(records: RecordSet, name: str) -> None:
        __tracebackhide__ = True
        from spe_unicorn.pytest_plugin.golden import difference, owner_of, save

        if records.raw is None:
            raise ValueError("records that were picked with where() have no stream to compare")
        path = request.path.parent / "golden" / name
        mine = request.node.nodeid
        owner = owner_of(path, mine, _shared(request.config))
        if owner != mine:
            pytest.fail(
                f"{path} is the golden file of {owner} as well: give each test a name of its own",
                pytrace=False,
            )
        if request.config.getoption("--spe-update-golden"):
            save(path, records.raw)
            request.config.stash[_UPDATED].append(path)
            return
        if not path.exists():
            pytest.fail(f"there is no {path}: write it with --spe-update-golden", pytrace=False)
        if (differs := difference(path.read_bytes(), records.raw)) is not None:
            raise AssertionError(
                f"{differs}\n{path} is the golden file; --spe-update-golden writes it anew"
            )

    return compare


def _found(beside: Path, path: Path) -> Path:
    return beside / path if (beside / path).exists() else path
