"""A header of a known form is read as the whole of it would be read."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.remoting.handlers.consume.pull_form import (
    FORMS_MAX,
    PullForm,
    PullForms,
    UsualPull,
)
from embedded_broker.remoting.usual_form import usual_document
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader

JAVA = (
    '{"code":11,"extFields":{"queueId":"1","maxMsgNums":"32","sysFlag":"3",'
    '"suspendTimeoutMillis":"15000","commitOffset":"<C>","topic":"T","queueOffset":"<Q>",'
    '"expressionType":"TAG","subVersion":"17","consumerGroup":"G"},"flag":0,"language":"JAVA",'
    '"opaque":<O>,"serializeTypeCurrentRPC":"JSON","version":505}'
)
GO = (
    '{"code":11,"language":"GO","version":317,"opaque":<O>,"flag":0,"remark":"","extFields":{'
    '"commitOffset":"<C>","consumerGroup":"G","maxMsgNums":"32","queueId":"1","queueOffset":"<Q>",'
    '"subVersion":"17","suspendTimeoutMillis":"20000","sysFlag":"7","subscription":"*","topic":"T"}}'
)
OURS = (
    '{"code":11,"extFields":{"consumerGroup":"G","topic":"T","queueId":"1","queueOffset":"<Q>",'
    '"maxMsgNums":"32","sysFlag":"6","commitOffset":"<C>","suspendTimeoutMillis":"15000",'
    '"subVersion":"0","subscription":"*"},"flag":0,"language":"PYTHON","opaque":<O>,"version":479}'
)


def text(pattern: str, offset: object, commit: object, opaque: object) -> bytes:
    filled = pattern.replace("<Q>", str(offset)).replace("<C>", str(commit))
    return filled.replace("<O>", str(opaque)).encode()


def whole(header: bytes) -> tuple[object, ...] | None:
    """Give what a header says that is decoded as a whole."""
    document = usual_document(header, 11)
    if document is None:
        return None
    try:
        told = PullMessageRequestHeader.from_ext(document["extFields"])
    except HeaderError:
        return None
    form = PullForm.of(told)
    commit_offset = told.commit_offset if form.is_committing else None
    return form.terms, told.queue_offset, commit_offset, document["opaque"]


def parts(usual: UsualPull | None) -> tuple[object, ...] | None:
    return None if usual is None else (usual.form.terms, *usual[1:])


def learn(forms: PullForms, *headers: bytes) -> None:
    for header in headers:
        document = usual_document(header, 11)
        assert document is not None
        told = PullMessageRequestHeader.from_ext(document["extFields"])
        forms.learn(header, document, PullForm.of(told))


def same(one: tuple[object, ...] | None, other: tuple[object, ...] | None) -> bool:
    """Compare terms by what they say."""
    if one is None or other is None:
        return one is other
    return repr(one) == repr(other)


@pytest.mark.parametrize("pattern", [JAVA, GO, OURS])
def test_the_second_header_of_a_form_teaches_it(pattern: str) -> None:
    forms = PullForms()
    learn(forms, text(pattern, 0, 0, 1))
    assert forms.read(text(pattern, 32, 0, 2)) is None
    learn(forms, text(pattern, 32, 0, 2))
    for numbers in ((64, 32, 3), (10**17, 7, 999_999_999), (5, 10**12, 40), (0, 0, 0)):
        header = text(pattern, *numbers)
        assert same(parts(forms.read(header)), whole(header))
        assert forms.read(header) is not None


@pytest.mark.parametrize("pattern", [JAVA, GO, OURS])
@pytest.mark.parametrize(
    "numbers",
    [
        ("-1", 0, 3),
        (0, "-1", 3),
        (0, 0, "-3"),
        (0, 0, "03"),
        (0, 0, "00"),
        (0, 0, ""),
        (0, 0, "3.0"),
        (0, 0, '"3"'),
        ("x", 0, 3),
        ("", 0, 3),
        (10**18, 0, 3),
        (0, 10**18, 3),
        (0, 0, 2**31),
        ("\u0663", 0, 3),
        ('5","queueOffset":"6', 0, 3),
        (5, 6, '7,"opaque":8'),
    ],
)
def test_unusual_numbers_are_left_to_who_reads_all(
    pattern: str, numbers: tuple[object, object, object]
) -> None:
    forms = PullForms()
    learn(forms, text(pattern, 0, 0, 1), text(pattern, 32, 0, 2))
    assert forms.read(text(pattern, *numbers)) is None


def test_a_header_without_the_marks_teaches_nothing() -> None:
    forms = PullForms()
    pattern = JAVA.replace('"commitOffset":"<C>"', '"commitOffset": "<C>"')
    header = text(pattern, 0, 171717171717171717, 1)
    learn(forms, header, header)
    assert set(forms._known.values()) == {None}


def test_forms_differ_in_all_but_the_numbers() -> None:
    forms = PullForms()
    for queue in "12":
        pattern = JAVA.replace('"queueId":"1"', f'"queueId":"{queue}"')
        learn(forms, text(pattern, 0, 0, 1), text(pattern, 0, 0, 2))
    read = forms.read(text(JAVA, 9, 0, 3))
    assert read is not None
    assert read.form.terms.queue_id == 1
    assert forms.read(text(JAVA.replace('"G"', '"H"'), 9, 0, 3)) is None


def test_forms_are_forgotten_when_there_are_too_many() -> None:
    forms = PullForms()
    learn(forms, text(JAVA, 0, 0, 1), text(JAVA, 0, 0, 2))
    assert forms.read(text(JAVA, 0, 0, 3)) is not None
    for number in range(FORMS_MAX):
        learn(forms, text(JAVA.replace('"T"', f'"T{number}"'), 0, 0, 1))
    assert forms.read(text(JAVA, 0, 0, 3)) is None
    learn(forms, text(JAVA, 0, 0, 1), text(JAVA, 0, 0, 2))
    assert forms.read(text(JAVA, 0, 0, 3)) is not None


ODD = st.sampled_from(
    [
        '"queueOffset":"<Q>"',
        '"commitOffset":"<C>"',
        '"queueOffset": "<Q>"',
        '"queue\\u004fffset":"7"',
        '"a\\"queueOffset":"<Q>"',
        '"a\\"commitOffset":"<C>"',
        '"note":"\\"queueOffset\\":\\"<Q>\\""',
        '"note":"\\"opaque\\":<O>,"',
        '"opaque":"<O>,"',
        '"subVersion":"<C>"',
        '"maxMsgNums":"<Q>"',
        '"topic":"commitOffset"',
    ]
)
OUTER = st.sampled_from(
    [
        '"opaque":<O>',
        '"opaque": <O>',
        '"opaque":7',
        '"flag":0',
        '"remark":null',
        '"queueOffset":"<Q>"',
    ]
)
NUMBER = st.integers(0, 10**6)
NUMBERS = st.tuples(NUMBER, NUMBER, NUMBER)


@given(st.lists(ODD, max_size=4), st.lists(OUTER, max_size=3), st.randoms(), NUMBERS, NUMBERS)
def test_no_odd_header_teaches_a_wrong_form(
    odd: list[str],
    outer: list[str],
    random: Random,
    first: tuple[int, int, int],
    second: tuple[int, int, int],
) -> None:
    fields = ['"consumerGroup":"G"', '"topic":"T"', '"queueId":"1"', '"queueOffset":"<Q>"']
    fields += ['"maxMsgNums":"32"', '"sysFlag":"3"', '"commitOffset":"<C>"']
    fields += ['"suspendTimeoutMillis":"1"', '"subVersion":"0"', *odd]
    random.shuffle(fields)
    rest = [
        '"flag":0',
        '"opaque":<O>',
        '"version":1',
        f'"extFields":{{{",".join(fields)}}}',
        *outer,
    ]
    random.shuffle(rest)
    pattern = f'{{"code":11,{",".join(rest)}}}'
    forms, header = PullForms(), text(pattern, *first)
    document = usual_document(header, 11)
    if document is None or whole(header) is None:
        return
    learn(forms, header, header)
    other = text(pattern, *second)
    assert forms.read(other) is None or same(parts(forms.read(other)), whole(other))
