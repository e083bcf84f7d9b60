"""Settings of reports."""

import dataclasses

from flags import setting


@dataclasses.dataclass(frozen=True)
class ReportingSettings:
    """How often a run reports."""

    report_every_s: float = setting(
        10.0, "Watching", "seconds between two lines of metrics", above=0
    )
