"""Bookkeeping of env managers: states, episode counts, seeds and reset arguments of the envs.

State machine of one env::

    VOID --launch--> INIT --reset--> RESET --reset answered--> RUN --step says done--+
                                       ^                        |                    |
                                       |                        | step failed or     |
                                       |                        | info['abnormal']   |
                                       |                        v                    |
                                       +--reset({id})-------- ERROR                  |
                                       +--auto_reset, episodes left-----------------<+
                                       +--reset({id})-------- NEED_RESET <-----------+ no auto_reset, episodes left
                                                              DONE <-----------------+ episode_num reached

The class is not thread-safe: a manager that resets in the background must guard it with a lock.
"""

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ding.envs.env_manager._errors import EnvManagerError, bad_data
from ding.utils.seed import SeedTree

SeedLike: TypeAlias = "int | Sequence[int] | Mapping[int, int]"
ResetParam: TypeAlias = "Mapping[int, Any] | None"

# Attributes that a manager forwards as bound methods; other methods of an env are not for remote use.
METHOD_NAME_LIST = [
    "reset",
    "step",
    "seed",
    "close",
    "enable_save_replay",
    "render",
    "reward_shaping",
    "enable_save_figure",
]


class EnvState(enum.IntEnum):
    """State of one env of a manager."""

    VOID = 0
    INIT = 1
    RUN = 2
    RESET = 3
    DONE = 4
    ERROR = 5
    NEED_RESET = 6


class EnvLifecycle:
    """States, episode counts, seeds and reset arguments of ``env_num`` envs.

    Args:
        env_num: Number of envs.
        episode_num: Number of episodes that each env plays before it is DONE; ``inf``: unlimited.

    Attributes:
        states: State of each env. Changed only by the methods ``mark...``.
        ready_ids: Ids of the envs in state RUN, ascending. Do not modify the list.
        ready_array: The same as int64 ``[N]``; the same object until a state changes.
        last_seeds: Last seed of each env; ``None`` without one.
        seeds_vary: Whether each episode starts from its own seed, see :meth:`seed_episodes`.
    """

    def __init__(self, env_num: int, episode_num: float = math.inf) -> None:
        self.env_num = env_num
        self.episode_num = episode_num
        self.states = [EnvState.VOID] * env_num
        self.episode_counts = [0] * env_num
        self._step_failures = [0] * env_num
        self.last_seeds: list[int | None] = [None] * env_num
        self._given_seeds: list[int | None] = [None] * env_num
        # Per env, the number of finished episodes since all envs were reset together.
        self._episode_index = [0] * env_num
        self._seed_of: Callable[[int], int] | None = None
        self.seeds_vary = False
        self._dynamic: list[bool | None] = [None] * env_num
        self._pending: set[int] = set()
        self._renewals = [0] * env_num
        self._reset_params: list[dict[str, Any]] = [{} for _ in range(env_num)]
        self.ready_ids: list[int] = []
        self.ready_array = np.zeros(0, dtype=np.int64)

    # states

    def mark(self, env_id: int, state: EnvState) -> None:
        """Set the state of one env."""
        self.states[env_id] = state
        self._find_ready()

    def mark_some(self, env_ids: Iterable[int], state: EnvState) -> None:
        """Set the state of some envs."""
        for env_id in env_ids:
            self.states[env_id] = state
        self._find_ready()

    def mark_all(self, state: EnvState) -> None:
        """Set the state of all envs and, for INIT, reset the episode counts."""
        self.states = [state] * self.env_num
        self._find_ready()
        if state is EnvState.INIT:
            self.rewind()
            self.episode_counts = [0] * self.env_num
            self._step_failures = [0] * self.env_num

    def _find_ready(self) -> None:
        self.ready_ids = [i for i, state in enumerate(self.states) if state is EnvState.RUN]
        self.ready_array = np.array(self.ready_ids, dtype=np.int64)

    @property
    def all_done(self) -> bool:
        """Whether every env is DONE."""
        return all(state is EnvState.DONE for state in self.states)

    def check_running(self, ids: np.ndarray) -> list[int]:
        """Return the ids (int64 ``[N]``) as a list; raise ``AssertionError`` unless these envs are in state RUN."""
        env_ids: list[int] = ids.tolist()
        for env_id in env_ids:
            if not 0 <= env_id < self.env_num:
                raise AssertionError(f"there is no env {env_id}; ids are 0..{self.env_num - 1}")
            if self.states[env_id] is not EnvState.RUN:
                raise AssertionError(
                    f"env {env_id} cannot be stepped: its state is {self.states[env_id].name}, not RUN"
                )
        return env_ids

    def count_episode(self, env_id: int) -> bool:
        """Count a finished episode; return whether the env has more episodes to play."""
        self._step_failures[env_id] = 0
        self._episode_index[env_id] += 1
        self.episode_counts[env_id] += 1
        return self.episode_counts[env_id] < self.episode_num

    def count_step_failure(self, env_id: int, max_retry: int) -> bool:
        """Count a failed step; return whether at most ``max_retry`` occurred since the env's last finished episode."""
        self._step_failures[env_id] += 1
        return self._step_failures[env_id] <= max_retry

    # errors

    def error(self, kind: type[EnvManagerError], env_id: int, what: str, original: str = "") -> EnvManagerError:
        """Return an error with an env and its last seed; ``original`` is the traceback of the env's own error."""
        return kind(f"Env {env_id} {what}", env_id, self.last_seeds[env_id], original)

    def bad_data(self, env_id: int, what: str) -> EnvManagerError:
        """Return the error for an env that returned invalid data."""
        return bad_data(env_id, what, self.last_seeds[env_id])

    # seeds

    def set_seed(self, seed: SeedLike, dynamic_seed: bool | None = None) -> int:
        """Set seeds, which the envs get once, before their next reset.

        Args:
            seed: An int ``s`` gives env ``i`` the seed ``s + i``; a list has one seed per env; a dict maps env ids to
                seeds.
            dynamic_seed: Passed to ``env.seed`` unless it is ``None``.

        Returns:
            The first seed (for the manager's action space).

        Raises:
            TypeError: ``seed`` has another type.
            AssertionError: A list has a wrong length, or an env id is unknown.
        """
        seeds = self._seed_per_env(seed)
        self._seed_of = None
        for env_id, value in seeds.items():
            self._given_seeds[env_id] = self.last_seeds[env_id] = value
            self._episode_index[env_id] = 0
            self._dynamic[env_id] = dynamic_seed
            self._renewals[env_id] = 0
            self._pending.add(env_id)
        return next(iter(seeds.values()))

    def _seed_per_env(self, seed: SeedLike) -> dict[int, int]:
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            return {i: int(seed) + i for i in range(self.env_num)}
        if isinstance(seed, Mapping) and seed:
            unknown = [i for i in seed if not 0 <= i < self.env_num]
            if unknown:
                raise AssertionError(f"seeds for unknown envs {unknown}; ids are 0..{self.env_num - 1}")
            return {int(i): int(value) for i, value in seed.items()}
        if isinstance(seed, (list, tuple)):
            if len(seed) != self.env_num:
                raise AssertionError(f"{len(seed)} seeds for {self.env_num} envs; give one seed per env")
            return {i: int(value) for i, value in enumerate(seed)}
        raise TypeError(
            f"seed must be an int, a list of ints or a non-empty dict env id -> int, not {type(seed).__name__}"
        )

    def seed_episodes(self, seed_of: Callable[[int], int] | None = None) -> None:
        """Give each episode of an env its own seed, and repeat these seeds after each reset of all envs.

        Args:
            seed_of: Returns the seed of an episode; env ``i`` plays the episodes ``i``, ``i + env_num``,
                ``i + 2 * env_num``, ... ``None``: keep the function of an earlier call, or else derive the seeds of an
                env's later episodes from its own seed. Envs without a seed, or with a dynamic one, are unchanged.
        """
        self.seeds_vary = True
        if seed_of is not None:
            self._seed_of = seed_of
            self.rewind()
            self.last_seeds[:] = [seed_of(env_id) for env_id in range(self.env_num)]

    def rewind(self) -> None:
        """Restart from the first episodes, because all envs are about to be reset together."""
        self._episode_index = [0] * self.env_num

    def fixed_seed(self, env_id: int) -> int | None:
        """Return the seed of the next episode; ``None`` if its seed is dynamic or missing."""
        index, seed = self._episode_index[env_id], None
        if self._seed_of is not None:
            seed = self._seed_of(env_id + index * self.env_num)
        elif self._dynamic[env_id] is False:
            seed = self._given_seeds[env_id]
            if seed is not None and self.seeds_vary and index > 0:
                seed = SeedTree(abs(seed)).derived("evaluator", index=index, purpose="evaluate")
        if seed is not None:
            self.last_seeds[env_id] = seed
        return seed

    def take_seed(self, env_id: int) -> tuple[Any, ...] | None:
        """Return the arguments of ``env.seed`` before a reset; ``None`` if the env needs no new seed."""
        waits = env_id in self._pending
        self._pending.discard(env_id)
        if self.seeds_vary and (seed := self.fixed_seed(env_id)) is not None:
            return seed, False
        return self._seed_args(env_id) if waits else None

    def renewal_seed(self, env_id: int) -> tuple[Any, ...] | None:
        """Return the arguments of ``env.seed`` for a rebuilt env; ``None`` if its predecessor never got a seed.

        The fixed seed of an episode is kept. Otherwise the seed is derived from the last one and the number of
        rebuilds, so that the run stays reproducible without repeating the predecessor's episodes.
        """
        self._pending.discard(env_id)
        fixed, last = self.fixed_seed(env_id), self.last_seeds[env_id]
        if fixed is not None:
            return fixed, False
        if last is None:
            return None
        self._renewals[env_id] += 1
        sequence = np.random.SeedSequence([abs(last), self._renewals[env_id]])
        self.last_seeds[env_id] = int(sequence.generate_state(1)[0] & 0x7FFFFFFF)
        return self._seed_args(env_id)

    def _seed_args(self, env_id: int) -> tuple[Any, ...]:
        seed, dynamic = self.last_seeds[env_id], self._dynamic[env_id]
        return (seed,) if dynamic is None else (seed, dynamic)

    # reset arguments

    def remember_reset(self, reset_param: ResetParam) -> list[int]:
        """Store the reset arguments and return the ids of the envs to reset.

        Args:
            reset_param: ``None``: all envs with their stored arguments, restarting from their first episodes (see
                :meth:`rewind`); else env id -> keyword arguments, where ``None`` keeps the stored ones.
        """
        if reset_param is None:
            self.rewind()
            return list(range(self.env_num))
        for env_id, kwargs in reset_param.items():
            if not 0 <= env_id < self.env_num:
                raise AssertionError(f"reset of unknown env {env_id}; ids are 0..{self.env_num - 1}")
            if kwargs is not None:
                self._reset_params[env_id] = dict(kwargs)
        return list(reset_param)

    def reset_kwargs(self, env_id: int) -> dict[str, Any]:
        """Return the keyword arguments of this env's next reset."""
        return self._reset_params[env_id]
