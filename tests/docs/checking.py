"""Whether a command of the guide would be understood, found out without running it."""

import functools
import importlib.metadata
import importlib.util
import re
import subprocess
import sys

from benchmarks import __main__ as benchmarks
from cluster import options
from environments import names
from lab import commands as lab
from lab.specs import spec as specs
from tests.docs.pages import PROJECT
from trainer.settings import config

# Programs that are not this project's. What they do is not looked at.
OTHERS = {
    *("apt-get", "buildah", "cd", "chmod", "cp", "curl", "debootstrap", "docker", "export", "git"),
    *("ip", "kill", "mkdir", "nvidia-smi", "openssl", "ps", "rsync", "salloc", "scp", "ss", "ssh"),
    *("ssh-add", "ssh-copy-id", "ssh-keygen", "taskset", "tmux"),
}
# Those in .venv/bin that only come with an extra which tests do without.
OF_EXTRAS = {"ray"}
# Programs whose arguments end in another command, and where that begins.
PYTHONS = ("python", "python3", ".venv/bin/python")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


class Wrong(Exception):
    """What the guide has wrong."""


def check(words: list[str]) -> None:
    """Raises ``Wrong``, or what the program itself would say."""
    while words and (ASSIGNMENT.fullmatch(words[0]) or words[0] in ("sudo", "env", "exec")):
        words = words[1:]
    if not words:
        return
    program, arguments = words[0], words[1:]
    if program in ("mpirun", "bin/mpirun"):
        _check_mpirun(arguments)
    elif program in PYTHONS:
        _check_python(arguments)
    elif program == "bin/train":
        _check_training(arguments)
    elif program == "bin/lab":
        _check_lab(arguments)
    elif program.startswith(".venv/bin/"):
        _check_installed(program.removeprefix(".venv/bin/"))
    elif "/" in program:
        _check_script(program, arguments)
    elif program not in OTHERS:
        raise Wrong(f"{program!r} is no program that the guide is known to use")


def _check_mpirun(arguments: list[str]) -> None:
    """Each of its programs; mpirun's own options come before."""
    started = ("bin/train", *PYTHONS)
    rank: list[str] = []
    for word in [*arguments, ":"]:
        if word == ":":
            if not rank:
                raise Wrong("mpirun is given no program of this project")
            check(rank)
            rank = []
        elif rank or word in started:
            rank.append(word)


def _check_training(arguments: list[str]) -> None:
    """Without its file of settings, which is the reader's own."""
    settings = config.parse([word for word in arguments if not word.startswith("--config=")])
    _check_levels(settings)


def _check_levels(settings: config.Settings) -> None:
    """Gymnasium drops versions of its levels."""
    for level in settings.level.levels:
        names.find(level)


def _check_lab(arguments: list[str]) -> None:
    """The command itself, and the specs of the project that it names."""
    lab.parse(arguments)
    for word in [word for word in arguments if word.startswith(("lab/", "sandbox/"))]:
        path, name = specs.split(word)
        if not (PROJECT / path).exists():
            raise Wrong(f"there is no {path}")
        if not path.endswith("experiments.json"):
            specs.read_all(PROJECT / path, name)


def _check_python(arguments: list[str]) -> None:
    if arguments[:1] == ["-m"]:
        _check_module(arguments[1], arguments[2:])
    elif arguments[:1] == ["experiment.py"]:
        _check_training(arguments[1:])
    elif arguments[:1] == ["run_experiment_mm_raw.py"]:
        chosen, settings = options.parse(arguments[1:])
        _check_levels(settings)
        path = chosen.workers_csv_path
        if path.startswith("sandbox/") and not (PROJECT / path).exists():
            raise Wrong(f"there is no {path}")
    else:
        _check_script(arguments[0], arguments[1:])


def _check_module(module: str, arguments: list[str]) -> None:
    if module == "benchmarks":
        name, *own = arguments or ["--help"]
        if name not in benchmarks.known():
            raise Wrong(f"there is no benchmark {name}")
        module, arguments = f"benchmarks {name}", own
    elif importlib.util.find_spec(module) is None:
        raise Wrong(f"there is no module {module}")
    if not module.startswith(("benchmarks ", "environments.", "sandbox.", "world_models.")):
        return
    own, passed_on = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        own, passed_on = arguments[:at], arguments[at + 1 :]
    # peers --until has flags of its own.
    chosen = [word for word in own if word.startswith("--until=")]
    _check_flags([sys.executable, "-m", *module.split(), *chosen], own)
    config.parse(passed_on)


def _check_script(script: str, arguments: list[str]) -> None:
    if not (PROJECT / script).exists():
        raise Wrong(f"there is no {script}")
    if script == "bin/setup":
        _check_flags([script], arguments)
    if script == "bin/test":
        for path in [word for word in arguments if "/" in word]:
            if not (PROJECT / path.partition("::")[0]).exists():
                raise Wrong(f"there is no {path}")


def _check_installed(program: str) -> None:
    scripts = importlib.metadata.entry_points(group="console_scripts")
    if program not in {script.name for script in scripts} | OF_EXTRAS:
        raise Wrong(f"no installed package has a program {program!r}")


def _check_flags(command: list[str], arguments: list[str]) -> None:
    known = _help(*command)
    for flag in [word.partition("=")[0] for word in arguments if word.startswith("-")]:
        if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", known):
            raise Wrong(f"{' '.join(command)} has no flag {flag}")


@functools.cache
def _help(*command: str) -> str:
    done = subprocess.run(
        [*command, "--help"], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=200
    )
    if done.returncode:
        raise Wrong(f"{' '.join(command)} --help ends with {done.returncode}: {done.stderr}")
    return done.stdout
