"""PPO on an env of your own whose observations are a dict of numbers and images, with an encoder of your own.

    python examples/ppo_with_complex_obs.py

The goal of an episode is one of four corners, which the image shows; the vector says where the agent is. It solves the
game when it walks there on the shortest way.
"""

from typing import Any

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium import spaces
from torch import nn

from ding.entry import serial_pipeline_onpolicy
from ding.envs import DingEnvWrapper
from ding.model import VAC

SIZE = 3
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class MyEnv(gymnasium.Env[Any, Any]):
    """Walk on a grid to the corner that is lit; -0.1 per step, 1 at the goal, 10 steps at most."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Box(0, 1, (2,), np.float32),
                "image": spaces.Box(0, 1, (1, SIZE, SIZE), np.float32),
            }
        )
        self.action_space = spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._steps = np.array([SIZE // 2] * 2), 0
        self._goal = (SIZE - 1) * self.np_random.integers(0, 2, 2)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at = np.clip(self._at + MOVES[int(action)], 0, SIZE - 1)
        self._steps += 1
        arrived = bool((self._at == self._goal).all())
        return self._obs(), 1.0 if arrived else -0.1, arrived, self._steps >= 10, {}

    def _obs(self) -> dict[str, np.ndarray]:
        image = np.zeros((1, SIZE, SIZE), np.float32)
        image[0, self._goal[0], self._goal[1]] = 1
        return {"place": (self._at / (SIZE - 1)).astype(np.float32), "image": image}


class Encoder(nn.Module):
    """``place`` ``[B, 2]`` and ``image`` ``[B, 1, 3, 3]`` to ``[B, feature_size]``."""

    def __init__(self, feature_size: int = 64) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 8, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 32), nn.ReLU())
        self.place = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
        self.both = nn.Sequential(nn.Linear(64, feature_size), nn.ReLU())

    def forward(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.both(torch.cat([self.image(obs["image"]), self.place(obs["place"])], dim=-1))


def ding_env_maker() -> DingEnvWrapper:
    """Return the env as the workers need it."""
    return DingEnvWrapper(MyEnv())


main_config = EasyDict(
    exp_name="complex_obs_ppo",
    env=dict(collector_env_num=8, evaluator_env_num=4, n_evaluator_episode=20, stop_value=0.85),
    policy=dict(
        cuda=False,
        action_space="discrete",
        model=dict(
            obs_shape=dict(place=[2], image=[1, SIZE, SIZE]), action_shape=len(MOVES), action_space="discrete",
            actor_head_hidden_size=64, critic_head_hidden_size=64,
        ),
        learn=dict(epoch_per_collect=4, batch_size=64, learning_rate=0.001, entropy_weight=0.01),
        collect=dict(n_sample=256, discount_factor=0.97, gae_lambda=0.95),
        eval=dict(evaluator=dict(eval_freq=160)),
    ),
)  # fmt: skip
create_config = EasyDict(
    env=dict(type="base"), env_manager=dict(type="base"), policy=dict(type="ppo")
)  # fmt: skip


def main(seed: int = 0, max_env_step: int = 30_000) -> Any:
    """Train and return the policy."""

    class Made:
        """What ``env_setting`` needs of a class of envs: called with a config, it makes one."""

        def __new__(cls, cfg: object) -> Any:
            return ding_env_maker()

    configs = [[EasyDict()] * number for number in (8, 4)]
    model = VAC(
        obs_shape=main_config.policy.model.obs_shape, action_shape=len(MOVES), action_space="discrete",
        encoder=Encoder(64), encoder_hidden_size_list=[64],
        actor_head_hidden_size=64, critic_head_hidden_size=64,
    )  # fmt: skip
    return serial_pipeline_onpolicy(
        (main_config, create_config), seed=seed, env_setting=(Made, *configs), model=model, max_env_step=max_env_step
    )


if __name__ == "__main__":
    main()
