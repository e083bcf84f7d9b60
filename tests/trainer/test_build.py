"""What a level decides where its user has not."""

import pytest

from trainer import build
from trainer.settings.config import Settings


@pytest.mark.parametrize(
    ("level_name", "agent", "frames"),
    [
        ("CartPole-v1", "VectorAgent", 1_000_000),
        ("PongNoFrameskip-v4", "SimpleConvNetAgent", 10_000_000),
    ],
)
def test_what_is_left_open_is_chosen_by_the_level(level_name, agent, frames):
    settings = Settings(level_name=level_name)
    spec = build.level_spec(settings)
    completed = build.complete(settings, spec)
    assert completed == settings.replace(agent_name=agent, total_environment_frames=frames)
    assert build.complete(completed, spec) == completed


def test_what_is_named_stays():
    settings = Settings(
        level_name="CartPole-v1", agent_name="VectorLSTMAgent", total_environment_frames=123
    )
    assert build.complete(settings, build.level_spec(settings)) == settings
