"""Writes docs/settings.md from the one definition of all settings.

python -m docs.generate_settings
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster import options
from trainer.settings import config

PAGE = Path(__file__).with_name("settings.md")
HEAD = """<!-- Made by docs/generate_settings.py: change the definitions, then run it. -->

# Settings

Every flag of `experiment.py`, which `bin/train` runs, and after them those of the frontend,
`run_experiment_mm_raw.py`, which takes the flags of training as well and passes them on. A switch
such as `--popart` is turned off by `--nopopart`. Numbers may be written as `2e8` or `200_000_000`.
"""
FRONTEND = """
## The frontend's own

"""
TABLE = "| flag, default | meaning |\n| --- | --- |\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for group in dict.fromkeys(field.metadata["group"] for field in config.fields()):
        those = [field for field in config.fields() if field.metadata["group"] == group]
        parts.append(f"\n## {group}\n\n{_table(those)}")
    parts.append(FRONTEND + _table(dataclasses.fields(options.Options)))
    return "".join(parts)


def _table(fields: Iterable[dataclasses.Field]) -> str:
    return TABLE + "".join(f"| {' | '.join(_cells(field))} |\n" for field in fields)


def _cells(field: dataclasses.Field) -> tuple[str, str]:
    # Two columns only, so that a phone has room for them.
    meaning, wanted = field.metadata["help"].replace("|", "\\|"), _wanted(field.metadata)
    meaning += f" ({wanted})" if wanted else ""
    return f"`--{field.name}`{_default(field.default)}", meaning


def _default(value: Any) -> str:
    if value in (None, ""):
        return ""
    if isinstance(value, bool):
        return "<br>on" if value else "<br>off"
    return f"<br>{value}"


def _wanted(limits: Any) -> str:
    """Choices or range in words."""
    if limits["choices"]:
        return ", ".join(f"`{choice}`" for choice in limits["choices"])
    words = [
        f"{word} {limits[name]:,}"
        for name, word in (("above", "above"), ("least", "from"), ("most", "to"))
        if limits[name] is not None
    ]
    return " ".join(words)


if __name__ == "__main__":
    PAGE.write_text(page())
