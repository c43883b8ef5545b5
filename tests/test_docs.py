from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.report.arrow import MissingLibraryError, library
from tests.code_names import CodeNames, quotations
from tests.support.running.processes import WALL_SECONDS, limit_cpu

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOR_DEVELOPERS = ROOT / "CONTRIBUTING.md"
GLOSSARY = (DOCS / "glossary.md").read_text()
PAGES = [
    *(ROOT / "README.md", ROOT / "SECURITY.md", FOR_DEVELOPERS),
    *sorted(DOCS.rglob("*.md")),
]

NAMING = [
    *sorted((DOCS / "adr").glob("0*.md")),
    *(FOR_DEVELOPERS, DOCS / "architecture.md", DOCS / "glossary.md", DOCS / "README.md"),
]


@pytest.fixture(scope="module")
def code() -> CodeNames:
    return CodeNames()


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.stem)
def test_a_page_about_the_code_names_what_exists(page: Path, code: CodeNames) -> None:
    assert [name for name in quotations(page.read_text()) if not code.has(name)] == []


def test_the_architecture_page_and_the_glossary_name_code() -> None:
    for page in ("architecture.md", "glossary.md"):
        assert "host/run/horizons.py" in quotations((DOCS / page).read_text())


@pytest.mark.parametrize(
    "name",
    [
        "host/run/runner.py",
        "tests/firmware",
        "scripts/bench --figures snapshot,reverse",
        "pyproject.toml",
        "test_marks.py",
        "world_switch.elf",
        "spe.batch.Kind",
        "spe_unicorn.compiled",
        "Sampler.streamed",
        "Checks.observe",
        "importlib.metadata",
        "slot_of",
        "program()",
        "_derive",
        "bench_hash",
        "parquet",
        "--model cache",
        "executed == granted - budget",
    ],
)
def test_a_name_of_code_that_exists_is_known(name: str, code: CodeNames) -> None:
    assert code.has(name)


@pytest.mark.parametrize(
    "name",
    [
        "host/run/walker.py",
        "tests/firmwares",
        "scripts/benches --figures",
        "test_remarks.py",
        "world_switches.elf",
        "spe.batch.Sort",
        "spe.batches.Kind",
        "spe.batch.Kind.FOURTH",
        "Sampler.streaming",
        "Samplers.streamed",
        "importlib.metadatas",
        "slots_of",
        "programme()",
        "bench_hashes",
    ],
)
def test_a_wrong_name_of_code_is_found(name: str, code: CodeNames) -> None:
    assert not code.has(name)


WORDS = re.findall(r"^\| ([a-z][^|(]*?)(?: \([^|]*)? \| .* \| `([^`]+)` \|$", GLOSSARY, re.M)


def test_the_glossary_is_in_alphabetical_order() -> None:
    assert len(WORDS) == GLOSSARY.count("\n| ") - 1
    words = [word for word, _ in WORDS]
    assert words == sorted(words)


def plain_words(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.lower())


@pytest.mark.parametrize(("word", "place"), WORDS, ids=[word for word, _ in WORDS])
def test_a_word_of_the_glossary_is_in_the_code_that_it_names(word: str, place: str) -> None:
    path = ROOT / "spe_unicorn" / place
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert any(plain_words(word) in plain_words(file.read_text()) for file in files)


def test_every_room_is_on_the_architecture_page() -> None:
    page = (DOCS / "architecture.md").read_text()
    package = ROOT / "spe_unicorn"
    rooms = {file.parent.relative_to(package) for file in package.rglob("*/__init__.py")}
    lines = {f"{'  ' * len(room.parts)}{room.name}/" for room in rooms}
    assert {line for line in lines if f"\n{line} " not in page} == set()


RECORDS = sorted((DOCS / "adr").glob("[0-9]*.md"))
NUMBERS = r"\d{4}(?:(?:, \d{4})* and \d{4})?"
STATUS = (
    rf"stands|given up|extended by {NUMBERS}"
    rf"|partly replaced by {NUMBERS}(; extended by {NUMBERS})?"
)


def test_every_decision_record_is_in_the_index_under_its_title() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    assert len(RECORDS) >= 6
    for record in RECORDS:
        number = record.name[:4]
        first = record.read_text().splitlines()[0]
        title = first.removeprefix(f"# {number}: ")
        assert title != first
        assert index.count(f"\n| [{number}]({record.name}) | {title} | ") == 1


def test_each_number_is_that_of_one_decision_record_or_of_a_merged_one() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    merged = re.findall(r"^\| (\d{4}) \| [^|]+ \| \[(\d{4})\]\([^)]+\) \|$", index, re.M)
    there = [record.name[:4] for record in RECORDS]
    numbers = sorted([*there, *(old for old, _ in merged)])
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    assert {new for _, new in merged} <= set(there)


def test_nothing_names_a_merged_decision_record() -> None:
    tree = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "scripts").rglob("*.py")]
    tree += [f for room in ("spe_unicorn", "tests") for f in (ROOT / room).rglob("*.py")]
    there = {record.name[:4] for record in RECORDS}
    named = re.compile(r"\bADR (\d{4})|\badr/(\d{4})|\]\((\d{4})-[\w-]+\.md\)")
    found = {
        (str(file.relative_to(ROOT)), number)
        for file in tree
        for match in named.finditer(file.read_text())
        for number in match.groups()
        if number is not None and number not in there
    }
    assert found == set()


def statuses() -> dict[str, str]:
    """What the index says of each decision record, by its number."""
    index = (DOCS / "adr" / "README.md").read_text()
    return dict(re.findall(r"^\| \[(\d{4})\].* \| ([^|]*) \|$", index, re.M))


def earlier(record: Path) -> set[str]:
    """The decision records that a record says it extends or replaces, before its first heading."""
    top = record.read_text().split("\n## ")[0].replace("\n", " ").replace(".md", "")
    said = re.findall(r"(?:Extends|Replaces) [^.]*", top)
    return {number for words in said for number in re.findall(r"\[(\d{4})\]", words)}


def test_the_status_of_a_decision_record_names_the_later_ones_that_say_so() -> None:
    found = statuses()
    assert set(found) == {record.name[:4] for record in RECORDS}
    assert [text for text in found.values() if not re.fullmatch(STATUS, text)] == []
    named = {(old, new) for old, text in found.items() for new in re.findall(r"\d{4}", text)}
    assert named == {(old, record.name[:4]) for record in RECORDS for old in earlier(record)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_decision_record_of_which_something_was_replaced_names_its_successor(
    record: Path,
) -> None:
    for later in re.findall(r"partly replaced by ([^;]*)", statuses()[record.name[:4]]):
        for number in re.findall(r"\d{4}", later):
            assert f"[{number}](" in record.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def session(page: Path) -> list[tuple[str, list[str]]]:
    """The commands that a page shows, each with the lines that it is said to print."""
    result: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                result.append((line[2:], []))
            elif line != "...":
                result[-1][1].append(line)
    return result


def test_the_readme_has_a_tutorial() -> None:
    assert len(session(ROOT / "README.md")) >= 6


@pytest.mark.parametrize("extra", ["html", "parquet"])
def test_the_readme_says_how_to_install_what_the_demonstration_leaves_out(extra: str) -> None:
    with pytest.raises(MissingLibraryError) as missing:
        library("a_library_that_is_not_there", extra)
    (command,) = re.findall(r"pip install '[^']+'", str(missing.value))
    assert command in (ROOT / "README.md").read_text()


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if session(page)], ids=lambda page: page.name
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    (tmp_path / "firmware").symlink_to(ROOT / "firmware")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    without_perf = shutil.which("perf", path=path) is None
    for command, lines in session(page):
        words = shlex.split(command)
        if words[0] == "perf" and without_perf:
            continue
        result = subprocess.run(
            words,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WALL_SECONDS,
            preexec_fn=limit_cpu,
        )
        assert result.returncode == 0, command
        printed = (result.stdout + result.stderr).splitlines()
        assert [line for line in lines if line not in printed] == [], command
    if without_perf and any(command.startswith("perf ") for command, _ in session(page)):
        pytest.skip("all but its perf commands: perf is not installed")
