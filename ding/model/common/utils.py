"""Build models from configs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn

from ding.utils import MODEL_REGISTRY, import_module


def create_model(cfg: Mapping[str, Any]) -> nn.Module:
    """Build the model that ``cfg['type']`` names, with the other entries as its arguments.

    Arguments:
        cfg: ``type``; ``import_names``, a list of modules to import first (optional); the arguments of the model.
            Unchanged.

    Raises:
        KeyError: no ``type``, or a name that is not registered (the message names the nearest known one).
    """
    arguments = copy.deepcopy(dict(cfg))
    import_module(arguments.pop("import_names", None) or [])
    if "type" not in arguments:
        raise KeyError(f"a model config needs 'type', got the keys {sorted(arguments)}")
    return MODEL_REGISTRY.build(arguments.pop("type"), **arguments)
