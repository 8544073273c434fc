"""Check the links of the built site: every page, file and anchor that it points to is there.

`python docs/check_links.py build/docs` prints what is missing and fails then; with --external it
lists the links that lead elsewhere, which are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def check(folder: Path) -> tuple[list[str], set[str]]:
    """Links that lead nowhere, and those that lead to other sites."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text()) for path in paths}
    broken, external = [], set()
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                external.add(link)
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                broken.append(f"{path.relative_to(folder)}: {link}")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder)}: {link} (no such anchor)")
    if not pages:
        broken.append(f"{folder}: no pages")
    return broken, external


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    broken, external = check(folder)
    if "--external" in sys.argv[2:]:
        print(*sorted(external), sep="\n")
    print(*broken, sep="\n", end="\n" if broken else "")
    print(f"{len(broken)} broken links, {len(external)} to other sites (not followed)")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
