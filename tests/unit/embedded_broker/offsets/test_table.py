"""Committed offsets by themselves."""

from __future__ import annotations

from embedded_broker.offsets.table import NOT_STORED, OffsetTable
from rocketmq_py.protocol.lenient_json import loads_lenient


def test_an_offset_is_kept_as_it_was_given_backwards_too() -> None:
    table = OffsetTable()
    assert table.query("g", "T", 0) == NOT_STORED
    for offset in (7, 3):
        table.commit("g", "T", 0, offset)
        assert table.query("g", "T", 0) == offset
    assert table.query("g", "T", 1) == NOT_STORED
    assert table.query("h", "T", 0) == NOT_STORED


def test_topics_and_groups_are_listed() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, 1)
    table.commit("g", "U", 0, 1)
    table.commit("h", "T", 2, 5)
    assert table.topics_of("g") == ["T", "U"]
    assert table.groups() == ["g", "h"]
    assert table.queues("h", "T") == {2: 5}
    assert table.queues("h", "U") == {}


def test_the_file_of_a_real_broker_is_read() -> None:
    text = b'{"offsetTable":{"%RETRY%G@G":{0:0\n},"T@G":{0:5,1:6},"broken":{0:1}}}'
    table = OffsetTable()
    table.load_document(loads_lenient(text))
    assert table.queues("G", "T") == {0: 5, 1: 6}
    assert table.query("G", "%RETRY%G", 0) == 0
    again = OffsetTable()
    again.load_document(table.to_document())
    assert again.to_document() == table.to_document()


def test_on_changed_is_called_once_until_the_change_is_saved() -> None:
    table = OffsetTable()
    calls: list[bool] = []
    table.on_changed = lambda: calls.append(table.changed)
    table.commit("g", "T", 0, 1)
    table.commit("g", "T", 0, 2)
    assert calls == [True]
