"""With the extra `fast`: a broker that listens on TCP does so on uvloop."""

import sys

from embedded_broker import EmbeddedBroker

assert "uvloop" not in sys.modules
with EmbeddedBroker():
    assert "uvloop" in sys.modules
print("works")
