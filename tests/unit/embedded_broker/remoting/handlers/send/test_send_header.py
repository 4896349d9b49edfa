"""A message that is read of a header is what the table of the header's fields says."""

from __future__ import annotations

import pytest
from attrs import asdict
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.core.send_values import Incoming
from embedded_broker.remoting.handlers.send.send_header import (
    TERMS_KEPT,
    TEXTS_MAX,
    SendHeader,
    terms_of,
)
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from tests.golden.sends import FIELDS

SHORT = {name: str(value) for name, value in FIELDS.items()}
LONG = SendMessageRequestHeader.from_ext_v2(SHORT).to_ext()
VALUES = st.none() | st.text(max_size=4) | st.integers(-(2**65), 2**65).map(str)
CHANGES = st.dictionaries(st.sampled_from(sorted({*SHORT, "l"})), VALUES, max_size=4)


def message(fields: dict[str, str], code: int = 310, version: int = 477) -> Incoming:
    command = RemotingCommand(code, version=version, ext_fields=fields, body=b"body")
    return SendHeader(short=code != 10).message(command)


def read_all(fields: dict[str, str]) -> SendMessageRequestHeader | str:
    """Read every field, or say what is wrong."""
    try:
        return SendMessageRequestHeader.from_ext_v2(fields)
    except HeaderError as error:
        return str(error)


@given(CHANGES)
def test_it_is_what_reading_every_field_gives(changes: dict[str, str | None]) -> None:
    fields = {name: one for name, one in (SHORT | changes).items() if one is not None}
    header = read_all(fields)
    if isinstance(header, str):
        with pytest.raises(HeaderError) as caught:
            message(fields)
        assert str(caught.value) == header
        return
    read = message(fields)
    assert (read.topic, read.body, read.properties) == (
        header.topic,
        b"body",
        header.properties or "",
    )
    assert read.born_timestamp == header.born_timestamp
    assert asdict(read.terms) == asdict(terms_of(header))


def test_both_forms_of_a_header_say_the_same() -> None:
    assert asdict(message(SHORT)) == asdict(message(LONG, 10))


def test_a_batch_is_known_by_its_code() -> None:
    assert message(SHORT, 320).terms.is_batch
    assert not message(SHORT).terms.is_batch


def test_what_an_old_client_says_of_attempts_is_left_out() -> None:
    fields = SHORT | {"l": "3"}
    old = message(fields, version=MQVersion.V3_4_9 - 1).terms
    new = message(fields, version=MQVersion.V3_4_9).terms
    assert (old.max_reconsume_times, new.max_reconsume_times) == (None, 3)


def test_what_a_broker_releases_for_another_one_is_known_by_its_group() -> None:
    assert message(SHORT | {"a": "InnerProducerGroup_G"}).terms.is_escaped


def test_terms_are_kept_for_so_many_short_headers_and_for_no_long_one() -> None:
    header = SendHeader(short=True)
    for number in range(2 * TERMS_KEPT):
        fields = SHORT | {"a": f"G{number}", "e": str(number)}
        read = header.message(RemotingCommand(310, ext_fields=fields)).terms
        assert read.queue_id == number
        assert header.message(RemotingCommand(310, ext_fields=fields)).terms is read
        assert 0 < len(header._known) <= TERMS_KEPT
    before = len(header._known)
    fields = SHORT | {"c": "x" * TEXTS_MAX}
    assert header.message(RemotingCommand(310, ext_fields=fields)).terms.template == fields["c"]
    assert len(header._known) == before
