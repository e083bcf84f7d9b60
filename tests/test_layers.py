"""Layers and folders, as far as import-linter does not know them, and the page about them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Every module may import these; they import no module of the project but each other.
LOWEST = {
    "user_error": {"checkout"},
    "checkout": set(),
    "credentials": {"user_error"},
    "flags": {"checkout", "user_error"},
}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("name", LOWEST)
def test_the_lowest_modules_need_no_other_package(name):
    ours = {path.stem for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert imported(ROOT / f"{name}.py") & ours <= LOWEST[name]


def test_no_folder_has_more_than_fifteen_modules():
    folders: dict[Path, list[str]] = {}
    for path in ROOT.glob("*/**/*.py"):
        inside = path.relative_to(ROOT).parts
        if not inside[0].startswith(".") and path.name != "__init__.py":
            folders.setdefault(path.parent, []).append(path.name)
    assert {f.name: len(m) for f, m in folders.items() if len(m) > 15} == {}


@pytest.mark.parametrize("package", ["trainer", "cluster", "lab", "world_models"])
def test_the_page_of_the_architecture_has_every_module(package):
    page = (ROOT / "docs/architecture.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    absent = []
    for path in (ROOT / package).rglob("*.py"):
        folder = path.parent.relative_to(ROOT / package)
        names = (f"`{folder}`", f"`{folder.name}`")
        told = (
            [row for row in rows if any(name in row for name in names)] if folder.name else [page]
        )
        # Each package has an `__init__`, and most have their settings.
        known = {*re.findall(r"\w+", "".join(told)), "__init__", "__main__", "settings"}
        absent += [path] if path.stem not in known else []
    assert absent == []
