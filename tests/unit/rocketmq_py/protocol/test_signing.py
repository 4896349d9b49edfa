"""Signatures of requests."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.signing import sign, text, verify

SECRET = "12345678"
FIELDS = {"topic": "TBW102", "AccessKey": "rocketmq2"}


def signed(fields: dict[str, str], body: bytes = b"") -> dict[str, str]:
    return fields | {"Signature": sign(SECRET, fields, body)}


@pytest.mark.case("W97")
def test_the_recorded_vector_is_reproduced() -> None:
    assert text(FIELDS) == b"rocketmq2TBW102"
    assert sign(SECRET, FIELDS) == "/u5P/wZUbhjanu4LM/UzEdo2u2I="


@pytest.mark.case("W97")
def test_a_field_added_after_signing_is_rejected() -> None:
    request = signed(FIELDS)

    assert verify(SECRET, request)
    assert not verify(SECRET, request | {"addedByHook": "1"})


def test_the_body_is_part_of_the_text() -> None:
    request = signed(FIELDS, b"body")

    assert verify(SECRET, request, b"body")
    assert not verify(SECRET, request, b"bodY")


def test_another_secret_or_no_signature_is_rejected() -> None:
    assert not verify("87654321", signed(FIELDS))
    assert not verify(SECRET, FIELDS)
    assert not verify(SECRET, FIELDS | {"Signature": "标"})


def test_values_are_joined_in_the_byte_order_of_their_names() -> None:
    assert text({"b": "2", "a": "1", "Z": "0", "é": "3", "Signature": "x"}) == b"0123"


@pytest.mark.parametrize("left_out", ["_UNIQUE_KEY_QUERY", "SecurityToken"])
def test_a_signature_without_a_field_that_known_clients_leave_out_is_accepted(
    left_out: str,
) -> None:
    request = signed(FIELDS) | {left_out: "x"}

    assert verify(SECRET, request)
