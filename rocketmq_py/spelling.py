"""What a program is told that uses Java's name of something, or that of the ctypes client.

`Spelled` is the base of what a program holds in its hands. It has no names of its own: it only says
what a missing one is called here. Type checkers do not see it, so they refuse such a name, too.
Must not know what the names do; ported programs have Java's names in ``compat.java``.
"""

import re

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

_JAVA_NAME = re.compile(r"[a-z]+\d*[A-Z][A-Za-z0-9]*")
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCESSORS = ("get_", "set_", "is_")

_RENAMED = {
    # of Java
    "allocate_message_queue_strategy": "allocate_strategy",
    "born_host_string": "born_host",
    "commit_sync": "commit",
    "executor_service": "executor",
    "message_listener": "register_message_listener",
    "send_latency_fault_enable": "send_latency_enable",
    "send_message_with_vip_channel": "vip_channel_enabled",
    # of the ctypes client
    "get_property": "get_user_property",
    "id": "msg_id",
    "message_batch_max_size": "consume_message_batch_max_size",
    "name_server_address": "namesrv_addr",
    "name_server_domain": "namesrv_domain",
    "offset": "queue_offset",
    "send_orderly_with_sharding_key": "send",
    "send_sync": "send",
    "session_credentials": "credentials",
    "set_property": "put_user_property",
    "status": "send_status",
    "thread_count": "consume_thread_max",
    "timeout": "send_msg_timeout",
}
"""What is called otherwise here, with or without ``set_``; all else differs in its spelling."""


class Spelled:
    """Base of classes that answer a name of another client with the Python one."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker that saw this method would accept every name

        def __getattr__(self, name: str) -> object:
            if not (name in _RENAMED or name.startswith("set_") or _JAVA_NAME.fullmatch(name)):
                return object.__getattribute__(self, name)  # raises what Python says
            raise AttributeError(no_attribute(type(self), name), name=name, obj=self)


def no_attribute(kind: type, name: str) -> str:
    """Say that a class has no such name, and which one it has instead, if it has one."""
    known, arguments = _known(kind), _arguments(kind)
    meant = _meant(name, known | arguments)
    text = f"{kind.__name__} has no attribute {name!r}"
    if meant is None:
        return text
    how = "" if meant in known else ", an argument of its constructor"
    return f"{text}; did you mean {meant}{how}?"


def _meant(name: str, known: set[str]) -> str | None:
    import difflib  # only on the way to an error

    words = _WORD_BEGINS.sub("_", name).lower()
    if words in known:
        return words
    words = _RENAMED.get(words, words)
    if words not in known:
        for accessor in _ACCESSORS:
            words = words.removeprefix(accessor)
        words = _RENAMED.get(words, words)
    nearest = difflib.get_close_matches(words, known, n=1, cutoff=0.75)
    return words if words in known else (nearest[0] if nearest else None)


def _known(kind: type) -> set[str]:
    """Give the Python names of a class; those of fields that have no slot are no part of it."""
    fields = {item.name for item in getattr(kind, "__attrs_attrs__", ())}
    return {
        each
        for each in {*dir(kind), *fields}
        if not each.startswith("_") and _JAVA_NAME.fullmatch(each) is None
    }


def _arguments(kind: type) -> set[str]:
    return {item.alias for item in getattr(kind, "__attrs_attrs__", ()) if item.init}
