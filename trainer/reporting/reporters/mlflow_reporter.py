"""Reports to MLflow: to the server in MLFLOW_TRACKING_URI, or to mlflow.db in the current folder.

The experiment is MLFLOW_EXPERIMENT_NAME, or ``impala``. A resumed run continues the same one.
"""

import os
import time
from pathlib import Path
from typing import Any

from trainer.reporting.reporters import run_ids

os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # read by the import

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

RUN_ID = "mlflow_run"  # the file in the run's folder
PARAMS_AT_ONCE = 100  # more are refused


class MlflowReporter:
    """One run of MLflow, whose steps are environment frames."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self._client = MlflowClient()
        found = run_ids.read(folder, RUN_ID)
        self._run = found or self._start(folder, settings)
        self._client.update_run(self._run, status="RUNNING")

    def report(self, figures: dict[str, Any]) -> None:
        """Logs every figure that is known."""
        now, step = int(1000 * time.time()), int(figures["environment_frames"])
        known = {name: value for name, value in figures.items() if value is not None}
        metrics = [Metric(name, float(value), now, step) for name, value in known.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def finish(self, summary: dict[str, Any]) -> None:
        """Notes why the run has ended."""
        self._client.set_tag(self._run, "reason", summary["reason"])
        self._client.set_terminated(self._run, "FAILED" if "error" in summary else "FINISHED")

    def _start(self, folder: Path, settings: dict[str, Any]) -> str:
        client, name = self._client, os.environ.get("MLFLOW_EXPERIMENT_NAME", "impala")
        experiment = client.get_experiment_by_name(name)
        where = experiment.experiment_id if experiment else client.create_experiment(name)
        run = client.create_run(where, run_name=folder.resolve().name).info.run_id
        params = [Param(name, str(value)) for name, value in settings.items()]
        for first in range(0, len(params), PARAMS_AT_ONCE):
            client.log_batch(run, params=params[first : first + PARAMS_AT_ONCE])
        run_ids.write(folder, RUN_ID, run)
        return run
