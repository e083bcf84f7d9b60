"""Fills TensorBoard's HParams tab: what each session tried, and how fit it came out."""

import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

from lab.results import tables
from lab.trials.folder import FAILED, Experiment, Trial
from lab.trials.sessions import Session
from trainer.reporting.events import records
from trainer.storage.records import write_whole

NAME = "events.out.tfevents.0.hparams"  # one file, so that writing it again replaces it
PREFIX = "fitness/"


def write(experiment: Experiment, trial: Trial, session: Session) -> None:
    """Writes the values of a session's trial, and its figures as metrics."""
    values = trial.values or {"algorithm": trial.settings.get("algorithm", "impala")}
    place = experiment.sessions(trial).index(session)
    own = (trial.results.get("sessions") or [{}] * (place + 1))[place]
    figures = {"objective": trial.results.get("objective"), **tables.fitness_columns(own)}
    now = time.time()
    start = plugin_data_pb2.SessionStartInfo(group_name=trial.name, start_time_secs=now)
    for name, value in (values | {"kind": trial.kind, "seed": session.seed}).items():
        _set(start.hparams[name], value)
    status = api_pb2.STATUS_FAILURE if trial.state == FAILED else api_pb2.STATUS_SUCCESS
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=now)
    contents = plugin_data_pb2.HParamsPluginData
    summaries = [
        _summary(metadata.EXPERIMENT_TAG, contents(experiment=_columns(values, figures))),
        _summary(metadata.SESSION_START_INFO_TAG, contents(session_start_info=start)),
        _summary(metadata.SESSION_END_INFO_TAG, contents(session_end_info=end)),
        *(
            Summary(value=[Summary.Value(tag=PREFIX + name, simple_value=value)])
            for name, value in figures.items()
            if value is not None
        ),
    ]
    events = [Event(wall_time=now, file_version="brain.Event:2")]
    events += [Event(wall_time=now, summary=one) for one in summaries]
    write_whole(session.folder / NAME, records(events))


def _columns(values: dict[str, Any], figures: dict[str, Any]) -> Any:
    """What the tab has columns for."""
    found = api_pb2.Experiment()
    for name in (*values, "kind", "seed"):
        found.hparam_infos.add(name=name)
    for name in (*(PREFIX + one for one in figures), "mean_episode_return"):
        found.metric_infos.add(name=api_pb2.MetricName(tag=name))
    return found


def _summary(tag: str, content: Any) -> Any:
    value = Summary.Value(
        tag=tag, metadata=metadata.create_summary_metadata(content), tensor=metadata.NULL_TENSOR
    )
    return Summary(value=[value])


def _set(target: Any, value: Any) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, (int, float)):
        target.number_value = value
    else:
        target.string_value = str(value)
