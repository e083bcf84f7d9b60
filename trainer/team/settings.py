"""Settings of learners that train together."""

import dataclasses

from flags import setting

COMPRESSIONS = ("none", "fp16", "bf16")


@dataclasses.dataclass(frozen=True)
class TeamSettings:
    """How learners train together."""

    max_batch_wait_s: float = setting(
        5.0,
        "Cluster",
        "seconds that other learners wait for one whose actors are late before they continue "
        "without its batch; in step a few times longer, if their own actors played for longer",
        above=0,
    )
    gradient_compression: str = setting(
        "none",
        "Cluster",
        "how gradients are sent between learners; fp16 and bf16 halve the bytes by rounding. fp16 "
        "rounds less, but an update with a number above 65504 is skipped",
        choices=COMPRESSIONS,
    )
