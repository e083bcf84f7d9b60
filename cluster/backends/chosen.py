"""The backend of a name, loaded when it is needed: --help needs none."""

import contextlib
import dataclasses

from cluster.backends.backend import Backend
from cluster.options import Options
from cluster.record import Record
from trainer.settings.config import Settings


def make(name: str, options: Options, settings: Settings) -> Backend:
    """A backend; the options say what to start, and how to log in."""
    if name == "slurm":
        from cluster.backends.slurm.backend import SlurmBackend

        return SlurmBackend(options, settings)
    if name == "kubernetes":
        from cluster.backends.kubernetes.backend import KubernetesBackend

        return KubernetesBackend(options, settings)
    from cluster.backends.ssh.backend import SshBackend

    return SshBackend(options, settings)


def of_run(
    record: Record, options: Options, settings: Settings, own: Backend
) -> contextlib.AbstractContextManager[Backend]:
    """The backend that has started a run: ``own``, with its connections, if it is of that kind."""
    if record.backend == options.backend:
        return contextlib.nullcontext(own)
    # The CSV is the new run's: another kind of backend would read its columns differently.
    options = dataclasses.replace(options, workers_csv_path="")
    return contextlib.closing(make(record.backend, options, settings))
