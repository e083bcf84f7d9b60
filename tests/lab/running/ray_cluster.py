"""Holds a Ray cluster of two nodes on this machine, on loopback only, until its input ends.

    python cluster.py FOLDER

Prints the cluster's address and the process ids of both nodes. Each node has one core.
"""

import os
import sys
from pathlib import Path

# Without this, Ray takes the machine's own address where it is given 127.0.0.1.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray keeps the newest cluster's address in a folder that only `ray start` would make.
os.environ["RAY_TMPDIR"] = sys.argv[1]

from ray.cluster_utils import Cluster

NODE = {
    "num_cpus": 1,
    "memory": 2 * 2**30,
    "object_store_memory": 100_000_000,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}

Path(sys.argv[1], "ray").mkdir(exist_ok=True)
cluster = Cluster()
nodes = [cluster.add_node(temp_dir=sys.argv[1], **NODE), cluster.add_node(**NODE)]
pids = [node.all_processes["raylet"][0].process.pid for node in nodes]
print(cluster.address, *pids, flush=True)
sys.stdin.read()
cluster.shutdown()
