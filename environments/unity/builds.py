"""Finds the program of a build: by name in the cache, where it is fetched to once, or by path."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from environments.unity import fetching
from environments.unity.fetching import Package
from user_error import UserError, closest


class Named(NamedTuple):
    """A build of a package."""

    package: Package
    program: str  # in the package
    actions: int = 0  # that it takes, where it says something else


def _old(name: str, sha512: str, actions: int = 0) -> Named:
    kept = (f"build/{name}.x86_64", f"build/{name}_Data", "LICENSE")
    package = Package(f"slm-env-{name}", "2.0.0", sha512, 79, kept)
    return Named(package, kept[0], actions)


# Of Unity 2017.2 with ML-Agents 0.2.
BUILDS = {
    "3dball": _old(
        "3dball",
        "fRMaBoP3gtyN2UV+4YpBkgfwvn8EnEb47yhpONcteg7PgAT49/87ubux7zmfsvEy9QyWLbfMtgt//GnhDmQ89w==",
        actions=4,  # with the two that it speaks of, a plate tilts around one axis only
    ),
    "gridworld": _old(
        "gridworld",
        "XHVwQLiiXYtH0WA7Tr/1oS5wXmo1NJMpfVWFqy+Z1CVw/gJ6ZcRCkwcQEGPhwLpXSeCIt2W44B68b0rNCYXeSg==",
    ),
}


def program(build: str, say: Callable[[str], None]) -> Path:
    """The program to start; a `UserError` if there is none."""
    if build in BUILDS:
        named = BUILDS[build]
        return fetching.fetched(named.package, f"unity:{build}", say) / named.program
    given = Path(os.path.expanduser(build))  # of an unknown user it stays as it is
    found = next((one for one in (given, Path(f"{given}.x86_64")) if one.is_file()), None)
    if found is None:
        if os.sep in build or given.exists():
            raise UserError(
                f"--level_name: unity:{build}: there is no such file; expected the program of a "
                "build for Linux, such as unity:builds/Walker.x86_64."
            )
        raise UserError(
            f"--level_name: unity:{build}: there is no such file here, and no build of that name. "
            f"{closest(build, BUILDS)}"
        )
    if not os.access(found, os.X_OK):
        raise UserError(f"--level_name: unity:{build} may not be run: chmod +x {found}.")
    return found.resolve()
