"""``python -m benchmarks`` lists the benchmarks; ``python -m benchmarks NAME`` runs one."""

import ast
import runpy
import sys
from pathlib import Path

import flags
from user_error import closest, exit_code

FOLDER = Path(__file__).parent
ROOMS = ("parts", "whole", "plan")
STARTED_BY_OTHERS = ("sending",)  # a process of the benchmark of transport


def known() -> dict[str, Path]:
    """The file of each benchmark, by the name that runs it: what has a main program."""
    files = [path for room in ROOMS for path in (FOLDER / room).glob("*.py") if _is_program(path)]
    packages = [path for room in ROOMS for path in (FOLDER / room).glob("*/__main__.py")]
    by_name = {path.stem: path for path in files} | {path.parent.name: path for path in packages}
    return dict(sorted(by_name.items()))


def main(arguments: list[str]) -> int:
    """Lists or runs; returns the exit code."""
    programs = known()
    if not arguments or arguments[0] in ("-h", "--help"):
        usage = flags.with_this_python("python -m benchmarks NAME [flags]")
        print(f"usage: {usage}; NAME --help lists a benchmark's flags\n")
        width = max(map(len, programs))
        for name, path in programs.items():
            print(f"  {name:<{width}}  {_first_line(path)}")
        return 0
    name = arguments[0]
    if name not in programs:
        print(f"benchmarks: there is no {name!r}. {closest(name, programs)}", file=sys.stderr)
        return 2
    sys.argv = [f"python -m benchmarks {name}", *arguments[1:]]
    runpy.run_module(_module(programs[name]), run_name="__main__")
    return 0


def _is_program(path: Path) -> bool:
    has_main = '__name__ == "__main__"' in path.read_text("utf-8")
    return has_main and path.stem not in STARTED_BY_OTHERS


def _first_line(path: Path) -> str:
    if path.name == "__main__.py":
        path = path.with_name("__init__.py")
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]


def _module(path: Path) -> str:
    return ".".join(("benchmarks", *path.relative_to(FOLDER).with_suffix("").parts))


if __name__ == "__main__":
    sys.exit(exit_code("benchmarks", lambda: main(sys.argv[1:])))
