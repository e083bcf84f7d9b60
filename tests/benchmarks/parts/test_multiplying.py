"""How much an agent multiplies is counted as one would by hand."""

import pytest

from benchmarks.parts import multiplying
from trainer.settings import config

FIRST = 20 * 20 * 32 * (8 * 8 * 4)
SECOND = 9 * 9 * 64 * (4 * 4 * 32)
THIRD = 7 * 7 * 64 * (3 * 3 * 64)
LINEAR = 7 * 7 * 64 * 512
HEADS = (512 + 1 + 6) * (6 + 1)


def test_the_multiplications_of_convolutions_and_layers_are_counted():
    settings = config.parse(
        ["--level_name=PongNoFrameskip-v4", "--agent_name=SimpleConvNetAgent", "--nopopart"]
    )
    acting, learning = multiplying.each(settings)
    assert acting == FIRST + SECOND + THIRD + LINEAR + HEADS
    # Backwards twice as many, but nobody asks for the gradient of pixels.
    assert learning == 3 * acting - FIRST


def test_products_are_worth_as_many_steps_as_they_have_multiplications():
    settings = config.parse(["--level_name=CartPole-v1", "--unroll_length=10"])
    acting, learning = multiplying.each(settings)
    [inference] = multiplying.for_inference(settings, callers=1)
    first, second = multiplying.for_learning(settings, callers=2)
    assert inference() == pytest.approx(1024**3 / acting)
    assert first() == second() == pytest.approx(1024**3 / (1.1 * learning))


@pytest.mark.parametrize(
    ("flags", "times"),
    [(["--replay_share=0.75", "--batch_size=8"], 4), (["--algorithm=ppo", "--epochs=3"], 3)],
)
def test_learning_multiplies_as_often_as_it_learns_from_a_step(flags, times):
    settings = config.parse(["--level_name=CartPole-v1", "--unroll_length=10", *flags])
    _, learning = multiplying.each(settings)
    [call] = multiplying.for_learning(settings, callers=1)
    assert call() == pytest.approx(1024**3 / (times * 1.1 * learning))
