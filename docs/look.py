"""Look at the built site in a browser: screenshots, and what axe finds of its accessibility.

`python docs/look.py build/docs --output shots` visits some pages (or those that are named) at
desktop and phone width, dark and light, writes a picture of each, and fails if axe has a serious
finding, the console an error, or a page scrolls sideways. It needs Chromium, selenium and
axe-core-python.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from axe_core_python.selenium import Axe
from selenium import webdriver

PAGES = [
    "index.html",
    "tutorials.html",
    "tutorial-regression.html",
    "algorithm.html",
    "reference.html",
    "api/estimators.html",
    "api/generated/sparsebayes.RVR.html",
    "gallery/index.html",
    "gallery/sinc_error_bars.html",
    "search.html",
]
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def open_browser(profile: str) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Named where they are installed, so that selenium need not ask the network for them.
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def visit(browser: webdriver.Chrome, page: Path, width: str, theme: str, shot: Path) -> list[str]:
    """Faults of one page; its picture goes to `shot`."""
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    metrics = {**size, "deviceScaleFactor": 1, "mobile": width == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wishes = {"prefers-reduced-motion": "reduce", "prefers-color-scheme": theme}
    media = [{"name": name, "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get(page.as_uri())
    browser.execute_script(f"localStorage.setItem('mode', '{theme}')")
    browser.refresh()
    fonts = "const done = arguments[0]; document.fonts.ready.then(() => done())"
    browser.execute_async_script(fonts)
    browser.save_screenshot(str(shot))
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    faults = [f"console: {entry['message']}" for entry in errors]
    wide = "return document.documentElement.scrollWidth - window.innerWidth"
    if browser.execute_script(wide) > 0:
        faults.append(f"scrolls sideways by {browser.execute_script(wide)} pixels")
    for found in Axe().run(browser)["violations"]:
        if found["impact"] in ("serious", "critical"):
            places = [" ".join(node["target"]) for node in found["nodes"]]
            faults.append(f"axe: {found['id']} ({found['impact']}): {', '.join(places[:4])}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the built site")
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages, relative to it")
    parser.add_argument("--output", type=Path, required=True, help="folder of the pictures")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    count = 0
    with tempfile.TemporaryDirectory() as profile:
        browser = open_browser(profile)
        try:
            for name in arguments.pages:
                page = (arguments.folder / name).resolve(strict=True)
                for width in WIDTHS:
                    for theme in ("light", "dark"):
                        shot = arguments.output / f"{name.replace('/', '-')}-{width}-{theme}.png"
                        for fault in visit(browser, page, width, theme, shot):
                            print(f"{name}, {width}, {theme}: {fault}")
                            count += 1
        finally:
            browser.quit()
    print(f"{count} faults on {len(arguments.pages)} pages")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
