"""The model of a cluster's cost: what it says grows and falls as it must, and names its limit."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.plan import cost_fit, cost_model, plan
from benchmarks.plan.cost_model import Cluster, Parts, predict
from user_error import UserError

PUBLISHED = plan.MEASURED / "published.csv"
HERE = (plan.MEASURED / "here.csv", plan.MEASURED / "throughput.csv")
PARTS = Parts(
    about="made up for these tests",
    actor_steps_per_s=100,
    learner_steps_per_s=1000,
    batch_steps=100,
    step_bytes=1e4,
    weights_bytes=1e6,
    steps_per_fetch=100,
    gradient_bytes=1e6,
    reduce_latency_s=1e-3,
    shared_bytes_per_s=1e9,
)
positive = st.floats(1e-3, 1e9)
parts = st.builds(
    Parts,
    about=st.just("any"),
    **{field.name: positive for field in dataclasses.fields(Parts) if field.name != "about"},
)
clusters = st.builds(
    Cluster,
    learners=st.integers(1, 64),
    actors=st.integers(1, 4096),
    network_bytes_per_s=st.floats(1e5, 1e12),
    one_machine=st.booleans(),
)
# What may be had more of, and never makes it slower.
MORE = [field.name for field in dataclasses.fields(Parts) if "_per_s" in field.name]
LESS = ["step_bytes", "gradient_bytes", "reduce_latency_s"]


@given(parts, clusters)
def test_the_rate_is_the_least_of_the_limits_and_the_limit_is_named(measured, cluster):
    prediction = predict(measured, cluster)
    assert prediction.rate == min(prediction.limits.values())
    assert prediction.limits[prediction.limited_by] == prediction.rate
    assert 0 < prediction.rate < math.inf
    assert prediction.update_s >= prediction.reduce_s >= 0


@given(parts, clusters, st.sampled_from(MORE + LESS), st.floats(1, 100))
def test_better_parts_never_make_it_slower(measured, cluster, name, factor):
    factor = factor if name in MORE else 1 / factor
    better = dataclasses.replace(measured, **{name: factor * getattr(measured, name)})
    assert predict(better, cluster).rate >= predict(measured, cluster).rate * (1 - 1e-9)


@given(parts, clusters, st.integers(1, 1000), st.floats(1, 100))
def test_more_actors_and_a_faster_network_never_make_it_slower(measured, cluster, more, factor):
    now = predict(measured, cluster).rate * (1 - 1e-9)
    larger = dataclasses.replace(cluster, actors=cluster.actors + more)
    faster = dataclasses.replace(cluster, network_bytes_per_s=factor * cluster.network_bytes_per_s)
    assert predict(measured, larger).rate >= now
    assert predict(measured, faster).rate >= now


@pytest.mark.parametrize(
    ("changed", "cluster", "limit", "next_one"),
    [
        ({}, Cluster(1, 2), cost_model.ACTORS, "1 more actor ("),
        ({}, Cluster(1, 100), cost_model.LEARNERS, "learners twice as fast"),
        (
            {"learner_steps_per_s": 1e6, "reduce_latency_s": 0},
            Cluster(1, 100, network_bytes_per_s=1e6),
            cost_model.UNROLLS_IN,
            "twice the speed of each host's link",
        ),
        ({}, Cluster(4, 100, shared_bytes_per_s=1e6), cost_model.SHARED, "twice the network"),
        ({}, Cluster(1, 2, one_machine=True), cost_model.CORES, "twice the cores"),
    ],
)
def test_what_limits_is_named_and_what_helps_is_advised(changed, cluster, limit, next_one):
    measured = dataclasses.replace(PARTS, **changed)
    assert predict(measured, cluster).limited_by == limit
    told = plan.report(measured, cluster)
    assert f"Add next: {next_one}" in told
    assert f"limited by                {limit}" in told


def test_two_limits_that_lie_together_are_told():
    cluster = Cluster(1, 10, network_bytes_per_s=1e7, shared_bytes_per_s=1e7)
    assert "two limits are close together" in plan.report(PARTS, cluster)


def test_acting_and_learning_share_the_cores_of_one_machine():
    rate = predict(PARTS, Cluster(1, 7, one_machine=True)).rate
    assert rate == pytest.approx(1 / (1 / 100 + 1 / 1000))


def test_processes_that_share_the_cores_leave_less_of_them():
    shared = dataclasses.replace(PARTS, shared_cores=0.8, receive_bytes_per_s=1e7)
    moving = PARTS.step_bytes / 1e7
    rate = predict(shared, Cluster(1, 7, one_machine=True)).rate
    assert rate == pytest.approx(0.8 / (1 / 100 + 1 / 1000 + moving))


@pytest.mark.parametrize("one_machine", [True, False])
def test_learners_that_make_up_their_unrolls_need_no_actors(one_machine):
    prediction = predict(PARTS, Cluster(1, 0, one_machine=one_machine))
    assert prediction.rate == pytest.approx(1000)


def test_a_ring_is_better_for_large_gradients_and_a_tree_for_many_learners():
    heavy = dataclasses.replace(PARTS, gradient_bytes=1e9, reduce_latency_s=0)
    assert predict(heavy, Cluster(8, 8, network_bytes_per_s=1e9)).reduced_by == cost_model.RING
    assert predict(PARTS, Cluster(8, 8, network_bytes_per_s=1e12)).reduced_by == cost_model.TREE
    seconds = cost_model.reductions(heavy, 8, 1e9)
    assert seconds["ring"] == pytest.approx(2 * 7 / 8)
    assert seconds["tree"] == pytest.approx(2 * 3)


def test_weights_that_do_not_fit_are_told_and_hold_up_nobody():
    measured = dataclasses.replace(PARTS, weights_bytes=1e8, step_bytes=10)
    cluster = Cluster(1, 4, network_bytes_per_s=1e8)
    assert predict(measured, cluster).rate == 400
    assert "they come 4.0 times as late" in plan.report(measured, cluster)


def test_the_published_rates_are_met_within_a_tenth():
    rows = cost_fit.read_measured(PUBLISHED)
    assert len(rows) == 12
    assert abs(cost_fit.errors(rows)).max() < 0.1


@pytest.mark.parametrize("path", HERE, ids=lambda path: path.stem)
def test_rates_measured_on_one_machine_are_met_as_the_guide_says(path):
    errors = cost_fit.errors(cost_fit.read_measured(path))
    assert len(errors) >= 5 and abs(errors).max() < 0.15


def test_an_actor_alone_leaves_cores_of_its_machine_idle():
    alone = dataclasses.replace(PARTS, lone_actor_steps_per_s=60, shared_cores=0.8)
    few, many = (predict(alone, Cluster(1, count, one_machine=True)) for count in (1, 7))
    assert (few.rate, few.limited_by) == (60, cost_model.ACTORS)
    assert many.limited_by == cost_model.CORES


def test_the_published_figures_are_those_that_a_fit_finds():
    rows = cost_fit.read_measured(PUBLISHED)
    kept = cost_model.read_parts(plan.MEASURED / "published.json")
    free = ["actor_steps_per_s", "learner_steps_per_s", "reduce_latency_s", "shared_bytes_per_s"]
    start = dataclasses.replace(kept, actor_steps_per_s=150, learner_steps_per_s=7000)
    found = cost_fit.fit(rows, start, free)
    for name in free:
        assert getattr(found, name) == pytest.approx(getattr(kept, name), rel=0.02)


def test_a_fit_finds_what_rates_were_made_of(tmp_path):
    rows = [
        cost_fit.Measured(tmp_path, cluster, predict(PARTS, cluster).rate)
        for cluster in (Cluster(1, 3), Cluster(1, 50), Cluster(2, 50), Cluster(4, 99))
    ]
    free = ["actor_steps_per_s", "learner_steps_per_s", "reduce_latency_s"]
    far_off: dict[str, Any] = dict.fromkeys(free, 0.05)
    start = dataclasses.replace(PARTS, **far_off)
    found = cost_fit.fit(rows, start, free)
    for name in free:
        assert getattr(found, name) == pytest.approx(getattr(PARTS, name), rel=0.01)


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["plan", *arguments])
    code = plan.main()
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_command_answers(monkeypatch, capsys):
    flags = ["--learners", "8", "--actors", "360", "--network", "10Gb"]
    code, out, _ = run(monkeypatch, capsys, *flags)
    assert code == 0 and "limited by                network between the hosts" in out
    code, out, _ = run(monkeypatch, capsys, *flags, "--shared_network", "100Gb")
    assert code == 0 and "limited by                learners" in out
    code, out, _ = run(monkeypatch, capsys, "--validate", str(PUBLISHED))
    assert code == 0 and out.count("| published |") == 12 and "Error: median" in out


@pytest.mark.parametrize("free", ["reduce_latency_s", "actor_steps_per_s,reduce_latency_s"])
def test_the_command_fits(monkeypatch, capsys, free):
    code, out, _ = run(monkeypatch, capsys, "--fit", str(PUBLISHED), "--free", free)
    assert code == 0 and json.loads(out)["batch_steps"] == 3200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learners=0"], "must be 1 or more"),
        (["--learners=x"], "--learners: invalid int value: 'x'. --help lists all flags."),
        (["--network=10"], "'10' is not a network speed"),
        (["--network=-1Gb"], "such as 10Gb"),
        (["--parts=/no/where.json"], "cannot be read as JSON: No such file or directory."),
        (["--validate=/no/where.csv"], "/no/where.csv cannot be read"),
        (["--fit", str(PUBLISHED)], "--fit needs --free"),
        (["--fit", str(PUBLISHED), "--free=about"], "about is not a figure"),
        (["--fit", str(PUBLISHED), "--free=x"], "x is not a figure"),
        (["--fit", str(PUBLISHED), "--free=lone_actor_steps_per_s"], "no lone_actor_steps_per_s"),
    ],
)
def test_a_mistake_is_told_in_one_line(monkeypatch, capsys, arguments, words):
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "parts.json: expected a JSON object"),
        ({"about": "x"}, "actor_steps_per_s"),
        ({**dataclasses.asdict(PARTS), "nose": 1}, "nose"),
        ({**dataclasses.asdict(PARTS), "batch_steps": "many"}, "batch_steps is 'many'"),
        ({**dataclasses.asdict(PARTS), "batch_steps": -1}, "batch_steps is -1"),
        ({**dataclasses.asdict(PARTS), "step_bytes": 0}, "step_bytes is 0; .* above 0"),
    ],
)
def test_parts_that_are_wrong_are_told_by_name(content, words, tmp_path):
    path = tmp_path / "parts.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=words):
        cost_model.read_parts(path)


@pytest.mark.parametrize("content", ["é".encode("latin-1"), b"parts\n" + 200_000 * b"x"])
def test_what_is_no_csv_is_told_in_one_line(content, tmp_path: Path):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"rows\.csv cannot be read: it is no CSV in UTF-8"):
        cost_fit.read_measured(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("p.json,cloud,1,2,,300", "rows.csv:2: placement 'cloud'"),
        ("p.json,hosts,one,2,,300", "rows.csv:2: .*one"),
        ("p.json,hosts,1,2,10,300", "rows.csv:2: '10' is not a network speed"),
        ("p.json,hosts,1", "rows.csv:2: "),
        ("p.json,hosts,0,2,,300", "rows.csv:2: 0 learners"),
        ("p.json,hosts,1,2,,0", "rows.csv:2: .*0 steps/s"),
    ],
)
def test_rows_that_are_wrong_are_told_by_line(row, words, tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text(",".join(cost_fit.COLUMNS) + f"\n{row}\n")
    with pytest.raises(UserError, match=words):
        cost_fit.read_measured(path)
