"""perf as a second reader of our files: what it prints, and whether it agrees with us."""

import re
import shutil
import subprocess

import pytest

from spe_unicorn.output.text import record_text
from spe_unicorn.spe.record import decode_stream
from tests.support.running.processes import WALL_SECONDS, limit_cpu


def perf(*arguments):
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed; it is the second reader of perf.data files")
    return subprocess.run(
        ["perf", *arguments],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
        stdin=subprocess.DEVNULL,
    )


def clean(done, *warnings):
    """What perf printed, once it is sure that it complained of nothing else."""
    assert done.returncode == 0, done.stderr
    known = "\n".join((HOST_IS_NO_AARCH64, *warnings))
    unknown = [line for line in done.stderr.splitlines() if line and line not in known]
    assert unknown == []
    return done.stdout


NO_CONTEXTS = """Warning:
Arm SPE CONTEXT packets not found in the traces.
Matching of TIDs to SPE events could be inaccurate."""
HOST_IS_NO_AARCH64 = "unwind: target platform=arm64 is not supported"
DEFAULT_PERIOD = "Only instruction-based sampling period is currently supported by Arm SPE."


def packets_of_perf(dump):
    """Offset, bytes and text of each packet, by trace; a run of padding byte by byte."""
    traces = []
    for line in dump.splitlines():
        if line.startswith(". ... ARM SPE data"):
            traces.append([])
        elif match := re.match(r"\.  ([0-9a-f]{8}): ((?: [0-9a-f]{2})+) +(\S.*?) *$", line):
            offset, data, text = int(match[1], 16), bytes.fromhex(match[2]), match[3]
            if text == "PAD":
                traces[-1] += [(offset + n, b"\0", text) for n in range(len(data))]
            else:
                traces[-1].append((offset, data, text))
    return traces


def packets_of_ours(data):
    """The same from our own text."""
    result = []
    for number, placed in enumerate(decode_stream(data)):
        for line in record_text(data, placed, number).splitlines()[1:]:
            offset, text = int(line[2:10], 16), line[43:]
            if text.startswith("PADDING"):
                count = int(text.split()[1])
                result += [(offset + n, b"\0", text) for n in range(count)]
            else:
                result.append((offset, bytes.fromhex(line[12:43]), text))
    return result


EVENTS_OF_PERF = {
    "EXCEPTION-GEN": "exception",
    "RETIRED": "retired",
    "L1D-ACCESS": "l1d_access",
    "L1D-REFILL": "l1d_miss",
    "TLB-ACCESS": "tlb_access",
    "TLB-REFILL": "tlb_walk",
    "NOT-TAKEN": "not_taken",
    "MISPRED": "mispredicted",
    "LLC-ACCESS": "llc_access",
    "LLC-REFILL": "llc_miss",
    "REMOTE-ACCESS": "remote_access",
    "ALIGNMENT": "misaligned",
    "SVE-PARTIAL-PRED": "sve_partial",
    "SVE-EMPTY-PRED": "sve_empty",
}
OPERATIONS_OF_PERF = {
    "OTHER": "other",
    "SVE-OTHER": "other",
    "INSN-OTHER": "other",
    "COND-SELECT": "conditional",
    "LD": "load",
    "ST": "store",
    "B": "branch",
    "COND": "conditional",
    "IND": "indirect",
    "GP-REG": "general",
    "SIMD-FP": "simd-fp",
    "UNSPEC-REG": "unspecified",
    "NV-SYSREG": "nv2",
    "AT": "atomic",
    "EXCL": "exclusive",
    "AR": "acquire-release",
    "EVLEN": "sve",
    "PRED": "predicated",
    "SG": "gather-scatter",
    "MTE-TAG": "tag",
    "MEMCPY": "memcpy",
    "MEMSET": "memset",
    "CR-BL": "call",
    "CR-RET": "return",
    "CR-NON-BL-RET": "jump",
    "GCS": "gcs",
    "FP": "fp",
}
KNOWN_EVENTS = set(EVENTS_OF_PERF.values())


def agree(theirs, ours):
    """Whether the text of perf and our text say the same of one packet."""
    kind, *words = ours.split()
    name, *rest = theirs.split()
    if kind == "PADDING":
        return name == "PAD"
    if kind == "END":
        return name == "END"
    if kind == "TIMESTAMP":
        return (name, rest) == ("TS", words)
    if kind == "EVENTS":
        said = {EVENTS_OF_PERF[event] for event in rest}
        return name == "EV" and said == set(words[1:]) & KNOWN_EVENTS
    if kind == "DATA_SOURCE":
        return name == "DATA-SOURCE" and int(rest[0]) == int(words[0], 16)
    if kind == "CONTEXT":
        return [name, *rest] == ["CONTEXT", words[1], words[0][-3:].lower()]
    if kind == "COUNTER":
        short = {"total": ["TOT"], "issue": ["ISSUE"], "translation": ["XLAT"]}
        return [name, *rest] == ["LAT", words[1], *short.get(words[0], [])]
    if kind == "OPERATION_TYPE":
        said = {OPERATIONS_OF_PERF.get(word, f"{word}-bit") for word in theirs.split()}
        return said <= set(words)
    assert kind == "ADDRESS"
    if name == "PBT":  # of perf 6.8 and later; earlier ones print address packet 4 as a number
        state = {"secure": 0, "non-secure": 1}[words[3]]
        return words[0] == "previous_branch_target" and rest == [
            f"{int(words[1], 16) & (1 << 56) - 1:#x}",
            words[2].lower(),
            f"ns={state}",
        ]
    return [name, *rest] == address_of_perf(*words)


def address_of_perf(name, address, *words):
    low = f"{int(address, 16) & (1 << 56) - 1:#x}"
    if name in ("pc", "branch_target"):
        ns = 0 if words[1] == "secure" else 1
        return ["PC" if name == "pc" else "TGT", low, words[0].lower(), f"ns={ns}"]
    if name == "va":
        return ["VA", f"{int(low, 16) | int(words[1], 16) << 56:#x}"]
    if name == "pa":
        ns = 0 if words[0] == "secure" else 1
        return ["PA", low, f"ns={ns}", f"ch={words[2]}", f"pat={int(words[4], 16):x}"]
    if name == "previous_branch_target":
        state = {"secure": 0, "non-secure": 0x80, "realm": 0x90}[words[1]]
        return ["ADDR", f"{int(low, 16) | (state | int(words[0][2:]) << 5) << 56:#x}", "(4)"]
    return ["ADDR", address, f"({name})"]
