"""Freezes a spec: the mode, seeds, versions and commit with which its figures come about."""

import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any

from lab.specs.spec import Spec
from trainer.machine.launching import script_name
from trainer.machine.provenance import commit, machine, versions

# New seeds of finalists start this far from the others.
FINALS_FROM = 1000


def freeze(spec: Spec, mode: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``spec.json``: the whole spec, and what else decides its figures.

    ``extra`` are further parts of an experiment, such as the levels of a benchmark.
    """
    return {
        spec.name: {
            **spec.content(),
            "frozen": {
                "mode": mode,
                **extra,
                "seeds": seeds(spec),
                "final_seeds": final_seeds(spec),
                "commit": commit(),
                "versions": versions(),
                "machine": machine(),
                "command": shlex.join([script_name("bin/lab"), *sys.argv[1:]]),
                "created": time.strftime("%Y-%m-%d %H:%M:%S"),
            },
        }
    }


def extra_of(spec: Spec) -> dict[str, Any]:
    """The further parts of a frozen experiment."""
    return {name: spec.frozen[name] for name in ("specs", "levels") if name in spec.frozen}


def seeds(spec: Spec) -> list[int]:
    """The seeds of a trial's sessions, the same for all trials: they differ in settings only."""
    return [spec.meta.seed + place for place in range(spec.meta.sessions)]


def final_seeds(spec: Spec) -> list[int]:
    """Seeds that no trial of the search has seen."""
    start = spec.meta.seed + max(FINALS_FROM, spec.meta.sessions)
    return [start + place for place in range(spec.meta.final_sessions)]


def changes(spec: Spec) -> str:
    """How this checkout differs from the one that a frozen spec ran with; "" if it does not."""
    if not spec.frozen:
        return ""
    now: dict[str, Any] = {"commit": commit(), **versions()}
    before = {"commit": spec.frozen.get("commit"), **spec.frozen.get("versions", {})}
    differ = [
        f"{name} {before.get(name)} → {now[name]}" for name in now if now[name] != before.get(name)
    ]
    return ", ".join(differ)
