"""The server's JSON dialect."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.lenient_json import DEPTH_MAX, dumps_fastjson, loads_lenient


@pytest.mark.case("W24")
@pytest.mark.parametrize(
    ("bare", "quoted"),
    [
        (b'{0:"a",-1:"b"}', b'{"0":"a","-1":"b"}'),
        (b'{"t":{0:5,1:7}} \n', b'{"t":{"0":5,"1":7}}'),
        (b" { 0 : [ 1 , true , null , -2.5e1 ] } ", b'{"0":[1,true,null,-25.0]}'),
        (b"{0:{},1:[],2:false}", b'{"0":{},"1":[],"2":false}'),
    ],
)
def test_bare_integer_keys_read_as_quoted_ones(bare: bytes, quoted: bytes) -> None:
    assert loads_lenient(bare) == loads_lenient(quoted)


@pytest.mark.case("W24")
def test_an_object_as_key_reads_as_pairs_in_the_order_of_their_names() -> None:
    document = loads_lenient(b'{"o":{{"topic":"T","queueId":0}:{"maxOffset":1}}}')

    assert document == {"o": {(("queueId", 0), ("topic", "T")): {"maxOffset": 1}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'{0:"a\"b"}', 'a"b'),
        (r'{0:"a\\"}', "a\\"),
        (r'{0:"\\\\\""}', '\\\\"'),
        (r'{0:"\u6807"}', "标"),
        ('{0:"标"}', "标"),
    ],
)
def test_texts_end_at_the_first_quote_that_is_not_escaped(text: str, expected: str) -> None:
    assert loads_lenient(text) == {"0": expected}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{0:1",
        b"{0:1}}",
        b"{0 1}",
        b"{0:1,}",
        b"{1.5:1}",
        b"{0:[1 2]}",
        b'{0:"a}',
        b"{x:1}",
        b"{0:-}",
        b'{0:"\\ud800"}',
        b"{{0:1}:2,3:{{4:{}}:5}}",
        b"{{{0:1}:1}:1}",
        b"\xff{0:1}",
        b"{0:" * (DEPTH_MAX + 2),
    ],
)
def test_what_is_no_document_raises_a_body_error_with_its_offset(text: bytes) -> None:
    with pytest.raises(BodyError) as caught:
        loads_lenient(text)

    assert caught.value.offset is not None


def test_names_are_written_in_order_and_none_is_left_out() -> None:
    assert dumps_fastjson({"b": None, "c": 1, "a": [None, 1.0]}) == b'{"a":[null,1.0],"c":1}'


def test_integer_keys_are_in_numeric_order_and_bare_or_quoted() -> None:
    assert dumps_fastjson({10: 1, 9: 2}) == b"{9:2,10:1}"
    assert dumps_fastjson({10: 1, 9: 2}, dialect="standard") == b'{"9":2,"10":1}'


def test_object_keys_are_bare_or_their_own_text() -> None:
    document = {(("queueId", 0), ("topic", 'a"b')): 1}

    assert dumps_fastjson(document) == b'{{"queueId":0,"topic":"a\\"b"}:1}'
    assert loads_lenient(dumps_fastjson(document)) == document
    (key,) = loads_lenient(dumps_fastjson(document, dialect="standard"))
    assert loads_lenient(key) == {"queueId": 0, "topic": 'a"b'}


def test_the_standard_dialect_escapes_beyond_ascii() -> None:
    assert dumps_fastjson({"a": "标😀"}, dialect="standard") == b'{"a":"\\u6807\\uD83D\\uDE00"}'
    assert dumps_fastjson({"a": "标"}) == '{"a":"标"}'.encode()


def test_the_pretty_form_keeps_entries_under_number_keys_on_one_line() -> None:
    document = {"dataVersion": {"counter": 3, "stateVersion": 0}, "offsetTable": {4: 2, 3: 202}}
    expected = (
        b'{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0\n\t},\n'
        b'\t"offsetTable":{3:202,4:2\n\t}\n}'
    )

    assert dumps_fastjson(document, pretty=True) == expected
    assert loads_lenient(expected)["offsetTable"] == {"3": 202, "4": 2}


def test_the_pretty_form_of_something_empty_stays_on_its_line() -> None:
    assert dumps_fastjson({"a": {}, "b": []}, pretty=True) == b'{\n\t"a":{},\n\t"b":[]\n}'
