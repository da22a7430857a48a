"""How many steps an optimiser has made, for recorded updates and eager ones in turn."""

import torch


class StepCount:
    """The counts of steps of an optimiser's parameters, side by side, which are all equal.

    Each parameter has a view of its own in the optimiser's state, where eager steps count. The host counts with
    recorded ones: to look at a tensor would be to wait for its GPU.

    Args:
        num_parameters: how many there are.
        count: steps so far.
        device: where the counts are, by the optimiser's kernels.

    Attributes:
        counts: float32 ``[num_parameters]``.
    """

    def __init__(self, num_parameters: int, count: float, device: torch.device) -> None:
        self.counts = torch.full((num_parameters,), count, device=device)
        self._count, self._version = count, self.counts._version

    def next(self) -> float:
        """Count a recorded step; returns its number, from 1 on."""
        if self.counts._version != self._version:
            # Eager steps have counted.
            self._count = self.counts[0].item()
        self._count += 1
        self.counts += 1
        self._version = self.counts._version
        return self._count
