"""What is stored of the properties that a client wrote."""

from __future__ import annotations

import pytest

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.stored_properties import StoredProperties
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from rocketmq_py.protocol.properties import decode_properties, encode_properties


def stamps(profile: str = "rocketmq-5.x", config: BrokerConfig | None = None) -> StoredProperties:
    return StoredProperties(config or BrokerConfig(), find_profile(profile), "C", lambda: "NEW")


@pytest.mark.parametrize("profile", ["rocketmq-4.9", "rocketmq-5.x"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "UNIQ_KEY\1AB\2",
        "UNIQ_KEY\1AB",  # 4.9 clients leave out the last separator
        "TAGS\1a\2UNIQ_KEY\1AB\2KEYS\1k\2",
        "WAIT\1true\2UNIQ_KEY\1AB\2",
        "UNIQ_KEY\1AB\2WAIT\1false\2a\1b\2",
        "nWAIT\1true\2UNIQ_KEY\1AB\2WAIT\1true\2",
        "UNIQ_KEY\1AB\2UNIQ_KEY\1CD\2",
        "UNIQ_KEY\1AB\2CLUSTER\1mine\2",
        "UNIQ_KEY\1AB\2POP_CK\1handle\2",
        "a\1b\1c\2UNIQ_KEY\1AB\2",
    ],
)
def test_the_cheap_form_says_what_the_completed_properties_say(profile: str, text: str) -> None:
    made = stamps(profile)
    properties = made.read(text, "T")
    stored = made.stored(properties, text)
    if profile == "rocketmq-4.9":
        properties.pop("WAIT", None)
    assert decode_properties(stored.decode()) == properties
    assert sorted(stored) == sorted(encode_properties(properties))


def test_a_5_x_broker_adds_a_key_and_its_marks_and_takes_out_what_is_about_pop() -> None:
    properties = {"POP_CK": "handle"}
    stamps().complete(properties, "POP_CK\1handle\2")
    assert properties == {
        "UNIQ_KEY": "NEW",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "C",
    }


def test_a_4_9_broker_adds_its_cluster_alone() -> None:
    properties = {"POP_CK": "handle"}
    stamps("rocketmq-4.9").complete(properties, "POP_CK\1handle\2")
    assert properties == {"POP_CK": "handle", "CLUSTER": "C"}


def test_what_is_added_follows_the_settings() -> None:
    config = BrokerConfig()
    made = stamps(config=config)
    config.update(regionId="R2")
    assert b"MSG_REGION\1R2\2" in made.stored({"UNIQ_KEY": "AB"}, "UNIQ_KEY\1AB\2")


def test_a_zero_byte_is_refused_and_bookkeeping_of_the_timer_is_left_out() -> None:
    with pytest.raises(Refused, match=r"U\+0000") as refused:
        stamps().read("a\1\0\2", "T")
    assert refused.value.reason is Reason.MESSAGE_ILLEGAL
    assert stamps().read("TIMER_OUT_MS\x0177\2a\1b\2", "T") == {"a": "b"}
