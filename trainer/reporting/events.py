"""What TensorBoard shows: scalars and histograms of a run, over its environment frames."""

import io
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.histogram.summary import histogram_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from trainer.storage.records import GrowingFile, plain


class EventsFile(GrowingFile):
    """A TensorBoard file of this process's reports.

    TensorFlow's and TensorBoard's own writers use a background thread, where a full disk is
    noticed late or never. It leaves half a record, and readers ignore everything after that.
    """

    def __init__(self, folder: Path):
        super().__init__(folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}")
        self._started = False

    def add(self, figures: dict[str, Any], samples: dict[str, np.ndarray]) -> None:
        """Writes one report."""
        event = _event(figures)
        for name, values in samples.items():
            finite = np.asarray(values, np.float64)
            finite = finite[np.isfinite(finite)]
            # TensorBoard shows a name either as a curve or as a histogram.
            tag = f"{name}/histogram" if name in figures else name
            event.summary.MergeFrom(histogram_pb(tag, finite))
        self._write([event])

    def add_all(self, reports: Sequence[dict[str, Any]]) -> None:
        """Writes several reports, all or none; their frames must ascend."""
        self._write([_event(figures) for figures in reports])

    def add_picture(self, name: str, picture: np.ndarray, step: int) -> None:
        """Writes a picture [H, W, 3] uint8."""
        event = Event(wall_time=time.time(), step=step)
        height, width, _ = picture.shape
        image = event.summary.value.add(tag=name).image
        image.height, image.width, image.colorspace = height, width, 3
        content = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
        image.encoded_image_string = content.tobytes()
        self._write([event])

    def _write(self, events: list[Event]) -> None:
        self.append(records([*self._head(events[0]), *events]))
        self._started = self._started or self.error is None

    def _head(self, first: Event) -> list[Event]:
        """The file's first events; the second makes readers drop an earlier file's later steps."""
        if self._started:
            return []
        now, start = first.wall_time, SessionLog(status=SessionLog.START)
        return [
            Event(wall_time=now, file_version="brain.Event:2"),
            Event(wall_time=now, step=first.step, session_log=start),
        ]


def _event(figures: dict[str, Any]) -> Event:
    """A report's numbers."""
    event = Event(wall_time=time.time(), step=int(figures["environment_frames"]))
    for name, value in figures.items():
        scalar = plain(value)
        if isinstance(scalar, (int, float)):
            event.summary.value.add(tag=name, simple_value=scalar)
    return event


def records(events: list[Event]) -> bytes:
    """Events as a file of TensorBoard has them."""
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for event in events:
        writer.write(event.SerializeToString())
    return buffer.getvalue()
