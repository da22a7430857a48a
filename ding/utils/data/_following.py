"""Successor rows in a data set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ding.utils.data._dataset_files import Column, parts_of

# Seed of the numbers that hash observations.
_HASH_SEED = 20301


def following_rows(columns: Mapping[str, Column]) -> np.ndarray:
    """Return the successor of each row, int64 ``[N]``; -1 where there is none.

    The successor is the first later row whose ``obs`` equals the row's ``next_obs``; it need not be adjacent, because
    collectors interleave the steps of several envs. A ``done`` row has no successor, nor has the last step before a
    time limit.

    Args:
        columns: ``obs``, ``next_obs`` (or fields ``obs/x``, ``next_obs/x``) and ``done``, each with N rows.
    """
    done = np.asarray(columns["done"][:]).reshape(-1).astype(bool)
    pairs = [
        (column, columns[f"next_{name}"])
        for name, column in columns.items()
        if name.partition("/")[0] == "obs" and f"next_{name}" in columns
    ]
    count, here = len(done), np.arange(len(done))
    seen = sum((_hashes(one) for one, _ in pairs), np.zeros(count, np.uint64))
    ahead = sum((_hashes(other, one.dtype) for one, other in pairs), np.zeros(count, np.uint64))
    _, groups = np.unique(np.concatenate([seen, ahead]), return_inverse=True)
    # Rows with equal observations are adjacent, in the order of the data set.
    keys = groups[:count] * count + here
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], groups[count:] * count + here, side="right")
    found = order[np.minimum(place, count - 1)]
    nearest = np.minimum(here + 1, count - 1)
    found = np.where(seen[nearest] == ahead, nearest, found)
    valid = ~done & (found > here)
    for one, other in pairs:
        for begin, rows in parts_of(other):
            part = slice(begin, begin + len(rows))
            same = one[found[part]] == rows.astype(one.dtype)
            valid[part] &= same.reshape(len(rows), -1).all(1)
    result: np.ndarray = np.where(valid, found, -1)
    return result


def _hashes(column: Column, dtype: np.dtype | None = None) -> np.ndarray:
    """Return a hash of each row, uint64 ``[N]``."""
    hashes = []
    for _, rows in parts_of(column):
        flat = np.ascontiguousarray(rows.reshape(len(rows), -1), dtype)
        words = flat.view(np.uint8).reshape(len(rows), -1).astype(np.uint64)
        factors = np.random.default_rng(_HASH_SEED).integers(1, 2**63, words.shape[1], np.uint64) * np.uint64(2) + 1
        hashes.append(words @ factors)
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
