"""Normalise the fields of a data set, and invert the normalisation."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ding.utils.names import check_choice

_MIN_SPREAD = 1e-8


class Normalizer:
    """Base class of normalisers of one field. They map ``[..., d]`` to ``[..., d]``.

    Args:
        x: Values of the field, ``[N, d]``.
    """

    #: Attributes that determine its results.
    fitted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, x: np.ndarray) -> None:
        self.X = np.asarray(x, dtype=np.float32)
        self.mins = self.X.min(axis=0)
        self.maxs = self.X.max(axis=0)

    def normalize(self, x: np.ndarray) -> np.ndarray:
        """Normalise raw values."""
        raise NotImplementedError

    def unnormalize(self, x: np.ndarray) -> np.ndarray:
        """Invert ``normalize``."""
        raise NotImplementedError


class GaussianNormalizer(Normalizer):
    """Normalise to mean 0 and standard deviation 1; a constant column is only centred."""

    fitted = ("means", "stds")

    def __init__(self, x: np.ndarray) -> None:
        super().__init__(x)
        self.means = self.X.mean(axis=0)
        stds = self.X.std(axis=0)
        self.stds = np.where(stds > _MIN_SPREAD, stds, 1.0).astype(np.float32)

    def normalize(self, x: np.ndarray) -> np.ndarray:
        values: np.ndarray = (x - self.means) / self.stds
        return values

    def unnormalize(self, x: np.ndarray) -> np.ndarray:
        values: np.ndarray = x * self.stds + self.means
        return values


class LimitsNormalizer(Normalizer):
    """Scale to [-1, 1] by minimum and maximum; a constant column becomes 0."""

    fitted = ("_centre", "_half")

    def __init__(self, x: np.ndarray) -> None:
        super().__init__(x)
        half = (self.maxs - self.mins) / 2
        self._centre, self._half = self.mins + half, np.where(half > _MIN_SPREAD, half, 1.0)

    def normalize(self, x: np.ndarray) -> np.ndarray:
        values: np.ndarray = (x - self._centre) / self._half
        return values

    def unnormalize(self, x: np.ndarray) -> np.ndarray:
        """Invert ``normalize``, after clipping to [-1, 1]."""
        values: np.ndarray = np.clip(x, -1, 1) * self._half + self._centre
        return values


class CDFNormalizer(Normalizer):
    """Map to [-1, 1] by the empirical distribution of each column, so that results are uniformly distributed."""

    fitted = ("_tables",)

    def __init__(self, x: np.ndarray) -> None:
        super().__init__(x)
        self._tables = []
        for column in self.X.T:
            quantiles, counts = np.unique(column, return_counts=True)
            self._tables.append([quantiles, np.cumsum(counts) / column.size])

    def _per_column(self, x: np.ndarray, inverse: bool) -> np.ndarray:
        x = np.asarray(x, dtype=np.float32)
        columns = []
        for index, (quantiles, probabilities) in enumerate(self._tables):
            column = x[..., index]
            if inverse:
                columns.append(np.interp((np.clip(column, -1, 1) + 1) / 2, probabilities, quantiles))
            else:
                columns.append(2 * np.interp(column, quantiles, probabilities) - 1)
        return np.stack(columns, axis=-1).astype(np.float32)

    def normalize(self, x: np.ndarray) -> np.ndarray:
        return self._per_column(x, inverse=False)

    def unnormalize(self, x: np.ndarray) -> np.ndarray:
        return self._per_column(x, inverse=True)


_NORMALIZERS: dict[str, type[Normalizer]] = {
    cls.__name__: cls for cls in (GaussianNormalizer, LimitsNormalizer, CDFNormalizer)
}


def flatten(dataset: Mapping[str, Any], path_lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """Flatten padded episodes to rows: ``[E, max_length, d]`` -> ``[sum(path_lengths), d]`` for each field."""
    return {
        key: np.concatenate([episode[:length] for episode, length in zip(values, path_lengths)], axis=0)
        for key, values in dataset.items()
    }


class DatasetNormalizer:
    """One normaliser for each field of a data set.

    Args:
        dataset: Field -> ``[N, d]``, or ``[E, max_length, d]`` together with ``path_lengths``. Fields of other shapes
            are ignored.
        normalizer: Class or class name: ``'GaussianNormalizer'``, ``'LimitsNormalizer'``, ``'CDFNormalizer'``.
        path_lengths: Length of each episode.
    """

    def __init__(
        self,
        dataset: Mapping[str, Any],
        normalizer: str | type[Normalizer],
        path_lengths: Sequence[int] | None = None,
    ) -> None:
        if isinstance(normalizer, str):
            check_choice("normalizer", normalizer, _NORMALIZERS, KeyError)
            normalizer = _NORMALIZERS[normalizer]
        rows = flatten(dataset, path_lengths) if path_lengths is not None else dataset
        self.normalizers = {key: normalizer(value) for key, value in rows.items() if np.ndim(value) == 2}
        self.observation_dim = rows["observations"].shape[1] if "observations" in self.normalizers else None
        self.action_dim = rows["actions"].shape[1] if "actions" in self.normalizers else None

    def _of(self, key: str) -> Normalizer:
        check_choice("the field", key, self.normalizers, KeyError)
        return self.normalizers[key]

    def __call__(self, x: np.ndarray, key: str) -> np.ndarray:
        return self.normalize(x, key)

    def normalize(self, x: np.ndarray, key: str) -> np.ndarray:
        """Normalise raw values ``[..., d]`` of the field ``key``."""
        return self._of(key).normalize(x)

    def unnormalize(self, x: np.ndarray, key: str) -> np.ndarray:
        """Invert ``normalize`` for the field ``key``."""
        return self._of(key).unnormalize(x)

    def state_dict(self) -> dict[str, Any]:
        """Return the type and the fitted values of the normalisers."""
        kinds = {type(one).__name__ for one in self.normalizers.values()}
        fields = {
            key: {name: getattr(one, name) for name in one.fitted} for key, one in self.normalizers.items()
        }  # fmt: skip
        sizes = {"observation_dim": self.observation_dim, "action_dim": self.action_dim}
        return {"normalizer": kinds.pop() if kinds else "", "fields": fields, **sizes}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "DatasetNormalizer":
        """Return an equivalent normaliser from a :meth:`state_dict`; it holds no data.

        Raises:
            KeyError: The normaliser type is not defined in this module.
        """
        made = cls({}, state["normalizer"])
        kind = _NORMALIZERS[state["normalizer"]]
        for key, values in state["fields"].items():
            one = made.normalizers[key] = kind.__new__(kind)
            for name in kind.fitted:
                setattr(one, name, _as_arrays(values[name]))
        made.observation_dim, made.action_dim = state["observation_dim"], state["action_dim"]
        return made


def _as_arrays(values: Any) -> np.ndarray | list[Any]:
    return [_as_arrays(one) for one in values] if isinstance(values, (list, tuple)) else np.asarray(values)
