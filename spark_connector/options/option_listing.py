"""How the options of the data source are shown to its users: as text, and as a Markdown table.

What the table `OPTIONS` says, nothing more. Must not know how options are checked. Read on:
``options.py`` for the table, ``option_meanings.py`` for the words.
"""

from __future__ import annotations

import textwrap

from spark_connector.options.options import OPTIONS
from spark_connector.options.parsing import NUMBER_MOST, USES, Option

__all__ = ["as_markdown", "as_text"]

TEXT_WIDTH = 100
_KINDS = {
    "text": "text",
    "json": "JSON",
    "bool": "true, false",
    "duration": "duration",
}


def as_text() -> str:
    """Return all options in the order of their table: name, use, values, default, meaning."""
    lines = [f"{letter}: {use}" for letter, use in USES.items()]
    for option in OPTIONS.values():
        default = "unset" if option.default is None else option.default
        lines += ["", f"{option.name} ({option.uses}; {_values(option)}) = {default}"]
        lines += textwrap.wrap(
            option.meaning,
            TEXT_WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def as_markdown() -> str:
    """Return the same as a table, a row for each option."""
    lines = ["| Option | Use | Values | Default | Meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS.values():
        default = "" if option.default is None else f"`{option.default}`"
        meaning = option.meaning.replace("|", "\\|")
        name = f"`{option.name}`"
        lines.append(f"| {name} | {option.uses} | {_values(option)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _values(option: Option) -> str:
    if option.kind != "int":
        return _KINDS.get(option.kind) or option.kind.replace("|", ", ")
    if option.high == NUMBER_MOST:
        return f"{option.low} or more"
    return f"{option.low} to {option.high}"
