"""JUnit's XML of cases, as a reader of XML finds it."""

from __future__ import annotations

from xml.etree import ElementTree

from spe_unicorn.report.campaigns.junit import Case, suite_of


def test_cases_are_counted_by_how_they_ended() -> None:
    cases = [
        Case("good", seconds=1.25),
        Case("bad", ("failure", "it \x01 failed", "why\nso"), printed="hello\n"),
        Case("worse", ("error", "it broke", "")),
        Case("again", ("error", "it broke", "")),
    ]
    suite = ElementTree.fromstring(suite_of("tests", cases))
    assert suite.tag == "testsuite"
    assert suite.attrib == {"name": "tests", "tests": "4", "failures": "1", "errors": "2"}
    good, bad, worse, _ = suite
    assert (good.attrib["name"], good.attrib["time"], list(good)) == ("good", "1.250", [])
    assert [child.tag for child in bad] == ["failure", "system-out"]
    failure, printed = bad
    assert (failure.attrib["message"], failure.text) == ("it \\x01 failed", "why\nso")
    assert printed.text == "hello\n"
    assert "time" not in bad.attrib
    assert [child.tag for child in worse] == ["error"]
