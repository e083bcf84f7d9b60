"""Images built and run without a daemon: debootstrap makes the base, buildah does the rest.

What this machine needs to reach a network (certificates, pip's settings) goes into the base,
so that nothing of it stands in a Dockerfile.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
IMAGES = {
    "impala-actor": "DockerfileActor",
    "impala-learner": "DockerfileLearner",
    "impala-remote": "DockerfileRemote",
}
MIRROR = "http://deb.debian.org/debian"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = (Path("/etc/pip.conf"), Path("~/.config/pip/pip.conf").expanduser())
# Room for the base, both images, and what lies twice while a stage is copied.
NEEDED_BYTES = 14 << 30


def missing(folder: Path) -> str:
    """Why images cannot be built here, or "" if they can."""
    if os.geteuid():
        return "building images needs root"
    lacking = [name for name in ("debootstrap", "buildah") if not shutil.which(name)]
    if lacking:
        return f"building images needs {' and '.join(lacking)}"
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        return f"building images needs {NEEDED_BYTES >> 30} GiB; {free >> 30} are free"
    return ""


@contextlib.contextmanager
def built_images() -> "Iterator[Builder]":
    """All images, until the end of the block."""
    builder = Builder()
    try:
        base = builder.make_base()
        for image, dockerfile in IMAGES.items():
            started = time.monotonic()
            builder.build(dockerfile, image, base)
            print(f"{image}: built in {time.monotonic() - started:.0f} s", file=sys.stderr)
        yield builder
    finally:
        builder.close()


# What debian:12-slim leaves out, too, of the base and of what is installed later.
LEFT_OUT = ("doc", "info", "locale", "man")


def _slim(root: Path) -> None:
    excluded = "".join(f"path-exclude /usr/share/{name}/*\n" for name in LEFT_OUT)
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excluded)
    for folder in ("var/cache/apt", "var/lib/apt/lists", *(f"usr/share/{n}" for n in LEFT_OUT)):
        for path in (root / folder).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


class Builder:
    """Buildah with a store of its own, all of which goes with ``close``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="impala-images"))
        self._containers: list[str] = []

    def buildah(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """One command, which must succeed."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, **options
        )
        assert done.returncode == 0, f"{shlex.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done

    def command(self, *words: str) -> list[str]:
        """A command line of buildah on this store."""
        store = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")]
        return ["buildah", *store, *words]

    def make_base(self) -> str:
        """Plain Debian 12, with what this machine needs to reach a network."""
        root = self.folder / "base"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", str(root), MIRROR],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        _slim(root)
        self._copy_settings(root)
        container = self.buildah("from", "scratch").stdout.strip()
        self.buildah("add", container, str(root), "/")
        self.buildah("commit", "--rm", container, "impala-base")
        shutil.rmtree(root)
        return "localhost/impala-base"

    def _copy_settings(self, root: Path) -> None:
        for path in [*CERTIFICATES.glob("*.crt"), BUNDLE, *PIP_SETTINGS]:
            if path.exists():
                # The build runs as root.
                home = str(Path.home())
                target = root / re.sub(f"^{home}/", "root/", str(path)).lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)

    def build(self, dockerfile: str, image: str, base: str) -> None:
        """An image from the project's Dockerfile."""
        self.buildah(
            *("bud", "--isolation=chroot", "--network=host", "--format=docker", "--layers"),
            *("--build-arg", f"BASE={base}", *self._mounts()),
            *("--file", f"docker/{dockerfile}", "--tag", image, "."),
            cwd=PROJECT,
        )

    @staticmethod
    def _mounts() -> list[str]:
        """Folders of packages that pip's settings name."""
        texts = [path.read_text() for path in PIP_SETTINGS if path.exists()]
        named = re.findall(r"(?:file://|\s)(/[\w./-]+)", " ".join(texts))
        folders = dict.fromkeys("/" + "/".join(Path(name).parts[1:3]) for name in named)
        return [
            word
            for folder in folders
            if Path(folder).is_dir() and folder.startswith(("/opt", "/srv"))
            for word in ("--volume", f"{folder}:{folder}:ro")
        ]

    def config(self, image: str) -> dict[str, Any]:
        """What an image says of itself, as Docker would read it."""
        found = json.loads(self.buildah("inspect", "--type=image", image).stdout)
        return found["Docker"]["config"]

    def mount(self, container: str) -> Path:
        """Where a container's file system is."""
        return Path(self.buildah("mount", container).stdout.strip())

    def size(self, image: str) -> int:
        """Bytes of all of its files, unpacked."""
        container = self.container(image)
        mounted = self.mount(container)
        told = subprocess.run(
            ["du", "-sb", "--one-file-system", mounted], capture_output=True, text=True, check=True
        )
        self.buildah("umount", container)
        return int(told.stdout.split()[0])

    def container(self, image: str) -> str:
        """A new container."""
        name = self.buildah("from", "--pull-never", image).stdout.strip()
        self._containers.append(name)
        return name

    def run_command(self, container: str, *words: str, env: dict[str, str]) -> list[str]:
        """What runs a command in a container, as its image's user."""
        given = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        isolation = ["--isolation=chroot", "--network=host"]
        return self.command("run", *isolation, *given, container, "--", *words)

    def close(self) -> None:
        """Removes the store and all that is in it."""
        for container in self._containers:
            subprocess.run(self.command("rm", container), capture_output=True, check=False)
        subprocess.run(self.command("rmi", "--all", "--force"), capture_output=True, check=False)
        shutil.rmtree(self.folder)
