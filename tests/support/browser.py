"""Pages in a headless browser: what they come to once their script has run."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
from selenium import webdriver

from tests.support.running.processes import WALL_SECONDS, limit_cpu

_ALWAYS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_OPTIONS = (*_ALWAYS, "--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000")


@contextmanager
def driven(width: int, height: int) -> Iterator[webdriver.Chrome]:
    """A browser to use as people do, which reaches no host. Skips where there is no chromium."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("there is no chromium")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for option in (*_ALWAYS, f"--window-size={width},{height}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    try:
        yield driver
    finally:
        driver.quit()


@dataclass(frozen=True)
class Shown:
    """A page as the browser shows it, and what its console said."""

    dom: str
    console: list[str]

    def rows(self, table: str) -> list[list[str]]:
        """The texts of the body of the table with an id."""
        start = self.dom.index(f'<table id="{table}"')
        body = self.dom[start : self.dom.index("</table>", start)].partition("<tbody>")[2]
        return [
            [_text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)
        ]

    def text(self, identifier: str) -> str:
        """The text of the element with an id."""
        return _text(re.search(rf'id="{identifier}"[^>]*>(.*?)</', self.dom, re.S)[1])


def browse(page: Path, fragment: str = "") -> Shown:
    """Open a page, wait until it is ready, and look at it. Skips where there is no chromium."""
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium")
    done = subprocess.run(
        ["chromium", *_OPTIONS, "--dump-dom", f"{page.as_uri()}{fragment}"],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert "data-ready=" in done.stdout, done.stderr
    return Shown(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()


def hard_to_use(page: Path) -> str:
    """What keeps people from using a page, as axe-core finds it: "none", or its rules and places.

    A copy of the page is opened that may run scripts.
    """
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    check = f"""<script>{axe}</script><script>
    axe.run().then(found => {{
      const bad = found.violations.filter(v => ["serious", "critical"].includes(v.impact));
      document.documentElement.dataset.violations =
        bad.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" ")).join("; ") || "none";
      document.documentElement.dataset.ready = "";
    }});
    </script>"""
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    copy = page.with_name("checked.html")
    copy.write_text(text.replace("</body>", f"{check}</body>"), encoding="utf-8")
    found = re.search(r'data-violations="([^"]*)"', browse(copy).dom)
    assert found is not None
    return html.unescape(found[1])


def hard_to_use_now(driver: webdriver.Chrome) -> list[str]:
    """The same of the page that a driven browser shows: rules and places."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[0])")
    return [
        f"{rule['id']}: {' '.join(node['html'] for node in rule['nodes'])}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
