"""The broker's settings: defaults, checks, changes, broker.conf files."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedded_broker.settings.config import BrokerConfig, check_known, parse_conf
from rocketmq_py.errors import ConfigError


def test_a_setting_not_named_has_the_embedded_default() -> None:
    config = BrokerConfig()

    assert config["timerMaxDelaySec"] == 259_200
    assert config.int("timerReleasePrecisionMs") == 1
    assert config.flag("recallMessageEnable")
    assert config.text("flushDiskType") == "ASYNC_FLUSH"


def test_upstream_defaults_restore_every_difference_of_the_table() -> None:
    config = BrokerConfig(defaults="upstream")

    assert not config.flag("recallMessageEnable")
    assert not config.flag("timerEnableRetryUntilSuccess")
    assert not config.flag("startDeliverTimeEnable")
    assert not config.flag("acceptNewerSubVersion")
    assert not config.flag("batchItemsKeepUniqKey")
    assert not config.flag("notifyAgainAfterRetryTopic")
    assert config.int("timerReleasePrecisionMs") == 1000


def test_the_upstream_release_precision_follows_the_wheel() -> None:
    config = BrokerConfig({"timerPrecisionMs": 100}, defaults="upstream")

    assert config.int("timerReleasePrecisionMs") == 100


@pytest.mark.case("F18")
@pytest.mark.parametrize(
    ("asked", "used"),
    [
        (0, 100),
        (1, 100),
        (150, 100),
        (200, 200),
        (499, 200),
        (999, 500),
        (1000, 1000),
        (5000, 1000),
    ],
)
def test_the_timer_precision_is_rounded_down_to_what_the_wheel_knows(asked: int, used: int) -> None:
    assert BrokerConfig({"timerPrecisionMs": asked}).int("timerPrecisionMs") == used


def test_a_release_precision_that_does_not_divide_the_wheel_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match="divisor of timerPrecisionMs, which is 1000"):
        BrokerConfig({"timerReleasePrecisionMs": 300})


@pytest.mark.case("K14")
def test_a_misspelt_name_is_refused_and_the_nearest_one_named() -> None:
    with pytest.raises(ConfigError, match="did you mean timerMaxDelaySec") as caught:
        BrokerConfig({"timerMaxDelaySecs": 5})

    assert caught.value.setting == "timerMaxDelaySecs"
    assert "from 0 to 2147483647" in str(caught.value)


@pytest.mark.case("K14")
@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("timerMaxDelaySec", -1, "from 0"),
        ("timerMaxDelaySec", "soon", "an integer"),
        ("timerMaxDelaySec", True, "an integer"),
        ("timerMaxDelaySec", 1.5, "an integer"),
        ("timerWheelEnable", "yes", "true or false"),
        ("timerWheelEnable", 1, "true or false"),
        ("flushDiskType", "SOMETIMES", "ASYNC_FLUSH, SYNC_FLUSH"),
        ("messageDelayLevel", 5, "a text"),
        ("timerGetMessageThreadNum", 4, "only 3"),
        ("timerPrecisionMs", -1, "100, 200, 500 or 1000"),
        ("timerCheckMetricsWhen", "24", "hours from 00 to 23"),
        ("timerCheckMetricsWhen", "5;", "hours from 00 to 23"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(
    name: str, value: object, limit: str
) -> None:
    with pytest.raises(ConfigError, match=limit):
        BrokerConfig({name: value})


def test_texts_as_a_broker_conf_file_has_them_are_accepted() -> None:
    config = BrokerConfig({"timerMaxDelaySec": " 3456000 ", "timerWheelEnable": "FALSE"})

    assert config["timerMaxDelaySec"] == 3_456_000
    assert config["timerWheelEnable"] is False


def test_a_fixed_option_may_be_set_to_its_only_value() -> None:
    assert BrokerConfig({"timerGetMessageThreadNum": 3}) is not None


def test_reading_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean maxMessageSize"):
        BrokerConfig()["maxMesageSize"]


@pytest.mark.parametrize("read", [BrokerConfig.int, BrokerConfig.flag, BrokerConfig.text])
def test_reading_an_option_as_another_type_is_a_type_error(read: object) -> None:
    name = "flushDiskType" if read is not BrokerConfig.text else "timerPrecisionMs"
    assert callable(read)
    with pytest.raises(TypeError, match=name):
        read(BrokerConfig(), name)


def test_an_update_changes_the_value_and_tells_who_listens() -> None:
    config = BrokerConfig()
    heard: list[frozenset[str]] = []
    config.on_change(heard.append)

    config.update(timerMaxDelaySec=7, timerWheelEnable=True)

    assert config["timerMaxDelaySec"] == 7
    assert heard == [frozenset({"timerMaxDelaySec"})]


def test_a_bad_update_changes_nothing() -> None:
    config = BrokerConfig()

    with pytest.raises(ConfigError):
        config.update(timerMaxDelaySec=7, maxMessageSize=-5)

    assert config["timerMaxDelaySec"] == 259_200


def test_options_that_shape_the_store_cannot_change_while_a_broker_runs() -> None:
    config = BrokerConfig()
    config.attach(config_guard)

    with pytest.raises(ConfigError, match="set before start"):
        config.update(mappedFileSizeCommitLog=4096)
    config.update(mappedFileSizeCommitLog=1_073_741_824)
    config.detach()
    config.update(mappedFileSizeCommitLog=4096)

    assert config["mappedFileSizeCommitLog"] == 4096


def config_guard() -> "Guard":
    return Guard()


class Guard:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def test_the_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(BrokerConfig({"timerStopDequeue": True})) == "BrokerConfig(timerStopDequeue=true)"
    upstream = BrokerConfig({"timerStopDequeue": True}, defaults="upstream")
    assert repr(upstream) == "BrokerConfig(defaults=upstream, timerStopDequeue=true)"
    assert repr(BrokerConfig()) == "BrokerConfig()"


def test_every_option_can_be_listed_and_tested_for() -> None:
    config = BrokerConfig()

    assert dict(config.items()).keys() == set(config)
    assert "timerPrecisionMs" in config
    assert "timerPrecision" not in config


def test_presets_are_defaults_that_settings_win_over() -> None:
    presets = {"timerMaxDelaySec": 5, "transactionCheckInterval": 6}
    config = BrokerConfig({"timerMaxDelaySec": 7}, presets=presets, defaults="upstream")

    assert (config["timerMaxDelaySec"], config["transactionCheckInterval"]) == (7, 6)


def test_a_change_from_inside_the_door_does_not_enter_it() -> None:
    config = BrokerConfig()
    changed: list[frozenset[str]] = []
    entered: list[str] = []

    @contextmanager
    def door() -> Iterator[None]:
        entered.append("door")
        yield

    config.attach(door)
    config.on_change(changed.append)
    config.update_inside({"timerMaxDelaySec": 5})
    assert (changed, entered) == ([frozenset({"timerMaxDelaySec"})], [])
    config.update(timerMaxDelaySec=6)
    assert (config["timerMaxDelaySec"], entered) == (6, ["door"])


def test_a_name_is_of_this_broker_of_a_real_one_or_wrong() -> None:
    assert check_known("timerMaxDelaySec")
    assert not check_known("sendMessageThreadPoolNums")
    with pytest.raises(ConfigError, match="did you mean"):
        check_known("timerMaxDelaySecs")


def test_unknown_defaults_are_refused() -> None:
    with pytest.raises(ConfigError, match="embedded, upstream"):
        BrokerConfig(defaults="original")


def test_a_broker_conf_file_is_split_into_arguments_options_and_the_rest() -> None:
    conf = parse_conf(
        """
        # the usual header
        ! and the other kind of comment
        brokerClusterName = Shop
        brokerName=broker-x
        listenPort=10911
        brokerId=0
        flushDiskType=SYNC_FLUSH
        brokerRole=ASYNC_MASTER
        timerGetMessageThreadNum=48
        sendMessageThreadPoolNums=16
        timerMaxDelaySec=3456000
        """
    )

    assert conf.arguments == {
        "cluster_name": "Shop",
        "broker_name": "broker-x",
        "broker_port": "10911",
    }
    assert conf.options == {
        "brokerId": 0,
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "SYNC_FLUSH",
        "timerMaxDelaySec": 3_456_000,
    }
    assert conf.ignored == ("timerGetMessageThreadNum", "sendMessageThreadPoolNums")


@pytest.mark.parametrize("line", ["timerMaxDelaySecs=5", "just words", "timerMaxDelaySec=many"])
def test_a_bad_line_of_a_broker_conf_file_is_refused(line: str) -> None:
    with pytest.raises(ConfigError):
        parse_conf(line)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("brokerName", "argument broker_name="), ("sendMessageThreadPoolNums", "no effect")],
)
def test_a_real_name_that_is_no_option_says_what_it_is(name: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        BrokerConfig({name: "x"})
