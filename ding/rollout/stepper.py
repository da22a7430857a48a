"""The vector stepper: one step of policies and env manager, each timestep beside what caused it."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, is_batched
from ding.data.columns import Columns, concat, map_leaves, take
from ding.data.roles import ByEnv, CollectMode, EnvManager, EvalMode
from ding.rollout.players import Game
from ding.torch_utils import to_ndarray, to_tensor

_NO_IDS = np.zeros(0, dtype=np.int64)


class VectorStep(NamedTuple):
    """A vector step as one player sees it; all three have the same N env ids in the same order."""

    obs: ByEnv
    output: ByEnv
    timesteps: TimestepBatch

    def take(self, positions: np.ndarray) -> "VectorStep":
        """The rows at these positions (int64 ``[M]``, ascending)."""
        timesteps = self.timesteps.take(positions)
        kept = set(timesteps.env_ids.tolist())
        return VectorStep(select(self.obs, kept), select(self.output, kept), timesteps)


class _Sent(NamedTuple):
    """What the players saw and gave in one call of :meth:`VectorStepper.act`."""

    obs: list[ByEnv]
    outputs: list[ByEnv]


_NOTHING = _Sent([], [])


class VectorStepper:
    """Steps an env manager with one policy, or with one per player of a game::

        steps = stepper.join(env.step(stepper.act(env.ready_obs, [{}])))

    Environments of an asynchronous manager answer when they are ready, so that a timestep may belong to the
    observation of an earlier call; what was sent to an environment is remembered until its timestep arrives.

    Args:
        env: env manager.
        policies: collect or eval modes, one per player.
        game: how the environments are split among several players; ``None``: there is one, which sees everything.
        transform_obs: hand float32 tensors to the policies; what is joined to the timesteps stays as the manager
            gave it.
        copy_obs: keep copies of the observations (for managers that write into arrays which they handed out).
    """

    def __init__(
        self,
        env: EnvManager,
        policies: "Sequence[CollectMode | EvalMode]",
        game: Game | None = None,
        transform_obs: bool = False,
        copy_obs: bool = False,
    ) -> None:
        self.env = env
        self.policies = list(policies)
        self._game = game
        self._transform_obs = transform_obs
        self._copy_obs = copy_obs
        self._batched = [is_batched(policy.forward) for policy in self.policies]
        self._sent = _NOTHING
        self._pending: dict[int, _Sent] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an environment has not answered to an action yet."""
        return bool(self._pending)

    def act(self, obs: ByEnv, policy_kwargs: Sequence[dict[str, Any]]) -> ByEnv:
        """Return actions by env id for the observations ``obs``; both are remembered for :meth:`join`.

        Args:
            obs: observations of N environments by env id.
            policy_kwargs: per player the keyword arguments of the forward.

        Raises:
            ValueError: a policy returns no output for an environment of ``obs``.
        """
        if self._copy_obs:
            obs = copy.deepcopy(obs)
        seen = [obs] if self._game is None else self._game.observations(obs)
        outputs = []
        for policy, batched, view, kwargs in zip(self.policies, self._batched, seen, policy_kwargs):
            given = _float_tensors(view) if self._transform_obs else view
            if batched:
                given = given if type(given) is EnvBatch else EnvBatch.from_dict(given)
            elif isinstance(given, EnvBatch):
                given = given.to_dict()
            output = policy.forward(given, **kwargs)
            if len(output) < len(view):
                missing = sorted(set(view) - set(output))
                raise ValueError(f"policy.forward gave no output for the envs {missing}; it must answer for each")
            outputs.append(output)
        # What becomes a transition is what the environment gave, so that obs and next_obs are of one dtype.
        self._sent = _Sent(seen, outputs)
        return _actions(outputs[0], isinstance(obs, EnvBatch)) if self._game is None else self._game.actions(outputs)

    def join(self, timesteps: Mapping[int, BaseEnvTimestep]) -> list[VectorStep]:
        """Return per player the timesteps that ``env.step`` gave, beside what the environments were sent.

        Without any timestep the list is empty.
        """
        if not len(timesteps):
            self._wait_for(self._sent)
            return []
        if self._copy_obs:
            timesteps = copy.deepcopy(timesteps)
        if self._game is not None:
            per_player = self._game.timesteps(timesteps)
        else:
            per_player = [timesteps if isinstance(timesteps, TimestepBatch) else TimestepBatch.from_dict(timesteps)]
        sent, self._sent = self._sent, _NOTHING
        env_ids = per_player[0].env_ids
        if not self._pending and all(_has_ids(mapping, env_ids) for mapping in sent.obs + sent.outputs):
            return [VectorStep(*parts) for parts in zip(sent.obs, sent.outputs, per_player)]
        self._wait_for(sent)
        senders = [self._pending.pop(env_id) for env_id in env_ids.tolist()]
        return [
            VectorStep(
                _gather(env_ids, [sender.obs[player] for sender in senders]),
                _gather(env_ids, [sender.outputs[player] for sender in senders]),
                player_timesteps,
            )
            for player, player_timesteps in enumerate(per_player)
        ]

    def _wait_for(self, sent: _Sent) -> None:
        self._pending.update(dict.fromkeys(sent.obs[0] if sent.obs else (), sent))
        self._sent = _NOTHING

    def restart(self, env_ids: Sequence[int]) -> None:
        """Reset these environments, whose episodes broke, and what the policies remember of them."""
        for env_id in env_ids:
            self.env.reset({env_id: None})
            self._pending.pop(env_id, None)
        for policy in self.policies:
            policy.reset(list(env_ids))

    def take_over(self, previous: "VectorStepper") -> None:
        """Wait for the answers to what another stepper sent to the same environments."""
        self._pending = previous._pending

    def forget(self) -> None:
        """Forget what was sent to the environments."""
        self._pending = {}


def drop_abnormal(steps: list[VectorStep]) -> tuple[list[VectorStep], np.ndarray]:
    """Leave out the environments whose info says ``abnormal`` to any player.

    Returns:
        The rest, and the ids of those environments (int64 ``[M]``).
    """
    abnormal = {
        position for step in steps for position, info in step.timesteps.infos.items() if info.get("abnormal", False)
    }
    if not abnormal:
        return steps, _NO_IDS
    env_ids = steps[0].timesteps.env_ids
    kept = np.setdiff1d(np.arange(len(env_ids)), list(abnormal))
    return [step.take(kept) for step in steps], env_ids[sorted(abnormal)]


def v1_interface(env: EnvManager) -> EnvManager:
    """``env`` itself, or, of a manager of the v2 interface (``base_v2``, ``subprocess_v2``), its view of the v1 one.

    The class decides and not the manager, which hands on attributes of its envs.

    Raises:
        TypeError: this is no env manager.
    """
    if not hasattr(env, "launch"):
        raise TypeError(f"expected an env manager (see ding.envs.create_env_manager), found {type(env).__name__}")
    return env.as_dict_form() if hasattr(type(env), "as_dict_form") else env  # type: ignore[attr-defined]


def select(mapping: ByEnv, env_ids: set[int]) -> ByEnv:
    """The part of a mapping that belongs to these environments."""
    if not isinstance(mapping, EnvBatch):
        return {env_id: value for env_id, value in mapping.items() if env_id in env_ids}
    positions = [i for i, env_id in enumerate(mapping.env_ids.tolist()) if env_id in env_ids]
    return mapping if len(positions) == len(mapping) else mapping.take(np.array(positions, dtype=np.int64))


def _float_tensors(obs: ByEnv) -> ByEnv:
    if isinstance(obs, EnvBatch):
        return EnvBatch.unchecked(obs.env_ids, to_tensor(obs.columns, dtype=torch.float32))
    return to_tensor(obs, dtype=torch.float32)


def _actions(output: ByEnv, speaks_batches: bool) -> ByEnv:
    """The actions as arrays: an ``EnvBatch`` for a manager that speaks it, else a plain dict."""
    if not isinstance(output, EnvBatch):
        return {env_id: to_ndarray(row["action"]) for env_id, row in output.items()}
    action = output.field("action").columns
    arrays = action.numpy(force=True) if isinstance(action, torch.Tensor) else map_leaves(to_ndarray, action)
    batch = EnvBatch.unchecked(output.env_ids, arrays)
    return batch if speaks_batches else batch.to_dict()


def _has_ids(mapping: ByEnv, env_ids: np.ndarray) -> bool:
    if isinstance(mapping, EnvBatch):
        ids = mapping.env_ids
        return ids is env_ids or (len(ids) == len(env_ids) and bool((ids == env_ids).all()))
    return list(mapping) == env_ids.tolist()


def _gather(env_ids: np.ndarray, sources: Sequence[ByEnv]) -> ByEnv:
    """Row ``env_ids[i]`` of ``sources[i]``, for each i."""
    if not all(isinstance(source, EnvBatch) for source in sources):
        return {env_id: source[env_id] for env_id, source in zip(env_ids.tolist(), sources)}
    places: dict[int, list[int]] = {}
    for place, source in enumerate(sources):
        places.setdefault(id(source), []).append(place)
    parts: list[Columns] = []
    for group in places.values():
        batch: Any = sources[group[0]]
        parts.append(take(batch.columns, np.array([batch.position(int(env_ids[place])) for place in group])))
    back = np.argsort(np.concatenate(list(places.values())))
    return EnvBatch.unchecked(env_ids, take(concat(parts), back))
