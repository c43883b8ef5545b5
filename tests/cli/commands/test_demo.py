from __future__ import annotations


def test_the_demonstration_shows_the_firmwares_words_and_its_records(command):
    result = command("demo")
    assert "  | ok 1 - " in result.stdout
    assert "not ok" not in result.stdout
    assert "record 0 at 0x0 of cpu 0" in result.stdout
    assert "ADDRESS        pc 0x" in result.stdout
    assert "load general" in result.stdout
    assert "copy+0x" in result.stdout
    assert "spe-unicorn record -c 1000" in result.stdout


def test_the_demonstration_is_the_same_each_time(command):
    assert command("demo").stdout == command("demo").stdout
