"""The page for people: every operation, its fields, and a command to try it.

Answers: what ``/docs`` shows. It loads nothing from anywhere. Must not know: brokers. Read on:
``openapi.py`` for the same for programs.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from embedded_broker.control.fields import Field
from embedded_broker.control.operation import BROKER, Operation

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid #ddd}
details{margin:.4rem 0;padding:.3rem .8rem;background:#f6f7f8;border-radius:6px}
summary{cursor:pointer}code,pre{font:14px/1.4 ui-monospace,monospace}
pre{background:#fff;padding:.6rem;overflow:auto}
.m{display:inline-block;width:4.5rem;font-weight:600;color:#36c}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#16181a;color:#ddd}details{background:#22262a}
pre{background:#16181a}h2{border-color:#444}.m{color:#8ab4ff}}
"""


_BEGINNING: Final = (
    "<p>What tests in any language do with the broker. A GET or DELETE takes its fields in the "
    "query, a POST as a JSON object. Errors are problem+json. "
    '<a href="openapi.json">openapi.json</a> says the same for programs.</p>'
)


def page(families: Mapping[str, Sequence[Operation]], url: str) -> str:
    """Give the page as HTML; ``url`` is where the operations are."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Embedded RocketMQ broker</title>",
        '<meta name=viewport content="width=device-width">',
        f"<style>{_STYLE}</style><h1>Embedded RocketMQ broker</h1>",
        _BEGINNING,
    ]
    for title, operations in families.items():
        parts.append(f"<h2>{escape(title)}</h2>")
        parts.extend(_shown(one, url) for one in operations)
    return "".join(parts)


def _shown(one: Operation, url: str) -> str:
    also = (BROKER,) if one.is_of_one_broker else ()
    rows = "".join(_row(field) for field in (*one.path_fields, *one.fields, *also))
    table = f"<table><tr><th>field<th>what it is<th>values</tr>{rows}</table>" if rows else ""
    return (
        f"<details><summary><span class=m>{one.method}</span><code>{escape(one.path)}</code> "
        f"{escape(one.summary)}</summary>{table}"
        f"<pre>{escape(command(one, url))}</pre></details>"
    )


def _row(field: Field) -> str:
    known = " (required)" if field.required else ""
    default = "" if field.default is None else f"; {field.default!r} if not given"
    meaning = escape(field.meaning + known)
    limit = escape(field.limit + default)
    return f"<tr><td><code>{field.name}</code><td>{meaning}<td>{limit}</tr>"


def command(one: Operation, url: str) -> str:
    """Give a command that asks for it; what is in angle brackets is to be filled in."""
    path = one.path.replace("{", "<").replace("}", ">")
    if one.method == "GET":
        query = "&".join(f"{field.name}=<{field.name}>" for field in one.fields if field.required)
        return f"curl '{url}{path}{'?' if query else ''}{query}'"
    if one.method == "DELETE":
        return f"curl -X DELETE '{url}{path}'"
    wanted = ", ".join(f'"{field.name}": <{field.name}>' for field in one.fields if field.required)
    return f"curl --json '{{{wanted}}}' '{url}{path}'"
