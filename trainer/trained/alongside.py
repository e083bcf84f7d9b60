"""``--evaluate_every_s`` and ``--watch`` in a training: games with its newest weights."""

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from environments import EnvironmentSpec, VectorEnvironment
from trainer import build
from trainer.acting.playing import Game, Player, play
from trainer.learning.learner import Learner
from trainer.machine.threads import name_thread, wait_for_end
from trainer.reporting import wording
from trainer.settings.config import Settings
from trainer.trained import opponent
from trainer.trained.opponent import against, own_games
from trainer.trained.trained_agent import to_value
from user_error import UserError

Say = Callable[[str], None]


def check(settings: Settings) -> None:
    """Refuses what cannot be done here, before anything is started."""
    looks = settings.trained.evaluate_every_s or settings.trained.watch
    if looks and settings.trained.test_policy == "random":
        raise UserError(
            "--test_policy=random: random play does not change in a training; with "
            "--evaluate_every_s or --watch, expected sampled or greedy."
        )
    if looks and settings.actors.remotes:
        raise UserError(
            "--remotes: games for --evaluate_every_s or --watch would be played on the desktops of "
            "the actors. Leave these out, or --remotes."
        )
    if looks and settings.program.job_name == "local":
        opponent.check(settings)
    if settings.trained.watch:
        from trainer.trained import video

        video.prepare(settings, Path(settings.run_folder))


def start(settings: Settings, spec: EnvironmentSpec, say: Say) -> list["Alongside"]:
    """The companions that the settings ask for."""
    companions: list[Alongside] = []
    if settings.program.job_name == "learner":
        opponent.check(settings)  # here, as only the first of a team needs its files
    if settings.trained.evaluate_every_s:
        companions.append(Evaluations(settings, spec, say))
    if settings.trained.watch:
        companions.append(Watching(settings, spec, say))
    return companions


class _Ended(Exception):
    """The training has ended, or nobody watches it."""


class Alongside:
    """A thread that plays with weights handed over by the training, again and again."""

    name: str
    every_s = 0.0  # at least, between two hand-overs

    def __init__(self, settings: Settings, spec: EnvironmentSpec, say: Say):
        self.settings = settings
        self.spec = spec
        self.say = say
        self._device = build.acting_device(settings)
        self._agent = build.acting_agent(settings, spec, self._device)
        self._algorithm = build.algorithm(settings)
        test = settings.trained
        self.player = Player(
            self._agent, self._algorithm, test.test_policy == "greedy", test.test_temperature
        )
        self._due = time.monotonic() + self.every_s
        self._ready = threading.Event()
        self._handed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._closing = False
        self._figures: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()

    def offer(self, learner: Learner, environment_frames: int) -> None:
        """Called between updates: copies the weights if the thread is ready for new ones.

        Not before its last figures are reported: later ones would take their place.
        """
        if not self._ready.is_set() or time.monotonic() < self._due or self._figures:
            return
        self._ready.clear()
        self._due = time.monotonic() + self.every_s
        kept = {name: variable.numpy() for name, variable in learner.algorithm.kept.items()}
        # Copies, because the next update moves the learner's own.
        weights = [tf.identity(weight) for weight in learner.weights]
        self._handed.put((weights, kept, environment_frames))

    def figures(self) -> dict[str, Any]:
        """Figures since the last call."""
        with self._lock:
            figures, self._figures = self._figures, {}
        return figures

    def close(self) -> None:
        """Ends the thread."""
        self._closing = True
        self._handed.put(None)
        wait_for_end([self._thread], self.say)

    def add_figures(self, figures: dict[str, Any]) -> None:
        """Reports them with the next report of the training."""
        with self._lock:
            self._figures |= figures

    def check(self, *_: object) -> None:
        """An onlooker that ends the game with the training."""
        if self._closing:
            raise _Ended

    def next_weights(self) -> int:
        """Waits for weights; returns how many frames the agent has been trained for."""
        self._ready.set()
        handed = self._handed.get()
        if handed is None:
            raise _Ended
        weights, kept, frames = handed
        for mine, new in zip(self._agent.variables, weights, strict=True):
            mine.assign(tf.cast(new, mine.dtype))
        self.scale = self._algorithm.scale_of_values(kept)
        return frames

    def work(self) -> None:
        """Plays until an exception ends it."""
        raise NotImplementedError

    def _work(self) -> None:
        name_thread(self.name)
        try:
            with tf.device(self._device or None):
                self.work()
        except _Ended:
            pass
        except UserError as error:
            self.say(f"warning: {error} Training continues.")
        except Exception as error:  # the training must not end with it
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self.say(f"warning: {self.name} ended with {reason}. Training continues.")


class Evaluations(Alongside):
    """Plays ``--test_num_episodes`` whole games a level every ``--evaluate_every_s`` seconds."""

    name = "evaluation"

    def __init__(self, settings: Settings, spec: EnvironmentSpec, say: Say):
        self.every_s = settings.trained.evaluate_every_s
        super().__init__(settings, spec, say)

    def work(self) -> None:
        from trainer.trained.evaluation import MOST_ENVIRONMENTS, seed_of_level

        settings = self.settings.replace(watch=False)
        games = settings.trained.test_num_episodes
        levels = settings.level.levels
        with contextlib.ExitStack() as stack:
            environments: list[VectorEnvironment] = [
                stack.enter_context(
                    contextlib.closing(
                        build.test_environment(
                            settings,
                            level,
                            min(games, MOST_ENVIRONMENTS),
                            seed_of_level(settings.program.seed, level),
                            self.spec,
                        )
                    )
                )
                for level in range(len(levels))
            ]
            players = [against(settings, one.spec, self.player) for one in environments]
            while True:
                frames = self.next_weights()
                played = [
                    self._games(one, player, games)
                    for one, player in zip(environments, players, strict=True)
                ]
                self._report(frames, played)

    def _games(self, environment: VectorEnvironment, player: Player, games: int) -> list[Game]:
        seed = self.settings.program.seed
        played = play(
            environment,
            player,
            games,
            seed=seed,
            step_limit=self.settings.trained.steps_alongside,
            onlookers=(self.check,),
        )
        return own_games(self.settings, environment.spec, played)

    def _report(self, frames: int, played: list[list[Game]]) -> None:
        returns = [[game.raw_return for game in games] for games in played]
        cut = sum(not game.finished for games in played for game in games)
        means = [float(np.mean(each)) for each in returns]
        mean, levels = float(np.mean(means)), self.settings.level.levels
        by_level = {f"evaluation_return/{n}": m for n, m in zip(levels, means, strict=True)}
        self.add_figures(
            {
                "evaluation_return": mean,
                "evaluation_frames": frames,
                "evaluation_unfinished": cut,
            }
            | (by_level if len(levels) > 1 else {})
        )
        spread = ""
        if len(levels) == 1 and len(returns[0]) > 1:
            spread = f" (standard deviation {wording.number(float(np.std(returns[0], ddof=1)))})"
        self.say(
            f"evaluated at {frames:,} frames: mean return {wording.number(mean)}{spread} of "
            f"{len(returns[0])} games{' a level' if len(levels) > 1 else ''}, "
            f"{self.settings.trained.test_policy} actions"
            + (
                f"; {cut} cut off after {self.settings.trained.steps_alongside:,} steps"
                if cut
                else ""
            )
        )


class Watching(Alongside):
    """Shows games of the first level in a window, each with the newest weights."""

    name = "watching"

    def work(self) -> None:
        from trainer.trained.dashboard import Dashboard
        from trainer.trained.video import Spectator, Window, check_drawable

        settings, player = self.settings, self.player
        subtitle = f"{settings.agent.agent_name}, {settings.trained.test_policy} actions"
        with contextlib.ExitStack() as stack:
            window, game = None, 0
            while True:
                frames = self.next_weights()
                seed, game = settings.program.seed + game, game + 1
                environment = build.test_environment(settings, 0, 1, seed, self.spec)
                with contextlib.closing(environment):
                    if window is None:
                        check_drawable("--watch", environment)
                        player = against(settings, environment.spec, self.player)
                        window = stack.enter_context(Window(environment.pictures_per_second))
                    spectator = Spectator(
                        Dashboard(
                            environment.spec,
                            f"{subtitle}, {frames:,} frames",
                            self._algorithm.heads.action_values,
                        ),
                        to_value(*self.scale, 0),
                        None,
                        window,
                    )
                    leave = functools.partial(self._leave_if_closed, window)
                    onlookers = (self.check, spectator, leave)
                    limit = settings.trained.steps_of_test
                    play(environment, player, 1, seed=seed, step_limit=limit, onlookers=onlookers)

    @staticmethod
    def _leave_if_closed(window: Any, *_: object) -> None:
        """An onlooker that ends a game that nobody sees any more: it may last for ever."""
        if not window.is_open:
            raise _Ended
