"""With the extra `fast` zlib-ng counts checksums, and a port is served on uvloop's event loop."""

import sys

from embedded_broker import EmbeddedBroker

assert "uvloop" not in sys.modules
with EmbeddedBroker():
    assert {"uvloop", "zlib_ng"} <= set(sys.modules)
print("works")
