"""Tables of the report: readable as they are, sortable where a browser runs scripts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparsebayes.reporting._html import Html, joined, number, tag, text

__all__ = ["Column", "figures", "table"]


@dataclass(frozen=True)
class Column:
    """A column: its head, and whether it holds numbers.

    Parameters
    ----------
    head : str
        What stands above it.
    numeric : bool, default=True
        Whether its cells are numbers: aligned right, and sorted as numbers.
    """

    head: str
    numeric: bool = True


def table(
    key: str,
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Any]],
    *,
    sorted_by: int | None = None,
    folded: str = "",
    tall: bool = False,
) -> Html:
    """Make a table that scrolls by itself where the page is narrow.

    Parameters
    ----------
    key : str
        Its id; pictures find the text of their points there.
    caption : str
        What it shows.
    columns : sequence of Column
        The columns.
    rows : iterable of sequences
        Cells: numbers or text.
    sorted_by : int or None, default=None
        Column by which the rows are sorted already, the largest first.
    folded : str, default=""
        What to unfold for it; nothing shows the table at once.
    tall : bool, default=False
        Whether it has many rows, and scrolls in a window of its own.

    Returns
    -------
    Html
        The table in a region that can be reached and scrolled by keyboard.
    """
    heads = joined(
        tag(
            "th",
            column.head,
            scope="col",
            class_=None if column.numeric else "t",
            aria_sort="descending" if place == sorted_by else None,
        )
        for place, column in enumerate(columns)
    )
    # The first cell names its row, to those who hear the table too.
    body = joined(
        tag(
            "tr",
            *(
                tag(
                    "td" if place else "th",
                    _cell(cell),
                    scope=None if place else "row",
                    class_=None if columns[place].numeric else "t",
                )
                for place, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    # A caption of the table itself would scroll away with it.
    title = f"{key}-caption"
    whole = tag(
        "table",
        tag("thead", tag("tr", heads)),
        tag("tbody", body),
        id=key,
        class_="sortable",
        aria_labelledby=title,
    )
    region = tag(
        "div",
        whole,
        class_="scroll tall" if tall else "scroll",
        role="region",
        tabindex=0,
        aria_labelledby=title,
    )
    labeled = joined([tag("p", caption, id=title, class_="caption"), region])
    return tag("details", tag("summary", folded), labeled) if folded else labeled


def figures(items: Iterable[tuple[str, str, str]]) -> Html:
    """Show the few numbers that matter most, each with what it means.

    Parameters
    ----------
    items : iterable of (name, value, meaning)
        The numbers.

    Returns
    -------
    Html
        A list of them.
    """
    return tag(
        "dl",
        *(
            tag(
                "div",
                tag("dt", label),
                tag("dd", value, class_="value"),
                tag("dd", meaning),
            )
            for label, value, meaning in items
        ),
        class_="figures",
    )


def _cell(cell: Any) -> Html:
    return text(cell if isinstance(cell, str) else number(cell))
