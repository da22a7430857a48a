"""Multi-agent envs of PettingZoo (extra ``pettingzoo``), as one env with a shared reward."""

import importlib
import pkgutil
import re
import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from easydict import EasyDict

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.actions import ActionMapping
from ding.envs.env.base_env import BaseEnv, EnvConfigError
from ding.utils import ENV_REGISTRY, deep_merge_dicts, did_you_mean, require_extra

# New locations of families that have left PettingZoo.
_FAMILIES = {"mpe": "mpe2"}
_SPREAD = "simple_spread"


@ENV_REGISTRY.register("petting_zoo")
class PettingZooEnv(BaseEnv):
    """PettingZoo env by ``env_family`` and ``env_id``, of the parallel API or (converted by PettingZoo) the AEC API.

    All agents must have the same observation and action shapes. An id with another version number yields the newest
    version. Observations are float32 arrays for A agents:

    * ``agent_state`` ``(A, ...)``; with ``agent_obs_only`` this array alone, without a dict;
    * ``global_state`` ``(G,)``: the env's ``state()``, or else the observations of all agents; with
      ``agent_specific_global_state`` ``(A, O + G)``, preceded by each agent's own observation;
    * ``action_mask`` ``(A, actions)``: from an agent's observation or info, else ones; discrete actions only;
    * ``agent_mask`` ``(A,)``: 0 for an agent that has ended; it observes zeros, and its actions have no effect.

    ``simple_spread`` has DI-engine's forms: ``global_state`` ``(4N + 2L + 2N(N - 1),)`` is relative to the first agent,
    ``agent_alone_state`` ``(A, 4 + 2L + 2(N - 1))`` omits the positions of the others and ``agent_alone_padding_state``
    has zeros there; and the reward of an agent is the sum of the local and the global one.

    The reward, float32 ``(1,)``, is the sum over the agents. An episode is done when all agents are; it is truncated if
    no agent has terminated, or after ``max_cycles`` steps. Actions are int64 ``(A,)`` or float32 ``(A, D)``, the latter
    in [-1, 1] with ``act_scale``.

    Args:
        cfg: Keys of :attr:`config`; ``env_kwargs`` are passed to the PettingZoo env.

    Raises:
        EnvConfigError: The family or id is unknown, ``n_landmark`` is wrong, or the agents differ in shape.
    """

    config: ClassVar[dict[str, Any]] = {
        "env_family": "mpe",
        "env_id": "simple_spread_v3",
        "n_agent": None,
        "n_landmark": None,
        "max_cycles": 25,
        "agent_obs_only": False,
        "agent_specific_global_state": False,
        "continuous_actions": False,
        "act_scale": False,
        "env_kwargs": {},
    }

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        self._cfg = EasyDict(deep_merge_dicts(deepcopy(self.config), dict(cfg or {})))
        name = re.sub(r"_v\d+$", "", self._cfg.env_id)
        self._is_spread = self._cfg.env_family == "mpe" and name == _SPREAD
        self._env = _make(self._cfg, name, self._is_spread)
        self._agents: list[str] = list(self._env.possible_agents)
        self._rng = np.random.default_rng()
        self._fixed_seed: int | None = None
        self._steps, self._return = 0, 0.0
        spaces = [self._env.action_space(agent) for agent in self._agents]
        if any(space != spaces[0] for space in spaces):
            raise EnvConfigError(f"env.env_id: the agents of {self._cfg.env_id!r} have different action spaces")
        self._actions = ActionMapping(spaces[0], self._cfg.act_scale)
        self.action_space = self._joint_action_space()
        shapes = {agent: _parts(self._env.observation_space(agent))[0].shape for agent in self._agents}
        if len(set(shapes.values())) > 1:
            raise EnvConfigError(f"env.env_id: the agents of {self._cfg.env_id!r} see different shapes, {shapes}")
        self._seen_shape = shapes[self._agents[0]]
        self.reward_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_space = _space_of(self.reset())

    def _joint_action_space(self) -> gymnasium.spaces.Space[Any]:
        count, space = len(self._agents), self._actions.given_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return gymnasium.spaces.MultiDiscrete([int(space.n)] * count)
        if not isinstance(space, gymnasium.spaces.Box):
            raise EnvConfigError(f"env.env_id: agents act in {space}; discrete and box spaces are supported")
        low, high = np.stack([space.low] * count), np.stack([space.high] * count)
        return gymnasium.spaces.Box(low, high, (count, *space.shape), np.float32)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the env: with ``dynamic_seed`` the episodes differ, otherwise every episode starts from ``seed``."""
        self._rng = np.random.default_rng(seed)
        self._fixed_seed = None if dynamic_seed else seed
        for agent in self._agents:
            self._env.action_space(agent).seed(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Start an episode and return its first observation."""
        seed = int(self._rng.integers(2**31)) if self._fixed_seed is None else self._fixed_seed
        observations, infos = self._env.reset(seed=seed)
        self._steps, self._return = 0, 0.0
        return self._obs(observations, infos)

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Step all present agents."""
        joint = np.asarray(action)
        if joint.shape != self.action_space.shape:
            raise ValueError(
                f"the actions of {len(self._agents)} agents are {self.action_space.shape}, found {joint.shape}"
            )
        actions = {
            agent: self._actions.to_env(joint[i]) for i, agent in enumerate(self._agents) if agent in self._env.agents
        }
        observations, rewards, terminated, truncated, infos = self._env.step(actions)
        self._steps += 1
        # DI-engine's env adds the rewards, whereas the weighted sum of this one halves them.
        reward = float(sum(rewards.values())) * (2 if self._is_spread else 1)
        self._return += reward
        over = not self._env.agents or all(terminated[a] or truncated[a] for a in terminated)
        limit = self._steps >= self._cfg.max_cycles
        info: dict[str, Any] = dict(infos)
        if over or limit:
            info["eval_episode_return"] = self._return
            if not any(terminated.values()):
                info["TimeLimit.truncated"] = True
        obs = self._obs(observations, infos)
        return BaseEnvTimestep(obs, np.array([reward], dtype=np.float32), over or limit, info)

    def _obs(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> np.ndarray | dict[str, np.ndarray]:
        nothing = np.zeros(self._seen_shape, np.float32)
        seen = {agent: _parts(observations[agent]) for agent in self._agents if agent in observations}
        agent_state = np.stack(
            [np.asarray(seen[agent][0] if agent in seen else nothing, np.float32) for agent in self._agents]
        )
        if self._cfg.agent_obs_only:
            return agent_state
        obs = {"agent_state": agent_state}
        if self._is_spread:
            obs.update(_spread_forms(agent_state))
        else:
            obs["global_state"] = self._state(agent_state)
        if self._cfg.agent_specific_global_state:
            shared = np.tile(obs["global_state"], (len(self._agents), 1))
            obs["global_state"] = np.concatenate([agent_state.reshape(len(self._agents), -1), shared], axis=1)
        if isinstance(self._actions.given_space, gymnasium.spaces.Discrete):
            obs["action_mask"] = np.stack([self._mask(agent, seen, infos) for agent in self._agents])
        obs["agent_mask"] = np.array([agent in self._env.agents for agent in self._agents], np.float32)
        return obs

    def _state(self, agent_state: np.ndarray) -> np.ndarray:
        try:
            state = np.asarray(self._env.state(), np.float32)
        except (NotImplementedError, AttributeError):
            # PettingZoo envs need not have a state.
            state = agent_state
        return state.reshape(-1)

    def _mask(self, agent: str, seen: Mapping[str, tuple[Any, Any]], infos: Mapping[str, Any]) -> np.ndarray:
        mask = seen[agent][1] if agent in seen else None
        if mask is None:
            mask = infos.get(agent, {}).get("action_mask")
        return np.ones(self._actions.network_shape, np.float32) if mask is None else np.asarray(mask, np.float32)

    def random_action(self) -> np.ndarray:
        """Return a random action of each agent, in the form of :attr:`action_space`; masks are ignored."""
        return np.asarray(self.action_space.sample())

    def close(self) -> None:
        """Close the PettingZoo env."""
        self._env.close()

    def __repr__(self) -> str:
        return f"PettingZooEnv({self._cfg.env_family}, {self._cfg.env_id}, {len(self._agents)} agents)"


def _make(cfg: EasyDict, name: str, is_spread: bool) -> Any:
    """Create the PettingZoo env in its parallel form."""
    package_name = _FAMILIES.get(cfg.env_family, f"pettingzoo.{cfg.env_family}")
    require_extra(package_name.partition(".")[0], "pettingzoo")
    try:
        package = importlib.import_module(package_name)
    except ImportError as error:
        raise EnvConfigError(f"env.env_family: {cfg.env_family!r} cannot be imported: {error}") from error
    known = [one.name for one in pkgutil.iter_modules(package.__path__)]
    versions = [one for one in known if re.fullmatch(rf"{re.escape(name)}_v\d+", one)]
    if not versions:
        raise EnvConfigError(f"env.env_id: {package_name} has no {cfg.env_id!r}.{did_you_mean(cfg.env_id, known)}")
    newest = max(versions, key=lambda one: int(one.rpartition("_v")[2]))
    with warnings.catch_warnings():
        # Newer versions also have a registry; all versions have modules.
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(f"{package_name}.{cfg.env_id if cfg.env_id in versions else newest}")
    kwargs = dict(cfg.env_kwargs)
    if is_spread:
        if cfg.n_landmark not in (None, cfg.n_agent):
            raise EnvConfigError(f"env.n_landmark: simple_spread has as many as agents, found {cfg.n_landmark}")
        # Half of each reward.
        kwargs = {"N": cfg.n_agent or 3, "local_ratio": 0.5, **kwargs}
    if cfg.env_family == "mpe":
        kwargs = {"max_cycles": cfg.max_cycles, "continuous_actions": cfg.continuous_actions, **kwargs}
    if hasattr(module, "parallel_env"):
        return module.parallel_env(**kwargs)
    conversions = importlib.import_module("pettingzoo.utils.conversions")
    return conversions.turn_based_aec_to_parallel(module.env(**kwargs))


def _parts(observation: Any) -> tuple[Any, Any]:
    """Return an agent's observation, and its action mask if the observation (or space) has one."""
    if isinstance(observation, Mapping | gymnasium.spaces.Dict):
        return observation["observation"], observation["action_mask"]
    return observation, None


def _spread_forms(agent_state: np.ndarray) -> dict[str, np.ndarray]:
    """Return the additional observations of ``simple_spread``.

    They are derived from those of the agents ``(N, 4 + 2L + 4(N - 1))``: own velocity, own position, landmarks, other
    agents (both relative), messages of the others.
    """
    agents = len(agent_state)
    others = 2 * (agents - 1)
    landmarks_end = agent_state.shape[1] - 2 * others
    positions, said = slice(landmarks_end, landmarks_end + others), slice(landmarks_end + others, None)
    padded = agent_state.copy()
    padded[:, positions] = 0
    first = agent_state[0, 2 : landmarks_end + others]
    return {
        "global_state": np.concatenate([first, agent_state[:, :2].ravel(), agent_state[:, said].ravel()]),
        "agent_alone_state": np.concatenate([agent_state[:, :landmarks_end], agent_state[:, said]], axis=1),
        "agent_alone_padding_state": padded,
    }


def _space_of(obs: Any) -> gymnasium.spaces.Space[Any]:
    if isinstance(obs, dict):
        return gymnasium.spaces.Dict({key: _space_of(value) for key, value in obs.items()})
    return gymnasium.spaces.Box(-np.inf, np.inf, obs.shape, np.float32)
