"""What --check looks at: each check boots guests and says what is as it should be, as TAP."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import evidence
from booted import Booted
from guest import HOT, Guest, Run, children_seconds, run, scenario, spoken, talk
from hwcaps import promised, told
from perf_tests import FEWER_RECORDS, ON_TWO, SPE, TESTS, run_tests
from selftests import selftests
from silicon import CORE, search

from spe_unicorn import cores
from spe_unicorn.cores.overrides import core_text
from spe_unicorn.cores.profile import Core, core_names, load_core
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.linux.archive import Packages
from spe_unicorn.session.linux.guest import SETTINGS
from spe_unicorn.session.linux.modules import Modules
from spe_unicorn.session.linux.starts import Result
from spe_unicorn.spe.packets import CounterIndex, Event

TROUBLE = re.compile(
    r"WARNING:|BUG:|Oops|Call trace|rcu: INFO|nobody cared|unexpected interrupt|Internal error"
)
"""What a kernel prints when something is not as it expects."""
HOMES = {"sum_first": "first", "fill_second": "second", "bump_third": "third"}
"""The array that each function of the workload accesses."""
_TAKEN = (0x15, 0x00, 0x3C, 0x15, 0x00, 0x25, 0x21, 0x24)
"""Classes of exceptions: SVC, UDF, BRK, then SVC and UDF of EL0; a load, a fetch, a load of EL0."""
_CLASSES = [
    sum(ec << 6 * n for n, ec in enumerate(reversed((1, *_TAKEN[:count])))) for count in (5, 8)
]
KVM_SAYS = (
    f"kvm 12\npsci {0x1_0001}\nloaded 42\nloop {983_040 * 983_041 // 2}\n"
    f"classes {_CLASSES[0]}\nvectors {0x4_4488}\n"
    f"classes {_CLASSES[1]}\nvectors {0x4448_8448}\noff\n"
)
"""What ``kvm`` prints: the interface's version, PSCI 1.1 or as Linux has it, and what it did."""
KVM_GUEST = range(0x4000_0000, 0x4001_0000)
"""Where its guest's code is."""
LOCKED = "write-while-buffer-enabled"
"""A rule that Linux 6.1 breaks: it writes PMBPTR_EL1 and PMBSR_EL1 while the buffer is enabled."""
END = "end-not-read"
"""A rule that Linux breaks where a CPU goes offline."""
REPORTED = 5
"""How ``linux`` ends where the kernel has reported a panic."""
UNLIKELY = 0.001
"""Chance below which a deviation counts as one."""


@dataclass
class Tap:
    """Results as they come."""

    number: int = 0
    failed: int = 0
    check: str = ""
    notes: list[str] = field(default_factory=list)

    def ok(self, good: bool, what: str, *details: str) -> None:
        """One result; ``details`` are printed if it is not good."""
        self.number += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.number} - {self.check}: {what}", flush=True)
        if not good:
            self.note(*details)

    def note(self, *lines: str) -> None:
        """Lines that are no results."""
        for line in lines:
            print(f"# {line}", flush=True)

    def summary(self) -> None:
        """The plan and the last line."""
        print(f"1..{self.number}")
        print(f"# {self.number - self.failed} of {self.number} passed", flush=True)


@dataclass(frozen=True)
class Checks:
    """The checks, on the packages of a suite. ``options`` go to every run of the emulator."""

    packages: Packages
    suite: str
    options: Sequence[str] = ()

    def guest(self, flavour: str = "cloud", append: str = SETTINGS) -> Guest:
        """A guest with a kernel of the release."""
        return Guest.of(self.packages, flavour, append=append)

    def boot(
        self,
        tap: Tap,
        guest: Guest,
        scenarios: str,
        *options: str,
        known: str | None = None,
        seconds: int = 600,
    ) -> Run:
        """Run scenarios one after the other, and check what holds for every run.

        ``known`` is a rule that this kernel is known to break besides ``LOCKED``, ``seconds`` the
        most CPU time of the host that it may take.
        """
        script = b"".join(scenario(name) for name in scenarios.split())
        result = run(guest, script, ("--warn", "misuse", *self.options, *options), seconds)
        tail = result.console.splitlines()[-8:] + result.errors.splitlines()[:8]
        tap.ok(result.status == 0, f"the guest powers off ({result.seconds:.0f} s)", *tail)
        tap.ok(result.scenario_status is not None, "the scenario came to its end", *tail)
        trouble = [line for line in result.console.splitlines() if TROUBLE.search(line)]
        tap.ok(not trouble, "the kernel complains of nothing", *trouble[:5])
        misuses = [f"{m['rule']}: {m['what']}" for m in result.facts.get("misuses") or ()]
        misuses = [line for line in misuses if line.split(":")[0] not in (LOCKED, known)]
        tap.ok(not misuses, "its driver programs SPE as the architecture asks", *misuses[:5])
        return result

    # The checks, by the names that --check takes

    def el1(self, tap: Tap) -> None:
        """Debian's cloud kernel at EL1."""
        result = self.boot(tap, self.guest(), "boot")
        _expect(tap, result, "CPU: All CPU(s) started at EL1", "kvm [1]: HYP mode not available")
        _probed(tap, result, "0")

    def standard(self, tap: Tap) -> None:
        """Debian's standard kernel, with its own decision on page tables: no SPE under KPTI."""
        guest = self.guest("standard", SETTINGS.replace("kpti=off ", ""))
        result = self.boot(tap, guest, "boot")
        _expect(tap, result, 'profiling buffer inaccessible. Try passing "kpti=off"')
        result = self.boot(tap, self.guest("standard"), "boot")
        _expect(tap, result, "KASLR enabled")
        _probed(tap, result, "0")

    def el2(self, tap: Tap) -> None:
        """EL2: VHE, KVM, and a recording."""
        result = self.boot(tap, self.guest(), "boot shares", "--el", "2")
        _expect(tap, result, "started at EL2", "kvm [1]: VHE mode initialized successfully")
        _probed(tap, result, "0")
        _shares(tap, result)

    def kvm(self, tap: Tap) -> None:
        """A guest by /dev/kvm: MMIO exits, HVC, a loop, exceptions; its host records none."""
        for mode, says in (
            ("vhe", "VHE mode initialized successfully"),
            ("nvhe", "Hyp mode initialized successfully"),
            ("protected", "Protected nVHE mode initialized successfully"),
        ):
            tap.check = f"kvm {mode}"
            chosen = "" if mode == "vhe" else f" kvm-arm.mode={mode}"
            guest = self.guest(append=SETTINGS + chosen)
            # Linux 6.1 changes stage 2 under pKVM, to maintain TLBs, with records on their way
            known = "context-before-drain" if mode == "protected" else None
            result = self.boot(tap, guest, "kvm", "--el", "2", known=known)
            _expect(tap, result, f"kvm [1]: {says}")
            for title in ("kvm", "recorded"):
                text = result.section(title)
                tap.ok(text == KVM_SAYS, f"{title}: the guest does all it should", text)
            records, bad = evidence.read_records(result.file("kvm.data"))
            tap.ok(len(records) > 100 and not bad, f"{len(records)} records, no bad packet")
            inside = [r for r in records if r.pc is not None and r.pc.VA in KVM_GUEST]
            if mode == "vhe":  # nothing of the host is at EL1
                inside += [r for r in records if r.pc is not None and r.pc.EL == 1]
            tap.ok(not inside, "no record is of the guest", *map(str, inside[:3]))

    def kvm_spe(self, tap: Tap) -> None:
        """What a hypervisor's SPE for its guests is tried with: our firmware, and what it says.

        Here KVM is the hypervisor. The same firmware at the machine's own EL1 sees a whole SPE, and
        the rules that a hypervisor programs (E2PB, traps, NVMem, EL2's buffer) hold.
        """
        busybox = self.packages.file("usr/bin/busybox", "bin/busybox")
        inside = ("linux", "-q", "--kernel", str(self.packages.kernel("standard")))
        inside += ("--busybox", str(busybox), "--kvm", "--kvm-kernel")
        for what, words, program in (
            ("vm_spe in KVM", inside, "vm_spe"),
            ("vm_spe at EL1", ("run", "-q"), "vm_spe"),
            ("spe_access at EL3", ("run", "-q", "--core", "max", "--el", "3"), "spe_access"),
            ("spe_el2_owner", ("run", "-q", "--core", "max", "--el", "2"), "spe_el2_owner"),
        ):
            tap.check = f"kvm_spe {what}"
            status, console, spent = spoken([*words, str(shipped_firmware(program))], self.options)
            lines = [line.strip() for line in console.splitlines()]
            good = sum(line.startswith("ok ") for line in lines)
            bad = [line for line in lines if line.startswith("not ok")]
            tap.ok(
                status == 0 and good > 0 and not bad and f"1..{good}" in lines,
                f"{good} of {good + len(bad)} ({spent:.0f} s)",
                *(bad or lines[-8:]),
            )

    def kvm_selftests(self, tap: Tap) -> None:
        """KVM's own selftests with VHE and nVHE: those of arm64, and some of all architectures."""
        programs = {f"kvm/{name}": file for name, file in selftests(self.packages).items()}
        for mode, says in (
            ("vhe", "VHE mode initialized successfully"),
            ("nvhe", "Hyp mode initialized successfully"),
        ):
            tap.check = f"kvm_selftests {mode}"
            append = SETTINGS + ("" if mode == "vhe" else f" kvm-arm.mode={mode}")
            guest = Guest.of(self.packages, files=programs, append=append)
            options = ("--el", "2", *self.options)
            # without --warn misuse, with which that takes several times as long
            result = run(guest, scenario("kvm_selftests"), options, seconds=1800)
            tail = result.console.splitlines()[-8:] + result.errors.splitlines()[:8]
            tap.ok(result.status == 0, f"the guest powers off ({result.seconds:.0f} s)", *tail)
            _expect(tap, result, f"kvm [1]: {says}")
            found = evidence.selftest_results(result.console)
            tap.ok(len(found) == len(programs), f"{len(found)} of {len(programs)} have run")
            for selftest in found:
                tap.ok(selftest.good, selftest.told, *selftest.said)

    def virtio(self, tap: Tap) -> None:
        """Host folders, a disk, random numbers and a console by the standard kernel's drivers."""
        modules = (
            "virtio_mmio",
            "virtio_blk",
            "9pnet_virtio",
            "9p",
            "virtio-rng",
            "virtio_console",
        )
        guest = Guest.of(self.packages, "standard", modules=modules, append=SETTINGS)
        with tempfile.TemporaryDirectory() as place:
            shared, given, disk = (Path(place, name) for name in ("shared", "given", "disk"))
            for folder in (shared, given):
                folder.mkdir()
                (folder / "greeting").write_text(f"this is {folder.name}\n")
            (shared / "folder").mkdir()
            disk.write_bytes(bytes(range(256)) * 4096)
            before = disk.read_bytes()
            options = ("--share", str(shared), "--share", f"{given},readonly", "--entropy")
            printed = Path(place, "printed")
            options += ("--drive", str(disk), "--virtio-console", f"file:{printed}")
            result = self.boot(tap, guest, "virtio", *options)
            text = result.section("shared")
            tap.ok(text.split("\n")[:2] == ["this is shared", "same"], "a folder is shared", text)
            tap.ok("answer\nfolder\ngreeting\nmoved\n" in text, "its names are sorted", text)
            tap.ok("no link" in text, "the guest makes no symbolic link", text)
            answer = (shared / "answer").read_text()
            tap.ok(answer == "from the guest\n", "what the guest writes is in the folder", answer)
            text = result.section("given")
            tap.ok("this is given\n" in text and "read-only" in text, "another is read only", text)
            tap.ok(not (given / "new").exists(), "and nothing is written to it")
            text = result.section("disk")
            tap.ok(hashlib.sha256(before).hexdigest() in text, "a disk is read", text)
            tap.ok("written" in text and disk.read_bytes() == before, "writes stay inside", text)
            text = result.section("random")
            tap.ok(text.split() == ["virtio_rng.0", "8"], "random numbers come", text)
            text = printed.read_bytes().decode()
            tap.ok(text == "to the host\r\n" * 3, "what goes to /dev/hvc0 is printed", text)

    def out(self, tap: Tap) -> None:
        """What a guest writes by virtiofs, as ``linux --out`` has it: perf, too, up to a panic."""
        there = Modules([self.packages.modules("standard")])
        modules = filter(there.has, ("virtio_mmio", "virtiofs", "arm_spe_pmu"))  # else built in
        guest = Guest.of(self.packages, "standard", modules=tuple(modules), append=SETTINGS)
        busybox = self.packages.file("usr/bin/busybox", "bin/busybox")
        program = busybox.read_bytes()
        with tempfile.TemporaryDirectory() as place:
            result = self.boot(tap, guest, "out", "--share", f"{place},virtiofs")
            written = {file.name: file.read_bytes() for file in Path(place).iterdir()}
            told = sorted(result.section("digests").splitlines())
            found = sorted(f"{hashlib.sha256(d).hexdigest()}  {n}" for n, d in written.items())
            tap.ok(told == found, f"{len(found)} files are what the guest reads", *told, *found)
            wanted = dict.fromkeys(("dd", "small", "cp"), program) | {"twice": program * 2}
            wrong = [name for name, data in wanted.items() if written.get(name) != data]
            tap.ok(not wrong, "they are what was to be written", *wrong)
            text = result.section("both")
            tap.ok(text.strip() == "renewed.", "who reads and writes sees what others write", text)
            records, bad = evidence.read_records(written["perf.data"])
            tap.ok(len(records) > 100 and not bad, f"{len(records)} records, no bad packet")
        with tempfile.TemporaryDirectory() as place:
            kernel = str(self.packages.kernel("standard"))
            words = ("linux", "-q", *self.options, "--kernel", kernel, "--out", place)
            words += ("--modules", str(self.packages.modules("standard")))
            crash = "dd if=/bin/busybox of=/out/dd bs=64k; cp /bin/busybox /out/cp; "
            crash += "cat /bin/busybox >/out/cat; echo c >/proc/sysrq-trigger"
            words += ("--busybox", str(busybox), "--", "sh", "-c", crash)
            status, console, spent = spoken(words)
            whole = [file for file in Path(place).iterdir() if file.read_bytes() == program]
            tap.ok(
                status == REPORTED and len(whole) == 3,
                f"{len(whole)} files are whole after a panic ({spent:.0f} s)",
                *console.splitlines()[-8:],
            )

    def smp2(self, tap: Tap) -> None:
        """Two PEs, and a recording on them."""
        result = self.boot(tap, self.guest(), "boot shares", "--smp", "2")
        _expect(tap, result, "Brought up 1 node, 2 CPUs")
        _probed(tap, result, "0-1")
        _shares(tap, result)

    def smp4(self, tap: Tap) -> None:
        """Four PEs."""
        result = self.boot(tap, self.guest(), "boot", "--smp", "4")
        _expect(tap, result, "Brought up 1 node, 4 CPUs")
        _probed(tap, result, "0-3")

    def shares(self, tap: Tap) -> None:
        """Samples of a program whose operations, addresses and times are known."""
        result = self.boot(tap, self.guest(), "boot shares")
        _probed(tap, result, "0")
        _shares(tap, result)
        _addresses(tap, result)
        _times(tap, result)

    def kernel(self, tap: Tap) -> None:
        """Samples at EL0 and EL1, seen through perf's four views."""
        result = self.boot(tap, self.guest(), "kernel")
        records, bad = evidence.read_records(result.file("kernel.data"))
        levels = Counter(record.pc.EL for record in records if record.pc is not None)
        tap.ok(not bad, f"{len(records)} records, no bad packet")
        tap.ok(min(levels[0], levels[1]) > 0, f"EL0 {levels[0]} times, EL1 {levels[1]} times")
        for title, words in (
            ("symbols by perf", "[k] "),
            ("perf script", "instructions:"),
            ("perf report -D", "CONTEXT"),
            ("perf mem report", "%"),
        ):
            text = result.section(title)
            tap.ok(words in text, f"{title} shows samples", *text.splitlines()[:3])

    def filters(self, tap: Tap) -> None:
        """Each filter keeps what it names; the interval is steady or varies as asked."""
        result = self.boot(tap, self.guest(), "filters")
        _filters(tap, result)
        _intervals(tap, result)

    def filters4(self, tap: Tap) -> None:
        """Each filter on four PEs at once."""
        result = self.boot(tap, self.guest(), "filters", "--smp", "4", seconds=1800)
        _filters(tap, result, cpus=4)

    def filters_newer(self, tap: Tap) -> None:
        """Filters by data source, and by classes of operations and events that are not to be."""
        # without --warn misuse, with which that takes several times as long
        options = ("--core", "max", "--model", "cache", *self.options)
        result = run(self.guest(), scenario("filters_newer"), options)
        tap.ok(result.status == 0, f"the guest powers off ({result.seconds:.0f} s)")
        formats = result.section("formats").split()
        if "inv_data_src_filter" not in formats or "load_filter_mask" not in formats:
            release = self.packages.release("cloud")
            tap.ok(True, f"# SKIP the driver of {release} does not know them")
            return
        records = _records_of(tap, result, "all_loads")
        sources = Counter(r.data_source for r in records)
        tap.ok(sources[0] > 10 and len(sources) > 1, f"loads by data source: {dict(sources)}")
        kinds: tuple[tuple[str, Callable[[evidence.Record], bool]], ...] = (
            ("elsewhere", lambda r: r.data_source != 0),  # the filter asks loads that have one
            ("no_loads", lambda r: not _is_load(r)),
            ("no_branches", lambda r: r.op_class != 2),
            ("hits", lambda r: _is_load(r) and not r.events & Event.L1D_MISS),
        )
        _nothing_else(tap, result, kinds)

    def sessions(self, tap: Tap) -> None:
        """Ten thousand sessions by our client: all end well, and nothing is lost."""
        # without --warn misuse, with which that takes several times as long
        guest = self.guest()
        result = run(guest, scenario("sessions"), self.options, seconds=3600)
        tap.ok(result.status == 0, f"the guest powers off ({result.seconds:.0f} s)")
        text = result.section("sessions")
        found = re.search(r"^sessions 10000 bytes (\d+) bad (\d+)$", text, re.M)
        tap.ok(found is not None and found[2] == "0", "all sessions end well", text[-300:])
        read, written = int(found[1]) if found else 0, result.facts.get("bytes")
        tap.ok(read == written and read > 10_000 * 64, f"{written} bytes written, {read} read")

    def perf_tests(self, tap: Tap) -> None:
        """perf's own tests of SPE, breakpoints, counting and recording, to their end."""
        groups = (
            (TESTS, self.options),
            (ON_TWO, ("--smp", "2", *self.options)),
            (SPE, (*FEWER_RECORDS, *self.options)),
        )
        for chosen, options in groups:
            for test in run_tests(self.packages, chosen, options):
                told = f"{test.name}: {test.verdict} ({test.seconds:.0f} s of CPU)"
                tap.ok(test.good, told, *test.said)

    def wrap(self, tap: Tap) -> None:
        """A small buffer: every full one raises an interrupt that is serviced."""
        result = self.boot(tap, self.guest(), "wrap")
        serviced = 0
        found: dict[str, list[evidence.Record]] = {}
        for name in ("wrapped", "truncated"):
            counted = re.search(r"serviced (\d+)", result.section(f"interrupts {name}"))
            serviced += int(counted[1]) if counted else 0
            found[name], bad = evidence.read_records(result.file(f"{name}.data"))
            flags = evidence.aux_flags(result.file(f"{name}.data"))
            tap.ok(not bad, f"{name}: {len(found[name])} records, no bad packet")
            tap.note(f"{name}: {serviced} interrupts, pieces of the buffer by flags {flags}")
        tap.ok(serviced > 10, "the buffer wrapped")
        _interrupts(tap, result, serviced)
        written, read = result.facts.get("written"), sum(map(len, found.values()))
        tap.ok(written == read, f"{written} records written, {read} read by perf")
        tap.ok("T" in flags, "perf is told of the buffer that was too small")

    def hotplug(self, tap: Tap) -> None:
        """A CPU goes offline while it is recorded: the driver's mistake, seen from three sides."""
        result = self.boot(tap, self.guest(), "hotplug", "--smp", "2", known=END)
        found = re.search(r"more than the buffer holds: (\d+)", result.section("client"))
        tap.ok(found is not None and int(found[1]) > 1 << 46, "AUX of 128 TiB is told")
        tap.ok("=== client ends with 125" in result.console, "our client ends with 125")
        told = re.findall(r"^aux (\d) bytes (\d+)", result.section("both"), re.M)
        tap.ok(
            [cpu for cpu, size in told if int(size)] == ["0", "1"],
            f"without it all is well: {told}",
        )
        named = [m for m in result.facts.get("misuses") or () if m["rule"] == END]
        tap.ok(bool(named), f"--warn misuse names the write: {[m['what'] for m in named]}")
        pieces = evidence.aux_pieces(result.file("hotplug.data"))
        largest = max((size for size, _ in pieces), default=0)
        tap.ok(largest > 1 << 46, f"perf's file has a piece of {largest:#x} bytes")

    def shell(self, tap: Tap) -> None:
        """Somebody types at the console."""
        prompt = "/tmp # "
        shown, status = talk(
            self.guest(),
            scenario("shell"),
            [(prompt, "echo answer $((6 * 7))\r"), (prompt, "exit\r")],
        )
        tap.ok("answer 42" in shown, "the shell does what is typed", *shown.splitlines()[-5:])
        tap.ok(status == 0, "exit powers off", *shown.splitlines()[-5:])

    def snapshot(self, tap: Tap) -> None:
        """Scenarios from a guest that has booted once: alike each time, and as without a file."""
        with tempfile.TemporaryDirectory() as folder:
            with Booted(self.guest(), Path(folder), self.options) as booted:
                first, other, again = (booted.run(scenario(n)) for n in ("boot", "record", "boot"))
            with Booted(self.guest(), Path(folder), self.options) as booted:
                elsewhere = booted.run(scenario("record"))
        _probed(tap, first, "0")
        tap.ok("Captured and wrote" in other.console, "perf records", *other.console.splitlines())
        for name, one, two in (("boot", first, again), ("record", other, elsewhere)):
            tap.ok(one.why is None, f"{name}: the scenario passes", one.why or "")
            tap.ok(one.console == two.console, f"{name}: the same console from snapshot and file")
        tap.note(f"CPU time: {first.seconds:.2f} s the first time, {again.seconds:.2f} s again")

    def debug(self, tap: Tap) -> None:
        """perf counts accesses and calls by breakpoints of the PE; GDB watches and steps."""
        guest = Guest.of(self.packages, gdb=True)
        result = self.boot(tap, guest, "debug")
        # three rounds, and each page is stored to once before; third is loaded and stored to
        for title, expected in (("second", 4), ("third", 7), ("code", 3)):
            text = result.section(title)
            tap.ok(text.startswith(f"{expected},"), f"{title}: {expected} counted", text)
        recorded = result.section("recorded").split()
        tap.ok(recorded[1:] == ["40064c"] * 3, "each store is recorded where it is", *recorded)
        _expect_lines(
            tap,
            result.section("gdb"),
            "Breakpoint 2, 0x0000000000400648 in fill_second ()",
            "New value = 432345564227567616",
            "=> 0x400650 <fill_second+16>:\tsubs\tx1, x1, #0x1",
            "after two steps 0x400644",
            "exited normally",
        )

    def pmu(self, tap: Tap) -> None:
        """perf counts and records by the Performance Monitors."""
        result = self.boot(tap, self.guest(), "pmu")
        _expect(tap, result, "enabled with armv8_pmuv3 PMU driver, 7 counters available")
        once, twice = _counted(result, "counted"), _counted(result, "counted twice as long")
        user, kernel, all_ = (once.get(f"instructions{k}", 0) for k in (":u", ":k", ""))
        tap.ok(user + kernel == all_ > 0, f"instructions: {user} + {kernel} = {all_}")
        faults = once.get("cycles:u", 0) - user
        tap.ok(0 <= faults < 500, f"cycles:u: {faults} more, operations that took an exception")
        known = sum(evidence.read_workload(result.section("once")).operations.values())
        more = twice.get("instructions:u", 0) - user - known
        tap.ok(
            0 <= more < 500, f"twice the loops: {known} instructions more, and {more} around them"
        )
        samples = [int(line.split()[0]) for line in result.section("recorded").splitlines()[-2:]]
        found = re.search(r"(\d+) +GICv3 +23 .*arm-pmu", result.section("interrupts"))
        interrupts = int(found[1]) if found else 0
        tap.ok(
            samples == [interrupts] * 2 and interrupts > 400,
            f"{samples} samples, {interrupts} IRQs",
        )
        self._contexts(tap)

    def _contexts(self, tap: Tap) -> None:
        """stat --contextid counts a thread as perf does, and what it does before exec."""
        before = set()
        for rounds, thread in ((0, 4002), (3, 4302)):
            words = ("stat", "-e", "instructions:u", "--contextid", str(thread))
            result = run(self.guest(), scenario("contextid"), self.options, words=words)
            tap.ok(result.status == 0, f"stat: the guest powers off ({result.seconds:.0f} s)")
            pid = evidence.read_workload(result.section(f"workload {rounds}")).pid
            tap.ok(pid == thread, f"the thread is {pid}")
            inside = _counted(result, f"counted {rounds}").get("instructions:u", 0)
            events = result.facts.get("events")
            outside = events[0]["count"] if isinstance(events, list) else 0
            tap.note(f"{rounds} rounds: stat {outside}, perf {inside}")
            before.add(outside - inside)
        tap.ok(
            len(before) == 1 and 0 < min(before) < 20_000,
            f"stat counts as perf does, and {sorted(before)} before exec in each thread",
        )

    def pmu_caches(self, tap: Tap) -> None:
        """perf counts and records events of caches and of the branch predictor."""
        result = self.boot(tap, self.guest(), "pmu_caches", "--model", "cache")
        counted = _counted(result, "counted")
        for event in ("branch-misses", "cache-references", "cache-misses"):
            tap.ok(counted.get(event, 0) > 0, f"{event}: {counted.get(event)}")
        text = result.section("recorded")
        for event in ("branch-misses:u", "cache-misses:u"):
            tap.ok(event in text, f"{event} is recorded", *text.splitlines()[:5])

    def c2c(self, tap: Tap) -> None:
        """perf c2c names the line where two threads have counters, and none if they are apart."""
        # samples as often as perf asks for them; the core's own shortest interval is 1024
        options = ("--smp", "2", "--model", "cache", "--core", "neoverse-n1,interval=0")
        result = self.boot(tap, self.guest(), "c2c", *options, seconds=1800)
        for how in ("shared", "padded"):
            known = re.match(r"counters (\d+)\nsum 3000 3000\n", result.section(how))
            line = int(known[1]) if known else 0
            tap.ok(known is not None, f"{how}: both threads count", result.section(how))
            records, bad = evidence.read_records(result.file(f"{how}.data"))
            tap.ok(bool(records) and not bad, f"{how}: {len(records)} records, no bad packet")
            there = [r for r in records if r.va is not None and line == r.va.VA & ~63]
            sources = {r.data_source for r in there}
            report = result.section(f"report {how}")
            rows = evidence.shared_lines(report)
            if how == "shared":
                tap.ok(len(there) > 10 and sources == {0x9}, f"{len(there)} from a peer core")
                tap.ok(rows.get(line, 0) > 10, f"perf c2c names it: {rows}", *report.splitlines())
                offsets = evidence.offsets_of(report, line)
                tap.ok(offsets == {0, 8}, f"at the offsets {sorted(offsets)}")
            else:
                tap.ok(0x9 not in sources and line not in rows, f"the line is not named: {rows}")

    def collisions(self, tap: Tap) -> None:
        """Operations that take longer than the interval: collisions, and perf is told of them."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as slow:
            slow.write(Path(cores.__file__).with_name("max.toml").read_text())
            slow.write("\n[model]\nmemory = 1000\n")
            slow.flush()
            options = ("--core", slow.name, "--model", "cache")
            result = self.boot(tap, self.guest(), "collisions", *options)
        records, bad = evidence.read_records(result.file("collisions.data"))
        flags = evidence.aux_flags(result.file("collisions.data"))
        counted = result.facts.get("collisions")
        tap.ok(bool(records) and not bad, f"{len(records)} records, no bad packet")
        tap.ok(bool(counted), f"{counted} collisions")
        tap.ok(any("C" in f for f in flags), f"perf is told of them: flags {flags}")

    def long(self, tap: Tap) -> None:
        """More than 10^9 operations with profiling enabled: nothing is lost, nothing spurious."""
        result = self.boot(tap, self.guest(), "long")
        records, bad = evidence.read_records(result.file("long.data"))
        population = result.facts.get("population")
        tap.ok(
            isinstance(population, int) and population > 10**9,
            f"{population} operations with profiling enabled",
        )
        tap.ok(not bad, f"{len(records)} records, no bad packet")
        written = result.facts.get("written")
        tap.ok(written == len(records), f"{written} records written, {len(records)} read by perf")
        found = re.search(r"serviced (\d+)", result.section("interrupts"))
        _interrupts(tap, result, int(found[1]) if found else None)

    def clock(self, tap: Tap) -> None:
        """A second of the guest has as many records as its clock has operations."""
        for clock, hertz in (("1G", 10**9), ("2.5G", 2_500_000_000)):
            tap.check = f"clock {clock}"
            # without --warn misuse, with which that takes six times as long
            result = run(self.guest(), scenario("clock"), (*self.options, "--clock", clock))
            tap.ok(result.status == 0, f"the guest powers off ({result.seconds:.0f} s)")
            text = result.section("bytes").strip()
            size = int(text) if text.isdecimal() else 0
            expected = hertz // 65536 * 64
            tap.ok(
                expected <= size < expected * 1.1,
                f"perf has {size} bytes of a second, records of {hertz} operations {expected}",
                text,
            )
            if clock == "2.5G":
                tap.ok(size >= 2 << 20, "which is 2 MiB and more")

    def discard(self, tap: Tap) -> None:
        """What drivers newer than that of Linux 6.1 know: discard mode, more events, no event."""
        result = self.boot(tap, self.guest(), "discard")
        if "discard" not in result.section("formats"):
            tap.ok(True, f"# SKIP the driver of {self.packages.release('cloud')} does not know it")
            return
        discarded = result.facts.get("discarded")
        records, _ = evidence.read_records(result.file("discard.data"))
        tap.ok(bool(discarded) and not records, f"discard: {discarded} records, none is written")
        for name, failed in (("not_taken", True), ("taken", False)):
            records, bad = evidence.read_records(result.file(f"{name}.data"))
            others = [r for r in records if bool(r.events & Event.NOT_TAKEN) is not failed]
            tap.ok(bool(records) and not bad, f"{name}: {len(records)} records, no bad packet")
            tap.ok(not others, f"{name}: nothing else", *map(str, others[:3]))

    def repeat(self, tap: Tap) -> None:
        """Two runs with the same seed are the same, another seed's is not."""
        runs = [self.boot(tap, self.guest(), "shares", "--seed", seed) for seed in ("1", "1", "2")]
        first, second, other = ((r.console, r.facts.get("operations")) for r in runs)
        tap.ok(first == second, f"equal seeds: the same console and {first[1]} operations")
        tap.ok(first != other, f"another seed: another run, of {other[1]} operations")

    def silicon(self, tap: Tap) -> None:
        """The driver of Debian's usual kernel on implementations that Arm allows."""
        wrong, found = search(self.suite)
        tap.ok(not wrong, "it records on the usual implementation", wrong)
        if found is None:
            return
        for finding in found.findings:
            told = [finding.verdict.what, f"by {len(finding.trials)} of {found.trials} trials"]
            told += [f"{row.name}: {row.rule}; do: {row.safe}" for row in finding.rows]
            tap.ok(False, core_text(CORE, finding.choices), *told)
        failed = len(found.findings)
        tap.ok(not failed, f"it records on {found.trials} others, {failed} findings")

    def cores(self, tap: Tap) -> None:
        """The driver probes on every core profile, and Linux finds its caches."""
        for core in core_names():
            tap.check = f"cores {core}"
            result = self.boot(tap, self.guest(), "boot", "--core", core)
            _probed(tap, result, "0")
            _caches(tap, result, load_core(core))

    def hwcaps(self, tap: Tap) -> None:
        """Linux tells programs that each core has what its ID registers promise, and no more."""
        guest = self.guest(append="kpti=off")  # with pointer authentication
        for core in PROFILES:
            tap.check = f"hwcaps {core}"
            result = self.boot(tap, guest, "hwcaps", "--core", core)
            release = re.match(r"(\d+)\.(\d+)", result.section("release"))
            known = (int(release[1]), int(release[2])) if release else (0, 0)
            wanted = promised(core, known)
            if "SSBS" in result.section("errata"):
                tap.note(result.section("errata").strip())
                wanted.discard("ssbs")  # Linux hides it from programs then
            features = set(result.section("features").partition(":")[2].split())
            for what, found in (
                ("/proc/cpuinfo", features),
                ("AT_HWCAP", told(result.file("auxv"))),
            ):
                tap.ok(
                    bool(found) and found == wanted,
                    f"{what} has the {len(wanted)} words that its ID registers promise",
                    f"too many: {sorted(found - wanted)}; missing: {sorted(wanted - found)}",
                )


PROFILES = ("neoverse-n1", "neoverse-v1", "neoverse-n2", "neoverse-v2", "cortex-x4", "max")
"""Cores whose ID registers are those of silicon, and the one that has all."""
USUAL = (
    *("el1", "shares", "kernel", "filters", "wrap", "standard", "el2", "kvm", "smp2", "smp4"),
    "kvm_spe",
    *("shell", "snapshot", "debug", "pmu", "pmu_caches", "long", "collisions", "discard"),
    *("filters4", "filters_newer", "c2c", "virtio", "out", "cores", "clock", "repeat", "hotplug"),
    *("hwcaps", "silicon"),
)
"""The checks that --check makes without names."""
BY_NAME = ("kvm_selftests", "sessions", "perf_tests")
"""Those that it makes only by name, as they take long."""
USUAL_BOUND = 600
_LONGER = ("c2c", "cores", "filters4", "hwcaps", "kvm", "kvm_selftests", "pmu", "repeat", "silicon")
BOUNDS = {
    **dict.fromkeys(_LONGER, 1800),
    **dict.fromkeys(("hotplug", "discard"), 240),
    **dict.fromkeys(("perf_tests", "sessions"), 3600),
}
"""Seconds of CPU time of the host that a check may take: some times what it takes. The others may
take :data:`USUAL_BOUND`."""
ALL: dict[str, Callable[[Checks, Tap], None]] = {
    name: getattr(Checks, name) for name in (*USUAL, *BY_NAME)
}


def check(packages: Packages, suite: str, names: Sequence[str], options: Sequence[str]) -> int:
    """Run the checks of those names; the exit status."""
    tap = Tap()
    tap.note(f"{packages.release('cloud')}, {SETTINGS}")
    checks = Checks(packages, suite, options)
    for name in names:
        tap.check = name
        began = _seconds()
        ALL[name](checks, tap)
        tap.check = name
        spent, bound = _seconds() - began, BOUNDS.get(name, USUAL_BOUND)
        tap.ok(spent < bound, f"it took {spent:.0f} s of CPU, at most {bound} are allowed")
    tap.summary()
    sys.stdout.flush()
    return 1 if tap.failed else 0


def _seconds() -> float:
    """CPU time of this process and of those that have ended."""
    return time.process_time() + children_seconds()


def _interrupts(tap: Tap, result: Run, serviced: int | None) -> None:
    """Each management event raised an interrupt, and nothing else did."""
    full = result.facts.get("management_events")
    tap.ok(serviced == full, f"{full} management events, {serviced} interrupts serviced")
    spurious = result.section("spurious")
    tap.ok("unhandled 0" in spurious, "no interrupt was spurious", *spurious.splitlines())


def _counted(result: Run, title: str) -> dict[str, int]:
    """What ``perf stat -x,`` has counted, by its names of the events."""
    rows = [line.split(",") for line in result.section(title).splitlines()]
    return {row[2]: int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit()}


def _expect(tap: Tap, result: Run, *texts: str) -> None:
    for text in texts:
        tap.ok(text in result.console, f'the console says "{text}"')


def _caches(tap: Tap, result: Run, core: Core) -> None:
    """Linux shows the caches of the core's model."""
    numbers = core.numbers
    kinds = ("1 Data", numbers.l1d), ("1 Instruction", numbers.l1i)
    kinds += ("2 Unified", numbers.l2), ("3 Unified", numbers.last)
    expected = [f"{kind} {c.size >> 10}K {c.ways} {numbers.line} 0" for kind, c in kinds]
    found = [line.strip() for line in result.section("caches").splitlines()]
    tap.ok(found == expected, "Linux shows its caches", *found, "and not", *expected)


def _probed(tap: Tap, result: Run | Result, cpus: str) -> None:
    found = re.search(r"arm_spe_pmu.* probed (SPEv[\d.]+ )?for CPUs (\S+).*", result.console)
    tap.ok(bool(found) and found[2] == cpus, found[0] if found else "the driver probes")


def _recorded(result: Run) -> tuple[list[evidence.Record], int, evidence.Workload]:
    records, bad = evidence.read_records(result.file("shares.data"))
    return records, bad, evidence.read_workload(result.section("workload"))


def _expect_lines(tap: Tap, text: str, *lines: str) -> None:
    """Some text has each of these."""
    for line in lines:
        tap.ok(line in text, f"gdb says {line!r}", *text.splitlines()[:20])


def _shares(tap: Tap, result: Run) -> None:
    """Samples by function agree with executed operations."""
    records, bad, workload = _recorded(result)
    tap.ok(bool(records) and not bad, f"{len(records)} records, {bad} bad packets")
    code = evidence.functions_of(HOT)
    found = evidence.shares(records, code, workload.operations)
    statistic, chance = evidence.chi_square(list(found.values()))
    tap.ok(
        chance > UNLIKELY,
        f"shares of samples are those of operations: chi-square {statistic:.1f}, p {chance:.2f}",
    )
    tap.note("function         operations      share    samples      share")
    samples, operations = sum(n for n, _ in found.values()), sum(workload.operations.values())
    for name, (count, _) in found.items():
        executed = workload.operations[name]
        part, sampled = executed / operations, count / samples
        tap.note(f"{name:14} {executed:12} {part:10.2%} {count:10} {sampled:10.2%}")
    by_perf = {
        words[4]: int(words[1])
        for line in result.section("shares by perf").splitlines()
        if len(words := line.split()) > 4
    }
    differing = [name for name, (count, _) in found.items() if by_perf.get(name) != count]
    tap.ok(not differing, "perf report in the guest counts the same samples", *differing)
    contexts = {record.context_el1 for record in records} | {r.context_el2 for r in records}
    tap.ok(contexts == {workload.pid, None}, f"context IDs are the PID, {workload.pid}")


def _addresses(tap: Tap, result: Run) -> None:
    """Virtual and physical addresses are those of the arrays."""
    records, _, workload = _recorded(result)
    code = evidence.functions_of(HOT)
    homes = {name: workload.arrays[array] for name, array in HOMES.items()}
    strays = evidence.strays(records, code, homes)
    in_loops = [r for r in records if evidence.function_of(r, code) in homes and r.va is not None]
    tap.ok(
        bool(in_loops) and not strays,
        f"{len(in_loops)} virtual addresses, all in the array of their function",
        *(f"{stray.pc} {stray.va}" for stray in strays[:5]),
    )
    known, wrong = evidence.misplaced(records, workload.frames)
    tap.ok(
        known > 1000 and not wrong,
        f"{known} physical addresses, all as /proc/PID/pagemap says",
        *(f"{record.va} {record.pa}" for record in wrong[:5]),
    )


def _times(tap: Tap, result: Run) -> None:
    """Timestamps rise, within the time in which the loops ran."""
    records, _, workload = _recorded(result)
    code = evidence.functions_of(HOT)
    times = evidence.timestamps(records)
    tap.ok(times == sorted(times) and len(times) == len(records), "timestamps never go back")
    (began, began_ns), (ended, ended_ns) = workload.clocks
    in_loops = [r for r in records if evidence.function_of(r, code) in workload.operations]
    outside = [t for t in evidence.timestamps(in_loops) if not began <= t <= ended]
    tap.ok(not outside, "samples of the loops lie between the clock's readings around them")
    ticks = (ended - began) * evidence.TICK_NANOSECONDS
    raw = ended_ns - began_ns
    tap.ok(
        abs(ticks - raw) < 0.001 * raw, f"CLOCK_MONOTONIC_RAW: {raw} ns, the counter: {ticks} ns"
    )


def _records_of(tap: Tap, result: Run, name: str, cpus: int = 1) -> list[evidence.Record]:
    """The records of a recording, which are of so many CPUs if there are any."""
    data = result.file(f"{name}.data")
    records, bad = evidence.read_records(data, raw=not data.startswith(b"PERFILE2"))
    tap.ok(not bad, f"{name}: {len(records)} records, {bad} bad packets")
    if records and cpus > 1:
        found = evidence.cpus(data)
        tap.ok(len(found) == cpus, f"{name}: of CPUs {found}")
    return records


_Kinds = Sequence[tuple[str, Callable[[evidence.Record], bool]]]


def _nothing_else(tap: Tap, result: Run, kinds: _Kinds, cpus: int = 1) -> None:
    """Recordings have records, and only those that they are to have."""
    for name, wanted in kinds:
        records = _records_of(tap, result, name, cpus)
        others = [r for r in records if not wanted(r)]
        tap.ok(bool(records) and not others, f"{name}: nothing else", *map(str, others[:3]))


def _is_store(record: evidence.Record) -> bool:
    """A store, or an atomic that gives a value back, which is a load and a store."""
    extended = record.op_payload & 0b1110_0010 == 0b10
    atomic = extended and bool(record.op_payload & 0b100)
    return record.op_class == 1 and (bool(record.op_payload & 1) or atomic)


def _is_load(record: evidence.Record) -> bool:
    return record.op_class == 1 and not record.op_payload & 1


def _filters(tap: Tap, result: Run, cpus: int = 1) -> None:
    """Each filter keeps what it names."""
    kinds: _Kinds = (
        ("loads", _is_load),
        ("stores", _is_store),
        ("branches", lambda r: r.op_class == 2),
        ("retired", lambda r: bool(r.events & Event.RETIRED)),
        ("latency", lambda r: (r.counter(CounterIndex.TOTAL) or 0) >= 5),
    )
    _nothing_else(tap, result, kinds, cpus)
    found = _records_of(tap, result, "mispredicted")
    tap.ok(not found, "mispredicted: nothing, as this core predicts nothing")


def _intervals(tap: Tap, result: Run) -> None:
    """The interval is steady, or varies as asked."""
    steady = evidence.timestamps(_records_of(tap, result, "steady"))
    distance, part = evidence.most_frequent_distance(steady)
    tap.ok(distance == 64 and part > 0.9, f"without jitter {part:.0%} are 1024 operations apart")
    varied = evidence.timestamps(_records_of(tap, result, "jitter"))
    _, part = evidence.most_frequent_distance(varied)
    tap.ok(part < 0.5, "with jitter no distance is that of half of them")
