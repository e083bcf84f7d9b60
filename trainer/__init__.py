"""Trains agents: settings, acting, learning, storage, reports, and what is left of a run.

``Settings``, ``read_settings``, ``train`` and ``evaluate`` are for programs and notebooks, see
docs/python.md. They are loaded when they are used: the frontend imports this package, too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.api import Evaluation, Outcome, Settings, UserError, evaluate, read_settings, train

__all__ = ["Evaluation", "Outcome", "Settings", "UserError", "evaluate", "read_settings", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trainer import api

    return getattr(api, name)
