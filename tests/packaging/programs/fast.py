"""With the extra `fast`: zlib-ng counts checksums, and a broker that listens on TCP uses uvloop."""

import sys

from embedded_broker import EmbeddedBroker

assert "uvloop" not in sys.modules
with EmbeddedBroker():
    assert "uvloop" in sys.modules
    assert "zlib_ng" in sys.modules
print("works")
