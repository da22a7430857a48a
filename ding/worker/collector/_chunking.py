"""Parallel collectors that send their training samples in chunks.

A *span* says which steps became training samples: ``[env_id, episode, first_step, num_steps, num_samples]``, episodes
and steps counted from 0 since the collector began. The spans of an episode follow each other without gap or overlap,
so that a receiver of chunks can check that nothing is missing and nothing came twice.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from easydict import EasyDict

from ding.data import SchemaError, TransitionBatch
from ding.data.roles import ByEnv, CollectMode, EvalMode, Samples, StateDict
from ding.rollout import INF, WARN_STEPS, EndlessEpisodes, EpisodeRecord, Game, ReturnStatistics, Rollout, VectorStep
from ding.rollout.evaluation import seed_evaluation
from ding.rollout.record import ratio
from ding.rollout.rollout import as_float_tensors, statistics_of
from ding.torch_utils.weight_checks import misfit
from ding.utils import SeedTree
from ding.utils.compression_helper import get_data_compressor
from ding.worker._component import make_env_manager
from ding.worker.collector._grants import Grants
from ding.worker.collector._policy_feed import PolicyFeed
from ding.worker.collector.base_parallel_collector import BaseParallelCollector

Span: TypeAlias = list[int]

# How long a collector waits for a version of the policy before it looks whether that is still wanted.
_LOOK_S = 0.2

PARALLEL_CONFIG: dict[str, Any] = {
    # Vector steps between two lines of the log, which are at least 10 s apart.
    "print_freq": 5,
    # Kept for configs of DI-engine: chunks are read through memory maps, so they are never compressed.
    "compressor": "none",
    # Seconds between two looks for a new policy, where the comm layer cannot wait for one.
    "update_policy_second": 3,
    # Rows from which on a chunk of training samples is sent.
    "chunk_rows": 1024,
    # Seconds after which a smaller chunk is sent too.
    "chunk_seconds": 0.2,
    # Keep copies of observations: for env managers that write into arrays which they have handed out.
    "deepcopy_obs": False,
    # Give the policy float32 tensors.
    "transform_obs": False,
    # Steps of an episode of an evaluation after which a warning says that it does not end; None for no warning.
    "warn_steps": WARN_STEPS,
}


class ChunkingCollector(BaseParallelCollector):
    """A parallel collector of one or more players, each of which leaves chunks of training samples of its own.

    A subclass calls :meth:`_set_players` before the start.
    """

    def __init__(self, cfg: EasyDict) -> None:
        self._feeds: list[PolicyFeed] = []
        # On-policy: what the coordinator allows, the grant that is worked on, and the steps made and not sent.
        self._grants: Grants | None = None
        self._grant: Mapping[str, int] = {}
        self._granted_steps = 0
        super().__init__(cfg)
        self._options = {**PARALLEL_CONFIG, **cfg}
        get_data_compressor(self._options["compressor"])
        self.env_manager = make_env_manager(cfg.env, self._eval_flag)
        self._count_from_zero()

    def _count_from_zero(self) -> None:
        self._collector_done = False
        self._begin_s = time.monotonic()
        self._episodes = EpisodeRecord()
        self._returns = ReturnStatistics()

    def _begin_anew(self, cfg: EasyDict) -> None:
        """Forget the task that is over, but for policy and envs."""
        self._cfg = cfg
        self._join_thread()
        self._feeds.clear()
        self._end.clear()
        self._loop_over.clear()
        self._count_from_zero()

    def _set_players(
        self,
        policies: "Sequence[CollectMode | EvalMode]",
        settings: Sequence[dict[str, Any]],
        recorded: Sequence[bool],
        game: Game | None = None,
    ) -> None:
        """Take up the players; all trajectories that have begun are forgotten.

        Args:
            policies: per player its mode.
            settings: per player the keyword arguments of the forward.
            recorded: per player whether its steps become training samples.
            game: how an env is split among the players; ``None``: there is one.
        """
        env_num = self._env_manager.env_num
        self._policies = list(policies)
        self._settings = list(settings)
        self._policy_iters = [-1] * len(policies)
        # Which version chose the action that an env was sent last.
        self._acted_iters = np.full((len(policies), env_num), -1, dtype=np.int64)
        self._episodes.begin(env_num)
        if self._eval_flag:
            key = "policy.collect.collector.warn_steps"
            self._endless = EndlessEpisodes(env_num, self._options["warn_steps"], key)
        self._rollout = Rollout(
            self._env_manager,
            self._policies,
            [trajectory_length(policy) if record else None for policy, record in zip(policies, recorded)],
            self._episodes,
            game,
            as_float_tensors if self._options["transform_obs"] else None,
            self._options["deepcopy_obs"],
            self.info,
            evaluates=self._eval_flag,
        )
        on_policy = [p.get_attribute("on_policy") for p, record in zip(policies, recorded) if record]
        self._grants, self._granted_steps = (Grants() if any(on_policy) else None), 0
        if self._grants is not None and len(on_policy) > 1:
            raise AssertionError("policy.on_policy: one player of a game may collect on-policy, found several")
        # What an on-policy collector was granted becomes one chunk.
        limits = (self._options["chunk_rows"], self._options["chunk_seconds"]) if self._grants is None else (INF, INF)
        self._cutters = {
            player: ChunkCutter(self._rollout, player, partial(self._send_chunk, player), *limits)
            for player, record in enumerate(recorded)
            if record
        }

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """See :meth:`BaseParallelCollector.start`; launches the envs first, or those of the task before again."""
        statistics = None if self._eval_flag or not self._policies else statistics_of(self._policies[0])
        if statistics is not None and self.counted is not None:
            statistics.count_into(self.counted)
        envs = self._env_manager
        if (envs.closed or envs.done) and not self._end.is_set():
            seed = self._cfg.env.get("seed")
            if seed is not None and self._eval_flag:
                seed_evaluation(envs, int(seed))
            elif seed is not None:
                envs.seed(SeedTree(int(seed)).env_seeds(envs.env_num, "collector"))
            (envs.launch if envs.closed else envs.relaunch)()
        super().start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """See :meth:`BaseParallelCollector.stop`; a wait for a policy ends too."""
        self._end.set()
        for feed in self._feeds:
            feed.close()
        if self._grants is not None:
            self._grants.close()
        return super().stop(timeout_s)

    def _join_thread(self) -> None:
        for feed in self._feeds:
            feed.join(5.0)

    def _finish_task(self) -> None:
        self._flush()

    def _flush(self) -> None:
        for cutter in self._cutters.values():
            cutter.flush()

    # ------------------------------------------------------------------ policies

    def _fetch_policies(self, paths: Sequence[str], updated: Sequence[bool]) -> None:
        """Load the first version of each policy; keep those that are ``updated`` up to date from then on."""
        for player, path in enumerate(paths):
            feed = PolicyFeed(self.get_policy_update_info, path, self._options["update_policy_second"])
            self._feeds.append(feed)
            if self._end.is_set():
                feed.close()
            self._load(player, feed.first())
        if not self._eval_flag and not self._end.is_set():
            for feed, update in zip(self._feeds, updated):
                if update:
                    feed.start()

    def _load(self, player: int, version: "tuple[int, StateDict] | None") -> None:
        """Load a version; one that does not fit leaves the policy as it is.

        Raises:
            ValueError: it is the first one.
        """
        if version is not None:
            number, state = version
            policy = self._policies[player]
            # Anything else than a model, the policy itself judges.
            wrong = (
                misfit(state["model"], policy.state_dict().get("model", {}), "its model") if "model" in state else None
            )
            if wrong is not None:
                message = f"version {number} of the policy of player {player} is refused: {wrong}"
                if self._policy_iters[player] < 0:
                    raise ValueError(message)
                self.error(message)
                return
            # What the policy makes of its steps is made by the version that acted.
            if player in self._cutters:
                self._cutters[player].cut()
            if statistics_of(policy) is not None:
                # The first weights of a run have none, which is no fault of theirs.
                state = {"normalization": {}, **state}
            policy.load_state_dict(state)
            self._policy_iters[player] = number
            self.debug(f"player {player} loaded policy iteration {self._policy_iters[player]}")

    def _shown_iters(self) -> int | list[int]:
        """The iterations of the policies, as metadata and summary show them."""
        return list(self._policy_iters)

    # ------------------------------------------------------------------ grants

    def grant(self, grant: Mapping[str, int]) -> None:
        """The coordinator of an on-policy run allows ``steps`` env steps with the policy ``version``."""
        if self._grants is not None:
            self._grants.offer(grant)

    def _may_step(self) -> bool:
        """Wait, on-policy, for a grant and for the version of the policy that it names."""
        while self._grants is not None and (grant := self._grants.wait()) is not None:
            (player,) = self._cutters
            if self._policy_iters[player] == grant["version"]:
                self._grant = grant
                break
            newest = self._feeds[player].take(_LOOK_S)
            if newest is not None:
                self._send_granted()
                self._load(player, newest)
        return super()._may_step()

    def _count_granted(self, num_steps: int) -> None:
        """Once there are the steps of the grant, send them."""
        self._granted_steps += num_steps
        if self._grants is not None and self._granted_steps >= self._grant["steps"]:
            self._grants.use_up(self._grant)
            self._send_granted(self._grant["id"])

    def _send_granted(self, grant: int | None = None) -> None:
        """Send, on-policy, all steps since the last time; the segments that grow end here."""
        self._granted_steps = 0
        for player, cutter in self._cutters.items():
            self._rollout.cut_segments(0, player)
            cutter.note_finished()
            cutter.flush(grant)

    # ------------------------------------------------------------------ steps

    def _policy_inference(self, obs: ByEnv) -> ByEnv:
        for player, feed in enumerate(self._feeds):
            if self._grants is None:
                self._load(player, feed.take())
        self._acted_iters[:, list(obs)] = np.array(self._policy_iters)[:, None]
        return self._rollout.stepper.act(obs, self._settings)

    def _env_step(self, action: ByEnv) -> list[VectorStep]:
        return self._rollout.stepper.join(self._env_manager.step(action))

    def _process_timestep(self, timestep: list[VectorStep]) -> None:
        rollout = self._rollout
        extras = [{"collect_iter": acted} for acted in self._acted_iters]
        steps = rollout.record(timestep, extras, time.perf_counter())
        for cutter in self._cutters.values():
            if steps:
                cutter.note_finished()
            cutter.flush_if_due()
        if steps:
            if self._eval_flag:
                self._endless.note(steps[0].timesteps.env_ids, steps[0].timesteps.done)
            if steps[0].timesteps.done.any():
                for env_id, _ in rollout.end_episodes(steps):
                    self._end_episode(env_id)
                self._send_progress()
            self._count_granted(len(steps[0].timesteps))

    def _end_episode(self, env_id: int) -> float:
        """Note an episode that has ended; returns its return (player 0's, if there are several)."""
        episode = self._episodes.finished.pop(0)
        result: float = episode["reward"] if "reward" in episode else episode["reward0"]
        self._returns.add(result)
        return result

    # ------------------------------------------------------------------ messages

    def _progress(self) -> dict[str, int]:
        """The counts that go with everything that is sent."""
        episodes = self._episodes
        return {
            "cur_episode": episodes.episode_count,
            "cur_sample": episodes.train_sample_count,
            "cur_step": episodes.envstep,
        }

    def _send_progress(self) -> None:
        """Report how far the collector is. All that was collected before is sent before."""
        done = self._collector_done = bool(self._env_manager.done)
        if done:
            self._flush()
        self.send_metadata(
            {
                "eval_flag": self._eval_flag,
                "get_info_time": time.time(),
                "collector_done": done,
                **self._progress(),
            }
        )

    def _send_chunk(
        self, player: int, batch: TransitionBatch, spans: list[Span], iterations: tuple[int, int], grant: int | None
    ) -> None:
        data_id = f"chunk_{self._collector_uid}_{uuid.uuid4().hex}"
        self.send_stepdata(data_id, batch)
        self.send_metadata(
            {
                "eval_flag": self._eval_flag,
                "data_id": data_id,
                "policy_iter": self._shown_iters(),
                "collect_iter": iterations[0],
                "rows": len(batch),
                "unroll_len": sum(span[3] for span in spans),
                "spans": spans,
                "compressor": "none",
                "get_data_time": time.time(),
                "priority": 1.0,
                **self._progress(),
                **({"player": player} if len(self._policies) > 1 else {}),
                **({} if grant is None else {"grant": grant}),
            }
        )

    def get_finish_info(self) -> dict[str, Any]:
        """The summary of the task; ``train_iter`` is the policy's iteration (one per player of a game; -1: none).

        Ratios by 0 are 0; ``reward_raw`` has the last 10,000 returns.
        """
        duration_s = time.monotonic() - self._begin_s
        count, env_num = self._episodes, self._env_manager.env_num
        info = {
            "eval_flag": self._eval_flag,
            "train_iter": self._shown_iters(),
            "env_num": env_num,
            "duration": duration_s,
            "collector_done": self._collector_done,
            "predefined_episode_count": env_num * self._cfg.env.manager.get("episode_num", INF),
            "real_episode_count": count.episode_count,
            "step_count": count.envstep,
            "sample_count": count.train_sample_count,
            "avg_time_per_episode": ratio(duration_s, count.episode_count),
            "avg_time_per_step": ratio(duration_s, count.envstep),
            "avg_time_per_train_sample": ratio(duration_s, count.train_sample_count),
            "avg_step_per_episode": ratio(count.envstep, count.episode_count),
            "avg_sample_per_episode": ratio(count.train_sample_count, count.episode_count),
            "reward_mean": self._returns.mean,
            "reward_std": self._returns.std,
            "reward_min": min(self._returns.last, default=0.0),
            "reward_max": max(self._returns.last, default=0.0),
            "reward_raw": list(self._returns.last),
            "finish_time": datetime.now().timestamp(),
        }
        return info if self._eval_flag else {**info, "collect_setting": self._cfg.get("collect_setting", None)}

    def __repr__(self) -> str:
        count = self._env_manager.env_num
        return f"{type(self).__name__}({self._prefix.lower()}, {count} envs, {self._collector_uid})"


def trajectory_length(policy: "CollectMode | EvalMode") -> float:
    """Steps after which a trajectory is cut: ``n_sample``, or no end when ``n_episode`` is set.

    Raises:
        AssertionError: neither is set.
    """
    if policy.get_attribute("n_episode") is not None:
        return INF
    n_sample: float = policy.get_attribute("n_sample")
    if n_sample is None:
        raise AssertionError("policy.collect needs n_sample or n_episode: how long a trajectory is, is unknown")
    return n_sample


# Sends a batch with the spans of its segments, the oldest and newest policy iteration among its samples, and the id of
# the grant that it completes.
SendChunk = Callable[[TransitionBatch, list[Span], tuple[int, int], "int | None"], None]


class ChunkCutter:
    """Makes chunks of about equal size of the segments that a player finishes. A segment is never cut in two, and those
    of a chunk become samples together.

    Args:
        rollout: has the segments.
        player: whose they are.
        send: takes a chunk that is complete.
        chunk_rows: rows from which on a chunk is complete.
        chunk_seconds: seconds after which a smaller one is complete too, so that data does not become old here.
    """

    def __init__(self, rollout: Rollout, player: int, send: SendChunk, chunk_rows: float, chunk_seconds: float) -> None:
        if chunk_rows < 1:
            raise ValueError(f"chunk_rows must be at least 1, found {chunk_rows}")
        if chunk_seconds < 0:
            raise ValueError(f"chunk_seconds must be 0 or more, found {chunk_seconds}")
        self._rollout, self._player, self._send = rollout, player, send
        self._chunk_rows, self._chunk_seconds = chunk_rows, chunk_seconds
        self._clear()

    def _clear(self) -> None:
        # Of each vector step with which segments finished that are no samples yet: the environments, the numbers of
        # their episodes, and the steps that these had.
        self._finished: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._parts: list[Samples] = []
        self._spans: list[Span] = []
        self._rows = 0
        self._begin_s = INF

    def note_finished(self) -> None:
        """Note the segments that the last step or cut of the rollout has finished."""
        env_ids, episodes = self._rollout.finished[self._player], self._rollout.episodes
        if len(env_ids):
            self._finished.append((env_ids, episodes.numbers[env_ids], episodes.steps[env_ids]))
            self._begin_s = min(self._begin_s, time.monotonic())

    def cut(self) -> None:
        """Make samples of the segments that have finished."""
        finished, self._finished = self._finished, []
        if finished:
            taken = self._rollout.take_samples(self._player)
            env_ids, numbers, ends = map(np.concatenate, zip(*finished))
            columns = [env_ids, numbers, ends - taken.num_steps, taken.num_steps, taken.num_samples]
            self._parts.append(taken.samples)
            self._spans.extend(np.stack(columns, axis=1).tolist())
            self._rows += len(taken.samples)

    def flush_if_due(self) -> None:
        """Send a chunk that is complete."""
        segments = self._rollout.segments[self._player]
        assert segments is not None  # its steps become samples
        if self._is_due(segments.samples_waiting):
            self.cut()
            if self._is_due():
                self.flush()

    def _is_due(self, num_more: float = 0) -> bool:
        return self._rows + num_more >= self._chunk_rows or time.monotonic() - self._begin_s >= self._chunk_seconds

    def flush(self, grant: int | None = None) -> None:
        """Send what there is; it completes the grant with this id."""
        self.cut()
        parts, spans = [part for part in self._parts if len(part)], self._spans
        self._clear()
        if parts:
            batch = _one_batch(parts)
            self._send(batch, joined_spans(spans), _iterations(batch), grant)


def _one_batch(parts: Sequence[Samples]) -> TransitionBatch:
    batches = [TransitionBatch.of(part) for part in parts]
    try:
        return TransitionBatch.unchecked(TransitionBatch.concat(batches).columns, sum(map(len, batches)))
    except SchemaError as error:
        raise SchemaError(
            f"the training samples of one chunk must all have the same fields, dtypes and shapes: {error}"
        ) from error


def _iterations(batch: TransitionBatch) -> tuple[int, int]:
    """Smallest and largest ``collect_iter`` of a chunk; sequence samples have one per step."""
    column = batch.columns.get("collect_iter")
    if column is None:
        return -1, -1
    values = np.asarray(column, dtype=np.int64)
    return int(values.min()), int(values.max())


def joined_spans(spans: list[Span]) -> list[Span]:
    """The same spans, those that follow each other made one."""
    last: dict[tuple[int, int], Span] = {}
    joined: list[Span] = []
    for env_id, episode, first, steps, samples in spans:
        before = last.get((env_id, episode))
        if before is not None and before[2] + before[3] == first:
            before[3] += steps
            before[4] += samples
        else:
            span = [env_id, episode, first, steps, samples]
            last[env_id, episode] = span
            joined.append(span)
    return joined
