"""A policy and a batch of eight samples, the same in every process."""

from typing import Any

import torch

from ding.policy import A2CPolicy, DQNPolicy, PPOPolicy
from ding.utils import deep_merge_dicts

_CASES = {
    "dqn": (DQNPolicy, {"nstep": 1}),
    "a2c": (A2CPolicy, {"learn": {"batch_size": 8}}),
    # Advantages are normalised by the numbers of each process, the returns by those of all.
    "ppo": (PPOPolicy, {"learn": {"epoch_per_collect": 1, "batch_size": 8, "adv_norm": False}}),
}


_MODEL = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8, 64]}


def make(name: str, multi_gpu: bool = False) -> Any:
    torch.manual_seed(5)
    cls, overrides = _CASES[name]
    cfg = deep_merge_dicts(cls.default_config(), {"multi_gpu": multi_gpu, "model": _MODEL})
    return cls(deep_merge_dicts(cfg, overrides))


def joint_samples(name: str) -> list[dict]:
    generator = torch.Generator().manual_seed(9)
    return [
        {
            "obs": torch.randn(4, generator=generator), "next_obs": torch.randn(4, generator=generator),
            "action": torch.tensor([i % 2]), "reward": torch.randn(1, generator=generator), "done": i % 4 == 3,
            "logit": torch.zeros(2), "value": torch.tensor(0.1 * i), "adv": torch.tensor(0.3 * i - 1),
            "traj_flag": i % 4 == 3,
        }
        for i in range(8)
    ]  # fmt: skip


def gradients(policy: Any) -> list[float]:
    """Those of the last update, and behind them the parameters after it."""
    params = list(policy.learn_mode.get_attribute("model").parameters())
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in params]
    return torch.cat([value.detach().reshape(-1) for value in (*grads, *params)]).tolist()
