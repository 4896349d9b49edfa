"""What ``grpc=`` may be, and what is said where the extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embedded_broker import EmbeddedBroker, GrpcOptions
from rocketmq_py.errors import ConfigError

NOTHING_IS_LOADED = """
import sys
from embedded_broker import EmbeddedBroker

with EmbeddedBroker(tcp=False):
    print(sorted({"grpc", "google.protobuf", "subprocess"} & sys.modules.keys()))
"""


@pytest.mark.case("G3")
def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc", "grpc.aio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"grpc = True .*\[grpc\]"):
        EmbeddedBroker(grpc=True)


@pytest.mark.case("G3")
def test_a_broker_without_it_loads_nothing_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTHING_IS_LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"port": -1}, "grpc port = -1"),
        ({"port": True}, "grpc port = True"),
        ({"tls_port": 65_536}, "grpc tls_port = 65536"),
        ({"port": 81, "tls_port": 81}, "it must differ from port"),
        ({"namespace": "none"}, "one of ignore, prefix"),
        ({"auto_create": 1}, "True or False"),
        ({"strict": "5.3.2"}, "grpc strict = '?5.3.2'?.* None or '5.3.3'"),
        ({"strict": True}, "grpc strict = True"),
        ({"long_polling": 0.9}, "grpc long_polling = 0.9 .* 1 to 20 seconds"),
        ({"long_polling": 21}, "grpc long_polling = 21"),
        ({"long_polling": True}, "grpc long_polling = True"),
        ({"long_polling": "5"}, "grpc long_polling = '?5"),
        ({"long_polling": float("nan")}, "grpc long_polling = nan"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        GrpcOptions(**given)  # type: ignore[arg-type]
