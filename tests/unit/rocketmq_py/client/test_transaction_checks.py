"""Who gets the question of a broker."""

from __future__ import annotations

import pytest

from rocketmq_py.client.transaction_checks import TransactionCheck, TransactionChecks
from rocketmq_py.errors import HeaderError, RecordError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def question(group: str = "P") -> RemotingCommand:
    body = encode_record(
        topic="T",
        queue_id=2,
        flag=0,
        queue_offset=3,
        commit_log_offset=400,
        sys_flag=0,
        born_timestamp=1,
        born_host=HOST,
        store_timestamp=2,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"x",
        properties=encode_properties({"UNIQ_KEY": "ID", "PGROUP": group}),
    )
    fields = {"tranStateTableOffset": "3", "commitLogOffset": "400", "bname": "broker-a"}
    return RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, ext_fields=fields, body=body)


def test_the_producer_of_the_messages_group_is_asked() -> None:
    seen: list[TransactionCheck] = []
    checks = TransactionChecks()
    checks.register("P", seen.append)
    checks.register("Q", lambda _: pytest.fail("another group"))

    checks.serve("127.0.0.1:1", question())

    (check,) = seen
    assert (check.address, check.header.commit_log_offset) == ("127.0.0.1:1", 400)
    assert (check.message.topic, check.message.queue_id, check.message.broker_name) == (
        "T",
        2,
        "broker-a",
    )
    assert check.message.transaction_id == "ID"


def test_a_question_that_nobody_can_answer_is_dropped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checks = TransactionChecks()
    checks.register("P", lambda _: pytest.fail("unregistered"))
    checks.unregister("P")
    checks.unregister("P")

    checks.serve("127.0.0.1:1", question())

    assert "no TransactionMQProducer of this group" in caplog.text


def test_a_question_that_cannot_be_read_is_an_error() -> None:
    checks = TransactionChecks()
    broken = question()
    broken.body = b"x"
    with pytest.raises(RecordError):
        checks.serve("127.0.0.1:1", broken)
    headless = question()
    headless.ext_fields = {}
    with pytest.raises(HeaderError):
        checks.serve("127.0.0.1:1", headless)
