"""Files in which a user describes a page, a program or a set of actions."""

from pathlib import Path
from typing import Any

import yaml

from user_error import UserError


def read(path: str, told: str) -> Any:
    """What a YAML file holds; the ``UserError`` of one that cannot be read begins with ``told``."""
    try:
        return yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError:
        reason = "it is not text in UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # the latter for a day that no month has
        reason = " ".join(str(error).split())
    raise UserError(f"{told}: it cannot be read ({reason}).")
