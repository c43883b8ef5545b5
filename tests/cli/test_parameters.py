from __future__ import annotations

import click
import pytest

from spe_unicorn.cli import parameters
from spe_unicorn.cli.parameters import TraceChoice, Whole


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128M", 128 << 20),
        ("1g", 1 << 30),
        ("4K", 4096),
        ("8192", 8192),
        ("0x8000000", 0x800_0000),
        ("255G", 255 << 30),
    ],
)
def test_sizes_have_binary_suffixes(text: str, size: int) -> None:
    assert parameters.size(text) == size


@pytest.mark.parametrize("text", ["", "M", "1.5G", "-4K", "0", "4095", "5000", "256G", "1T", "٤K"])
def test_what_is_no_size_of_ram_is_refused_by_name(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"allowed are|is no size"):
        parameters.size(text)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("100M", 100_000_000),
        ("62.5M", 62_500_000),
        ("62.5MHz", 62_500_000),
        ("62500k", 62_500_000),
        ("62500kHz", 62_500_000),
        ("62500000Hz", 62_500_000),
        ("2.5ghz", 2_500_000_000),
        ("1000000000", 1_000_000_000),
        ("24.576M", 24_576_000),
    ],
)
def test_clocks_have_decimal_suffixes(text: str, clock: int) -> None:
    assert parameters.hertz(text) == clock


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M",
        "MHz",
        "1 M",
        "1.M",
        "-1M",
        "1T",
        "0x100000",
        "1e9",
        "999k",
        "10.000001G",
        "1.0000005M",
    ],
)
def test_what_is_no_clock_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"allowed are whole kHz|is no frequency"):
        parameters.hertz(text)


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("0x10", 16), ("-1", -1)])
def test_numbers_may_be_hexadecimal(text: str, number: int) -> None:
    assert parameters.number(text) == number


@pytest.mark.parametrize("text", ["", "x", "1.5", "0x"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a whole number"):
        parameters.number(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf"])
def test_a_time_is_more_than_none_and_ends(text: str) -> None:
    with pytest.raises(click.BadParameter, match="more than 0 seconds"):
        parameters.seconds(text)


def test_words_come_once_and_in_their_own_order() -> None:
    assert parameters.words("a", "b", "c")("c,a,c") == ("a", "c")


@pytest.mark.parametrize("text", ["", "a,", "A", "a b"])
def test_an_unknown_word_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(click.BadParameter, match="allowed are a, b"):
        parameters.words("a", "b")(text)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("spe", TraceChoice(("spe",), None)),
        ("spe,sysreg:out.txt", TraceChoice(("sysreg", "spe"), "out.txt")),
        ("exception:a:b", TraceChoice(("exception",), "a:b")),
    ],
)
def test_a_trace_names_kinds_and_a_file(text: str, choice: TraceChoice) -> None:
    assert parameters.trace(text) == choice


def test_a_colon_without_a_file_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="a file name is missing"):
        parameters.trace("spe:")


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("5M", 5_000_000), ("1.5k", 1500), ("2g", 2 * 10**9), ("0.001k", 1)],
)
def test_whole_numbers_may_be_in_thousands_and_millions(text: str, value: int) -> None:
    assert Whole(min=1).convert(text, None, None) == value


@pytest.mark.parametrize("text", ["0k", "1.5", "1.0005k", "M", "5 M", "5MB", "-1k", "\u0665k"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Whole(min=1).convert(text, None, None)
