"""The program of phases as data: the published totals, and what settings say of it."""

import pytest

from trainer.settings import config
from user_error import UserError
from world_models import schedule
from world_models.schedule import Phase
from world_models.settings import SimpleSettings


def of(preset: str) -> SimpleSettings:
    return config.parse([f"--preset={preset}", "--level_name=PongNoFrameskip-v4"]).algorithm


@pytest.mark.parametrize(
    "preset",
    ["rlmb_base", "rlmb_base_stochastic_discrete", "rlmb_long_stochastic_discrete"],
)
def test_the_published_schedules_have_the_published_totals(preset):
    assert schedule.totals(of(preset)) == {
        "collect": 102_400,
        "model": 375_000,
        "policy": 16_000_000,
    }


def test_the_schedule_of_rlmb_base_is_longer_where_the_published_one_is():
    phases = schedule.phases(of("rlmb_base"))
    models = [0, *(phase.total for phase in phases if phase.kind == "model")]
    policies = [0, *(phase.total for phase in phases if phase.kind == "policy")]
    updates = [b - a for a, b in zip(models, models[1:], strict=False)]
    steps = [b - a for a, b in zip(policies, policies[1:], strict=False)]
    assert [n for n, one in enumerate(updates) if one == 45_000] == [0, 1, 4, 9, 14]
    assert updates.count(15_000) == 10
    assert [(n, one) for n, one in enumerate(steps) if one != 800_000] == [
        (1, 1_600_000),
        (7, 1_600_000),
        (11, 1_600_000),
        (14, 2_400_000),
    ]


def test_a_short_schedule_is_the_published_one_but_for_its_epochs():
    short, published = of("rlmb_base_3epochs"), of("rlmb_base")
    differ = {n for n, v in vars(short).items() if v != vars(published)[n]}
    assert differ == {"model_epochs", "longer_models", "longer_policies"}
    totals = {"collect": 25_600, "model": 105_000, "policy": 4_800_000}
    assert schedule.totals(short) == totals


def test_the_other_presets_have_their_totals():
    assert schedule.totals(of("rlmb_tiny")) == {"collect": 128, "model": 2, "policy": 800}
    assert schedule.totals(of("simple_cpu"))["collect"] == 20_000


def test_phases_follow_one_another():
    settings = SimpleSettings(
        model_epochs=2, real_steps=10, model_updates=3, dream_ratio=2, longer_policies="-1:2"
    )
    assert schedule.phases(settings) == [
        Phase("collect", 0, 10),
        Phase("model", 0, 3),
        Phase("policy", 0, 20),
        Phase("collect", 1, 20),
        Phase("model", 1, 6),
        Phase("policy", 1, 60),
        Phase("collect", 2, 30),
    ]


def test_a_phase_can_be_run_alone():
    assert schedule.phases(SimpleSettings(phase="model", model_updates=7)) == [Phase("model", 0, 7)]


def test_so_many_epochs_that_no_list_holds_them_are_refused():
    with pytest.raises(UserError, match="--model_epochs=100000000000: must be 1000 or less"):
        SimpleSettings(model_epochs=10**11)


@pytest.mark.parametrize("text", ["0", "99:2", "0:0", "a:b"])
def test_a_wrong_epoch_is_named(text):
    with pytest.raises(UserError, match=r"longer_models=.* is not EPOCH:TIMES"):
        SimpleSettings(longer_models=text)
