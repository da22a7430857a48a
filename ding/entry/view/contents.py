"""Contents of a checkpoint as lines of text, and its fit to the policy of a config.

Files of this package and of DI-engine are read in the same way, with ``weights_only``: files that contain anything but
tensors, numbers, strings and containers are rejected.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ding.config import compile_config
from ding.entry.serial_entry import load_input, without_roles
from ding.policy import PolicyStateError, create_policy
from ding.utils.checkpoint import is_checkpoint_folder, only_acts, read_checkpoint, read_manifest

_MAX_ITEMS = 20


def contents(path: str) -> Iterator[str]:
    """Yield lines about a checkpoint: its writer, its size, and each entry (parameters, optimisers, counters).

    Args:
        path: Checkpoint file or folder.

    Raises:
        FileNotFoundError: The checkpoint does not exist.
        FileRefusedError: It is damaged, or contains other objects; the message is one sentence.
    """
    state = read_checkpoint(path)
    if is_checkpoint_folder(path):
        manifest = read_manifest(path)
        yield f"{path}: written by {', '.join(f'{name} {version}' for name, version in manifest.versions.items())}"
        for part, entry in manifest.parts.items():
            yield f"  {part}: {entry['bytes']:,} bytes"
        for name, value in manifest.notes.items():
            yield f"  {name}: {value}"
    else:
        yield f"{path}: {os.path.getsize(path):,} bytes"
    for name, value in state.items():
        yield from _entry(str(name), value)


def fit(path: str, config: str) -> tuple[bool, str]:
    """Return whether the policy of a config can load a checkpoint, and a line about it.

    Raises:
        ConfigError: The config is invalid.
        FileRefusedError: The checkpoint is damaged, or contains other objects.
    """
    state = read_checkpoint(path)
    main, create = without_roles(*load_input(config))
    cfg = compile_config(main, create_cfg=create, auto=True, save_cfg=False)
    cfg.policy.cuda = False
    policy = create_policy(cfg.policy, enable_field=["learn", "eval"])
    mode = policy.eval_mode if only_acts(state) else policy.learn_mode
    try:
        mode.load_state_dict(state)
    except PolicyStateError as error:
        return False, str(error)
    return True, f"fits {type(policy).__name__} of {Path(config)}: {len(state['model'])} parameters by their names"


def _entry(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and "param_groups" in value:
        yield f"{name}: {_optimizer(value)}"
    elif isinstance(value, Mapping) and value and all(map(torch.is_tensor, value.values())):
        count = sum(tensor.numel() for tensor in value.values())
        yield f"{name}: {len(value)} tensors, {count:,} numbers"
        width = max(len(str(key)) for key in value)
        for key, tensor in value.items():
            yield f"  {key!s:<{width}}  {_array(tensor)}"
    elif isinstance(value, Mapping):
        yield f"{name}: {len(value)} entries"
        for key, item in list(value.items())[:_MAX_ITEMS]:
            yield from (f"  {line}" for line in _entry(str(key), item))
        if len(value) > _MAX_ITEMS:
            yield f"  and {len(value) - _MAX_ITEMS} more"
    else:
        yield f"{name}: {_text(value)}"


def _optimizer(value: Mapping[str, Any]) -> str:
    """Describe an optimiser: its groups and its progress."""
    groups = [f"{len(group['params'])} parameters, lr {group.get('lr'):g}" for group in value["param_groups"]]
    states = value.get("state") or {}
    steps = sorted({int(state["step"]) for state in states.values() if "step" in state})
    done = f"step {', '.join(map(str, steps))}" if steps else "no step yet"
    return f"optimizer of {'; '.join(groups)}; {done}"


def _text(value: object) -> str:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return _array(value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) > _MAX_ITEMS:
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[:200]


def _array(value: torch.Tensor | np.ndarray) -> str:
    """Describe dtype and shape; show the value of a single number."""
    number = f" = {value.item():g}" if value.ndim == 0 and value.dtype not in (torch.complex64,) else ""
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}{number}"
