"""Storage of the parent for results of envs, until they are returned as batches."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.columns import Columns
from ding.envs.env_manager._workers.protocol import Flag
from ding.envs.env_manager._workers.reward_forms import AS_COLUMN, coded_reward
from ding.envs.env_manager._workers.shared_columns import LeafSpec, RowSchema, SharedColumns
from ding.utils.nested import iter_leaves, map_paths
from ding.utils.rows import take


class ResultStore:
    """Last observation and timestep of each env.

    They are in shared memory if all observations have one schema, else in dicts. In shared memory, the final
    observation of an episode and the first one of the next have separate rows, so that an env can be reset before its
    last step is returned.

    Args:
        env_num: Number of envs.
        copy: Return copies; otherwise whole batches are views that change with the next step.
        keep_forms: Return rewards and numbers in observations in the form of the envs.
    """

    def __init__(self, env_num: int, copy: bool, keep_forms: bool) -> None:
        self._env_num = env_num
        self._copy = copy
        self._keep_forms = keep_forms
        # Path -> kind of the leaves that are NumPy scalars, or arrays without an axis.
        self._numbers: dict[str, str] = {}
        self._infos: dict[int, Any] = {}
        # For games whose rewards do not fit into the shared memory.
        self._rewards: dict[int, np.ndarray] = {}
        self._obs_objects: dict[int, Any] = {}
        self._step_objects: dict[int, BaseEnvTimestep] = {}
        # Envs whose timestep in shared memory has a reward that no env returned.
        self._unpaid: set[int] = set()
        # Envs whose current observation is that of their reset.
        self._fresh: set[int] = set()
        self._shared: SharedColumns | None = None
        self._obs: Columns
        self._reset_obs: Columns
        self._reward: np.ndarray
        self._form: np.ndarray
        self._done: np.ndarray
        self._truncated: np.ndarray

    @property
    def shared(self) -> bool:
        """Whether the results are in shared memory."""
        return self._shared is not None

    def share(self, reward_shape: tuple[int, ...]) -> SharedColumns | None:
        """Move the first observations of all envs to new shared memory.

        Returns:
            The memory for the workers, or ``None`` if the observations do not share one schema of fixed shape.
        """
        schemas = {RowSchema.of(self._obs_objects[env_id]) for env_id in range(self._env_num)}
        schema = schemas.pop()
        if schemas or schema is None:
            return None
        flags = [LeafSpec((name,), "scalar", "|b1", ()) for name in ("done", "truncated")]
        reward = [LeafSpec(("reward",), "array", "<f8", reward_shape), LeafSpec(("form",), "scalar", "|u1", ())]
        rest = RowSchema((*reward, *flags))
        if self._keep_forms:
            kinds = {"" if not leaf.path else leaf.name: leaf for leaf in schema.leaves}
            self._numbers = {
                path: leaf.kind for path, leaf in kinds.items() if not leaf.shape and leaf.kind in ("number", "array")
            }
        shared = SharedColumns(schema.prefixed("obs").joined(schema.prefixed("reset_obs"), rest), self._env_num)
        writer = shared.writer("reset_obs")
        for env_id in range(self._env_num):
            writer.write(env_id, self._obs_objects[env_id])
        self._obs_objects.clear()
        self._fresh.update(range(self._env_num))
        self._obs, self._reset_obs = shared.columns("obs"), shared.columns("reset_obs")
        self._reward, self._form = shared.array("reward"), shared.array("form")
        self._done = shared.array("done")
        self._truncated = shared.array("truncated")
        self._shared = shared
        return shared

    # answers of the workers

    def note_reset(self, env_id: int, is_object: bool, obs: object) -> None:
        """Record a reset; its observation is ``obs`` or in shared memory."""
        if is_object:
            self._obs_objects[env_id] = obs
        else:
            self._fresh.add(env_id)

    def note_plain_steps(self, env_ids: list[int]) -> list[int]:
        """Record steps that are completely described by shared memory. Return the envs whose episode ended."""
        if self._fresh:
            self._fresh.difference_update(env_ids)
        done = self._done.item
        return [env_id for env_id in env_ids if done(env_id)]

    def note_step(self, env_id: int, flags: int, payload: Any) -> tuple[bool, object]:
        """Record a step; ``payload`` is its timestep, or the info of the timestep in shared memory.

        Args:
            env_id: Id of the env.
            flags: Bits of :class:`Flag`.
            payload: Payload according to the flags.

        Returns:
            ``done`` and the info (for a game a list with one per player).
        """
        if flags & Flag.OBJECT:
            return self._note_object_step(env_id, flags, BaseEnvTimestep(*payload))
        if flags & Flag.NO_OBS:
            self._keep_obs(env_id)
        self._fresh.discard(env_id)
        if flags & Flag.REWARD:
            payload, self._rewards[env_id] = payload
        if payload:
            self._infos[env_id] = payload
        return bool(self._done[env_id]), payload or {}

    def _note_object_step(self, env_id: int, flags: int, timestep: BaseEnvTimestep) -> tuple[bool, object]:
        if flags & Flag.NO_OBS:
            timestep = timestep._replace(obs=self._obs_objects[env_id])
        if flags & Flag.NO_REWARD:
            self._unpaid.add(env_id)
        self._step_objects[env_id] = timestep
        self._obs_objects[env_id] = timestep.obs
        return bool(timestep.done), timestep.info

    def note_failure(self, env_id: int, info: dict[str, Any]) -> None:
        """Record a failed step: its timestep has the previous observation, no reward, and this info."""
        if self._shared is None:
            self._unpaid.add(env_id)
            self._step_objects[env_id] = BaseEnvTimestep(self._obs_objects[env_id], 0.0, False, info)
            return
        self._keep_obs(env_id)
        self._fresh.discard(env_id)
        self._reward[env_id] = 0.0
        self._form[env_id] = AS_COLUMN
        self._done[env_id] = self._truncated[env_id] = False
        self._infos[env_id] = info

    def _keep_obs(self, env_id: int) -> None:
        """Keep the observation before a step; the first one of an episode has a separate row."""
        # The worker is idle or dead, so its rows may be written here.
        if env_id in self._fresh:
            self._overwrite(self._obs, self._reset_obs, np.array([env_id]), np.array([env_id]))

    def goes_on(self, env_id: int) -> bool:
        """Return whether the episode of an env continues after its pending step."""
        timestep = self._step_objects.get(env_id)
        return not (self._done[env_id] if timestep is None else timestep.done)

    def forget(self, env_id: int) -> None:
        """Drop the timestep of an env that will not be returned."""
        for kept in (self._infos, self._rewards, self._step_objects):
            kept.pop(env_id, None)
        self._unpaid.discard(env_id)

    # returned data

    def observations(self, env_ids: Sequence[int], ids: np.ndarray) -> EnvBatch:
        """Return the current observations: after a reset the first one of the episode, else that of the last step."""
        if self._shared is None:
            return EnvBatch.from_dict({env_id: self._obs_objects[env_id] for env_id in env_ids})
        if self._fresh and not self._fresh.isdisjoint(env_ids):
            from_reset = np.array([env_id in self._fresh for env_id in env_ids])
            return self._with_given(EnvBatch.unchecked(ids, self._mixed(ids, from_reset)))
        return self._with_given(EnvBatch.unchecked(ids, self._rows(self._obs, ids)))

    def _with_given(self, batch: EnvBatch) -> EnvBatch:
        if self._numbers:
            batch.given = map_paths(partial(_given_number, self._numbers), batch.columns)
        return batch

    def timesteps(self, env_ids: Sequence[int], ids: np.ndarray, replaced: set[int]) -> TimestepBatch:
        """Return the timesteps of these envs, and drop them.

        Args:
            env_ids: Envs that answered a step.
            ids: The same, int64 ``[N]``.
            replaced: Envs whose final observation is replaced by the first one of the next episode.
        """
        if self._shared is None:
            steps = {env_id: self._object_step(env_id, replaced) for env_id in env_ids}
            return TimestepBatch.from_dict(self._all_paid(steps) if self._unpaid else steps)
        obs = self._rows(self._obs, ids) if not replaced else self._mixed(ids, np.isin(ids, list(replaced)))
        done, truncated = self._done[ids], self._truncated[ids]
        infos, reward = self._take_infos(env_ids, truncated), self._reward[ids].astype(np.float32)
        if self._rewards:
            # A failed step has none.
            taken = [self._rewards.pop(env_id, 0.0) for env_id in env_ids]
            reward = np.array(np.broadcast_arrays(*taken), dtype=np.float32)
        batch = TimestepBatch.unchecked_timesteps(ids, obs, reward, done, truncated, infos)
        if self._numbers:
            batch.given = map_paths(partial(_given_number, self._numbers), obs)
        if self._keep_forms and (codes := self._form[ids]).any():
            values = zip(list(reward), self._reward[ids], codes.tolist())
            batch.given_reward = [row if code == AS_COLUMN else coded_reward(x.item(), code) for row, x, code in values]
        return batch

    def _take_infos(self, env_ids: Sequence[int], truncated: np.ndarray) -> dict[int, dict[str, Any]]:
        infos: dict[int, dict[str, Any]] = {}
        if self._infos:
            for position, env_id in enumerate(env_ids):
                info = self._infos.pop(env_id, None)
                if info is not None:
                    infos[position] = info
        for position in truncated.nonzero()[0].tolist() if truncated.any() else ():
            infos.setdefault(position, {"TimeLimit.truncated": True})
        return infos

    def _object_step(self, env_id: int, replaced: set[int]) -> BaseEnvTimestep:
        timestep = self._step_objects.pop(env_id)
        return timestep._replace(obs=self._obs_objects[env_id]) if env_id in replaced else timestep

    def _all_paid(self, steps: dict[int, BaseEnvTimestep]) -> dict[int, BaseEnvTimestep]:
        """Return the timesteps, with reward 0 in the form of the others where it is missing."""
        unpaid = self._unpaid.intersection(steps)
        self._unpaid -= unpaid
        shape = next((np.shape(step.reward) for env_id, step in steps.items() if env_id not in unpaid), (1,))
        zero = np.zeros(shape, dtype=np.float32)
        return {env_id: step._replace(reward=zero) if env_id in unpaid else step for env_id, step in steps.items()}

    def _rows(self, columns: Columns, ids: np.ndarray) -> Columns:
        are_all = not self._copy and len(ids) == self._env_num and (np.diff(ids) == 1).all()
        rows: Columns = take(columns, slice(0, self._env_num) if are_all else ids)
        return rows

    def _mixed(self, ids: np.ndarray, from_reset: np.ndarray) -> Columns:
        positions = from_reset.nonzero()[0]
        rows: Columns = take(self._obs, ids)
        self._overwrite(rows, self._reset_obs, positions, ids[positions])
        return rows

    def _overwrite(self, rows: Columns, source: Columns, positions: np.ndarray, ids: np.ndarray) -> None:
        for (_, column), (_, other) in zip(iter_leaves(rows), iter_leaves(source)):
            column[positions] = other[ids]


def _given_number(numbers: dict[str, str], path: str, column: Any) -> object:
    """Return the column as a list if its rows are NumPy scalars or arrays without an axis, else unchanged.

    Args:
        numbers: Path -> ``number`` or ``array``.
        path: Path of the column.
        column: Column of N observations.
    """
    if path not in numbers:
        return column
    return list(column) if numbers[path] == "number" else [np.array(value) for value in column]
