"""How the unrolls that actors play become batches. Imports nothing heavy."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FirstInFirstOut:
    """Unrolls are trained on in the order of arrival; recent ones may be replayed."""

    replayed: float = 0.0  # the fraction of a batch that is drawn from recent unrolls
    capacity: int = 0  # recent unrolls kept for replay

    def fresh(self, batch_size: int) -> int:
        """The number of new unrolls in a batch."""
        return max(1, batch_size - round(batch_size * self.replayed))
