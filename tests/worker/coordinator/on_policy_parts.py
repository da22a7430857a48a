"""An env whose every step has a number of its own, and a PPO that writes down what it learned from."""

import itertools
import os
from pathlib import Path

import gymnasium
import numpy as np

from ding.data import batched
from ding.envs.testing import CountingEnv
from ding.policy.command_mode_policy_instance import PPOCommandModePolicy
from ding.utils import ENV_REGISTRY, POLICY_REGISTRY
from ding.utils.file_helper import atomic_write

LENGTH = 7
_numbers = itertools.count()


@ENV_REGISTRY.register("numbered_env")
class NumberedEnv(CountingEnv):
    """A counting env; the observation is ``[number of the process, of the env, of the episode, of the step]``."""

    def __init__(self, cfg=None):
        super().__init__({"episode_length": LENGTH})
        self._id = np.array([os.getpid(), next(_numbers)])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, **kwargs):
        return self._numbered(super().reset(**kwargs))

    def step(self, action):
        timestep = super().step(int(np.asarray(action).flat[0]))
        return timestep._replace(obs=self._numbered(timestep.obs))

    def _numbered(self, obs):
        return np.concatenate([self._id, obs]).astype(np.float32)


@POLICY_REGISTRY.register("noted_ppo_command")
class NotedPPO(PPOCommandModePolicy):
    """PPO that writes each batch into a file ``learned/<number>_<pid>.npy``: int64 ``[B, 8]`` with the observation,
    ``collect_iter``, the own train iteration (counted from the first batch on), ``traj_flag``, and whether ``next_obs``
    is the step after.
    """

    _iteration = None

    @batched
    def _forward_learn(self, data):
        columns, folder = data.columns, Path("learned")
        folder.mkdir(exist_ok=True)
        obs, next_obs, versions = columns["obs"].numpy(), columns["next_obs"].numpy(), columns["collect_iter"]
        self._iteration = versions[0] if self._iteration is None else self._iteration
        follows = (next_obs[:, :3] == obs[:, :3]).all(1) & (next_obs[:, 3] == obs[:, 3] + 1)
        iterations = np.full(len(obs), self._iteration)
        rows = np.column_stack([obs, versions, iterations, columns["traj_flag"], follows])
        # Whole, for a test that counts the files reads them at once.
        with atomic_write(folder / f"{len(list(folder.glob('*.npy'))):04d}_{os.getpid()}.npy") as file:
            np.save(file, rows.astype(np.int64))
        results = super()._forward_learn(data)
        self._iteration += len(results)
        return results


def learned():
    """The files of :class:`NotedPPO` in their order."""
    return [np.load(path) for path in sorted(Path("learned").glob("*.npy"))]


def check(batches, n_sample):
    """Whole batches of the version that learned from them, each step once, segments in order."""
    for batch in batches:
        assert len(batch) >= n_sample
        assert (batch[:, 4] == batch[:, 5]).all()
        ends = batch[:, 6].astype(bool)
        assert ends[-1]
        # Within a segment the steps of one episode follow each other; the last step has its next observation.
        same = (batch[1:, :3] == batch[:-1, :3]).all(1) & (batch[1:, 3] == batch[:-1, 3] + 1)
        assert same[~ends[:-1]].all()
        assert batch[:, 7].all()
    steps = np.concatenate(batches)[:, :4]
    assert len(np.unique(steps, axis=0)) == len(steps)
    return steps


def holes(steps):
    """Envs (process and number) of which a step is missing before the last one that was learned from."""
    found = set()
    for env in np.unique(steps[:, :2], axis=0):
        own = steps[(steps[:, :2] == env).all(1)]
        numbers = np.sort(own[:, 2] * LENGTH + own[:, 3])
        if not np.array_equal(numbers, np.arange(len(numbers))):
            found.add(tuple(env.tolist()))
    return found
