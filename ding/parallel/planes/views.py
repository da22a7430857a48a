"""The arrays of a frame without a copy."""

import json

import numpy as np

# The names of dtypes in a header; bfloat16 and the like travel as integers.
_DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(bool),
    **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "C64": np.dtype("complex64"),
}


def views_of(frame: memoryview, begin: int) -> dict[str, np.ndarray]:
    """Return the arrays of a frame whose head was checked, as views of its bytes.

    Args:
        frame: all its bytes.
        begin: where those of the arrays begin, behind the head.

    Raises:
        LookupError, TypeError, ValueError: the head does not describe arrays that are there.
    """
    header = json.loads(bytes(frame[8:begin]))
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(frame[begin + first : begin + last], _DTYPES[entry["dtype"]])
        found[name] = array.reshape(entry["shape"])
    return found
