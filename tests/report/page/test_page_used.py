"""The HTML page as somebody uses it: mouse, keyboard, printer. Numbers are those of the records."""

import base64

import pytest
from click.testing import CliRunner
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import spe_unicorn
from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.arrays import Has, canonical
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.packets import OperationClass
from tests.support.browser import driven


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("used") / "a.data"
    options = ["-g", "-c", "100", "--model", "cache", "--max-insns", "600000", "-o", str(file)]
    firmware = str(shipped_firmware("bench_hash"))
    page = str(file.with_suffix(".html"))
    for words in (["record", "-q", *options, firmware], ["report", str(file), "--html", page]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code in (0, 124), result.stderr
    return Samples(spe_unicorn.read(file))


@pytest.fixture(scope="module")
def browser():
    with driven(1400, 1800) as driver:
        yield driver


@pytest.fixture
def page(browser, recording):
    path = recording.recording.file.path.replace(".data", ".html")
    browser.get("about:blank")
    browser.get(f"file://{path}")
    WebDriverWait(browser, 60).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready")
    )
    yield browser
    assert browser.get_log("browser") == []


def shown(page):
    """How many samples it says are shown."""
    return int(page.find_element(By.ID, "shown").text.split()[0].replace(",", ""))


def wait_for_change(page, before):
    WebDriverWait(page, 20).until(lambda _: shown(page) != before)
    return shown(page)


def plot(page, name):
    """The part of a plot that takes drags and clicks, scrolled to."""
    element = page.find_element(By.CSS_SELECTOR, f"#{name} .nsewdrag")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    return element


@pytest.mark.sweep
def test_a_time_is_dragged(page, recording):
    area = plot(page, "time")
    width = area.size["width"]
    start = -width // 4
    actions = ActionChains(page).move_to_element_with_offset(area, start, 0).click_and_hold()
    actions.move_by_offset(width // 8, 0).move_by_offset(width // 8, 0).release().perform()
    found = wait_for_change(page, len(recording))
    low, high = page.execute_script("return filters.time")
    times = recording.arrays.timestamp
    inside = (times >= low) & (times <= high)
    assert 0 < found == int(inside.sum()) < len(recording)
    assert 0.15 < (high - low) / (int(times.max()) - int(times.min())) < 0.35
    # the tables follow
    total = page.execute_script(
        "return [...document.querySelectorAll('#functions tbody tr')]"
        ".map(r => Number(r.cells[1].textContent.replace(/,/g, ''))).reduce((a, b) => a + b)"
    )
    assert total == found
    page.find_element(By.CSS_SELECTOR, "#ranges button").click()
    assert wait_for_change(page, found) == len(recording)


def test_a_function_of_the_flame_graph_is_clicked(page, recording):
    frames = page.find_elements(By.CSS_SELECTOR, "#flame button")
    widest = {}
    for frame in frames:
        widest.setdefault(frame.text, frame.size["width"])
    # as wide as the samples that it and what it calls have
    under = [label.split(" > ") for label in recording.labels("caller")]
    with_work = sum("bench_work" in path for path in under)
    assert 0 < with_work < len(recording)
    whole = page.find_element(By.ID, "flame").size["width"]
    assert abs(widest["bench_work"] / whole - with_work / len(recording)) < 0.01
    (work,) = (frame for frame in frames if frame.text == "bench_work")
    assert work.get_attribute("aria-label").startswith(f"bench_work: {with_work:,} samples, ")
    work.send_keys(Keys.ENTER)
    assert wait_for_change(page, len(recording)) == with_work
    # the tables follow, and a second press shows all
    functions = [row.text for row in page.find_elements(By.CSS_SELECTOR, "#functions button")]
    assert "bench_work" in functions
    assert "bench_setup" not in functions
    work = page.find_element(By.CSS_SELECTOR, "#flame button[aria-pressed=true]")
    assert work.size["width"] == whole
    work.send_keys(Keys.ENTER)
    assert wait_for_change(page, with_work) == len(recording)


def test_rows_of_addresses_are_clicked(page, recording):
    area = plot(page, "heat")
    row = page.execute_script(
        "const z = document.getElementById('heat').data[0].z;"
        "const n = z.map(r => r.reduce((a, b) => a + b, 0)); return n.indexOf(Math.max(...n))"
    )
    # the middle of that row, where something is
    column, rows, columns = page.execute_script(
        "const z = document.getElementById('heat').data[0].z;"
        f"return [z[{row}].findIndex(v => v), z.length, z[0].length]"
    )
    size = area.size
    x = (column + 0.5) / columns * size["width"] - size["width"] / 2
    y = size["height"] / 2 - (row + 0.5) / rows * size["height"]
    ActionChains(page).move_to_element_with_offset(area, round(x), round(y)).pause(
        0.3
    ).click().perform()
    found = wait_for_change(page, len(recording))
    text = page.execute_script(f"return page.rows.va[{row}]")
    low, high = (int(part, 16) for part in text.split("-"))
    addresses = canonical(recording.arrays.va)
    inside = recording.arrays.where(Has.VA) & (addresses >= low) & (addresses <= high)
    assert found == int(inside.sum())


def test_everything_is_reached_from_the_keyboard(page, recording):
    arrays = recording.arrays
    function = page.find_element(By.CSS_SELECTOR, "#functions tbody button")
    name = function.text
    function.send_keys(Keys.ENTER)
    inside = recording.labels("symbol") == name
    assert wait_for_change(page, len(recording)) == int(inside.sum())
    page.find_element(By.ID, "by-kind").send_keys("store")
    stores = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.LOAD_STORE)
    stores &= arrays.op_payload & 1 == 1
    assert wait_for_change(page, int(inside.sum())) == int((inside & stores).sum())
    assert Select(page.find_element(By.ID, "by-symbol")).first_selected_option.text == name
    page.find_element(By.ID, "reset").send_keys(Keys.SPACE)
    assert wait_for_change(page, int((inside & stores).sum())) == len(recording)
    # the order of Tab is that of the page
    page.find_element(By.ID, "by-symbol").send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("id") == "by-kind"


def test_function_kind_address_and_source_filter_each_other(page, recording):
    arrays = recording.arrays
    page.get(page.current_url + "#symbol=bench_work&kind=load&axis=data&data=slots&source=L1D")
    WebDriverWait(page, 20).until(lambda _: shown(page) != len(recording))
    loads = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.LOAD_STORE)
    loads &= arrays.op_payload & 1 == 0
    among = loads & (recording.labels("symbol") == "bench_work")
    among &= (recording.labels("data") == "slots") & (recording.labels("source") == "L1D")
    assert shown(page) == int(among.sum()) > 0
    latencies = page.execute_script(
        "return document.getElementById('latency').data.map(t => [t.name, t.x, t.y])"
    )
    for name, cycles, counts in latencies:
        if name == "load":
            values = arrays.total[among].tolist()
            assert dict(zip(cycles, counts, strict=True)) == {v: values.count(v) for v in values}
        else:
            assert counts == []


def test_it_prints_whole_and_without_controls(page):
    document = base64.b64decode(page.print_page())
    assert document.startswith(b"%PDF")
    assert document.count(b"/Type /Page\n") + document.count(b"/Type /Page ") > 1
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not page.find_element(By.ID, "reset").is_displayed()
        height = "e => e.scrollHeight <= e.clientHeight + 1"
        assert page.execute_script(
            f"return [...document.querySelectorAll('.scroll')].every({height})"
        )
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
