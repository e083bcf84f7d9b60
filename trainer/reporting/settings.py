"""Settings of reports."""

import dataclasses

from flags import setting


@dataclasses.dataclass(frozen=True)
class ReportingSettings:
    """How often a run reports, and where to."""

    report_every_s: float = setting(
        10.0, "Watching", "seconds between two lines of metrics", above=0
    )
    reporters: str = setting(
        "",
        "Watching",
        "further places for reports, with commas between: mlflow, wandb, or package.module:Class "
        "of your own",
    )
