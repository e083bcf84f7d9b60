"""How the unrolls that actors play become batches. Imports nothing heavy."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FirstInFirstOut:
    """Every unroll is learned from once, as it arrives; some of the newest may be repeated."""

    replayed: float = 0.0  # the fraction of a batch that is drawn from recent unrolls
    capacity: int = 0  # how many recent unrolls are kept for it

    def fresh(self, batch_size: int) -> int:
        """New unrolls in a batch."""
        return max(1, batch_size - round(batch_size * self.replayed))
