"""Defaults that depend on the level, and actors that start late in a run."""

from typing import Any

import numpy as np
import pytest

import environments
from tests.trainer.training import parts, small
from trainer import build
from trainer.settings import sizes
from trainer.settings.config import Settings
from transport import Identity, messages
from user_error import UserError


@pytest.mark.parametrize(
    ("level_name", "agent", "frames", "clipping", "replayed", "entropy"),
    [
        ("CartPole-v1", "VectorAgent", 1_000_000, "none", 0.75, 0.005),
        ("PongNoFrameskip-v4", "SimpleConvNetAgent", 10_000_000, "abs_one", 0.0, 0.01),
        ("Catch-v0", "SimpleConvNetAgent", 10_000_000, "none", 0.0, 0.01),
    ],
)
def test_defaults_fit_the_level(level_name, agent, frames, clipping, replayed, entropy):
    settings = Settings(level_name=level_name)
    spec = build.level_spec(settings)
    completed = build.complete(settings, spec)
    assert completed == settings.replace(
        agent_name=agent,
        total_environment_frames=frames,
        reward_clipping=clipping,
        replay_share=replayed,
        entropy_cost=entropy,
        normalise_advantages=False,
        clip_ratio=0.0,
    )
    assert build.complete(completed, spec) == completed


@pytest.mark.parametrize(
    ("level_name", "clipping"),
    [
        ("pettingzoo:atari.pong_v3", "abs_one"),
        ("pettingzoo:mpe2.simple_spread_v3", "none"),
        ("vnc:PongNoFrameskip-v4", "abs_one"),
        ("vnc:Catch-v0", "none"),
        ("vnc:sandbox/racer.yaml", "none"),
        ("PongNoFrameskip-v4,BreakoutNoFrameskip-v4", "abs_one"),
        ("PongNoFrameskip-v4,Catch-v0", "none"),
    ],
)
def test_scores_of_atari_are_clipped_wherever_it_is_played(level_name, clipping):
    about = build.algorithm(Settings(level_name=level_name)).settings
    assert about.reward_clipping == clipping


def test_chosen_settings_are_kept():
    settings = Settings(
        level_name="CartPole-v1",
        agent_name="VectorLSTMAgent",
        total_environment_frames=123,
        reward_clipping="soft_asymmetric",
        replay_share=0.0,
        entropy_cost=0.02,
        normalise_advantages=True,
        clip_ratio=0.1,
    )
    assert build.complete(settings, build.level_spec(settings)) == settings


@pytest.mark.parametrize("other", ["ppo", "a2c", "dqn", "reinforce"])
def test_what_a_level_has_filled_in_is_not_taken_to_another_algorithm(other):
    settings = Settings(level_name="CartPole-v1", discounting=0.9)
    completed = build.complete(settings, build.level_spec(settings))
    assert completed.replace(seed=5).replace(algorithm=other) == settings.replace(
        algorithm=other, seed=5
    )
    chosen = completed.replace(entropy_cost=completed.algorithm.entropy_cost)
    assert chosen.replace(algorithm="a2c").algorithm.entropy_cost == 0.005


def played(start):
    """The first rows that an actor plays in a run resumed after ``start`` updates."""
    settings = small("CartPole-v1")
    made = parts(settings)
    environment = build.actor_environment(settings, 0, start)
    unroll = build.actor(settings, environment, made.acting, 0, lambda: None, start).unroll()
    environment.close()
    return unroll.environment.observation, unroll.action


def test_a_resumed_run_plays_other_episodes_than_at_its_start():
    first, again, later = played(0), played(0), played(500)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0][0], later[0][0])
    np.testing.assert_array_equal(later[0], played(500)[0])


def test_actors_of_any_number_have_streams_of_their_own():
    settings = small("CartPole-v1")
    made = parts(settings)
    streams = []
    for task in (0, 1, 901_535, 10**6):
        environment = build.actor_environment(settings, task)
        actor = build.actor(settings, environment, made.acting, task, lambda: None)
        streams += actor.unroll().stream.tolist()
        environment.close()
    assert len(set(streams)) == len(streams) and min(streams) >= 0


@pytest.mark.parametrize(
    ("level_name", "asked", "learned_with"),
    [
        ("PongNoFrameskip-v4", "auto", "abs_one"),
        ("CartPole-v1", "auto", "none"),
        ("CartPole-v1", "abs_one", "abs_one"),
        ("PongNoFrameskip-v4", "none", "none"),
    ],
)
def test_only_atari_rewards_are_clipped_unless_the_user_chooses(level_name, asked, learned_with):
    settings = Settings(level_name=level_name, reward_clipping=asked)
    completed = build.complete(settings, build.level_spec(settings))
    assert completed.algorithm.reward_clipping == learned_with
    assert build.algorithm(settings).settings.reward_clipping == learned_with


@pytest.mark.parametrize(("remotes", "count"), [(0, 4), (1, 1), (3, 3), (6, 6), (20, 16)])
def test_games_of_an_evaluation_are_as_many_as_its_remotes(remotes, count, monkeypatch):
    made: list[int] = []
    monkeypatch.setattr(environments, "make", lambda _, count, *__, **___: made.append(count))
    places = ",".join(f"desk:{5900 + index}+{15900 + index}" for index in range(remotes))
    settings = Settings(level_name="vnc:Catch-v0", remotes=places)
    build.test_environment(settings, 0, 16, 1)
    assert made == [count]


def test_each_level_of_an_evaluation_has_remotes_of_its_own(monkeypatch):
    made: list[tuple[str, ...]] = []

    def make(*_, remotes, **__):
        made.append(remotes.addresses)

    monkeypatch.setattr(environments, "make", make)
    monkeypatch.setattr(build.worlds, "level_spec", lambda _: None)
    settings = Settings(
        level_name="vnc:Catch-v0,vnc:CartPole-v1", remotes="h:1+2,h:3+4,h:5+6,h:7+8"
    )
    for level in range(2):
        build.test_environment(settings, level, 16, 1)
    assert made == [("h:1+2", "h:3+4"), ("h:5+6", "h:7+8")]
    for unequal in ("h:1+2", "h:1+2,h:3+4,h:5+6"):
        with pytest.raises(UserError, match="remotes for 2 levels .vnc:Catch-v0, vnc:CartPole-v1"):
            build.test_environment(settings.replace(remotes=unequal), 0, 16, 1)
    assert len(made) == 2


def test_an_evaluation_of_a_level_that_is_on_no_desktop_refuses_remotes():
    settings = Settings(level_name="Catch-v0", remotes="desk:5900+15900", mode="test")
    with pytest.raises(UserError, match="--remotes: Catch-v0 is not played on desktops"):
        build.test_environment(settings, 0, 1, 1)


@pytest.mark.parametrize(("capacity", "told"), [(512, ""), (100_000, "replay of 100,000 unrolls")])
def test_a_large_replay_of_recent_unrolls_is_told_with_its_size(capacity, told, monkeypatch):
    monkeypatch.setattr("trainer.learning.replayed.free_memory", lambda: 2**40)
    settings = small("PongNoFrameskip-v4", replay_share=0.5, replay_capacity=capacity)
    spec, said = build.level_spec(settings), list[str]()
    agent = build.acting_agent(settings, spec)
    build.batches(settings, spec, agent, Nobody(), said.append)
    assert all(line.startswith(told) for line in said) and len(said) == bool(told)
    # Of an unroll of six steps, seven pictures, and three before them that the agent remembers.
    pictures = (7 + 3) * 84 * 84 * capacity / 2**30
    assert not told or float(said[0].split()[-4]) == pytest.approx(pictures, rel=0.05)


class Nobody:
    """No actors."""

    def present(self) -> int:
        return 0

    def play_again(self, number: int) -> None:
        pass


def identity(level_name: str, **changes: Any) -> Identity:
    settings = small(level_name, **changes)
    spec = build.level_spec(settings)
    agent = build.acting_agent(settings, spec)
    return build.identity(settings, spec, agent, build.blocks(settings, spec, agent, None))


def test_an_actor_with_another_activation_is_refused_where_the_network_has_one():
    learner, actor = identity("CartPole-v1"), identity("CartPole-v1", activation="relu")
    found = messages.differences(learner, actor)
    assert found == "activation is tanh at the learner and relu at the actor"
    assert identity("CartPole-v1", activation="tanh") == learner  # what it is there by default
    assert "activation" not in identity("Catch-v0")


def test_a_learner_takes_the_blocks_of_actors_with_settings_like_its_own_whatever_the_bodies():
    envs = sizes.ORDINARY_UNROLLS + 1
    settings = small("pettingzoo:tests.environments.bodies.game", envs_per_actor=envs)
    settings = settings.replace(compression="zstd")
    spec = build.level_spec(settings)
    agent = build.acting_agent(settings, spec)
    # The last of the games is whole.
    assert sizes.unrolls_per_actor(settings, spec.num_bodies) == envs + 3
    assert build.blocks(settings, spec, agent, None).most == envs + 3
