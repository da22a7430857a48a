"""Each config key has a meaning, read from beside its default."""

import importlib
from typing import Any, ClassVar

import pytest
from easydict import EasyDict

from ding.config.documented import documented_keys
from ding.envs.zoo import import_type
from ding.utils import registries

# What only an extra brings: atari, lunarlander, mujoco, minigrid, petting_zoo.
for env_type in ("acrobot", "cartpole", "frozen_lake", "gym_hybrid", "mountain_car", "pendulum", "taxi"):
    import_type(env_type)
for package in ("ding.envs", "ding.league", "ding.policy", "ding.reward_model", "ding.worker"):
    importlib.import_module(package)

SHARED: dict[str, Any] = {
    # (int) Of the shared dict.
    "one": 1,
    "two": 2,
}


class Above:
    config: ClassVar[dict[str, Any]] = {
        # (str) Of the ancestor.
        "kept": "a",
        # (str) Is said anew.
        "again": "b",
        "type": "above",
    }


class Below(Above):
    config = dict(
        # (float) The first line
        # and the second.
        again=0.5,
        nested=dict(
            # (bool) Deep.
            inner=True,
            **SHARED,
        ),
        bare=None,
    )

    @classmethod
    def default_config(cls) -> EasyDict:
        return EasyDict({**Above.config, **cls.config, "cfg_type": "BelowDict"})


def test_comments_above_defaults_are_their_meanings():
    assert {key.path: (key.default, key.meaning) for key in documented_keys(Below)} == {
        "kept": ("a", "(str) Of the ancestor."),
        "again": (0.5, "(float) The first line and the second."),
        "type": ("above", "(str) The name under which it is registered."),
        "nested.inner": (True, "(bool) Deep."),
        "nested.one": (1, "(int) Of the shared dict."),
        "nested.two": (2, ""),
        "bare": (None, ""),
    }


@pytest.mark.parametrize("registry", [name for name in sorted(registries) if name not in ("model",)])
def test_every_key_of_what_is_registered_is_explained(registry):
    # A list, since getting one may register others.
    classes = {registries[registry].get(name) for name in list(registries[registry].keys())}
    for cls in classes:
        if hasattr(cls, "default_config") and cls.__module__.startswith("ding."):
            silent = [key.path for key in documented_keys(cls) if not key.meaning]
            assert not silent, f"{cls.__name__}: no comment above these defaults, nor a shared meaning"
