"""A function on a GPU as a CUDA graph: one call of the driver repeats all of its kernels.

Such a graph reads and writes fixed addresses. Tensors that the function changes must therefore keep their memory; other
inputs are copied to fixed buffers before each run. Nothing here waits for the GPU.

No GPU was at hand: torch's own capture is not tested; all around it is, with another capture in its place.
"""

from collections.abc import Callable, Sequence

import torch

Function = Callable[..., torch.Tensor]
"""Takes tensors, changes some of them in place, and returns a tensor."""

Replay = Callable[[], object]
"""Repeats the operations of a function on the tensors of its capture."""


def captures_on(device: torch.device) -> bool:
    """Return whether functions on ``device`` become CUDA graphs."""
    return device.type == "cuda"


def capture(function: Function, inputs: Sequence[torch.Tensor]) -> tuple[Replay, torch.Tensor]:
    """Record the GPU operations of ``function(*inputs)``; the values of ``inputs`` are unchanged.

    Returns:
        The function that repeats them, and the tensor of the result.
    """
    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    # The first run of a kernel may load code or choose among variants, which a capture forbids. It runs on copies.
    with torch.cuda.stream(side):
        function(*(tensor.clone() for tensor in inputs))
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # Other threads, such as a compiling one, may continue operations that a capture forbids.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        output = function(*inputs)
    return graph.replay, output


class CapturedFunction:
    """``function``, for inputs of the shapes of the first ones.

    Args:
        function: what is captured.
        num_fixed: so many of its inputs, the first ones, are read and changed in their own places. When one of them
            comes from another place than before, the function is captured anew.
    """

    def __init__(self, function: Function, num_fixed: int) -> None:
        self._function, self._num_fixed = function, num_fixed
        # Kept alive, so that no other tensor gets one of their addresses.
        self._inputs: list[torch.Tensor] = []
        self._replay: Replay
        self._output: torch.Tensor

    def capture(self, inputs: Sequence[torch.Tensor]) -> None:
        """Capture the function for such inputs, without running it."""
        fixed, others = inputs[: self._num_fixed], inputs[self._num_fixed :]
        places = [tensor.clone(memory_format=torch.contiguous_format) for tensor in others]
        self._replay, self._output = capture(self._function, [*fixed, *places])
        self._inputs = [*fixed, *places]

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the function; the next run overwrites the result."""
        if not self._inputs or any(one.data_ptr() != own.data_ptr() for one, own in zip(inputs, self._fixed)):
            self.capture(inputs)
        for place, tensor in zip(self._inputs[self._num_fixed :], inputs[self._num_fixed :], strict=True):
            place.copy_(tensor, non_blocking=True)
        self._replay()
        return self._output

    @property
    def _fixed(self) -> list[torch.Tensor]:
        return self._inputs[: self._num_fixed]
