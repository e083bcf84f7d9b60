"""Files in which a user describes a page, a program or a set of actions."""

from pathlib import Path
from typing import Any

import yaml

from user_error import UserError


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, as one of the two would not count."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"{key} is given twice")
        return super().construct_mapping(node, deep)


def read(path: str, told: str) -> Any:
    """What a YAML file holds; the ``UserError`` of one that cannot be read begins with ``told``."""
    try:
        return yaml.load(Path(path).read_text("utf-8"), _Loader)
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError:
        reason = "it is not text in UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # the latter for a day that no month has
        reason = " ".join(str(error).split())
    raise UserError(f"{told}: it cannot be read ({reason}).")
