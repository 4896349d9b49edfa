"""Which files a cluster needs that has PySpark and pyarrow but not this package: one zip of them.

For ``--py-files`` or ``SparkContext.addPyFile``: the connector, the SDK, attrs and
typing-extensions, all pure Python. Spark does not discover sources in such a zip: call
`spark_connector.register`. Must not know Spark.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

PACKAGES = ("spark_connector", "rocketmq_py", "attr", "attrs", "typing_extensions")


def write_bundle(target: Path) -> int:
    """Write the zip and return how many files it holds.

    Raises ModuleNotFoundError when a package of `PACKAGES` is not installed here.
    """
    count = 0
    with ZipFile(target, "w", ZIP_DEFLATED) as bundle:
        for package in PACKAGES:
            for path, name in _files(package):
                bundle.write(path, name)
                count += 1
    return count


def _files(package: str) -> Iterator[tuple[Path, str]]:
    """Give every Python file of a package or module, with its name in the zip."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed here", name=package)
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield origin, origin.name
        return
    folder = origin.parent
    for path in sorted(folder.rglob("*.py")):
        yield path, f"{package}/{path.relative_to(folder).as_posix()}"
