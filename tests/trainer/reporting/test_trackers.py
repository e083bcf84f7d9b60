"""Reports to the real clients of Weights & Biases and of MLflow, without a network."""

import importlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_api import small
from trainer import train
from trainer.storage.records import read_metrics

pytestmark = pytest.mark.extras
INSTALLED = "bin/test --extras installs it"
BLOCK, HEADER = 32768, 7  # of the files that wandb writes when it is offline


def records(path: Path) -> Iterator[bytes]:
    """The records of a log as LevelDB writes it; wandb's begins with seven bytes of its own."""
    data, at, record = path.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def test_what_weights_and_biases_writes_offline_holds_every_report(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason=INSTALLED)
    generated: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(small(tmp_path, reporters="wandb"))
    train(small(tmp_path, reporters="wandb", total_environment_frames=8000))
    runs = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(runs) == 2 and len({path.name for path in runs}) == 1  # it continues the same run
    assert (tmp_path / "wandb_run").read_text().strip() in runs[0].name
    steps, ends = [], []
    for path in runs:
        for data in records(path):
            record = generated.Record.FromString(data)
            items = {item.key or item.nested_key[0]: item for item in record.history.item}
            if "environment_frames" in items:
                steps.append(float(items["environment_frames"].value_json))
            if record.HasField("exit"):
                ends.append(record.exit.exit_code)
    assert steps == [row["environment_frames"] for row in read_metrics(tmp_path)]
    assert ends == [0, 0]


def test_mlflows_store_holds_every_report_and_setting(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason=INSTALLED)
    from mlflow import MlflowClient

    store = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    train(small(tmp_path / "run", reporters="mlflow"))
    train(small(tmp_path / "run", reporters="mlflow", total_environment_frames=8000))
    client = MlflowClient(store)
    [experiment] = client.search_experiments(filter_string="name = 'impala'")
    [run] = client.search_runs([experiment.experiment_id])  # it continues the same run
    assert run.info.status == "FINISHED" and run.data.params["batch_size"] == "4"
    history = client.get_metric_history(run.info.run_id, "mean_episode_return")
    reported = [
        (row["environment_frames"], row["mean_episode_return"])
        for row in read_metrics(tmp_path / "run")
        if row["mean_episode_return"] is not None
    ]
    assert [(one.step, one.value) for one in history] == reported


def test_a_store_that_cannot_be_reached_does_not_disturb_the_training(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("mlflow", reason=INSTALLED)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    outcome = train(small(tmp_path, reporters="mlflow"))
    assert outcome.reason == "all frames are played"
    assert "warning: --reporters=mlflow" in capsys.readouterr().out
