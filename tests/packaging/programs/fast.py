"""With the extra `fast` zlib-ng counts checksums."""

import sys

from embedded_broker import EmbeddedBroker

with EmbeddedBroker():
    assert "zlib_ng" in sys.modules
print("works")
