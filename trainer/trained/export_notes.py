"""What an exported agent says of itself, for programs (about.json) and for people (README.md)."""

from typing import Any

import tensorflow as tf

from environments import EnvironmentSpec, atari
from environments.names import AtariLevel, find
from trainer.acting.settings import LevelSettings
from trainer.trained.trained_agent import Trained

FORMAT = "impala agent 1"

README = """\
# A trained agent as a TensorFlow SavedModel

It needs TensorFlow only. `about.json` says which agent it is, what it was trained on, how its
observations were made and what its actions mean.

```python
import tensorflow as tf

model = tf.saved_model.load(".")
act = model.signatures["act"]

B = 1  # environments side by side
state = {}
if "initial_state" in model.signatures:
    state = model.signatures["initial_state"](batch_size=tf.constant(B))

# for every step of the environments:
answer = act(
    observation=...,  # [B, ...], the newest frame or vector only: earlier ones are in the state
    reward=...,       # [B] float32, raw, of the step that led to the observation
    last_action=...,  # [B, ...], the action that led to it
    first=...,        # [B] bool: it starts an episode. Then reward, last_action and state of
                      # that environment do not count, and may be anything
    seed=...,         # [2] int32, of the sampled action: another one at every step
    **state,
)
state = {name: answer[name] for name in state}
action = answer["action"]  # sampled from the policy; or answer["greedy_action"], the likeliest
```

| answer | shape | |
| --- | --- | --- |
| `action` | `[B, ...]` | sampled |
| `log_prob` | `[B]` | its log-probability, or the log of its density |
| `greedy_action` | `[B, ...]` | the likeliest |
| `policy` | `[B, P]` | logits; of continuous actions means, then log standard deviations |
| `baseline` | `[B]` | the discounted reward that it expects; `[B, L]`, one a level, if trained so |
| `state_0`, … | `[B, ...]` | what to give with the next step |
"""


def about(
    found: Trained,
    spec: EnvironmentSpec,
    inputs: dict[str, tf.TensorSpec],
    state: dict[str, tf.TensorSpec],
) -> dict[str, Any]:
    """The content of about.json."""
    return {
        "format": FORMAT,
        "agent": found.settings.agent.agent_name,
        "levels": found.levels,
        "environment_frames": found.environment_frames,
        "checkpoint": found.path.name,
        "observation_space": str(spec.observation_space),
        "action_space": str(spec.action_space),
        "action_meanings": spec.action_meanings,
        "frame_stack": spec.frame_stack,
        "frames_per_step": spec.frames_per_step,
        "preprocessing": preprocessing(found.settings.level, spec),
        "inputs": {name: _described(one) for name, one in inputs.items()},
        "state": list(state),
        "trained_with": found.checkpoint.settings,
    }


def preprocessing(level: LevelSettings, spec: EnvironmentSpec) -> list[str]:
    """What stood between the environment and the agent, in the order in which it was done."""
    if isinstance(find(spec.level_name), AtariLevel):
        return _atari(level, spec)
    steps = []
    if level.num_action_repeats > 1:
        steps.append(f"each action is repeated {level.num_action_repeats} times")
    if spec.image:
        steps.append(f"pictures are resized to {level.width} × {level.height} (area interpolation)")
    else:
        steps.append("observations are flattened to one vector of float32 (Gymnasium's flatten)")
    steps.append("actions are flat, count from 0, and continuous ones are clipped to their bounds")
    return steps


def _atari(level: LevelSettings, spec: EnvironmentSpec) -> list[str]:
    return [
        f"0 to {atari.NOOP_MAX} frames without action after a reset, then FIRE if the game has it",
        f"each action lasts {spec.frames_per_step} frames; the observation is the maximum over "
        "the last two",
        f"grey, resized to {level.width} × {level.height} (area interpolation), uint8",
        f"{spec.frame_stack} observations are stacked by the agent itself; give it the newest",
        f"an episode ends after {atari.MAX_FRAMES} frames, or {atari.MAX_STEPS_WITHOUT_REWARD} "
        "steps without reward",
    ]


def _described(spec: tf.TensorSpec) -> dict[str, Any]:
    return {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
