"""`python -m spark_connector`: shows the options of the data source, or packs it into a zip.

Must not know more than its arguments. Read on: ``options/table.py``, ``bundle.py``.
"""

import sys
from pathlib import Path

USAGE = """\
usage: python -m spark_connector options             all options, with defaults and meanings
       python -m spark_connector options --markdown  the same as a Markdown table
       python -m spark_connector bundle OUT.zip      the connector as a zip for --py-files
"""


def main(arguments: list[str]) -> int:
    """Run one command; exit status 2 for what `USAGE` does not have or cannot be written."""
    match arguments:
        case ["options"]:
            from spark_connector.options.table import as_text

            sys.stdout.write(as_text())
        case ["options", "--markdown"]:
            from spark_connector.options.table import as_markdown

            sys.stdout.write(as_markdown())
        case ["bundle", out]:
            from spark_connector.bundle import write_bundle

            target = Path(out)
            try:
                count = write_bundle(target)
            except OSError as error:
                sys.stderr.write(f"cannot write {target}: {error.strerror or error}\n")
                return 2
            sys.stdout.write(f"{target}: {count} files, for --py-files\n")
        case _:
            sys.stderr.write(USAGE)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
