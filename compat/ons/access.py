"""Who an ONS client is for its servers: channel, key pair, and how requests name them.

`Access.of` reads the properties. Signing itself is the SDK's; the channel is one more signed field.
Names as in ``SessionCredentials`` and ``ClientRPCHook`` of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from compat.ons.properties import PropertyKeyConst, instance_host_of, text_of
from rocketmq_py import FileCredentials, RemotingCommand
from rocketmq_py.config import AccessChannel, Credentials, CredentialsSource
from rocketmq_py.errors import ONSClientException

KEY_FILE: Final = "onskey"
"""In the user's home: ``AccessKey=...`` and ``SecretKey=...``, for who sets neither property."""


class ONSChannel(Enum):
    """Which kind of installation a client talks to."""

    ALIYUN = "ALIYUN"
    """Aliyun's cloud: without a key pair nothing is done there."""
    CLOUD = "CLOUD"
    ALL = "ALL"
    LOCAL = "LOCAL"
    INNER = "INNER"


@frozen
class ChannelField:
    """Writes the channel into each request, where the signature covers it."""

    channel: ONSChannel

    def before_request(self, address: str, command: RemotingCommand) -> None:
        """Add the field."""
        del address
        command.ext_fields[PropertyKeyConst.OnsChannel] = self.channel.value

    def after_response(
        self, address: str, command: RemotingCommand, answer: RemotingCommand
    ) -> None:
        """Do nothing."""


class Keys:
    """The key pair of a client, asked for at each request, so that it can be replaced."""

    def __init__(self, source: Credentials | FileCredentials) -> None:
        self._source = source

    def __call__(self) -> Credentials:
        """Give the pair that counts now."""
        source = self._source
        return source if isinstance(source, Credentials) else source()

    def renew(self, refused: Credentials) -> bool:
        """Say whether there are others than those that a server refused."""
        source = self._source
        if isinstance(source, FileCredentials):
            return source.renew(refused)
        return source != refused

    def replace(self, pair: Credentials) -> None:
        """Use another pair from the next request on."""
        self._source = pair


@define
class Access:
    """Channel and keys of one client; ``keys`` is None when requests are not signed."""

    channel: ONSChannel
    keys: Keys | None = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Access:
        """Read the properties; ONSClientException when Aliyun's channel has no key pair.

        Without OnsChannel it is ALIYUN for the address of an instance, and LOCAL for any other.
        """
        channel = _channel_of(properties) or (
            ONSChannel.ALIYUN if instance_host_of(properties) else ONSChannel.LOCAL
        )
        pair = pair_of(properties)
        source = pair or _key_file()
        if source is None and channel is ONSChannel.ALIYUN:
            raise ONSClientException(
                "property AccessKey is not set: Aliyun's channel needs AccessKey and SecretKey, in "
                f"the properties or in {Path('~') / KEY_FILE}; for brokers of your own set "
                "OnsChannel to LOCAL"
            )
        return cls(channel, None if source is None else Keys(source))

    @property
    def source(self) -> CredentialsSource | None:
        """What the SDK asks for the keys."""
        return self.keys

    @property
    def hooks(self) -> tuple[ChannelField, ...]:
        """What adds the channel to each request; a local installation does not know it."""
        return () if self.channel is ONSChannel.LOCAL else (ChannelField(self.channel),)

    @property
    def trace_channel(self) -> AccessChannel:
        """Whether the trace goes to the topic of a vendor's region, or to that of RocketMQ."""
        return "LOCAL" if self.channel is ONSChannel.LOCAL else "CLOUD"

    def update(self, properties: Mapping[str, str]) -> None:
        """Use the key pair of ``properties`` from now on; ONSClientException when it has none."""
        pair = pair_of(properties)
        if pair is None:
            raise ONSClientException("update_credential needs AccessKey and SecretKey")
        if self.keys is None:
            raise ONSClientException("the client was made without keys: create one with keys")
        channel = _channel_of(properties)
        if channel not in {None, self.channel}:
            raise ONSClientException(
                f"property OnsChannel = {text_of(properties, PropertyKeyConst.OnsChannel)!r}: the "
                f"client was made for {self.channel.value}, and only keys can be replaced"
            )
        self.keys.replace(pair)


def pair_of(properties: Mapping[str, str]) -> Credentials | None:
    """Return the key pair, None when neither key is set; ONSClientException for half a pair."""
    access_key, secret_key = (
        text_of(properties, key) for key in (PropertyKeyConst.AccessKey, PropertyKeyConst.SecretKey)
    )
    token = text_of(properties, PropertyKeyConst.SecurityToken)
    if not access_key and not secret_key and not token:
        return None
    for key, value in (
        (PropertyKeyConst.AccessKey, access_key),
        (PropertyKeyConst.SecretKey, secret_key),
    ):
        if not value:
            raise ONSClientException(f"property {key} is not set, the other half of the keys is")
    return Credentials(access_key, secret_key, token or None)


def _channel_of(properties: Mapping[str, str]) -> ONSChannel | None:
    text = text_of(properties, PropertyKeyConst.OnsChannel)
    if not text:
        return None
    try:
        return ONSChannel(text)
    except ValueError:
        known = ", ".join(one.value for one in ONSChannel)
        raise ONSClientException(f"property OnsChannel = {text!r} must be one of {known}") from None


def _key_file() -> FileCredentials | None:
    try:
        path = Path.home() / KEY_FILE
        return FileCredentials(path) if path.is_file() else None
    except (OSError, RuntimeError):  # no home, or none that may be looked into
        return None
