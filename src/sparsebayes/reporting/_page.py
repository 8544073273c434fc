"""The page around a report: one file that asks nobody for anything."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sparsebayes.reporting._html import Html, tag

__all__ = ["Section", "page"]

_LIGHT = {
    "page": "#ffffff",
    "raised": "#f5f6f8",
    "ink": "#1a1d21",
    "soft": "#555d66",
    "edge": "#d5d9de",
    "link": "#00568a",
    "focus": "#b34700",
    "caution": "#d55e00",
    "alarm": "#fdf0e6",
    "good": "#00795a",
    # Okabe & Ito's colors, which people of any color vision tell apart.
    "blue": "#0072b2",
    "orange": "#d55e00",
}
_DARK = {
    "page": "#15181c",
    "raised": "#20252b",
    "ink": "#eceff2",
    "soft": "#aeb6bf",
    "edge": "#3a424b",
    "link": "#7cc4f2",
    "focus": "#f0b429",
    "caution": "#e69f00",
    "alarm": "#33260f",
    "good": "#2fbf95",
    "blue": "#56b4e9",
    "orange": "#e69f00",
}


class Section(NamedTuple):
    """A part of the report with a heading of its own."""

    key: str
    heading: str
    content: Html
    kind: str | None = None  # a class of the style sheet


def page(title: str, lead: Html, sections: Sequence[Section], footer: Html) -> str:
    """Make the whole document.

    Parameters
    ----------
    title : str
        Its title.
    lead : Html
        What stands below the title.
    sections : sequence of Section
        Its parts.
    footer : Html
        What stands at the end.

    Returns
    -------
    str
        HTML. Nothing is loaded from elsewhere, and by its own policy nothing could be: only the
        style sheet and the script in it are let through, by their hashes.
    """
    style, script = _style(), _resource("page.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )
    contents = tag(
        "nav",
        tag("ul", *(tag("li", tag("a", s.heading, href=f"#{s.key}")) for s in sections)),
        aria_label="Contents",
    )
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#report", class_="skip"),
        tag(
            "header",
            tag("div", tag("h1", tag("bdi", title)), lead),
            tag("button", "Dark colors", type="button", class_="theme", hidden=True),
        ),
        tag(
            "main",
            contents,
            *(
                tag(
                    "section",
                    tag("h2", section.heading, id=f"{section.key}-heading"),
                    section.content,
                    id=section.key,
                    class_=section.kind,
                    aria_labelledby=f"{section.key}-heading",
                )
                for section in sections
            ),
            id="report",
            tabindex=-1,
        ),
        tag("footer", footer),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def framed(document: str, title: str) -> str:
    """Show a document inside another one, such as a notebook, apart from its styles and scripts.

    Parameters
    ----------
    document : str
        HTML of a page.
    title : str
        Its title.

    Returns
    -------
    str
        HTML of a frame.
    """
    frame = tag(
        "iframe",
        srcdoc=document,
        title=title,
        sandbox="allow-scripts",
        width="100%",
        height="720",
        frameborder="0",
    )
    return str(frame)


@cache
def _resource(name: str) -> str:
    return files("sparsebayes.reporting").joinpath(name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in colors.items())
        for colors in (_LIGHT, _DARK)
    )
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{color-scheme:dark;{dark}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root,:root:not([data-theme=light]),:root[data-theme=dark]"
        f"{{color-scheme:light;{light}}}}}"
        f"{_resource('page.css')}"
    )


def _hash(content: str) -> str:
    """What a content security policy knows an inline script or style by."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
