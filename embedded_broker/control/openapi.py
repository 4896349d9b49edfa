"""The OpenAPI document, made from the table of operations.

Answers: what ``/openapi.json`` holds. Must not know: brokers, HTTP. Read on: ``page.py`` for the
same for people, ``operations/`` for the table.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from embedded_broker.control.answers import Json, schema_of
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import BROKER, Operation
from embedded_broker.control.problems import PROBLEM_TYPE

VERSION: Final = "1"
"""Of the operations, not of this package: it changes when a caller has to change."""
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Why something was not possible (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "The kind of the error."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, and what to do."},
        "setting": {"type": "string", "description": "The field or option that is meant."},
        "value": {"description": "What was given."},
        "limit": {"type": "string", "description": "What is possible."},
    },
    "required": ["type", "title", "status", "detail"],
}


def document(families: Mapping[str, Sequence[Operation]]) -> Json:
    """Give the OpenAPI document of all operations."""
    schemas: dict[str, Json] = {"Problem": _PROBLEM}
    paths: dict[str, Json] = {}
    for title, operations in families.items():
        for one in operations:
            path = paths.setdefault(one.path, {})
            path[one.method.lower()] = {**_operation(one, schemas), "tags": [title]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Embedded RocketMQ broker",
            "version": VERSION,
            "description": "Moves the clock of a broker, looks into it and breaks it.",
        },
        "tags": [{"name": title} for title in families],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(one: Operation, schemas: dict[str, Json]) -> Json:
    query = () if one.has_body else one.fields
    also = (BROKER,) if one.is_of_one_broker else ()
    told: dict[str, Json] = {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [
            *(_parameter(field, "path") for field in one.path_fields),
            *(_parameter(field, "query") for field in (*query, *also)),
        ],
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": schema_of(one.answer, schemas)}},
            },
            "default": {
                "description": "Not possible.",
                "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if one.has_body:
        required = [field.name for field in one.fields if field.required]
        told["requestBody"] = {
            "required": bool(required),
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {field.name: _schema(field) for field in one.fields},
                        "required": required,
                        "additionalProperties": False,
                    }
                }
            },
        }
    return told


def _parameter(field: Field, where: str) -> Json:
    return {
        "name": field.name,
        "in": where,
        "required": field.required,
        "description": field.meaning,
        "schema": _schema(field, told=False),
    }


def _schema(field: Field, *, told: bool = True) -> Json:
    schema: dict[str, Json] = {"type": field.kind.json_type}
    if field.kind.json_format:
        schema["format"] = field.kind.json_format
    if told:
        schema["description"] = field.meaning
    if field.kind is FieldType.TEXTS:
        schema["items"] = {"type": "string"}
    if field.kind is FieldType.TEXT_MAP:
        schema["additionalProperties"] = {"type": "string"}
    if field.choices:
        schema["enum"] = list(field.choices)
    limits = {"minimum": field.low, "maximum": field.high, "default": field.default}
    return {**schema, **{name: value for name, value in limits.items() if value is not None}}
