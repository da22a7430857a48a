"""Parallel collector of a single policy."""

from typing import Any

from easydict import EasyDict

from ding.data.roles import CollectMode, EvalMode
from ding.policy import create_policy
from ding.utils import PARALLEL_COLLECTOR_REGISTRY
from ding.worker.collector._chunking import PARALLEL_CONFIG, ChunkingCollector


@PARALLEL_COLLECTOR_REGISTRY.register("zergling")
class ZerglingParallelCollector(ChunkingCollector):
    """Collects with one policy, or evaluates it.

    Trajectories are cut at the end of an episode and, with ``n_sample``, after that many steps; each segment is passed
    to ``policy.get_train_sample``. Samples are sent in chunks of about ``chunk_rows`` rows, at the latest after
    ``chunk_seconds``. A new policy version is loaded between two steps; the ``collect_iter`` of a transition is the
    version that selected its action.

    Args:
        cfg: Config of the task: the keys of :attr:`config`, and ``env``, ``policy``, ``collect_setting`` (keyword
            arguments of the forward), ``eval_flag``, ``policy_update_path``, ``exp_name``.

    Raises:
        AssertionError: A collecting policy has neither ``n_sample`` nor ``n_episode``.
    """

    config = dict(PARALLEL_CONFIG)

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        policy = create_policy(cfg.policy, enable_field=["eval" if self._eval_flag else "collect"])
        self.policy = policy.eval_mode if self._eval_flag else policy.collect_mode

    @property
    def policy(self) -> "CollectMode | EvalMode":
        """Collect mode (eval mode of an evaluator). Setting it discards all unfinished trajectories."""
        return self._policies[0]

    @policy.setter
    def policy(self, _policy: "CollectMode | EvalMode") -> None:
        setting = {} if self._eval_flag else dict(self._cfg.get("collect_setting", None) or {})
        self._set_players([_policy], [setting], [not self._eval_flag])

    @property
    def reusable(self) -> bool:
        """See :attr:`BaseParallelCollector.reusable`; False for subclasses, which may keep state of a task."""
        envs = self._env_manager
        done = self._loop_over.is_set() and not envs.closed and envs.done and hasattr(envs, "relaunch")
        return done and type(self) is ZerglingParallelCollector

    def take_next_task(self, cfg: EasyDict) -> bool:
        """See :meth:`BaseParallelCollector.take_next_task`."""
        if _lasting(cfg) != _lasting(self._cfg):
            return False
        self._begin_anew(cfg)
        self.policy = self.policy
        return True

    def _update_policy(self) -> None:
        self._fetch_policies([self._cfg.policy_update_path], [True])

    def _shown_iters(self) -> int:
        return self._policy_iters[0]


def _lasting(cfg: EasyDict) -> dict[str, Any]:
    """Return the parts of the config that define policy and envs; the seed is excluded, as a relaunch changes it."""
    return {**cfg, "collect_setting": None, "policy_update_path": None, "env": {**cfg.env, "seed": None}}
