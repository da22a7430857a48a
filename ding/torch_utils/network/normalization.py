"""Normalisation layers by name."""

from torch import nn

from ding.utils.errors import UnknownNormError

_CLASSES: dict[str, type[nn.Module]] = {
    "BN1": nn.BatchNorm1d,
    "BN2": nn.BatchNorm2d,
    "LN": nn.LayerNorm,
    "IN1": nn.InstanceNorm1d,
    "IN2": nn.InstanceNorm2d,
    "SyncBN": nn.SyncBatchNorm,
}


def build_normalization(norm_type: str, dim: int | None = None) -> type[nn.Module]:
    """The class of the normalisation ``norm_type``: ``BN`` or ``IN`` (with ``dim`` 1 or 2), ``LN``, ``SyncBN``.

    Raises:
        KeyError: ``BN`` or ``IN`` without ``dim`` or with another one, or an unknown name without ``dim``.
        UnknownNormError: an unknown name with ``dim``.
    """
    if dim is not None and norm_type not in ("BN", "IN", "LN", "SyncBN"):
        raise UnknownNormError(f"unknown normalisation {norm_type!r}, known are BN, IN, LN, SyncBN")
    key = f"{norm_type}{dim}" if dim is not None and norm_type in ("BN", "IN") else norm_type
    if key not in _CLASSES:
        raise KeyError(
            f"no normalisation for norm_type={norm_type!r}, dim={dim}; known are BN and IN with dim 1 or 2, LN, SyncBN"
        )
    return _CLASSES[key]
