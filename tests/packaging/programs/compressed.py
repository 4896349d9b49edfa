"""With the extra `lz4` or `zstd`: a body survives the way there and back."""

import sys

from rocketmq_py.protocol.compression import compress, decompress
from rocketmq_py.protocol.sysflag import CompressionType, with_compression

kind = CompressionType[sys.argv[1].upper()]
body = b"a delayed message " * 1000
small = compress(body, kind)
assert len(small) < len(body) // 10
assert decompress(small, with_compression(0, kind)) == body
print("works")
