"""Replay buffers of a user's own have to do what is asked of them and nothing else."""

import random
from typing import Any

import pytest
from easydict import EasyDict

from ding.entry import serial_pipeline
from ding.utils import BUFFER_REGISTRY
from ding.worker import IBuffer


class Plain:
    """The methods of DI-engine's ``IBuffer``: neither ``close`` nor ``replay_buffer_size``."""

    made: list["Plain"] = []

    @classmethod
    def default_config(cls) -> EasyDict:
        return EasyDict(replay_buffer_size=100)

    def __init__(self, cfg: EasyDict, tb_logger: object, exp_name: str, instance_name: str = "buffer") -> None:
        self.rows: list[Any] = []
        self.sampled = 0
        self.made.append(self)

    def push(self, data: Any, cur_collector_envstep: int) -> None:
        self.rows += list(data)

    def sample(self, size: int, cur_learner_iter: int) -> list[Any] | None:
        self.sampled += size
        return random.sample(self.rows, size) if len(self.rows) >= size else None

    def update(self, info: dict[str, Any]) -> None:
        pass

    def clear(self) -> None:
        self.rows = []

    def count(self) -> int:
        return len(self.rows)

    def save_data(self, file_name: str) -> None:
        pass

    def load_data(self, file_name: str) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, _state_dict: dict[str, Any]) -> None:
        pass


class Derived(Plain, IBuffer):
    pass


@pytest.mark.parametrize("cls", [Plain, Derived])
def test_a_buffer_with_what_the_interface_asks_for(cls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Plain, "made", [])
    BUFFER_REGISTRY.register(f"plain_{cls.__name__}", cls, force_overwrite=True)
    main = EasyDict(
        exp_name="e",
        env=dict(
            env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, stop_value=10**6
        ),
        policy=dict(
            model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[4]),
            learn=dict(update_per_collect=1, batch_size=8),
            collect=dict(n_sample=8),
        ),
    )
    create = EasyDict(
        env=dict(type="gymnasium"),
        env_manager=dict(type="base"),
        policy=dict(type="dqn"),
        replay_buffer=dict(type=f"plain_{cls.__name__}"),
    )
    serial_pipeline((main, create), seed=0, max_env_step=24)
    (buffer,) = Plain.made
    assert (len(buffer.rows), buffer.sampled) == (24, 24)
