"""Environments that go on by themselves, whose steps wait: all of a batch are made at once."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import gymnasium


def goes_on_by_itself(env: gymnasium.Env) -> bool:
    """Whether a step lasts as long as its action does, which the environment says of itself."""
    return bool(getattr(env.unwrapped, "goes_on_by_itself", False))


def was_left_alone(env: gymnasium.Env) -> bool:
    """Whether it went on for long before a step since the last call, which it says, too."""
    ask = getattr(env.unwrapped, "was_left_alone", None)
    return bool(ask and ask())


class Begun(gymnasium.Wrapper):
    """An environment whose next step or reset can be begun before it is asked for."""

    def __init__(self, env: gymnasium.Env, threads: ThreadPoolExecutor) -> None:
        super().__init__(env)
        self._threads = threads
        self._begun: Future[Any] | None = None

    def begin_step(self, action: Any) -> None:
        """Begins a step in another thread."""
        self._end()
        self._begun = self._threads.submit(self.env.step, action)

    def begin_reset(self, **how: Any) -> None:
        """Begins a reset there."""
        self._end()
        self._begun = self._threads.submit(self.env.reset, **how)

    def step(self, action: Any) -> Any:
        return self._take() if self._begun else self.env.step(action)

    def reset(self, **how: Any) -> Any:
        return self._take() if self._begun else self.env.reset(**how)

    def close(self) -> None:
        self._end()
        super().close()

    def _take(self) -> Any:
        assert self._begun
        begun, self._begun = self._begun, None
        return begun.result()

    def _end(self) -> None:
        """Waits for what nobody has asked for, as where the step of another one has failed."""
        if self._begun:
            self._begun.exception()
            self._begun = None
