"""Notes that accompany an exported agent, for programs (about.json) and people (README.md)."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import environments
from environments import EnvironmentSpec
from environments.bodies.views import BRIGHTEST, MARK, MIRROR, told_by
from environments.names import AtariLevel, BodiesLevel, RealTimeLevel, find
from trainer import build
from trainer.acting.settings import LevelSettings
from trainer.trained.trained_agent import Trained

FORMAT = "impala agent 1"

README = """\
# A trained agent as a TensorFlow SavedModel

It needs only TensorFlow. `about.json` describes the agent, what it was trained on, how its
observations are made and what its actions mean; the last two by level where its levels differ.

```python
import tensorflow as tf

model = tf.saved_model.load(".")
act = model.signatures["act"]

B = 1  # number of environments
state = {}
if "initial_state" in model.signatures:
    state = model.signatures["initial_state"](batch_size=tf.constant(B))

# for every step of the environments:
output = act(
    observation=...,  # [B, ...], the newest frame or vector only: earlier ones are in the state
    reward=...,       # [B] float32, raw, of the step that led to the observation
    last_action=...,  # [B, ...], the action that led to it
    first=...,        # [B] bool: it starts an episode. Then reward, last_action and state of
                      # that environment are ignored
    seed=...,         # [2] int32, of the sampled action: use another one at every step
    **state,
)
state = {name: output[name] for name in state}
action = output["action"]  # sampled; or output["greedy_action"], the likeliest
```

| output | shape | |
| --- | --- | --- |
| `action` | `[B, ...]` | sampled; of DQN's agents the likeliest, or a random one with the chance \
of tests, see `--exploration_end` |
| `log_prob` | `[B]` | its log-probability, or the log of its density; not of DQN's agents |
| `greedy_action` | `[B, ...]` | the likeliest |
| `policy` | `[B, P]` | logits; of DQN's agents the value of each action; for continuous actions \
means, then logarithms of standard deviations, in halves of each number's range: a mean of 0 is \
its centre, 1 its upper bound (without bounds: the number itself). The logarithms are clipped to \
-5…1 before an action is drawn |
| `baseline` | `[B]` or `[B, L]` | the expected discounted reward, or that on each level |
| `state_0`, … | `[B, ...]` | input of the next step |
"""

KINDS = """
Its bodies differ in what they see and do; `kinds` in `about.json` lists who is of which kind. Rows
have room for all of them:

- `observation` of vectors: the body's own numbers, zeros, and last the number of its kind. Of
  pictures: the body's own, with the number of its kind in place of the first byte.
- `action`, `greedy_action` and `last_action`: one number if each kind chooses one; otherwise the
  body's own numbers come first.
- `policy`: the body's own parameters come first. Where each kind chooses one action, -1e9 stands
  for those that it does not have; otherwise zeros follow, then a 1 among zeros for the kind.
"""


def about(
    found: Trained,
    spec: EnvironmentSpec,
    inputs: dict[str, tf.TensorSpec],
    state: dict[str, tf.TensorSpec],
) -> dict[str, Any]:
    """The content of about.json."""
    settings = found.settings
    levels = build.level_specs(settings) if len(settings.level.levels) > 1 else [spec]
    return {
        "format": FORMAT,
        "algorithm": found.settings.program.algorithm,
        "agent": found.settings.agent.agent_name,
        "levels": found.levels,
        "environment_frames": found.environment_frames,
        "checkpoint": found.path.name,
        "observation_space": str(spec.observation_space),
        "action_space": str(spec.action_space),
        "action_meanings": _of_each(levels, lambda one: one.action_meanings),
        **({"kinds": _kinds(found, spec)} if spec.kinds else {}),
        "frame_stack": spec.frame_stack,
        "frames_per_step": spec.frames_per_step,
        "preprocessing": _of_each(levels, functools.partial(preprocessing, settings.level)),
        "inputs": {name: _described(one) for name, one in inputs.items()},
        "state": list(state),
        "trained_with": found.checkpoint.settings,
    }


def _of_each(levels: Sequence[EnvironmentSpec], what: Callable[[EnvironmentSpec], Any]) -> Any:
    """What holds for levels: once if it is the same for all, otherwise by their names."""
    found = {one.level_name: what(one) for one in levels}
    first, *others = found.values()
    return found if any(one != first for one in others) else first


def preprocessing(level: LevelSettings, spec: EnvironmentSpec) -> list[str]:
    """The steps between the environment and the agent, in order."""
    played = find(spec.level_name)
    if isinstance(played, AtariLevel):
        return _atari(level, spec, played)
    steps: list[str] = []
    of_atari = isinstance(played, BodiesLevel) and played.is_atari
    if level.env_kwargs:
        steps.append(f"the environment is made with {level.env_kwargs}")
    if of_atari:
        steps.append(_begins(level))
        steps += [*_frames(spec, level.sticky_actions), f"pictures are {_colours(level)}"]
    if level.wrappers:
        steps.append(f"it is wrapped by {level.wrappers}, the innermost first")
    if level.num_action_repeats > 1 and not of_atari:
        steps.append(f"each action is repeated {level.num_action_repeats} times")
    if isinstance(played, RealTimeLevel):
        steps.append(f"pictures are {_colours(level)}")
    if spec.image:
        steps += [f"pictures are {one}" for one in _cropped(level)]
        steps.append(f"pictures are resized to {level.width} × {level.height} (area interpolation)")
    else:
        steps.append("observations are flattened to one vector of float32 (Gymnasium's flatten)")
    if spec.masked:
        steps.append("a 1 for each allowed action and a 0 for each other one follow the vector")
    if spec.bodies:
        steps += _told(told_by(level.tell_bodies, of_atari), spec)
    if spec.frame_stack > 1:
        steps.append(_stacked(spec))
    steps.append("actions are flat and count from 0; continuous ones are clipped to their bounds")
    if of_atari and level.max_episode_frames:
        steps.append(f"an episode ends after {level.max_episode_frames} frames")
    return steps


def _atari(level: LevelSettings, spec: EnvironmentSpec, played: AtariLevel) -> list[str]:
    chance = played.sticky_actions if level.sticky_actions is None else level.sticky_actions
    frames, steps = level.max_episode_frames, level.max_rewardless_steps
    ends = [
        *([f"after {frames} frames"] if frames else []),
        *([f"in training after {steps} steps without reward"] if steps else []),
    ]
    return [
        f"{_begins(level)}; then, and after each lost life, FIRE if the game has it",
        *_frames(spec, chance),
        *_cropped(level),
        f"{_colours(level)}, resized to {level.width} × {level.height} (area interpolation), uint8",
        _stacked(spec),
        *([f"an episode ends {'; '.join(ends)}"] if ends else []),
    ]


def _begins(level: LevelSettings) -> str:
    return f"0 to {level.noop_max} frames without action after a reset"


def _frames(spec: EnvironmentSpec, chance: float | None) -> list[str]:
    """What an action of Atari's games is; ``chance`` is that of sticky actions."""
    frames = spec.frames_per_step
    shown = "; the observation is the maximum over the last two" if frames > 1 else ""
    return [
        f"each action lasts {frames} frame{'s' * (frames > 1)}{shown}",
        *(
            [f"with a chance of {chance:g}, a frame repeats the last action instead"]
            if chance
            else []
        ),
    ]


def _cropped(level: LevelSettings) -> list[str]:
    return [f"cropped to {level.crop} (top, left, height, width)"] if level.crop else []


def _colours(level: LevelSettings) -> str:
    return "RGB" if level.colour else "grey"


def _stacked(spec: EnvironmentSpec) -> str:
    return (
        f"{spec.frame_stack} observations are stacked by the agent itself; give it only the newest"
    )


def _told(how: str, spec: EnvironmentSpec) -> list[str]:
    """How an observation shows whose it is."""
    if how == MIRROR:
        return ["pictures of every second body are mirrored, left to right"]
    if how == MARK and spec.image:
        return [
            f"a last channel tells the body: everywhere 0 for the first, {BRIGHTEST} for the last, "
            "evenly between"
        ]
    return ["a 1 among zeros, one for each body, follows the vector"] if how == MARK else []


def _kinds(found: Trained, spec: EnvironmentSpec) -> list[dict[str, Any]]:
    """The kinds of bodies, in the order of their numbers, and who is of each."""
    kinds: list[dict[str, Any]] = [
        {
            "bodies": [],
            "observation_space": str(kind.observation_space),
            "action_space": str(kind.action_space),
        }
        for kind in spec.kinds
    ]
    for own in build.level_specs(found.of_training):
        of_rows = environments.numbers_of(own, spec)
        for name, number in zip(own.bodies or [""], of_rows, strict=True):
            kinds[number]["bodies"].append(f"{own.level_name}:{name}".rstrip(":"))
    return kinds


def _described(spec: tf.TensorSpec) -> dict[str, Any]:
    return {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
