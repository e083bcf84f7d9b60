"""gRPC over TLS with a token as the carrier, with only the calls that actors need.

Learners authenticate with a certificate that actors know, actors with a token. Messages are
bytes of our own layout, nothing in them is ever run or unpickled, and all sizes are bounded.
"""

import os

# Read when gRPC is imported. Its own log would have a line for every packet of a stranger, where
# ``guard`` reports once; and host names are resolved like everywhere else here.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")

from transport.secure.connection import Connection
from transport.secure.server import Server

__all__ = ["Connection", "Server"]
