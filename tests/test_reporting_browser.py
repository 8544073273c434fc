"""Reports in a browser: no errors, nothing loaded, usable by pointer, keyboard, phone and print."""

import base64
import json
import shutil
import tempfile

import numpy as np
import pytest

from sparsebayes import RVC, RVR
from sparsebayes.datasets import mixtures, sinc

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="there is no chromium with its chromedriver here"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
HOSTILE = ["<script>document.title='broken'</script>", "\u202eאבג", "W" * 300]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A regression of one input, and a classification with hostile names and labels."""
    folder = tmp_path_factory.mktemp("reports")
    data, new = sinc(60, noise=0.1, random_state=0), sinc(40, noise=0.1, random_state=1)
    path = folder / "numbers.html"
    RVR(gamma=0.1).fit(data.X, data.y).report(new.X, new.y + (new.X[:, 0] > 9), path=path)
    pd = pytest.importorskip("pandas")
    points = mixtures(80, random_state=0)
    X = pd.DataFrame(np.c_[points.X, points.X[:, 0] ** 2], columns=HOSTILE)
    y = np.where(points.y, '<img src=x onerror="document.title=1">', HOSTILE[1])
    RVC(gamma=4.0).fit(X, y).report(X, y, path=folder / "classes.html", notes=[HOSTILE[0]])
    return {file.stem: file.as_uri() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def browser():
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        driver.set_script_timeout(120)  # seconds, for axe beside other tests
        yield driver
        driver.quit()


@pytest.fixture
def visit(browser, pages):
    """Open a page at a width and in colors; fails if the console said anything meanwhile."""

    def opened(name, width=1280, colors="light", scripts=True):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        features = [
            {"name": "prefers-color-scheme", "value": colors},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        browser.get(pages[name])
        return browser

    browser.get_log("browser")
    yield opened
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.get_log("browser") == []


def column(browser, table, place):
    script = (
        "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
        ".map(row => row.cells[arguments[1]].textContent)"
    )
    return browser.execute_script(script, table, place)


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    chain = ActionChains(browser, duration=0)
    for key in keys:
        chain.send_keys(key)
    chain.perform()


def tip(browser, figure):
    script = (
        "const tip = document.querySelector('#' + arguments[0] + ' .tip');"
        "return tip.hidden ? null : [...tip.children].map(line => line.textContent)"
    )
    return browser.execute_script(script, figure)


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_sorting_by_pointer_and_keyboard(visit):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser = visit("numbers")
    heads = browser.find_elements(By.CSS_SELECTOR, "#atom-list thead th")
    buttons = browser.find_elements(By.CSS_SELECTOR, "#atom-list thead button")
    assert len(heads) == len(buttons)
    assert [head.get_attribute("aria-sort") for head in heads].count("descending") == 1
    for expected, order in ((True, "descending"), (False, "ascending")):
        buttons[1].click()
        weights = [float(text) for text in column(browser, "atom-list", 1)]
        assert weights == sorted(weights, reverse=expected)
        assert heads[1].get_attribute("aria-sort") == order
    buttons[0].send_keys(Keys.ENTER)
    names = [int(text.split()[1]) for text in column(browser, "atom-list", 0)]
    assert names == sorted(names)
    assert [bool(head.get_attribute("aria-sort")) for head in heads].count(True) == 1


def test_points_say_what_they_are(visit):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser = visit("numbers")
    # Sorting the table must not mix up which point is which row.
    browser.execute_script("document.querySelectorAll('#target-0-rows th button')[1].click()")
    for figure in ("target-0-fit", "target-0-errors", "curve"):
        points = browser.find_elements(By.CSS_SELECTOR, f"#{figure} .marks circle")
        rows = {row: place for place, row in enumerate(column(browser, "target-0-rows", 0))}
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", points[17])
        ActionChains(browser, duration=0).move_to_element(points[17]).perform()
        lines = tip(browser, figure)
        assert lines[0].startswith("row: ")
        shown = rows[lines[0].removeprefix("row: ")]
        assert lines[1] == f"observed: {column(browser, 'target-0-rows', 1)[shown]}"
        marked = browser.find_elements(By.CSS_SELECTOR, f"#{figure} .marks .on")
        assert len(marked) == 1
        assert lines[0] == f"row: {points.index(marked[0])}"
        close = "const [a, b] = [...arguments].map(e => e.getBoundingClientRect());"
        close += "return Math.hypot(a.x - b.x, a.y - b.y)"
        assert browser.execute_script(close, marked[0], points[17]) < 3
        ActionChains(browser, duration=0).move_to_element(
            browser.find_element(By.TAG_NAME, "h1")
        ).perform()
        assert tip(browser, figure) is None


def test_points_by_keyboard(visit):
    from selenium.webdriver.common.keys import Keys

    browser = visit("numbers")
    browser.execute_script("document.querySelector('#curve .stage').focus()")
    press(browser, Keys.ARROW_RIGHT)
    assert tip(browser, "curve")[0] == "row: 0"
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert tip(browser, "curve")[0] == "row: 2"
    press(browser, Keys.END)
    assert tip(browser, "curve")[0] == "row: 39"
    press(browser, Keys.ESCAPE)
    assert tip(browser, "curve") is None
    browser.execute_script("document.querySelector('#target-0-fit .stage').focus()")
    observed = []
    for _ in range(5):
        press(browser, Keys.ARROW_RIGHT)
        observed.append(float(tip(browser, "target-0-fit")[1].removeprefix("observed: ")))
    assert observed == sorted(float(text) for text in column(browser, "target-0-rows", 1))[:5]
    visit("numbers")
    press(browser, Keys.TAB)
    focused = "return document.activeElement.textContent"
    assert browser.execute_script(focused) == "Skip to the report"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(outline) == "solid"
    press(browser, Keys.ENTER)
    assert browser.execute_script("return document.activeElement.id") == "report"


def test_dark_and_light(visit):
    from selenium.webdriver.common.by import By

    for colors, other in (("light", "dark"), ("dark", "light")):
        browser = visit("numbers", colors=colors)
        first = background(browser)
        toggle = browser.find_element(By.CSS_SELECTOR, "button.theme")
        assert toggle.text == f"{other.capitalize()} colors"
        toggle.click()
        assert background(browser) != first
        toggle.click()
        assert background(browser) == first


def test_phone(visit):
    for name in ("numbers", "classes"):
        browser = visit(name, width=390)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_without_scripts(visit, browser):
    for name in ("numbers", "classes"):
        visit(name, scripts=False)
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        text = browser.execute_script("return document.body.innerText")
        for words in ("What was fitted", "Warnings", "held-out rows", "prior variance"):
            assert words in text
        assert browser.execute_script("return document.querySelectorAll('th button').length") == 0
        assert browser.execute_script("return document.querySelector('.theme').hidden")


def test_hostile_text_does_nothing(visit):
    browser = visit("classes")
    assert "classification" in browser.title
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.scripts.length") == 1
    assert HOSTILE[0] in browser.execute_script("return document.body.innerText")


def test_nothing_is_loaded(visit, browser, pages):
    browser.get_log("performance")
    visit("classes")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [pages["classes"]]


def test_print(visit):
    browser = visit("numbers", colors="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert background(browser) == "rgb(255, 255, 255)"
    shown = "return getComputedStyle(document.querySelector('button.theme')).display"
    assert browser.execute_script(shown) == "none"
    pdf = base64.b64decode(browser.print_page())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 10_000


@pytest.mark.parametrize(
    ("name", "width", "colors"), [("numbers", 1280, "light"), ("classes", 390, "dark")]
)
def test_accessibility(visit, name, width, colors):
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not here")
    browser = visit(name, width=width, colors=colors)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = axe.Axe().run(browser)["violations"]
    assert [(rule["id"], rule["nodes"][0]["target"]) for rule in found] == []
