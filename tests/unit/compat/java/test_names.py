"""Every public method of the Java client is forwarded by one line, or refused with its reason.

``tests/golden/java_methods.txt`` has what ``javap -public`` says of the classes in the jars
rocketmq-client, rocketmq-common and rocketmq-tools 5.3.3, without constructors.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections import defaultdict

import pytest

import rocketmq_py
from compat import java
from compat.java.names import CLASSES_NOT_OFFERED, FORWARDED, NOT_OFFERED, reason_of
from tests.pages import ROOT

CLIENTS = (
    *("DefaultMQProducer", "TransactionMQProducer"),
    *("DefaultMQPushConsumer", "DefaultLitePullConsumer", "DefaultMQAdminExt"),
)
BASES = {
    "MessageExt": ("Message",),
    "TransactionSendResult": ("SendResult",),
    **dict.fromkeys(CLIENTS, ("ClientConfig",)),
    "TransactionMQProducer": ("DefaultMQProducer", "ClientConfig"),
}
"""What a Java class extends."""
WRITTEN_BY_PROGRAMS = {
    *("SendCallback", "RequestCallback", "TransactionListener", "MessageQueueSelector"),
    *("MessageListenerConcurrently", "MessageListenerOrderly", "TopicMessageQueueChangeListener"),
}


def declared() -> dict[str, set[str]]:
    """The Java methods by class."""
    found: dict[str, set[str]] = defaultdict(set)
    text = (ROOT / "tests" / "golden" / "java_methods.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        owner, name = line.split()
        found[owner].add(name)
    return found


DECLARED = declared()
METHODS = {
    owner: names.union(*(DECLARED[base] for base in BASES.get(owner, ())))
    for owner, names in DECLARED.items()
    if owner != "ClientConfig"
}


def forwarded(owner: str) -> dict[str, str]:
    """The Java names of a class, its bases' too, and the Python targets."""
    rows = [FORWARDED.get(kind.__name__, {}) for kind in getattr(java, owner).__mro__]
    names = {name: target for row in rows for target, text in row.items() for name in text.split()}
    return {name: target for name, target in names.items() if name in METHODS[owner]}


@functools.cache
def sources() -> dict[str, ast.FunctionDef]:
    """The methods of the modules that have Java's names, by class and name."""
    paths = [*(ROOT / "compat" / "java").glob("*.py")]
    paths += [
        ROOT / "rocketmq_py" / "message.py",
        ROOT / "rocketmq_py" / "consumer" / "listener.py",
    ]
    return {
        f"{node.name}.{member.name}": member
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef)
    }


@pytest.mark.parametrize("owner", METHODS)
def test_every_java_method_is_forwarded_or_has_a_reason_and_not_both(owner: str) -> None:
    kind, there = getattr(java, owner), set(forwarded(owner))
    reasons = {name for name in METHODS[owner] if reason_of(kind, name) is not None}
    assert METHODS[owner] - there - reasons == set()
    assert there & reasons == set()


def test_the_table_names_only_what_java_has() -> None:
    known = {name for names in DECLARED.values() for name in names}
    tables = [*FORWARDED.values(), *NOT_OFFERED.values()]
    told = {name for rows in tables for names in rows.values() for name in names.split()}
    assert told - known == set()


@pytest.mark.case("T102")
@pytest.mark.parametrize("owner", METHODS)
def test_every_alias_is_a_written_typed_method_that_names_its_target(owner: str) -> None:
    wrong = []
    for name, target in forwarded(owner).items():
        found = inspect.getattr_static(getattr(java, owner), name, None)
        function = getattr(found, "__func__", found)
        if not inspect.isfunction(function) or not function.__doc__:
            wrong.append(f"{name} is no method")
            continue
        if name == target or not target.isidentifier() or owner in WRITTEN_BY_PROGRAMS:
            continue
        method = sources()[function.__qualname__]
        nodes = [*ast.walk(method)]
        words = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        words |= {node.id for node in nodes if isinstance(node, ast.Name)}
        # A batch is made by its class, and one registration by the other.
        if not words & {target, f"_{target}", "cls", "registerMessageListener"}:
            wrong.append(f"{name} does not use {target}")
        if method.returns is None:
            wrong.append(f"{name} does not say what it returns")
    assert wrong == []


PAIRS = [
    (owner, target, *names.split())
    for owner in CLIENTS
    for kind in getattr(java, owner).__mro__
    for target, names in FORWARDED.get(kind.__name__, {}).items()
    if re.fullmatch(r"(?:get|is)\w+ set\w+", names)
]
OTHER_VALUES: dict[str, object] = {
    "namesrv_addr": "127.0.0.1:9877",
    "access_channel": java.AccessChannel.CLOUD,
    "compress_type": rocketmq_py.CompressionType.ZLIB,
    "topics": ["T", "U"],
    "message_model": java.MessageModel.BROADCASTING,
    "consume_from_where": java.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "consume_timestamp": "20300101000000",
    "allocate_strategy": java.AllocateMessageQueueAveragelyByCircle(),
    "executor": None,
    "transaction_listener": None,
    "pull_threshold_for_topic": 7,
    "pull_threshold_size_for_topic": 7,
    "send_msg_max_timeout_per_request": 7,
    "pop_batch_nums": 7,
    "pop_invisible_time": 5_001,
    "consume_thread_min": 7,
}


@pytest.mark.parametrize(
    ("owner", "target", "getter", "setter"), PAIRS, ids=[f"{one[0]}.{one[2]}" for one in PAIRS]
)
def test_a_setter_sets_what_its_getter_and_the_python_name_give(
    owner: str, target: str, getter: str, setter: str
) -> None:
    client = getattr(java, owner)()
    before = getattr(client, getter)()
    value = OTHER_VALUES.get(target, other_than(before))
    if value is None:
        return  # an object: its own tests set it
    getattr(client, setter)(value)
    assert getattr(client, getter)() == value
    if target != "topics":
        assert getattr(client, target) == value


def other_than(value: object) -> object:
    """Another value of a setting: flipped, one more, or longer."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}x"


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("DefaultMQProducer", "setSocksProxyConfig", "there is no way through a SOCKS proxy"),
        ("DefaultMQProducer", "setAutoBatch", "messages are not gathered: send a list of them"),
        ("DefaultLitePullConsumer", "setPullThreadNums", "no pull has a thread of its own"),
        ("DefaultMQAdminExt", "createTopic", "ensure_topic makes a topic"),
        ("Message", "setInstanceId", "only vendors' clients write INSTANCE_ID"),
    ],
)
def test_what_is_not_offered_is_refused_with_its_reason(kind: str, name: str, told: str) -> None:
    made = getattr(java, kind)()
    with pytest.raises(AttributeError, match=f"^{kind} has no {name}: {told}$"):
        getattr(made, name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("DefaultMQPullConsumer", "use DefaultLitePullConsumer"),
        ("IllegalStateException", "it is IllegalStateError of rocketmq_py"),
    ],
)
def test_the_import_of_a_class_that_is_not_offered_says_why(name: str, told: str) -> None:
    with pytest.raises(ImportError, match=rf"^compat\.java has no {name}: {told}$"):
        exec(f"from compat.java import {name}")  # noqa: S102 - a name of the table
    with pytest.raises(AttributeError, match=r"^module 'compat\.java' has no attribute 'Nothing'$"):
        java.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_no_class_is_offered_and_refused() -> None:
    told = {name for names in CLASSES_NOT_OFFERED.values() for name in names.split()}
    assert told.isdisjoint(java.__all__)


def test_the_page_says_how_many_classes_the_table_has() -> None:
    page = (ROOT / "MIGRATION.md").read_text(encoding="utf-8")
    assert f"is the whole table: {len(METHODS)} classes" in page


def test_a_misspelt_name_is_refused_when_it_is_read_or_assigned() -> None:
    producer = java.DefaultMQProducer("g")
    with pytest.raises(AttributeError, match="no attribute 'setNamesrvAdr'; did you mean namesrv"):
        producer.setNamesrvAdr("127.0.0.1:9876")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no setting 'namesrvAddr'; did you mean namesrv_addr"):
        producer.namesrvAddr = "127.0.0.1:9876"  # type: ignore[attr-defined]
