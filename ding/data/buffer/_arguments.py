"""Check and normalise the arguments of a ``DequeBuffer``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.data.buffer._clone import clone_structure
from ding.data.buffer._core import Records
from ding.data.buffer._records import RecordBatch
from ding.data.buffer.buffer import is_column
from ding.data.buffer.errors import SampleArgumentError, SampleError


def check_sample(size: object, indices: "Sequence[str] | None", groupby: object, unroll_len: "int | None") -> None:
    """Raise a :class:`SampleArgumentError` for arguments that are missing, out of range or mutually exclusive."""
    if size is None and indices is None:
        raise SampleArgumentError("a sample needs a size or indices")
    if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0):
        raise SampleArgumentError(f"the size of a sample must be an int >= 0, got {size!r}")
    if size is not None and indices is not None and size != len(indices):
        raise SampleArgumentError(f"size {size} and {len(indices)} indices contradict each other")
    if groupby is not None and indices is not None:
        raise SampleArgumentError("indices and groupby exclude each other")
    if unroll_len is not None and groupby is None:
        raise SampleArgumentError("unroll_len needs groupby")
    if unroll_len is not None and unroll_len < 1:
        raise SampleArgumentError(f"unroll_len must be positive, got {unroll_len!r}")


def independent(records: Records) -> Records:
    """Return the objects, with repeated occurrences replaced by copies."""
    if isinstance(records, RecordBatch) or len({id(record) for record in records}) == len(records):
        return records
    seen: set[int] = set()
    result = []
    for record in records:
        result.append(clone_structure(record) if id(record) in seen else record)
        seen.add(id(record))
    return result


def meta_columns(meta: "Mapping[str, Any] | Sequence[dict[str, Any]] | None", count: int) -> Mapping[str, Any] | None:
    """Return the meta of ``count`` rows as columns, or ``None`` for dicts that do not have the same keys.

    Raises:
        SampleError: The lengths differ.
    """
    if meta is None:
        return {}
    if isinstance(meta, Mapping):
        for key, value in meta.items():
            if is_column(value) and len(value) != count:
                raise SampleError(f"meta {key!r} has {len(value)} values for {count} rows")
        return meta
    if len(meta) != count:
        raise SampleError(f"{len(meta)} metas for {count} rows")
    keys = meta[0].keys() if count else {}
    if any(one.keys() != keys for one in meta):
        return None
    return {key: [one[key] for one in meta] for key in keys}
