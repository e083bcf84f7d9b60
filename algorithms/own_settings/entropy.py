"""How the entropy bonus changes over a run, where the learner computes the losses."""

import dataclasses

from flags import setting


@dataclasses.dataclass(frozen=True)
class EntropySettings:
    """Where the entropy's cost goes; it begins at ``entropy_cost``."""

    entropy_cost_end: float | None = setting(
        None,
        "Learning",
        "weight of the entropy bonus at --total_environment_frames, to which it goes in a straight "
        "line: a smaller one lets the policy become sure of itself; default: it stays",
        least=0,
    )
