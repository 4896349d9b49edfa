"""The document and the page are made from the table, and the table is what is answered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from embedded_broker.control.openapi import document
from embedded_broker.control.operations import FAMILIES, OPERATIONS
from embedded_broker.control.page import command, page
from tests.unit.embedded_broker.control.http_peer import HttpPeer

DOCUMENT: Any = document(FAMILIES)


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(one) for one in value.values()))
    if isinstance(value, list):
        return set().union(*(references(one) for one in value))
    return set()


def test_every_row_is_told_once_under_a_name_of_its_own() -> None:
    told = {
        (method.upper(), path): one["operationId"]
        for path, methods in DOCUMENT["paths"].items()
        for method, one in methods.items()
    }
    assert told == {(one.method, one.path): one.name for one in OPERATIONS}
    assert len(set(told.values())) == len(OPERATIONS)


def test_every_reference_leads_somewhere() -> None:
    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) == schemas


def test_every_row_says_what_it_does_and_what_each_field_means() -> None:
    for one in OPERATIONS:
        assert one.summary.endswith("."), one
        for field in (*one.path_fields, *one.fields):
            assert field.meaning.endswith("."), (one.path, field)
            if field.default is not None:
                assert field.read(field.default) == field.default


def test_path_fields_limits_and_choices_are_told() -> None:
    recall = DOCUMENT["paths"]["/timers/{id}/recall"]["post"]
    assert recall["parameters"][0]["in"] == "path"
    listing = DOCUMENT["paths"]["/timers"]["get"]["parameters"]
    (limit,) = (one for one in listing if one["name"] == "limit")
    assert limit["schema"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": 1000,
        "default": 100,
    }
    body = DOCUMENT["paths"]["/messages"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["required"] == ["topic"]


def test_the_page_loads_nothing_and_shows_every_row() -> None:
    html = page(FAMILIES, "http://127.0.0.1:1")
    assert not re.search(r"(src|href)=\"?(https?:|//)", html)
    assert html.count("<details>") == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_every_row_has_a_command_to_try(operation: Any) -> None:
    told = command(operation, "http://x")
    assert told.startswith("curl ")
    for field in operation.fields:
        assert (f"<{field.name}>" in told) == (field.required and operation.method != "DELETE")


def test_document_and_page_are_served(control: HttpPeer) -> None:
    assert control.get("/openapi.json") == DOCUMENT
    for path in ("/", "/docs"):
        shown = control.ask("GET", path)
        assert (shown.status, shown.kind) == (200, "text/html")
        assert f"http://{control.address}/clock".encode() in shown.body


def test_every_path_is_routed(control: HttpPeer) -> None:
    for one in OPERATIONS:
        answer = control.ask("PUT", re.sub(r"\{\w+\}", "x", one.path))
        assert (answer.status, answer.kind) == (405, "application/problem+json"), one.path
