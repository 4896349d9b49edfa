"""Settings of an ONS client: their names, how they are kept, and what they mean here.

`PropertyKeyConst` has the names that ONS programs use; their irregular casing is the original's.
`settings_of` turns them into settings of the SDK and refuses what is not offered. Must not know
producers and consumers beyond their settings.
"""

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Self

from rocketmq_py.config import Credentials
from rocketmq_py.errors import ONSClientException

logger = logging.getLogger(__name__)

PRODUCER_GROUP_DEFAULT: Final = "__ONS_PRODUCER_DEFAULT_GROUP"
SEND_TIMEOUT_DEFAULT_MS: Final = 5000
MAX_DELAY_DAYS_DEFAULT: Final = 40


class PropertyKeyConst:
    """Names of the settings."""

    GROUP_ID: Final = "GROUP_ID"
    ProducerId: Final = "ProducerId"
    ConsumerId: Final = "ConsumerId"
    AccessKey: Final = "AccessKey"
    SecretKey: Final = "SecretKey"
    SecurityToken: Final = "SecurityToken"
    NAMESRV_ADDR: Final = "NAMESRV_ADDR"
    ONSAddr: Final = "ONSAddr"
    INSTANCE_ID: Final = "INSTANCE_ID"
    InstanceName: Final = "InstanceName"
    OnsChannel: Final = "OnsChannel"
    MsgTraceSwitch: Final = "MsgTraceSwitch"
    SendMsgTimeoutMillis: Final = "SendMsgTimeoutMillis"
    MaxDelayDays: Final = "MaxDelayDays"
    isVipChannelEnabled: Final = "isVipChannelEnabled"
    MessageModel: Final = "MessageModel"
    ConsumeThreadNums: Final = "ConsumeThreadNums"
    MaxReconsumeTimes: Final = "maxReconsumeTimes"
    ConsumeTimeout: Final = "consumeTimeout"
    MaxCachedMessageAmount: Final = "maxCachedMessageAmount"
    MaxCachedMessageSizeInMiB: Final = "maxCachedMessageSizeInMiB"
    PostSubscriptionWhenPull: Final = "PostSubscriptionWhenPull"
    exactlyOnceDelivery: Final = "exactlyOnceDelivery"


class PropertyValueConst:
    """Values of the setting `PropertyKeyConst.MessageModel`."""

    CLUSTERING: Final = "CLUSTERING"
    BROADCASTING: Final = "BROADCASTING"


class Properties(dict[str, str]):
    """Settings by name, as ``java.util.Properties``; every value becomes text.

    >>> properties = Properties()
    >>> properties.put(PropertyKeyConst.SendMsgTimeoutMillis, 3000)
    >>> properties.getProperty("SendMsgTimeoutMillis")
    '3000'
    """

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__()
        for key, value in (values or {}).items():
            self[key] = value  # `__setitem__` makes it text

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, str(value).lower() if isinstance(value, bool) else str(value))

    def put(self, key: str, value: object) -> None:
        """Set a value."""
        self[key] = value  # `__setitem__` makes it text

    def set_property(self, key: str, value: object) -> None:
        """Set a value."""
        self.put(key, value)

    def setProperty(self, key: str, value: object) -> None:
        """Java's spelling of `set_property`."""
        self.set_property(key, value)

    def get_property(self, key: str, default: str | None = None) -> str | None:
        """Return a value, or `default` when it is not set."""
        return self.get(key, default)

    def getProperty(self, key: str, default: str | None = None) -> str | None:
        """Java's spelling of `get_property`."""
        return self.get_property(key, default)

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """Make a copy, so that later changes of the caller's mapping do not matter."""
        return cls(properties)


_KNOWN: Final = frozenset(
    value for name, value in vars(PropertyKeyConst).items() if not name.startswith("_")
)


_INSTANCE_HOST: Final = re.compile(r"(?:\w+://)?(MQ_INST_\w+_\w+)\.", re.ASCII)
"""As ``NameServerAddressUtils`` of the original knows the endpoint of an instance."""


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
    """Return a switch; everything but ``true`` means off, as in Java."""
    text = text_of(properties, key)
    return text.lower() == "true" if text else default


def name_servers_of(properties: Mapping[str, str]) -> str:
    """Return NAMESRV_ADDR."""
    return text_of(properties, PropertyKeyConst.NAMESRV_ADDR)


def domain_of(properties: Mapping[str, str]) -> str:
    """Return ONSAddr, the address that is asked for name servers without NAMESRV_ADDR.

    There is no default, as the original has one: nobody is asked who is not named.
    """
    return text_of(properties, PropertyKeyConst.ONSAddr)


def namespace_of(properties: Mapping[str, str]) -> str:
    """Return INSTANCE_ID, else the instance that NAMESRV_ADDR names as its host, "" for neither.

    >>> namespace_of({"NAMESRV_ADDR": "http://MQ_INST_1_Bx.mq.example:80"})
    'MQ_INST_1_Bx'
    """
    given = text_of(properties, PropertyKeyConst.INSTANCE_ID)
    found = _INSTANCE_HOST.match(text_of(properties, PropertyKeyConst.NAMESRV_ADDR))
    return given or ("" if found is None else found[1])


def credentials_of(properties: Mapping[str, str]) -> Credentials | None:
    """Return the key pair, None when no access key is set."""
    access_key = text_of(properties, PropertyKeyConst.AccessKey)
    if not access_key:
        return None
    return Credentials(
        access_key,
        text_of(properties, PropertyKeyConst.SecretKey),
        text_of(properties, PropertyKeyConst.SecurityToken) or None,
    )


def max_delay_of(properties: Mapping[str, str]) -> timedelta:
    """Return the longest delay that may be sent: 40 days unless MaxDelayDays says otherwise."""
    days = int_of(properties, PropertyKeyConst.MaxDelayDays, MAX_DELAY_DAYS_DEFAULT)
    if days < 1:
        raise ONSClientException(f"property MaxDelayDays = {days} must be 1 or more")
    return timedelta(days=days)


def check_known(properties: Mapping[str, str]) -> None:
    """Refuse what is asked for and not offered; unknown names are only logged, as in Java."""
    if switch_of(properties, PropertyKeyConst.exactlyOnceDelivery):
        raise ONSClientException("property exactlyOnceDelivery: exactly-once is not offered")
    for key in properties.keys() - _KNOWN:
        logger.debug("ONS property %s is not known here and changes nothing", key)
