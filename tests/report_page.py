"""Reports as parsed pages, and checks that hold for every one."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"circle", "line", "link", "meta", "path", "polygon", "polyline", "rect"}


class Page(HTMLParser):
    """A document: its text, tables, ids and the elements that could do harm."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.open, self.words, self.tables, self.tags, self.ids = [], [], {}, [], []
        self.linked, self._table = [], None
        self.feed(document)
        self.close()
        assert self.open == [], "elements are not closed"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        if "id" in given:
            self.ids.append(given["id"])
        self.linked += [given[key] for key in ("data-table", "aria-labelledby") if given.get(key)]
        if given.get("href", "").startswith("#"):
            self.linked.append(given["href"][1:])
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = self.tables.setdefault(given["id"], [])
        if tag == "tr":
            self._table.append([])
        if tag in ("td", "th"):
            self._table[-1].append("")

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"script", "style"} & set(self.open):
            return
        self.words.append(data)
        if "td" in self.open or ("th" in self.open):
            self._table[-1][-1] += data

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def column(self, table, head):
        heads, *rows = self.tables[table]
        return [row[heads.index(head)] for row in rows]

    def marks(self, figure):
        """Number of points that a figure draws for the rows of its table."""
        return self._figures()[figure]

    def _figures(self):
        found, current, inside = {}, None, False
        for tag, given in self.tags:
            if tag == "figure":
                current, inside = given["id"], False
                found[current] = 0
            if tag == "g":
                inside = "marks" in given["class"]
            elif inside and tag in ("circle", "rect") and current is not None:
                found[current] += 1
            elif tag not in ("circle", "rect"):
                inside = False
        return found


def page_of(report):
    """The parsed document, after checks that hold for every report."""
    page = Page(report.html)
    assert len(page.ids) == len(set(page.ids))
    assert set(" ".join(page.linked).split()) <= set(page.ids)
    assert not re.search(r"\b(nan|None|inf)\b", re.sub("None", "", page.text))
    # Nothing from elsewhere: no address in any attribute, scripts and styles known by their hash.
    for tag, given in page.tags:
        assert tag not in ("iframe", "img", "object", "embed", "base", "form")
        assert not {"src", "srcset", "style", "action"} & set(given)
        assert not [key for key in given if key.startswith("on")]
        assert given.get("href", "#").startswith(("#", "data:,"))
    policy = next(g["content"] for t, g in page.tags if "http-equiv" in g)
    assert policy.startswith("default-src 'none'")
    for kind in ("style", "script"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", report.html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    for given in (g for t, g in page.tags if t == "figure"):
        rows = len(page.tables.get(given["data-table"], [None])) - 1
        assert page.marks(given["id"]) in (0, rows), given["id"]
    return page
