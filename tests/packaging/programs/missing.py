"""Try what the named extras would give, and print what is said instead: one line for each."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory


def plain_accounts() -> None:
    from embedded_broker import EmbeddedBroker

    EmbeddedBroker(acl="plain_acl.yml")


def terminal() -> None:
    from embedded_broker.cli import main

    sys.argv = ["rocketmq-py", "--version"]
    main()


def container() -> None:
    import_module("embedded_broker.containers")


def container_backend() -> None:
    from embedded_broker.kit.container import ContainerBackend

    ContainerBackend().start()


def control() -> None:
    from embedded_broker import EmbeddedBroker

    EmbeddedBroker(control=True)


def grpc_endpoint() -> None:
    from embedded_broker import EmbeddedBroker

    EmbeddedBroker(grpc=True)


def lz4() -> None:
    from rocketmq_py.protocol.compression import compress
    from rocketmq_py.protocol.sysflag import CompressionType

    compress(b"x", CompressionType.LZ4)


def zstd() -> None:
    from rocketmq_py.protocol.compression import compress
    from rocketmq_py.protocol.sysflag import CompressionType

    compress(b"x", CompressionType.ZSTD)


def spans() -> None:
    _ = import_module("rocketmq_py.telemetry").instrument


def metrics() -> None:
    _ = import_module("rocketmq_py.telemetry").ClientMetrics


def plot() -> None:
    from embedded_broker.inspector.picture import save_picture
    from embedded_broker.inspector.report import Report

    report = Report(kind="store", source="DIR", now_ms=0, total=0, selected=0)
    with TemporaryDirectory() as folder:
        save_picture(report, Path(folder) / "timers.png")


def spark_helper() -> None:
    _ = import_module("spark_connector").send


def spark_source() -> None:
    import_module("spark_connector").register(None)


def plugin() -> None:
    import_module("embedded_broker.pytest_plugin")


WANTS: dict[str, tuple[Callable[[], None], ...]] = {
    "acl": (plain_accounts,),
    "cli": (terminal,),
    "containers": (container, container_backend),
    "control": (control,),
    "grpc": (grpc_endpoint,),
    "lz4": (lz4,),
    "metrics": (metrics,),
    "otel": (spans,),
    "plot": (plot,),
    "spark": (spark_helper, spark_source),
    "test": (plugin,),
    "zstd": (zstd,),
}
"""All extras but `fast`: without that one the broker runs as well, on asyncio's own loop."""

told: dict[str, list[str]] = {}
for extra in sys.argv[1:]:
    for want in WANTS[extra]:
        try:
            want()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what it says is the result
            told.setdefault(extra, []).append(str(error))
        else:
            told.setdefault(extra, []).append(f"{want.__name__} worked")
print(json.dumps(told))
