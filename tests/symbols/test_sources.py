"""Source files are read below the folders that are allowed, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spe_unicorn.symbols.lines import Line
from spe_unicorn.symbols.sources import LARGEST, Sources


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder ``src`` that may be read, beside ``other``, which may not."""
    for name in ("src/lib/part.c", "src/main.c", "other/secret.c"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"first of {name}\n  second of {name}\n")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "{0}/src/lib/part.c",  # where the compiler had it
        "/build/src/lib/part.c",  # moved since
        "lib/part.c",
        "lib/lib/part.c",
        "/elsewhere/lib/../lib/part.c",
    ],
)
def test_a_file_in_the_folder_is_found_by_its_path_or_the_end_of_it(
    project: Path, path: str
) -> None:
    sources = Sources([project / "src"])
    text = sources.text(Line(path.format(project), 2))
    assert text == "part.c:2  second of src/lib/part.c"
    assert sources.why_not("--source DIR") is None


@pytest.mark.parametrize(
    "path",
    [
        "{0}/other/secret.c",
        "../other/secret.c",
        "lib/../../other/secret.c",
        "{0}/src/../other/secret.c",
        "/other/secret.c",
        "",
        "/",
        "a\0b.c",
        "x/" * 5000 + "secret.c",
    ],
)
def test_a_file_outside_is_not_read_whatever_the_path_says(
    project: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    line = Line(path.format(project), 1)
    sources = Sources([project / "src"])
    assert sources.text(line) == line.short
    assert sources.why_not("--source DIR") is not None


def test_a_link_that_leads_outside_is_not_followed(project: Path) -> None:
    (project / "src/linked.c").symlink_to("../other/secret.c")
    (project / "src/up").symlink_to("..")
    (project / "src/inside.c").symlink_to("main.c")
    sources = Sources([project / "src"])
    assert sources.text(Line("/b/linked.c", 1)) == "linked.c:1"
    assert sources.text(Line("up/other/secret.c", 1)) == "secret.c:1"
    assert sources.text(Line("/b/inside.c", 1)) == "inside.c:1  first of src/main.c"


def test_what_is_no_regular_file_is_not_read(project: Path) -> None:
    os.mkfifo(project / "src/fifo.c")
    (project / "src/folder.c").mkdir()
    sources = Sources([project / "src", Path("/dev")])
    assert sources.text(Line("/b/fifo.c", 1)) == "fifo.c:1"
    assert sources.text(Line("/b/folder.c", 1)) == "folder.c:1"
    assert sources.text(Line("/dev/zero", 1)) == "zero:1"
    assert sources.unread["/dev/zero"] == "it is no regular file in"


def test_a_file_that_is_too_large_is_not_read(project: Path) -> None:
    with (project / "src/large.c").open("wb") as file:
        file.write(b"x\n")
        file.truncate(LARGEST)
    assert Sources([project / "src"]).text(Line("large.c", 1)) == "large.c:1  x"
    with (project / "src/large.c").open("ab") as file:
        file.write(b"\n")
    sources = Sources([project / "src"])
    assert sources.text(Line("large.c", 1)) == "large.c:1"
    assert sources.unread["large.c"] == "it is larger than 4 MiB in"


def test_a_sentence_names_what_is_missing_and_what_to_do(project: Path) -> None:
    sources = Sources([project / "src"])
    sources.text(Line("/home/me/new.c", 1))
    assert sources.why_not("--source DIR") == (
        f"no source of new.c: it is not in {project}/src; name its folder by --source DIR"
        " (the compiler had it in /home/me)"
    )
    sources.text(Line("/home/me/\x1b[2J.h", 1))
    assert sources.why_not("--source DIR").startswith("no source of new.c and 1 more: ")
    assert "\x1b" not in sources.why_not("--source DIR")


def test_a_line_that_the_file_does_not_have_is_its_place_alone(project: Path) -> None:
    sources = Sources([project / "src"])
    assert sources.text(Line("main.c", 3)) == "main.c:3"
    assert sources.text(Line("main.c", 0)) == "main.c:0"
    assert sources.why_not("--source DIR") is None
