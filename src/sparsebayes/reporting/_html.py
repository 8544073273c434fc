"""HTML that no text can break out of: every name, label and number passes through here."""

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "Html",
    "bare",
    "cut",
    "joined",
    "listed",
    "name",
    "number",
    "paragraph",
    "percent",
    "sentences",
    "tag",
    "text",
]

_LONGEST = 80  # characters of a name: a column may be called anything, and 500 rows repeat it
_TAIL = 20  # of these, at the end: names that differ there stay different
_ALONE = frozenset(("circle", "line", "link", "meta", "path", "polygon", "polyline", "rect"))
# What HTML and UTF-8 cannot hold: control characters, halves of surrogate pairs, noncharacters.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


class Html(str):
    """Text that may stand in the page as it is; any other text is escaped when it gets there.

    Examples
    --------
    >>> tag("p", Html("<br>"), "<br>")
    '<p><br>&lt;br&gt;</p>'
    """

    __slots__ = ()


def text(value: Any) -> Html:
    """Escape anything, so that a browser shows it as it is.

    Parameters
    ----------
    value : object
        Its ``str`` is taken; what HTML cannot hold becomes U+FFFD. `Html` stays as it is.

    Returns
    -------
    Html
        For content and for attributes.

    Examples
    --------
    >>> text("a < b & 'c'")
    'a &lt; b &amp; &#x27;c&#x27;'
    """
    if isinstance(value, Html):
        return value
    return Html(html.escape(_UNFIT.sub("\ufffd", str(value))))


def cut(value: Any, longest: int = _LONGEST) -> str:
    """Shorten a name in its middle, on one line.

    Parameters
    ----------
    value : object
        The name.
    longest : int, default=80
        Characters that may stay.

    Returns
    -------
    str
        Not escaped.

    Examples
    --------
    >>> cut("a" * 50 + "b" * 50, 30)
    'aaaaaaaaaaaaaaaaaaaaaa…bbbbbbb'
    """
    whole = " ".join(str(value).split()) or "(no name)"
    if len(whole) <= longest:
        return whole
    tail = min(_TAIL, longest // 4)
    return f"{whole[: longest - tail - 1]}…{whole[-tail:]}"


def name(value: Any, longest: int = _LONGEST) -> Html:
    """Show a name or label that a user chose, of any script and direction.

    Parameters
    ----------
    value : object
        The name.
    longest : int, default=80
        Characters of it that are shown.

    Returns
    -------
    Html
        Isolated, so that right-to-left text does not turn its surroundings around.

    Examples
    --------
    >>> name("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    return Html(f"<bdi>{text(cut(value, longest))}</bdi>")


def number(value: Any, digits: int = 4) -> str:
    """Write a number for people.

    Parameters
    ----------
    value : number or None
        The number.
    digits : int, default=4
        Significant digits.

    Returns
    -------
    str
        Whole numbers in full, others rounded; words for what is none.

    Examples
    --------
    >>> number(3.14159), number(1e-9), number(54321.0), number(None), number(float("inf"))
    ('3.142', '1e-09', '54320', 'unknown', 'infinite')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "unknown"
    if isinstance(value, int):
        return str(value)
    value = float(value)
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    written = f"{value:.{digits}g}"
    if float(written) == 0:
        return "0"
    return f"{float(written):.0f}" if "e+0" in written and abs(value) < 1e6 else written


def percent(share: float, decimals: int = 1) -> str:
    r"""Write a share as a percentage.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    decimals : int, default=1
        Digits behind the point.

    Returns
    -------
    str
        Such as "93.5 %", with a space that no line breaks at.

    Examples
    --------
    >>> percent(0.9351), percent(0.5, 0)
    ('93.5\xa0%', '50\xa0%')
    """
    return f"{100 * share:.{decimals}f}\N{NO-BREAK SPACE}%"


def bare(content: Html) -> str:
    """Take the elements away, for where there is no browser.

    Parameters
    ----------
    content : Html
        Sentences.

    Returns
    -------
    str
        Plain text.

    Examples
    --------
    >>> bare(Html("a <bdi>&lt;b&gt;</bdi>"))
    'a <b>'
    """
    return html.unescape(re.sub("<[^>]*>", "", content))


def tag(kind: str, *content: str, **attributes: Any) -> Html:
    """Make an element.

    Parameters
    ----------
    kind : str
        Its name.
    *content : str
        What it holds; escaped unless it is `Html`.
    **attributes : object
        By name, an underscore for a hyphen and one behind a word of Python; escaped. None leaves
        one out, True writes its name alone.

    Returns
    -------
    Html
        The element.

    Examples
    --------
    >>> tag("td", text("<"), class_="n", data_row=1)
    '<td class="n" data-row="1">&lt;</td>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{text(str(value))}"')
        for key, value in attributes.items()
        if value is not None
    )
    if kind in _ALONE:
        return Html(f"<{kind}{written}/>")
    return Html(f"<{kind}{written}>{joined(content)}</{kind}>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Put parts one behind the other.

    Parameters
    ----------
    parts : iterable of str
        The parts; escaped unless they are `Html`.
    between : str, default=""
        Plain text between them.

    Returns
    -------
    Html
        All of them.
    """
    return Html(text(between).join(text(part) for part in parts))


def listed(parts: Sequence[str], more: int = 0) -> Html:
    """Name several things in a sentence.

    Parameters
    ----------
    parts : sequence of str
        The things, at least one.
    more : int, default=0
        How many there are besides.

    Returns
    -------
    Html
        With commas, and an "and" before the last.

    Examples
    --------
    >>> listed([text("a"), text("b"), text("c")]), listed([text("a")], more=2)
    ('a, b and c', 'a and 2 more')
    """
    everything = [*parts, *([f"{more} more"] if more else [])]
    if len(everything) == 1:
        return text(everything[0])
    return Html(f"{joined(everything[:-1], ', ')} and {text(everything[-1])}")


def paragraph(*content: str, class_: str | None = None) -> Html:
    """Make a paragraph of sentences.

    Parameters
    ----------
    *content : str
        Sentences.
    class_ : str or None
        Class of the paragraph.

    Returns
    -------
    Html
        Nothing where there are none.
    """
    return tag("p", joined(content, " "), class_=class_) if content else Html("")


def sentences(*lines: str) -> Html:
    """Make a list of sentences, one below the other.

    Parameters
    ----------
    *lines : str
        The sentences.

    Returns
    -------
    Html
        A list.
    """
    return tag("ul", *(tag("li", line) for line in lines))
