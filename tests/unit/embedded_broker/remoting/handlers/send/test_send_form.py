"""What a form reads of a header is what reading the whole header says; else it reads nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.core.incoming import Incoming, Terms
from embedded_broker.remoting.handlers.send.send_form import FORMS_MAX, SendForm, SendForms
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.json_text import dumps, loads
from tests.golden.sends import PROPERTIES, frame

TERMS = Terms(1)


def header(*given: Any, **fields: Any) -> bytes:
    return FrameDecoder().feed(frame(*given, **fields))[0].header


def form_of(one: bytes) -> SendForm | None:
    document = loads(one)
    ext = document["extFields"]
    return SendForm.of(one, document, Incoming(ext["b"], b"", ext["i"], int(ext["g"]), TERMS))


FORM = form_of(header())
assert FORM is not None


def read_whole(one: bytes) -> tuple[int, str, int]:
    document = loads(one)
    return int(document["extFields"]["g"]), document["extFields"]["i"], document["opaque"]


def read(form: SendForm | None, one: bytes) -> tuple[int, str, int] | None:
    assert form is not None
    found = form.read(one)
    return None if found is None else found[:3]


@given(
    st.text(),
    st.integers(10**12, 10**13 - 1),
    st.integers(1, 10**9 - 1),
    st.sampled_from(["", " "]),
)
def test_headers_that_are_alike_are_read_as_a_whole_one_is(
    text: str, born: int, opaque: int, blank: str
) -> None:
    one = header(opaque, i=PROPERTIES + text, g=str(born))
    assert read(FORM, one) == read_whole(one)
    assert FORM is not None
    assert (FORM.topic, FORM.terms, FORM.fields["e"]) == ("T", TERMS, "1")
    spaced = one.replace(b'"i":', b'"i":%b' % blank.encode())
    assert read(FORM, spaced) in {None, read_whole(one)}


@pytest.mark.parametrize(
    "fields",
    [
        {"b": "U"},
        {"e": "2"},
        {"h": "1"},
        {"h": "11"},
        {"n": "other"},
        {"z": "more"},
        {"l": "3"},
        {"g": "170000000012"},
        {"g": "17000000001234"},
        {"g": "0700000000123"},
        {"g": "170000000012x"},
        {"i": None},
        {"i": 5},
        {"head": {"flag": 1}},
        {"head": {"version": 400}},
        {"head": {"opaque": 10**10}},
        {"head": {"opaque": -5}},
        {"head": {"opaque": "7"}},
    ],
    ids=str,
)
def test_a_header_that_differs_in_anything_else_is_not_read(fields: dict[str, Any]) -> None:
    one = header(**fields)
    found = read(FORM, one)
    assert found is None or found == read_whole(one)
    if fields != {"g": "0700000000123"}:  # a number that a whole header says, too
        assert found is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"opaque":7', b'"opaque":07'),
        (b'"opaque":7', b'"opaque":'),
        (b'"opaque":7', b'"opaque":7,"opaque":8'),
        (b'\\u0002"', b'\\u0002","i":"twice"'),
        (b'\\u0002"', b"\\u0002"),
        (b'\\u0002"', b'\xff"'),
        (b'"j":"0"', b'"j":"0","j":"0"'),
    ],
)
def test_what_is_no_such_header_is_left_to_who_can_refuse_it(before: bytes, after: bytes) -> None:
    whole = header()
    assert before in whole
    at = whole.rindex(before)
    assert read(FORM, whole[:at] + after + whole[at + len(before) :]) is None


def test_a_text_cannot_pretend_to_be_the_rest_of_a_header() -> None:
    whole = header()
    rest = whole[whole.index(b'","j":') :].decode()
    one = header(9, i=PROPERTIES + rest)
    assert read(FORM, one) == (1_700_000_000_123, PROPERTIES + rest, 9)


def signed(number: int = 7, **fields: Any) -> bytes:
    """A header as Java's signing hook leaves it: the signature is its last field."""
    secret = f"{number:027d}="
    return header(number, AccessKey="me", **fields, Signature=secret)


SIGNED_FORM = form_of(signed())
assert SIGNED_FORM is not None


@given(st.text(), st.integers(10**12, 10**13 - 1), st.integers(1, 10**9 - 1))
def test_what_is_read_of_a_signed_header_is_all_that_it_signs(
    text: str, born: int, opaque: int
) -> None:
    assert SIGNED_FORM is not None
    one = signed(opaque, i=PROPERTIES + text, g=str(born))
    found = SIGNED_FORM.read(one)
    assert found == (*read_whole(one), loads(one)["extFields"])


@pytest.mark.parametrize(
    "secret", ["", "short=", f"{7:028d}", f"{7:026d}==", f"{7:025d}\\n=", f"{7:043d}="]
)
def test_a_signature_that_is_none_is_not_read(secret: str) -> None:
    one = signed().replace(f"{7:027d}=".encode(), secret.encode())
    assert read(SIGNED_FORM, one) is None
    assert form_of(one) is None


def test_a_signed_header_and_another_have_nothing_in_common() -> None:
    assert read(SIGNED_FORM, header()) is None
    assert read(FORM, signed()) is None
    twice = signed().replace(b'"j":', b'"Signature":"%b","j":' % b"A" * 28)
    assert read(SIGNED_FORM, twice) is None


@pytest.mark.parametrize(
    "whole",
    [
        header(Signature="x"),
        signed()
        .replace(b'"g":', b'"Signature":"AAAAAAAAAAAAAAAAAAAAAAAAAAA=","g":')
        .replace(b',"Signature":"000000000000000000000000007="}', b"}"),
        header(g="170000000012"),
        dumps({"opaque": 7, **{k: v for k, v in loads(header()).items() if k != "opaque"}}),
        header(a='"g":"1700000000123"', g=None) + b" ",
        header().replace(b'"i":', b'"i": '),
    ],
)
def test_nothing_is_learnt_from_an_unusual_header(whole: bytes) -> None:
    document = loads(whole)
    ext = {"g": "1", **document["extFields"]}
    message = Incoming(ext["b"], b"", ext["i"], int(ext["g"]), TERMS)
    assert SendForm.of(whole, document, message) is None


def learn(forms: SendForms, one: bytes) -> None:
    document = loads(one)
    ext = document["extFields"]
    forms.learn(one, document, Incoming(ext["b"], b"", ext["i"], 1, TERMS))


def knows(forms: SendForms, one: bytes) -> bool:
    form = forms.find(one)
    return form is not None and read(form, one) == read_whole(one)


def test_senders_to_many_queues_are_known_side_by_side() -> None:
    forms, queues = SendForms(), [header(e=str(number)) for number in range(8)]
    for one in queues:
        learn(forms, one)
    assert not any(knows(forms, one) for one in queues)
    for one in queues:
        learn(forms, one)
    for opaque in (8, 123_456):
        assert all(knows(forms, header(opaque, e=str(number))) for number in range(8))


def test_a_sender_that_goes_on_in_another_way_is_learnt_anew() -> None:
    forms = SendForms()
    for one in (header(), header(), header(h="1"), header(h="1")):
        learn(forms, one)
    assert knows(forms, header(9, h="1"))
    assert not knows(forms, header(9))


def test_headers_that_teach_nothing_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms, looks = SendForms(), list[bytes]()
    monkeypatch.setattr(SendForm, "of", lambda one, *_: looks.append(one))
    odd = header().replace(b'"i":', b'"i": ')
    for _ in range(5):
        learn(forms, odd)
    assert (forms.find(odd), looks) == (None, [odd])


def test_forms_are_bounded() -> None:
    forms = SendForms()
    for number in range(3 * FORMS_MAX):
        for _ in range(1 + number % 2):
            learn(forms, header(e=str(number)))
    last = header(e=str(3 * FORMS_MAX - 1))
    assert knows(forms, last)
    kept = sum(knows(forms, header(e=str(number))) for number in range(3 * FORMS_MAX))
    assert 0 < kept <= FORMS_MAX
