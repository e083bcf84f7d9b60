"""Proposals of each kind of search, and the seeds that make them repeatable."""

import contextlib
import sqlite3
from typing import Any

import pytest
from matplotlib.figure import Figure
from optuna.trial import TrialState

from lab.results import graphs
from lab.specs import frozen, search_space
from lab.specs import spec as specs
from lab.trials import plan, proposing
from lab.trials.folder import DONE, FAILED, OPEN, Experiment, Trial
from lab.trials.proposing import RUNGS, Proposals, total

NUMBERS = {"learning_rate__loguniform": [1e-4, 1e-2], "batch_size__randint": [2, 5]}


def spec_of(search: str, settings: dict, trials: int = 4) -> specs.Spec:
    return specs.parse(
        "mine",
        {"level": "CartPole-v1", "meta": {"search": search, "trials": trials},
         "search": {"settings": settings}},
        "f",
    )  # fmt: skip


def proposed(spec: specs.Spec, folder, objective=lambda values: 1.0, again: bool = False) -> list:
    """All proposals; with ``again`` the study is opened anew for each, as after a kill."""
    found, path = [], folder / "study.sqlite3"
    earlier: list[dict] = []
    proposals = Proposals(path, spec.meta, spec.searched)
    for place in range(proposals.total):
        number, drawn, values = proposals.propose(place, earlier)
        found.append(values)
        earlier.append(drawn)
        trial = Trial(place, "proposed", {}, [1], values, proposal=number, drawn=drawn)
        trial.state, trial.results = "done", {"objective": objective(values)}
        proposals.sync(trial)
        if again:
            proposals = Proposals(path, spec.meta, spec.searched)
    return found


@pytest.mark.parametrize("search", ["random", "tpe", "evolutionary", "cma"])
def test_values_are_drawn_within_their_ranges_and_never_twice(search, tmp_path):
    found = proposed(spec_of(search, NUMBERS, trials=8), tmp_path)
    assert len({one["learning_rate"] for one in found}) == 8
    assert all(1e-4 <= one["learning_rate"] <= 1e-2 for one in found)
    assert all(one["batch_size"] in (2, 3, 4) for one in found)


@pytest.mark.parametrize("others", [{}, {"entropy_cost__normal": [0.1, 0.01]}])
def test_cma_draws_normal_values(others, tmp_path):
    keys = {"learning_rate__normal": [0.005, 0.001]} | others
    found = proposed(spec_of("cma", keys, trials=8), tmp_path, lambda one: one["learning_rate"])
    assert len({one["learning_rate"] for one in found}) == 8
    assert all(0.002 <= one["learning_rate"] <= 0.008 for one in found)


@pytest.mark.parametrize("search", ["random", "tpe", "evolutionary", "cma"])
def test_every_point_of_a_grid_gets_the_same_draws(search, tmp_path):
    keys = {"algorithm": ["ppo", "a2c"], "learning_rate__loguniform": [1e-4, 1e-2]}
    found = proposed(spec_of(search, keys, 10), tmp_path, lambda one: one["learning_rate"])
    assert [one["algorithm"] for one in found] == ["ppo", "a2c"] * 10
    rates = [one["learning_rate"] for one in found]
    assert rates[::2] == rates[1::2] and len(set(rates)) == 10


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_a_search_that_is_opened_anew_proposes_the_same(search, tmp_path):
    spec = spec_of(search, NUMBERS, trials=6)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    def objective(values):
        return values["learning_rate"]

    straight = proposed(spec, tmp_path / "one", objective)
    assert proposed(spec, tmp_path / "two", objective, again=True) == straight


def test_a_study_may_be_in_a_folder_of_any_name(tmp_path):
    folder, spec = tmp_path / "a{1}?b=%41#c :@ü", spec_of("random", NUMBERS)
    folder.mkdir()
    assert len(proposed(spec, folder, again=True)) == 4
    assert [path.name for path in folder.iterdir()] == ["study.sqlite3"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_a_study_that_was_killed_while_it_was_made_is_made_anew(tmp_path, monkeypatch):
    spec, path = spec_of("random", NUMBERS), tmp_path / "study.sqlite3"

    def kill(**_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(proposing.optuna, "create_study", kill)
        with pytest.raises(KeyboardInterrupt):
            Proposals(path, spec.meta, spec.searched)
    assert not path.exists()
    sqlite3.connect(path).close()  # what a kill has left when it was not made beside its place
    assert len(proposed(spec, tmp_path, again=True)) == 4
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM studies").fetchone() == (1,)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_grid_is_every_combination(tmp_path):
    lists = {"unroll_length": [5, 10], "optimizer__choice": ["adam", "rmsprop"]}
    found = proposed(spec_of("grid", lists), tmp_path)
    assert len({tuple(one.items()) for one in found}) == 4


def test_there_may_be_more_combinations_than_fit_into_memory(tmp_path):
    keys = ("learning_rate", "discounting", "gae_lambda", "entropy_cost", "baseline_cost",
            "clip_ratio", "clip_values", "decay", "epsilon", "most_policy_change")  # fmt: skip
    values = [round(0.05 * place, 2) for place in range(1, 11)]
    settings = {f"{key}__choice": values for key in keys}
    content = {"level": "CartPole-v1", "algorithm": "ppo", "search": {"settings": settings}}
    spec = specs.parse("mine", content, "f")
    lists = search_space.Grid.of(spec.searched, all_lists=True)
    assert lists.size == 10**10 and total(spec.meta, spec.searched) == 16
    assert lists.point(0) == dict.fromkeys(keys, 0.05)
    assert lists.point(10**10 - 2) == dict.fromkeys(keys, 0.5) | {keys[-1]: 0.45}


def test_each_draw_is_made_with_every_point_of_a_grid(tmp_path):
    spec = spec_of("random", NUMBERS | {"unroll_length__grid_search": [5, 10]}, trials=3)
    assert total(spec.meta, spec.searched) == 6
    found = proposed(spec, tmp_path)
    assert [one["unroll_length"] for one in found] == [5, 10] * 3
    rates = [one["learning_rate"] for one in found]
    assert rates[0::2] == rates[1::2] and len(set(rates)) == 3


def test_a_normal_value_stays_within_three_deviations():
    spec = spec_of("random", {"discounting__normal": [0.9, 0.02]})
    [one] = spec.searched
    low, high = one.value(search_space.LEAST_CHANCE), one.value(1 - search_space.LEAST_CHANCE)
    assert (low, high) == (pytest.approx(0.84), pytest.approx(0.96))
    assert one.value(0.5) == pytest.approx(0.9)
    # A bound of 0 that is three deviations away: the values drawn are within, and -6e-17 is none.
    [least] = spec_of("random", {"entropy_cost__normal": [0.3, 0.1]}).searched
    assert least.value(search_space.LEAST_CHANCE) >= 0


def test_a_whole_setting_gets_whole_numbers(tmp_path):
    found = proposed(spec_of("random", {"batch_size__uniform": [2, 9]}), tmp_path)
    assert all(isinstance(one["batch_size"], int) for one in found)


def test_a_failed_trial_that_is_retried_counts_in_the_study(tmp_path):
    spec = spec_of("random", NUMBERS)
    proposals = Proposals(tmp_path / "study.sqlite3", spec.meta, spec.searched)
    number, drawn, values = proposals.propose(0)
    trial = Trial(0, "proposed", {}, [1], values, proposal=number, drawn=drawn, state="failed")
    assert not proposals.sync(trial)
    trial.state, trial.results = "done", {"objective": 2.0}
    assert proposals.sync(trial) and trial.proposal == 1
    assert not proposals.sync(trial)


def test_a_failed_trial_that_is_retried_is_ended_early_by_nobody(tmp_path):
    spec = spec_of("random", NUMBERS)
    proposals = Proposals(tmp_path / "study.sqlite3", spec.meta, spec.searched)
    number, drawn, values = proposals.propose(0)
    trial = Trial(0, "proposed", {}, [1], values, proposal=number, drawn=drawn, state="failed")
    proposals.sync(trial)
    trial.state = "open"
    assert not any(proposals.should_end(trial, percent, 1.0) for percent in RUNGS)


def opened(folder) -> Proposals:
    spec = spec_of("random", NUMBERS)
    return Proposals(folder / "study.sqlite3", spec.meta, spec.searched)


def trial_of(proposals: Proposals, place: int) -> Trial:
    number, drawn, values = proposals.propose(place)
    return Trial(place, "proposed", {}, [1], values, proposal=number, drawn=drawn)


def test_a_trial_goes_on_if_it_is_among_the_better_half_so_far(tmp_path):
    proposals = opened(tmp_path)
    ends = [
        proposals.should_end(trial_of(proposals, place), RUNGS[0], value)
        for place, value in enumerate((3.0, 2.0, 4.0, 3.5, 3.4))
    ]
    assert ends == [False, True, False, False, True]


def test_a_trial_that_ends_early_is_no_failure_although_a_session_has_not_begun(tmp_path):
    proposals = opened(tmp_path)
    trial = trial_of(proposals, 0)
    trial.state, trial.results = "stopped early", {"objective": None}
    proposals.sync(trial)
    assert proposals._study.trials[0].state == TrialState.PRUNED


def test_what_a_comparison_has_said_it_says_again_after_a_kill(tmp_path):
    proposals = opened(tmp_path)
    good, bad = (trial_of(proposals, place) for place in range(2))
    assert not proposals.should_end(good, RUNGS[0], 2.0)
    assert proposals.should_end(bad, RUNGS[0], 1.0)
    assert not proposals.should_end(trial_of(proposals, 2), RUNGS[0], 3.0)
    proposals = opened(tmp_path)
    assert not proposals.should_end(good, RUNGS[0], 2.0)  # although another is better now
    assert proposals.should_end(bad, RUNGS[0], 1.0)


def test_a_drawn_algorithm_gets_no_settings_of_the_specs_own():
    settings = {"algorithm": "ppo", "clip_ratio": 0.2, "learning_rate": 0.001}
    drawn = {"algorithm": "a2c", "gae_lambda": 0.9}
    assert plan._fitting(settings | drawn) == {
        "algorithm": "a2c", "learning_rate": 0.001, "gae_lambda": 0.9,
    }  # fmt: skip


def test_a_study_that_lacks_trials_gets_them_from_the_records(tmp_path):
    proposals = opened(tmp_path)
    trials = [trial_of(proposals, place) for place in range(4)]
    trials[1].proposal = 4  # it was retried after the copy was made
    for trial in trials:
        trial.state, trial.results = "done", {"objective": float(trial.number)}
    trials[3].state = "stopped early"
    (tmp_path / "copy").mkdir()
    copy = opened(tmp_path / "copy")
    trial_of(copy, 0)
    assert {one.number for one in copy.restore(trials)} == {1, 2, 3}
    assert [one.proposal for one in trials] == [0, 3, 1, 2]
    assert not any(copy.sync(trial) for trial in trials) and not copy.restore(trials)
    known = opened(tmp_path / "copy")._study.get_trials()
    assert [one.params for one in known] == [trials[place].drawn for place in (0, 2, 3, 1)]
    assert [one.value for one in known] == [0.0, 2.0, None, 1.0]
    assert copy.propose(4)[0] == 4


def test_what_another_algorithm_has_has_no_value_in_the_specs_own_settings(tmp_path, monkeypatch):
    content = {"level": "CartPole-v1", "algorithm": "a2c",
               "search": {"algorithm__choice": ["a2c", "ppo"],
                          "settings": {"clip_ratio__loguniform": [0.001, 0.3]}}}  # fmt: skip
    experiment = Experiment.create(specs.parse("mine", content, "f"), "search", tmp_path, {})
    results = {"objective": 1.0, "v1": None, "v4": {"strength": 1.0}}
    drawn = [
        Trial(number, plan.PROPOSED, {}, [1], {"algorithm": "ppo", "clip_ratio": value},
              state=DONE, results=results)
        for number, value in enumerate((0.002, 0.2))
    ]  # fmt: skip
    *_, own = plan.finals(experiment, drawn)
    assert own.kind == plan.DEFAULT and own.values == {"algorithm": "a2c"}
    own.state, own.results = DONE, results
    figures: list[Figure] = []
    monkeypatch.setattr(graphs, "save", lambda figure, path: figures.append(figure))
    graphs.write_experiment(tmp_path / "graph.png", [*drawn, own], "mine")
    assert [axes.get_xscale() for axes in figures[0].axes[:2]] == ["linear", "log"]


def test_of_draws_that_fail_no_finals_are_expected(tmp_path):
    spec = spec_of("random", NUMBERS, trials=3)
    experiment = Experiment.create(spec, "search", tmp_path, {})

    def expected(*states: str) -> int:
        results = {"objective": 1.0}
        drawn = [
            Trial(number, plan.PROPOSED, {}, [1], state=state, results=results)
            for number, state in enumerate(states)
        ]
        return plan.expected(experiment, drawn)

    assert expected() == expected(FAILED, FAILED) == expected(FAILED, FAILED, OPEN) == 6
    assert expected(DONE, DONE, FAILED) == 6 and expected(DONE, FAILED, FAILED) == 5
    assert expected(FAILED, FAILED, FAILED) == 3


def test_finals_have_seeds_that_no_draw_has():
    content = {"level": "CartPole-v1", "meta": {"sessions": 1500}}
    spec = specs.parse("mine", content, "f")
    assert not set(frozen.seeds(spec)) & set(frozen.final_seeds(spec))


def test_a_trial_without_an_objective_is_grey_and_the_others_have_colours():
    dark, unknown, bright = graphs._colors([1.0, None, 3.0])
    assert unknown == graphs.UNKNOWN and dark != bright
    assert graphs._colors([None]) == [graphs.UNKNOWN]
