"""Stored properties: what a broker makes of the properties that a client wrote.

Answers: what is taken out of them, what is added, and how the stored form comes about without
writing it anew. Must not know: topics' settings, the store. Read on: ``produce.py``.
"""

from collections.abc import Callable, Mapping

from attrs import define, field

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import Profile
from embedded_broker.timer.admission import strip_client_properties
from rocketmq_py.protocol.properties import Prop, decode_properties, encode_properties


@define(eq=False)
class StoredProperties:
    """Reads and completes properties. ``new_unique_key`` makes an id for who has none."""

    _config: BrokerConfig
    _profile: Profile
    _cluster_name: str
    _new_unique_key: Callable[[], str]
    added: Mapping[str, str] = field(init=False)
    """What is written into every message."""
    _added_text: str = field(init=False)
    _added_names: frozenset[str] = field(init=False)
    _keeps_delete_keys: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._read_settings(frozenset())
        self._config.on_change(self._read_settings)

    def read(
        self, text: str, topic: str, *, in_batch: bool = False, is_escaped: bool = False
    ) -> dict[str, str]:
        """Read what a client wrote, without what only the timer may write.

        What another broker's timer has released keeps its times: it must not wait again.
        U+0000 is refused: recovery takes a zero byte in properties for a torn record.
        """
        if "\0" in text:
            raise Refused(
                Reason.MESSAGE_ILLEGAL, "the properties hold U+0000, which cannot be stored"
            )
        properties = decode_properties(text)
        keeps = self._keeps_delete_keys and not in_batch
        strip_client_properties(properties, topic, keep_delete_key=keeps, keep_times=is_escaped)
        return properties

    def drop_pop(self, properties: dict[str, str]) -> None:
        """Take out what a sender must not say about POP."""
        if self._profile.marks_stored_messages:
            properties.pop(Prop.POP_CK, None)

    def complete(self, properties: dict[str, str], text: str) -> bytes | None:
        """Add what the broker adds; give the stored form if it is cheap or not all of them.

        ``text`` is what the properties were read from. Where it still says exactly what they
        say, the stored form is made from it instead of being written anew.
        """
        wait = None if self._profile.wait_property_kept else properties.get(Prop.WAIT)
        unchanged = (
            text.count("\1") == len(properties) == text.count("\2")
            and text[-1:] == "\2"
            and self._added_names.isdisjoint(properties)
        )
        self.drop_pop(properties)
        if self._profile.marks_stored_messages and Prop.UNIQ_KEY not in properties:
            unchanged = False
            properties[Prop.UNIQ_KEY] = self._new_unique_key()
        properties.update(self.added)
        if unchanged:
            if wait is None:
                return (text + self._added_text).encode()
            before, item, behind = text.partition(f"{Prop.WAIT}\1{wait}\2")
            if item and before[-1:] in {"\2", ""}:
                return f"{before}{behind}{self._added_text}".encode()
        if wait is None:
            return None
        kept = properties.copy()
        del kept[Prop.WAIT]
        return encode_properties(kept)

    def stored(self, properties: dict[str, str], text: str) -> bytes:
        """Complete properties that were read from ``text``, and give their stored form."""
        return self.complete(properties, text) or encode_properties(properties)

    def _read_settings(self, _changed: frozenset[str]) -> None:
        config = self._config
        self._keeps_delete_keys = config.flag("timerBareDeleteKey")
        self.added = {Prop.CLUSTER: self._cluster_name}
        if self._profile.marks_stored_messages:
            self.added = {
                Prop.MSG_REGION: config.text("regionId"),
                Prop.TRACE_ON: str(config.flag("traceOn")).lower(),
                **self.added,
            }
        self._added_text = encode_properties(self.added).decode()
        self._added_names = frozenset({*self.added, Prop.POP_CK})
