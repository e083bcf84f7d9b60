"""Stands in for a cluster's controllers and nodes: pods of Jobs as processes of this machine.

As root: each pod has the images' folders, or the file system of an image that was built, a
read-only root, its own volumes, host name and user id, as its manifest asks for them. An address on
loopback and a common hosts file are its network.
"""

import base64
import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.backends.kubernetes.looking import INDEX, OWNERS
from cluster.backends.kubernetes.model import PROJECT
from tests.cluster.kubernetes.emulator import NAMESPACE, Server, now

ROOT = Path(__file__).parents[3]
LOOK_EVERY_S = 0.2
ENDED = ("Succeeded", "Failed")
PODS, JOBS = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


def missing() -> str:
    """Why pods cannot be run here, or "" if they can."""
    if os.geteuid():
        return "pods as processes need root"
    if not all(map(shutil.which, ("unshare", "setpriv", "nsenter"))):
        return "pods as processes need unshare, setpriv and nsenter"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "mounts cannot be made here" if tried.returncode else ""


@dataclasses.dataclass
class Running:
    """A pod with its process."""

    pod: dict[str, Any]
    process: subprocess.Popen
    logger: threading.Thread
    asked_s: float = 0.0
    is_ready: bool = False

    @property
    def name(self) -> str:
        return self.pod["metadata"]["name"]

    @property
    def spec(self) -> dict[str, Any]:
        return self.pod["spec"]

    def send(self, number: int) -> None:
        """Signals the container's process, which is all that a node does."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Ends all that the pod has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.logger.join(5)


class Controller:
    """Makes what is in the emulator true until it is closed."""

    def __init__(
        self, server: Server, folder: Path, project: Path, images: Mapping[str, Path] | None = None
    ):
        """``images`` are the file systems of images by their names; else this machine's is used."""
        self._server = server
        self._images = images or {}
        self._folder = folder
        self._project = project
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._hosts.chmod(0o644)
        self._count = 1
        self.running: dict[str, Running] = {}
        self._failures: dict[tuple[str, int], int] = {}
        self._ends = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join(30)
        for one in self.running.values():
            one.kill()
        if self.error:
            raise self.error

    def evict(self, name: str) -> None:
        """What a node does that has to shed a pod."""
        condition = {"type": "DisruptionTarget", "status": "True"}
        self._set(self.running[name], {"conditions": [condition]})
        self.running[name].send(signal.SIGTERM)

    def _run(self) -> None:
        try:
            while not self._ends.wait(LOOK_EVERY_S):
                jobs = self._server.request("GET", JOBS)["items"]
                pods = self._server.request("GET", PODS)["items"]
                for job in jobs:
                    self._keep(job, pods)
                self._end_orphans({job["metadata"]["name"] for job in jobs}, pods)
                for one in list(self.running.values()):
                    self._watch(one)
        except BaseException as error:
            self.error = error

    def _keep(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        """Starts the pods that a Job lacks, and says whether it has ended."""
        name, spec = job["metadata"]["name"], job["spec"]
        if job.get("status", {}).get("conditions"):
            return
        mine = [one for one in pods if one["metadata"]["labels"][OWNERS[0]] == name]
        done, given_up = set(), set()
        for index in range(spec["completions"]):
            of_index = [one for one in mine if one["metadata"]["labels"][INDEX] == str(index)]
            phases = [one["status"]["phase"] for one in of_index]
            failures = self._failures.get((name, index), 0)
            if "Succeeded" in phases:
                done.add(index)
            elif failures > spec["backoffLimitPerIndex"]:
                given_up.add(index)
            elif all(phase == "Failed" for phase in phases):
                self._start(job, index, len(of_index))
        for pod in mine:  # scaled down
            if int(pod["metadata"]["labels"][INDEX]) >= spec["completions"]:
                self._end(pod)
        if len(done | given_up) == spec["completions"]:
            kind = "Failed" if given_up else "Complete"
            status: dict[str, Any] = {"conditions": [{"type": kind, "status": "True"}]}
            status["failedIndexes"] = ",".join(map(str, sorted(given_up)))
            self._server.request("PATCH", f"{JOBS}/{name}", {"status": status})

    def _start(self, job: dict[str, Any], index: int, before: int) -> None:
        owner = job["metadata"]["name"]
        template = json.loads(json.dumps(job["spec"]["template"]))
        name = f"{owner}-{index}-{'abcdefghijkl'[before]}"
        marks = {**template["metadata"]["labels"], OWNERS[0]: owner, INDEX: str(index)}
        self._count += 1
        address = f"127.10.0.{self._count}"
        status = {"phase": "Running", "startTime": now(), "podIP": address}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": marks},
            "spec": {**template["spec"], "nodeName": "n1", "hostname": f"{owner}-{index}"},
            "status": {**status, "conditions": [], "containerStatuses": []},
        }
        host, domain = f"{owner}-{index}", template["spec"].get("subdomain", "none")
        lines = [one for one in self._hosts.read_text().splitlines() if f" {host} " not in one]
        self._hosts.write_text("\n".join([*lines, f"{address} {host} {host}.{domain}"]) + "\n")
        self._server.request("POST", PODS, pod)
        self.running[name] = self._begin(pod, index, address)

    def _begin(self, pod: dict[str, Any], index: int, address: str) -> Running:
        own = self._folder / pod["metadata"]["name"]
        own.mkdir(mode=0o755)
        [container] = pod["spec"]["containers"]
        variables: dict[str, str] = {}
        for one in container["env"]:
            variables[one["name"]] = expanded(one.get("value", address), variables)
        variables |= {"JOB_COMPLETION_INDEX": str(index), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
        command = [expanded(word, variables) for word in container["command"]]
        script = own / "node"
        script.write_text(self._script(pod, own))
        process = subprocess.Popen(
            ["unshare", "--mount", "--uts", "bash", str(script), *command],
            env={**variables, "HOME": "/home/impala", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log = self._folder / f"{pod['metadata']['name']}.log"
        logger = threading.Thread(target=_write_log, args=(process, log), daemon=True)
        logger.start()
        return Running(pod, process, logger)

    def _script(self, pod: dict[str, Any], own: Path) -> str:
        """Makes a container's view of the machine, then becomes its process."""
        [container] = pod["spec"]["containers"]
        user = pod["spec"]["securityContext"]["runAsUser"]
        sources = {one["name"]: self._volume(one, own, user) for one in pod["spec"]["volumes"]}
        mounts = {one["mountPath"]: sources[one["name"]] for one in container["volumeMounts"]}
        image = self._images.get(container["image"])
        words = shlex.join(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
             "--bounding-set=-all", "--inh-caps=-all"]
        )  # fmt: skip
        enter = f'cd {container["workingDir"]}; exec {words} "$@"'
        view = self._of_image(image, mounts, enter) if image else self._of_machine(mounts, enter)
        return "\n".join(["set -e", f"hostname {pod['spec']['hostname']}", *view]) + "\n"

    def _of_machine(self, mounts: dict[str, Path], enter: str) -> list[str]:
        """This machine's file system, with the project where images have it."""
        lines = [
            f"mount --bind {self._hosts} /etc/hosts",
            "mount -t tmpfs none /mnt; mkdir /mnt/project /mnt/venv",
            f"mount --bind {self._project} /mnt/project",
            f"mount --bind {(ROOT / '.venv').resolve()} /mnt/project/.venv",
        ]
        for number, source in enumerate(mounts.values()):
            lines.append(f"mkdir /mnt/{number}; mount --bind {source} /mnt/{number}")
        lines += [
            f"mount -t tmpfs none /home; mkdir -p {PROJECT}",
            f"mount --rbind /mnt/project {PROJECT}; mount -o remount,bind,ro {PROJECT}",
            f"mount -o remount,bind,ro {PROJECT}/.venv; mount -t tmpfs none /run",
        ]
        for number, path in enumerate(mounts):
            lines.append(f"mkdir -p {path}; mount --bind /mnt/{number} {path}")
        return [*lines, "mount -o remount,bind,ro /; mount -o remount,ro /run /home", enter]

    def _of_image(self, image: Path, mounts: dict[str, Path], enter: str) -> list[str]:
        """An image's file system; where volumes are mounted, a container engine makes folders."""
        lines = [f"mount --bind {image} {image}; cd {image}; touch etc/hosts"]
        lines += [f"mount --rbind /{name} {name}" for name in ("proc", "dev", "sys")]
        lines += [
            f"mkdir -p .{path}; mount --bind {source} .{path}" for path, source in mounts.items()
        ]
        lines.append(f"mount --bind {self._hosts} etc/hosts; mount -o remount,bind,ro {image}")
        return [*lines, f'exec chroot {image} bash -c {shlex.quote(enter)} bash "$@"']

    def _volume(self, volume: dict[str, Any], own: Path, user: int) -> Path:
        if "persistentVolumeClaim" in volume:
            folder = self._folder / f"claim-{volume['persistentVolumeClaim']['claimName']}"
        else:
            folder = own / volume["name"]
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, 0, user)
        folder.chmod(0o2775)
        if "secret" in volume:
            secret = volume["secret"]
            path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret['secretName']}"
            for name, text in self._server.request("GET", path)["data"].items():
                file = folder / name
                file.write_bytes(base64.b64decode(text))
                shutil.chown(file, 0, user)
                file.chmod(secret["defaultMode"])
        return folder

    def _watch(self, one: Running) -> None:
        """Asks a pod's health, and says how it has ended."""
        code = one.process.poll()
        if code is not None:
            one.kill()
            del self.running[one.name]
            self._note_end(one, code)
            return
        if one.asked_s and time.monotonic() > one.asked_s + self._grace(one):
            one.kill()
        [container] = one.spec["containers"]
        if not one.is_ready:
            probe = container["readinessProbe"]["exec"]["command"]
            inside = [
                "nsenter",
                f"--target={one.process.pid}",
                "--mount",
                "--uts",
                "--root",
                "--wd",
                *probe,
            ]
            done = subprocess.run(inside, capture_output=True, check=False, timeout=20)
            one.is_ready = not done.returncode
            if one.is_ready:
                self._set(one, {"conditions": [{"type": "Ready", "status": "True"}]})

    def _grace(self, one: Running) -> float:
        return one.spec["terminationGracePeriodSeconds"]

    def _note_end(self, one: Running, code: int) -> None:
        state = {"terminated": {"exitCode": code if code >= 0 else 128 - code}}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "it", "restartCount": 0, "state": state}],
        }
        self._set(one, status)
        if one.asked_s:
            self._server.request("PATCH", f"{PODS}/{one.name}", {"metadata": {"finalizers": []}})
            return
        labels = one.pod["metadata"]["labels"]
        found = self._server.request("GET", f"{PODS}/{one.name}")
        kinds = [condition["type"] for condition in found["status"]["conditions"]]
        if code and state["terminated"]["exitCode"] != 143 and "DisruptionTarget" not in kinds:
            key = (labels[OWNERS[0]], int(labels[INDEX]))
            self._failures[key] = self._failures.get(key, 0) + 1

    def _set(self, one: Running, status: dict[str, Any]) -> None:
        self._server.request("PATCH", f"{PODS}/{one.name}", {"status": status})

    def _end_orphans(self, jobs: set[str], pods: list[dict[str, Any]]) -> None:
        for pod in pods:
            if pod["metadata"]["labels"][OWNERS[0]] not in jobs:
                self._end(pod)

    def _end(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        one = self.running.get(name)
        if one and not one.asked_s:
            one.asked_s = time.monotonic()
            metadata = {"deletionTimestamp": now(), "finalizers": ["node"]}
            self._server.request("PATCH", f"{PODS}/{name}", {"metadata": metadata})
            one.send(signal.SIGTERM)
        elif not one:
            with contextlib.suppress(urllib.error.HTTPError):
                self._server.request("DELETE", f"{PODS}/{name}")


def expanded(text: str, env: dict[str, str]) -> str:
    """What Kubernetes makes of a word of a command, and of the value of a variable."""
    return re.sub(
        r"\$(\$|\((.*?)\))",
        lambda found: "$" if found[1] == "$" else env.get(found[2], found[0]),
        text,
    )


def _write_log(process: subprocess.Popen, log: Path) -> None:
    """Writes what a pod prints as a node does, each line after its time."""
    assert process.stdout
    with open(log, "ab", buffering=0) as file:
        for line in process.stdout:
            file.write(f"{now()} ".encode() + line)
