"""Arrays of a frame without a copy."""

import json

import numpy as np

# Dtype names of a header; bfloat16 and similar types are stored as integers.
_DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(bool),
    **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "C64": np.dtype("complex64"),
}


def views_of(frame: memoryview, begin: int) -> dict[str, np.ndarray]:
    """Return the arrays of a frame with a checked header, as views of its bytes.

    Args:
        frame: All its bytes.
        begin: Offset of the array data after the header.

    Raises:
        LookupError, TypeError, ValueError: The header does not match the arrays.
    """
    header = json.loads(bytes(frame[8:begin]))
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(frame[begin + first : begin + last], _DTYPES[entry["dtype"]])
        found[name] = array.reshape(entry["shape"])
    return found
