"""gRPC over TLS with a token as the carrier: only what actors need can be called.

Learners prove themselves by a certificate that actors know, actors by a token. Messages are
bytes of our own layout, nothing in them is ever run or unpickled, and all sizes are bounded.
"""

import os

# Read when gRPC is imported. Its own log would have a line for every packet of a stranger, where
# ``guard`` tells once; and names of hosts are looked up as everything else here does it.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")

from transport.secure.connection import Connection
from transport.secure.server import Server

__all__ = ["Connection", "Server"]
