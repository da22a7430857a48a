"""The parallel collector for one policy."""

from typing import Any

import numpy as np
from easydict import EasyDict

from ding.data import EnvBatch, TransitionBatch
from ding.policy import create_policy
from ding.utils import PARALLEL_COLLECTOR_REGISTRY
from ding.worker.collector._parallel_common import PARALLEL_CONFIG, ChunkingCollector, complete, trajectory_length
from ding.worker.collector._parallel_ledger import PieceLedger, Span
from ding.worker.collector._parallel_policy import PolicyFeed
from ding.worker.collector._rollout import Rollout, VectorStep, drop_abnormal
from ding.worker.collector._transitions import make_transitions


@PARALLEL_COLLECTOR_REGISTRY.register("zergling")
class ZerglingParallelCollector(ChunkingCollector):
    """Collects with one policy, or evaluates it.

    Trajectories are cut at the end of an episode and, with ``n_sample``, after that many steps; each piece goes through
    ``policy.get_train_sample``. Samples leave in chunks of about ``chunk_rows`` rows, at the latest after
    ``chunk_seconds``. A new version of the policy is loaded between two steps; the ``collect_iter`` of a transition is
    the version that chose its action.

    Args:
        cfg: the config of the task: what :attr:`config` lists, and ``env``, ``policy``, ``collect_setting`` (keyword
            arguments of the forward), ``eval_flag``, ``policy_update_path``, ``exp_name``.

    Raises:
        AssertionError: a collecting policy has neither ``n_sample`` nor ``n_episode``.
    """

    config = dict(PARALLEL_CONFIG)

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        self._policy_iter = -1
        self._feed: PolicyFeed | None = None
        policy = create_policy(cfg.policy, enable_field=["eval" if self._eval_flag else "collect"])
        self.policy = policy.eval_mode if self._eval_flag else policy.collect_mode

    @property
    def policy(self) -> Any:
        """The collect mode (the eval mode of an evaluator). Setting it forgets all trajectories that have begun."""
        return self._policy

    @policy.setter
    def policy(self, _policy: Any) -> None:
        self._policy = _policy
        deepcopy = self._cfg.get("deepcopy_obs", False)
        self._rollout = Rollout(self._env_manager, _policy, self._cfg.get("transform_obs", False), deepcopy)
        self._ledger = PieceLedger(self._env_num)
        self._acted_iter = np.full(self._env_num, self._policy_iter, dtype=np.int64)
        if not self._eval_flag:
            self._traj_len = trajectory_length(_policy)
            self._transitions = make_transitions(_policy, self._env_num, self._traj_len, deepcopy)
            self._cutters = [self._make_cutter(self._send_samples)]

    # ------------------------------------------------------------------ steps

    def _policy_inference(self, obs: Any) -> Any:
        self._load_newer_policy()
        setting = {} if self._eval_flag else dict(self._cfg.get("collect_setting", None) or {})
        actions = self._rollout.infer(obs, setting)
        self._acted_iter[actions.env_ids if isinstance(actions, EnvBatch) else list(actions)] = self._policy_iter
        return actions

    def _env_step(self, action: Any) -> VectorStep:
        return self._rollout.join(self._env_manager.step(action))

    def _process_timestep(self, timestep: VectorStep) -> None:
        step, abnormal = drop_abnormal(timestep)
        if len(abnormal):
            self._restart(abnormal)
        env_ids, done = step.timesteps.env_ids, step.timesteps.done
        if len(env_ids):
            self._tally.step_count += len(env_ids)
            self._ledger.advance(env_ids)
            if not self._eval_flag:
                self._record(step)
            if done.any():
                self._finish_episodes(step)
        if not self._eval_flag:
            self._cutters[0].flush_if_old()

    def _record(self, step: VectorStep) -> None:
        env_ids = step.timesteps.env_ids
        self._transitions.append(step, {"collect_iter": self._acted_iter})
        full = complete(env_ids, step.timesteps.done, self._transitions.counts, self._traj_len)
        if len(full):
            samples, per_piece = self._transitions.pop_samples(full)
            self._tally.sample_count += len(samples)
            self._cutters[0].add(samples, self._ledger.cut(full, per_piece))

    def _finish_episodes(self, step: VectorStep) -> None:
        timesteps = step.timesteps
        ended = np.flatnonzero(timesteps.done)
        for position in ended.tolist():
            env_id = int(timesteps.env_ids[position])
            self._end_episode(timesteps.info_at(position), env_id)
            self._policy.reset([env_id])
        self._ledger.end_episodes(timesteps.env_ids[ended])
        self._send_progress()

    def _restart(self, env_ids: np.ndarray) -> None:
        ids = env_ids.tolist()
        for env_id in ids:
            self._env_manager.reset({env_id: None})
        self.info(f"envs {ids} returned an abnormal step and were reset; the pieces that they had begun are dropped")
        self._rollout.forget(ids)
        self._ledger.end_episodes(env_ids)
        self._policy.reset(ids)
        if not self._eval_flag:
            self._transitions.clear(env_ids)

    # ------------------------------------------------------------------ policy

    def _update_policy(self) -> None:
        self._feed = self._make_feed(self._cfg.policy_update_path)
        self._load(self._feed.first())

    def _load_newer_policy(self) -> None:
        if self._feed is not None and not self._eval_flag:
            self._load(self._feed.take())

    def _load(self, version: "tuple[int, dict[str, Any]] | None") -> None:
        if version is not None:
            self._policy_iter, state = version
            self._policy.load_state_dict(state)
            self.debug(f"loaded policy iteration {self._policy_iter}")

    # ------------------------------------------------------------------ what is told

    def _send_samples(self, batch: TransitionBatch, spans: list[Span], iterations: tuple[int, int]) -> None:
        self._send_chunk(batch, spans, self._policy_iter, iterations[0])

    def get_finish_info(self) -> dict[str, Any]:
        """The summary of the task; ``train_iter`` is the policy's iteration (-1: none was loaded)."""
        info = {
            "eval_flag": self._eval_flag,
            "train_iter": self._policy_iter,
            **self._tally.finish_info(self._collector_done),
        }
        if not self._eval_flag:
            info["collect_setting"] = self._cfg.get("collect_setting", None)
        return info

    def __repr__(self) -> str:
        return f"ZerglingParallelCollector({self._prefix.lower()}, {self._env_num} envs, {self._collector_uid})"
