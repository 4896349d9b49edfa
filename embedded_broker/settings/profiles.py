"""Behaviour profiles: which RocketMQ the broker answers as, as data.

Answers: what differs between the versions that users deploy on. Must not know: any handler; the
code that acts on a field reads it from ``core.profile`` or ``core.limits``. Read on:
``embedded_broker/settings/config.py`` for RocketMQ's own options, which every profile shares.
"""

from collections.abc import Mapping
from typing import Final, Literal

from attrs import field, frozen

from embedded_broker.settings.options import OptionValue
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode

POP_CODES: Final = frozenset(range(RequestCode.POP_MESSAGE, RequestCode.POP_ROLLBACK + 1)) | {
    RequestCode.BATCH_ACK_MESSAGE
}
ProfileName = Literal["rocketmq-5.x", "rocketmq-4.9"]
LimitsName = Literal["broker", "proxy", "aliyun"]


@frozen(kw_only=True)
class Profile:
    """One version's limits, codes and switches."""

    name: str
    version: int
    """``MQVersion`` number in every answer; clients switch features on it."""
    invalid_parameter: int
    """Code of a bad topic, group or queue: 1 before 5.3.2, then 29 INVALID_PARAMETER."""
    answers_with_request_type: bool
    """4.9 answers with the serialize type of the request; 5.x always with JSON."""
    namesrv_answers_unknown: bool
    """A 4.9 name server does not answer unknown codes at all; 5.x answers code 3."""
    unsupported_codes: frozenset[int]
    """Request codes that we have and this version does not."""
    empty_body_allowed: bool
    """4.9 stores a message without body; 5.x fails with code 1."""
    topic_length_max: int
    system_topic_length_max: int
    """Limit of %RETRY% and %DLQ% topics."""
    group_length_max: int
    nearest_offset_search: bool
    """Request 29 finds the nearest store time in 4.9, and LOWER and UPPER boundaries in 5.x."""
    unknown_offset_group_accepted: bool
    """4.9 and 5.0 accept request 15 for an unknown group or topic, 5.1 answers it with 26 or 17."""
    timer_messages: bool
    """5.x times messages by TIMER_* properties; 4.9 does not know them and delivers at once."""
    wait_property_kept: bool
    """5.3.3 keeps WAIT=true on every record; 4.9 removes it from plain ones."""
    topic_attributes: bool
    """Request 17 reads ``attributes``, and topic configs carry them."""
    data_version_has_state: bool
    """DataVersion bodies carry ``stateVersion``."""
    stats_have_put_tps: bool
    """The answer of request 202 carries ``topicPutTps``, that of 208 ``pullOffset``."""
    marks_stored_messages: bool
    """MSG_REGION and TRACE_ON are written into the message, UNIQ_KEY too when it is missing, and
    a POP_CK of the sender is dropped."""
    counts_replicas: bool
    """As SYNC_MASTER it waits for as many brokers as ``inSyncReplicas`` says, not for any slave."""
    names_stored_messages: bool
    """A send answer carries the UNIQ_KEY as transactionId, for ordinary messages too, and the
    recall handle of a timer."""
    retries_at_limit: bool
    """A client's own send to %RETRY% goes to the dead letters above the maximum, not at it."""
    locked_group_gives_up: bool
    """The same send goes there at once while the group holds a queue lock: an orderly consumer
    gives up."""
    tells_broadcasting_groups: bool
    """40 is sent to broadcasting groups too."""
    checks_group_names: bool
    """Request 200 refuses a bad group name."""
    searches_by_sql: bool
    """CONTAINS, STARTSWITH and ENDSWITH are words of SQL92; 4.9 reads on up to there only."""
    resets_at_pull: bool
    """An offset that is reset reaches a consumer as the answer to its next pull, not by 220."""
    takes_fingerprints: bool
    """A heartbeat may have a fingerprint instead of subscriptions, and its answer says so."""
    options: Mapping[str, OptionValue] = field(factory=dict)
    """Options that had another default in this version."""


PROFILES: dict[str, Profile] = {
    "rocketmq-4.9": Profile(
        name="rocketmq-4.9",
        version=401,
        invalid_parameter=1,
        answers_with_request_type=True,
        namesrv_answers_unknown=False,
        unsupported_codes=frozenset(
            {
                *(18, 60, 61, 217, 225, 343, 345, 351, 352, 353, 361, 370, 400, 401, 402),
                *(901, 904, 906, 907, *POP_CODES, *range(3001, 3011)),
            }
        ),
        empty_body_allowed=True,
        topic_length_max=127,
        system_topic_length_max=127,
        group_length_max=255,
        nearest_offset_search=True,
        unknown_offset_group_accepted=True,
        timer_messages=False,
        wait_property_kept=False,
        topic_attributes=False,
        data_version_has_state=False,
        stats_have_put_tps=False,
        marks_stored_messages=False,
        counts_replicas=False,
        names_stored_messages=False,
        retries_at_limit=False,
        locked_group_gives_up=False,
        tells_broadcasting_groups=True,
        checks_group_names=False,
        searches_by_sql=False,
        resets_at_pull=False,
        takes_fingerprints=False,
        options={"transactionCheckInterval": 60_000},
    ),
    "rocketmq-5.x": Profile(
        name="rocketmq-5.x",
        version=479,
        invalid_parameter=29,
        answers_with_request_type=False,
        namesrv_answers_unknown=True,
        unsupported_codes=frozenset(range(50, 55)),
        empty_body_allowed=False,
        topic_length_max=127,
        system_topic_length_max=255,
        group_length_max=120,
        nearest_offset_search=False,
        unknown_offset_group_accepted=False,
        timer_messages=True,
        wait_property_kept=True,
        topic_attributes=True,
        data_version_has_state=True,
        stats_have_put_tps=True,
        marks_stored_messages=True,
        counts_replicas=True,
        names_stored_messages=True,
        retries_at_limit=True,
        locked_group_gives_up=True,
        tells_broadcasting_groups=False,
        checks_group_names=True,
        searches_by_sql=True,
        resets_at_pull=True,
        takes_fingerprints=True,
    ),
}
"""The profiles by name. ``rocketmq-5.x`` is the default and answers as 5.3.3."""


def find_profile(name: str) -> Profile:
    """Return the profile called ``name``; ``ConfigError`` lists the names."""
    profile = PROFILES.get(name)
    if profile is None:
        raise ConfigError("profile", name, "one of " + ", ".join(sorted(PROFILES)))
    return profile


@frozen(kw_only=True)
class Limits:
    """Limits that are narrower than the broker's own: those of a proxy or of a cloud service."""

    name: str
    options: Mapping[str, OptionValue] = field(factory=dict)
    """Options that have another default under these limits. What a user sets wins."""
    proxy_delay: bool = False
    """``maxDelayTimeMills`` is in force: a longer delay is refused with 13."""
    checks_types: bool = False
    """``enableTopicMessageTypeCheck`` is in force: a message must be of its topic's type."""
    longest_delay_excluded: bool = False
    """A delay of exactly ``timerMaxDelaySec`` is refused too."""


LIMITS: dict[str, Limits] = {
    "broker": Limits(name="broker"),
    "proxy": Limits(name="proxy", proxy_delay=True, checks_types=True),
    "aliyun": Limits(
        name="aliyun",
        options={
            "timerMaxDelaySec": 3_456_000,
            "maxDelayTimeMills": 3_456_000_000,
            "fileReservedTime": 168,
        },
        longest_delay_excluded=True,
    ),
}
"""The limits by name. ``broker`` is the default: only those of an open-source broker. ``proxy`` has
those of RocketMQ 5's proxy, for remoting clients, too. ``aliyun`` has those of the cloud service:
delays of less than 40 days, messages kept for 7 days.
"""


def find_limits(name: str) -> Limits:
    """Return the limits called ``name``; ``ConfigError`` lists the names."""
    limits = LIMITS.get(name)
    if limits is None:
        raise ConfigError("limits", name, "one of " + ", ".join(sorted(LIMITS)))
    return limits
