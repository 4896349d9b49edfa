"""The numbers of the protocol."""

from __future__ import annotations

from rocketmq_py.protocol.codes import (
    RETRY_RESPONSE_CODES,
    LanguageCode,
    MQVersion,
    PullSysFlag,
    RequestCode,
    ResponseCode,
)


def test_language_ordinals_are_gapless_so_that_a_name_can_be_found_by_index() -> None:
    assert [*range(14)] == [int(language) for language in LanguageCode]


def test_released_versions_are_odd_and_snapshots_even() -> None:
    for version in MQVersion:
        assert version % 2 == ("SNAPSHOT" not in version.name), version.name


def test_well_known_numbers_have_their_names() -> None:
    assert RequestCode(310) is RequestCode.SEND_MESSAGE_V2
    assert RequestCode(370) is RequestCode.RECALL_MESSAGE
    assert ResponseCode(604) is ResponseCode.ILLEGAL_OPERATION
    assert MQVersion(401) is MQVersion.V4_9_4
    assert MQVersion(479) is MQVersion.V5_3_3


def test_a_producer_never_retries_an_illegal_message_or_parameter() -> None:
    assert ResponseCode.MESSAGE_ILLEGAL not in RETRY_RESPONSE_CODES
    assert ResponseCode.INVALID_PARAMETER not in RETRY_RESPONSE_CODES


def test_a_lite_pull_has_flag_22() -> None:
    assert PullSysFlag.LITE_PULL | PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND == 22
