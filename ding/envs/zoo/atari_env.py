"""Atari games (extra ``atari``), as single envs or as a vector env."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding.envs.env.default_wrapper import atari_wrappers
from ding.envs.env.making import find_spec
from ding.envs.env_manager._vector.ale import AleGames
from ding.envs.env_manager.envpool_env_manager import PoolTask, pool_id
from ding.envs.env_wrappers import FireResetWrapper
from ding.envs.gymnasium_types import AnyEnv
from ding.envs.zoo._zoo_env import ZooEnv, previous_step_wrappers
from ding.utils import ENV_REGISTRY, require_extra


def fire_if_needed(env: AnyEnv) -> AnyEnv:
    """Wrap the env to press FIRE after each reset, if the game has that button."""
    game: Any = env.unwrapped
    return FireResetWrapper(env) if "FIRE" in game.get_action_meanings() else env


@ENV_REGISTRY.register("atari")
class AtariEnv(ZooEnv):
    """Game of the Arcade Learning Environment with the preprocessing of Mnih et al. 2015 (doi:10.1038/nature14236).

    The observation is float32 ``(frame_stack, frame_size, frame_size)`` in [0, 1] (``(frame_size, frame_size)`` for
    ``frame_stack`` 1; the paper uses 84 pixels): greyscale, the maximum of the last two of four frames, during which
    the action is repeated. A collector env ends its episode with each lost life and returns the signs of the rewards,
    which ``eval_episode_return`` sums; an evaluator env plays whole games with the original rewards.

    With the env manager ``gym_vector`` all envs form one vector env of ale-py, which is faster. There a frame stack
    continues after a lost life, and the policy itself must press FIRE. The manager ``env_pool`` does the same with
    EnvPool.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_id": "PongNoFrameskip-v4",
        "frame_stack": 4,
        "frame_size": 84,
        "obs_plus_prev_action_reward": False,
    }

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        return atari_wrappers(is_train, [fire_if_needed], cfg.frame_stack, cfg.frame_size) + previous_step_wrappers(cfg)

    def make_vector_env(self, num_envs: int) -> VectorEnv:
        """Return the vector env of ale-py for this game.

        Raises:
            ValueError: The observation is a single frame or contains the previous action, which vector envs do not
                support.
        """
        cfg = self._frames_cfg()
        game = find_spec(cfg.env_id).kwargs["game"]
        is_train = self.caller == "collector"
        return _AleVector(
            require_extra("ale_py.vector_env", "atari").AtariVectorEnv(
                game,
                num_envs,
                stack_num=cfg.frame_stack,
                img_height=cfg.frame_size,
                img_width=cfg.frame_size,
                life_loss_info=is_train,
                reward_clipping=is_train,
                **cfg.get("env_kwargs", {}),
            )
        )

    def pool_task(self) -> PoolTask:
        """Return the task of EnvPool for this game.

        Raises:
            ValueError: See :meth:`make_vector_env`.
        """
        cfg, is_train = self._frames_cfg(), self.caller == "collector"
        frames = {"stack_num": cfg.frame_stack, "img_height": cfg.frame_size, "img_width": cfg.frame_size}
        arguments = {**frames, "episodic_life": is_train, "reward_clip": is_train, **cfg.get("env_kwargs", {})}
        return PoolTask(pool_id(cfg.env_id), arguments, 255.0)

    def _frames_cfg(self) -> EasyDict:
        cfg = self._own_cfg
        if cfg.frame_stack < 2 or cfg.obs_plus_prev_action_reward:
            raise ValueError("many games at once need env.frame_stack above 1 and no obs_plus_prev_action_reward")
        return cfg


class _AleVector(AleGames):
    """Adds float32 frames in [0, 1], a seed per env, and resets of single envs."""

    obs_were_bytes = True

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        single, batch = env.single_observation_space, env.observation_space
        self.single_observation_space = gymnasium.spaces.Box(0.0, 1.0, single.shape, np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, batch.shape, np.float32)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """See :meth:`AleGames.reset`."""
        frames, infos = super().reset(seed=seed, options=options)
        return _scaled(frames), infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Step all games."""
        frames, *rest = super().step(actions)
        return _scaled(frames), *rest


def _scaled(frames: np.ndarray) -> np.ndarray:
    values: np.ndarray = np.divide(frames, np.float32(255.0), dtype=np.float32)
    return values
