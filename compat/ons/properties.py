"""Properties of an ONS client: their names, how they are kept, and how a value is read.

`PropertyKeyConst` has the names that ONS programs use; their irregular casing is the original's.
What each of them does to which client is told in `settings`; this module must not know it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from rocketmq_py.errors import ONSClientException


class PropertyKeyConst:
    """Names of the properties."""

    GROUP_ID: Final = "GROUP_ID"
    ProducerId: Final = "ProducerId"
    ConsumerId: Final = "ConsumerId"
    AccessKey: Final = "AccessKey"
    SecretKey: Final = "SecretKey"
    SecurityToken: Final = "SecurityToken"
    RAM_ROLE_NAME: Final = "RamRoleName"
    OnsChannel: Final = "OnsChannel"
    NAMESRV_ADDR: Final = "NAMESRV_ADDR"
    ONSAddr: Final = "ONSAddr"
    INSTANCE_ID: Final = "INSTANCE_ID"
    InstanceName: Final = "InstanceName"
    isVipChannelEnabled: Final = "isVipChannelEnabled"
    MsgTraceSwitch: Final = "MsgTraceSwitch"
    LANGUAGE_IDENTIFIER: Final = "languageIdentifier"
    MQType: Final = "MQType"
    SendMsgTimeoutMillis: Final = "SendMsgTimeoutMillis"
    MaxDelayDays: Final = "MaxDelayDays"
    CheckImmunityTimeInSeconds: Final = "CheckImmunityTimeInSeconds"
    MessageModel: Final = "MessageModel"
    ConsumeThreadNums: Final = "ConsumeThreadNums"
    MaxReconsumeTimes: Final = "maxReconsumeTimes"
    SuspendTimeMillis: Final = "suspendTimeMillis"
    ConsumeTimeout: Final = "consumeTimeout"
    ConsumeMessageBatchMaxSize: Final = "ConsumeMessageBatchMaxSize"
    BatchConsumeMaxAwaitDurationInSeconds: Final = "batchConsumeMaxAwaitDurationInSeconds"
    MaxCachedMessageAmount: Final = "maxCachedMessageAmount"
    MaxCachedMessageSizeInMiB: Final = "maxCachedMessageSizeInMiB"
    PostSubscriptionWhenPull: Final = "PostSubscriptionWhenPull"
    MAX_BATCH_MESSAGE_COUNT: Final = "maxBatchMessageCount"
    AUTO_COMMIT: Final = "autoCommit"
    AUTO_COMMIT_INTERVAL_MILLIS: Final = "autoCommitIntervalMillis"
    POLL_TIMEOUT_MILLIS: Final = "pollTimeoutMillis"
    EXACTLYONCE_DELIVERY: Final = "exactlyOnceDelivery"
    exactlyOnceDelivery: Final = "exactlyOnceDelivery"


class PropertyValueConst:
    """Values of the property `PropertyKeyConst.MessageModel`."""

    CLUSTERING: Final = "CLUSTERING"
    BROADCASTING: Final = "BROADCASTING"


KNOWN: Final = frozenset(
    value for name, value in vars(PropertyKeyConst).items() if not name.startswith("_")
)
"""Every name of `PropertyKeyConst`."""


class Properties(dict[str, str]):
    """Properties by name, as ``java.util.Properties``; numbers and switches become text.

    TypeError for None as key or value, as in Java, and for a value that is no text, number or bool.

    >>> properties = Properties()
    >>> properties.put(PropertyKeyConst.SendMsgTimeoutMillis, 3000)
    >>> properties.getProperty("SendMsgTimeoutMillis")
    '3000'
    """

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.update(values or {})

    def __setitem__(self, key: str, value: object) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a property's name is a str, not {type(key).__name__} {key!r}")
        if not isinstance(value, (str, int, float)):
            # Not shown: it may be a secret in another type.
            kind = type(value).__name__
            raise TypeError(f"property {key}: a value is a str, a number or a bool, not {kind}")
        super().__setitem__(key, str(value).lower() if isinstance(value, bool) else str(value))

    def update(self, values: Any = (), /, **more: Any) -> None:  # Any: as of a dict
        """Set several values, of a mapping or of pairs."""
        pairs: Iterable[tuple[str, object]]
        pairs = values.items() if isinstance(values, Mapping) else values
        for key, value in (*pairs, *more.items()):
            self[key] = value  # `__setitem__` makes it text

    def setdefault(self, key: str, default: object = None) -> str:
        """Return a value; set it before when there is none."""
        if key not in self:
            self[key] = default  # `__setitem__` makes it text
        return self[key]

    def put(self, key: str, value: str | float) -> None:
        """Set a value."""
        self[key] = value  # `__setitem__` makes it text

    def set_property(self, key: str, value: str | float) -> None:
        """Set a value."""
        self.put(key, value)

    def setProperty(self, key: str, value: str | float) -> None:
        """Java's spelling of `set_property`."""
        self.set_property(key, value)

    def get_property(self, key: str, default: str | None = None) -> str | None:
        """Return a value, or `default` when it is not set."""
        return self.get(key, default)

    def getProperty(self, key: str, default: str | None = None) -> str | None:
        """Java's spelling of `get_property`."""
        return self.get_property(key, default)

    @classmethod
    def of(cls, properties: Mapping[str, object], needed: str) -> Self:
        """Make a copy, so that later changes of the caller's mapping do not matter.

        TypeError, which says what is ``needed``, for what is no mapping.
        """
        given: object = properties  # whatever a program passes
        if not isinstance(given, Mapping):
            shown = "None" if given is None else f"{type(given).__name__} {given!r:.40}"
            raise TypeError(
                f"properties are Properties or another mapping with {needed}, not {shown}"
            )
        return cls(properties)


_INSTANCE: Final = r"MQ_INST_\w+_\w+|mqi-\w+-\w+"
_INSTANCE_HOST: Final = re.compile(rf"(?:\w+://)?({_INSTANCE})\.", re.ASCII)
"""As ``NameServerAddressUtils`` and ``NameAddrUtils`` of the original know an instance's host."""
_SHARED_NAMING_SIGN: Final = 3
"""Which character of the last part of ``mqi-...-...`` tells whether its names are its own."""


def text_of(properties: Mapping[str, str], key: str) -> str:
    """Return a value without surrounding blanks, "" when it is not set."""
    return properties.get(key, "").strip()


def int_of(properties: Mapping[str, str], key: str, default: int) -> int:
    """Return a whole number; ONSClientException when it is none (Java ignores it)."""
    text = text_of(properties, key)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ONSClientException(f"property {key} = {text!r} must be a whole number") from None


def switch_of(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return a switch; ONSClientException for anything but true and false (Java: it is off)."""
    text = text_of(properties, key).lower()
    if text not in {"", "true", "false"}:
        raise ONSClientException(f"property {key} = {text!r} must be true or false")
    return text == "true" if text else default


def namespace_of(properties: Mapping[str, str]) -> str:
    """Return INSTANCE_ID, else the instance that NAMESRV_ADDR names as its host, "" for neither.

    "" as well for an instance of Aliyun's second kind (``mqi-...``) whose id says that it shares
    its names with others.

    >>> namespace_of({"NAMESRV_ADDR": "http://MQ_INST_1_Bx.mq.example:80"})
    'MQ_INST_1_Bx'
    """
    named = text_of(properties, PropertyKeyConst.INSTANCE_ID) or instance_host_of(properties)
    _, kind, last = named.rpartition("-")
    is_second_kind = kind and named.startswith("mqi-") and len(last) > _SHARED_NAMING_SIGN
    shares = is_second_kind and ord(last[_SHARED_NAMING_SIGN]) % 2 == 0
    return "" if shares else named


def instance_host_of(properties: Mapping[str, str]) -> str:
    """Return the instance of Aliyun that NAMESRV_ADDR names as its host, "" when it names none."""
    found = _INSTANCE_HOST.match(text_of(properties, PropertyKeyConst.NAMESRV_ADDR))
    return "" if found is None else found[1]
