"""An emulated API of Kubernetes, in a thread of the tests; kmock keeps the objects.

What kmock leaves out and this project needs is added: labels that select, requests that only check,
namespaces and kinds that are not there, logs of pods, times of creation.
"""

import asyncio
import datetime
import json
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import kmock
import yaml

KINDS = {
    "Job": "batch/v1/jobs",
    "NetworkPolicy": "networking.k8s.io/v1/networkpolicies",
    "PersistentVolumeClaim": "v1/persistentvolumeclaims",
    "Pod": "v1/pods",
    "Secret": "v1/secrets",
    "Service": "v1/services",
}
NAMESPACE = "lab"


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Emulator(kmock.KubernetesEmulator):
    """kmock's emulator, with what a real server does besides."""

    async def _handle(self, request: Any) -> Any:
        if request.resource is not None and request.namespace not in (None, NAMESPACE):
            return await self._render_error(
                kmock.KubernetesError(
                    status=404, message=f'namespaces "{request.namespace}" not found'
                )
            )
        creates = request.method.value.lower() == "post" and request.resource is not None
        if creates:
            if request.resource not in self.resources:
                message = "the server could not find the requested resource"
                return await self._render_error(kmock.KubernetesError(status=404, message=message))
            if request.params.get("dryRun") == "All":
                return await self._render_error(kmock.KubernetesError(status=201, message="would"))
            request.data["metadata"].setdefault("creationTimestamp", now())
        return await super()._handle(request)

    async def _serve_list(self, request: Any) -> Any:
        found: Any = await super()._serve_list(request)
        wanted = dict(
            word.split("=") for word in request.params.get("labelSelector", "").split(",") if word
        )
        found["items"] = [
            one
            for one in found["items"]
            if wanted.items() <= one["metadata"].get("labels", {}).items()
        ]
        return found


class Server:
    """The emulator, listening on loopback until it is closed."""

    def __init__(self, logs: Path):
        self._logs = logs
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ends = asyncio.Event()
        self.url = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with Emulator() as emulator, kmock.Server(emulator) as server:
            self.emulator = emulator
            resources: Any = emulator.resources
            for resource in KINDS.values():
                resources[resource] = {}
            emulator["get", re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/log")] << self._log
            self.url = str(server.url).rstrip("/")
            self._ready.set()
            await self._ends.wait()

    def _log(self, request: Any) -> bytes:
        path = self._logs / f"{str(request.url.path).split('/')[-2]}.log"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        last = request.params.get("tailLines")
        return b"".join(lines[-int(last) :] if last else lines)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(10)

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """A request as a controller of the cluster makes it."""
        asked = urllib.request.Request(
            self.url + path,
            json.dumps(body).encode() if body is not None else None,
            {"Content-Type": "application/merge-patch+json" if method == "PATCH" else
             "application/json"},
            method=method,
        )  # fmt: skip
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return json.loads(answer.read())

    def write_config(self, path: Path) -> None:
        """A configuration as a user has it."""
        cluster = {"name": "one", "cluster": {"server": self.url}}
        context = {"cluster": "one", "user": "ann", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [{"name": "ann", "user": {"token": "hush"}}],
            "contexts": [{"name": "one", "context": context}],
            "current-context": "one",
        }
        path.write_text(yaml.safe_dump(config))
