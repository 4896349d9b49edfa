"""The table of options is consistent with itself."""

import pytest

from embedded_broker.settings.options import ARGUMENT_NAMES, OPTIONS, WITHOUT_EFFECT, Option, show


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_both_defaults_of_an_option_are_values_it_may_have(option: Option) -> None:
    for value in (option.default, option.upstream):
        assert type(value) is option.kind
        if isinstance(value, int) and not isinstance(value, bool):
            assert option.low <= value <= option.high
        if option.choices:
            assert value in option.choices


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_says_what_it_means_and_what_it_may_be(option: Option) -> None:
    assert option.meaning
    assert option.limit


def test_a_name_is_in_one_table_only() -> None:
    assert not OPTIONS.keys() & WITHOUT_EFFECT
    assert not OPTIONS.keys() & ARGUMENT_NAMES.keys()
    assert not WITHOUT_EFFECT & ARGUMENT_NAMES.keys()


def test_values_are_shown_as_a_broker_conf_file_has_them() -> None:
    assert [show(True), show(5), show("1s 2s")] == ["true", "5", "1s 2s"]
