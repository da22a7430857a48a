"""Base class of parallel collectors that send their training samples in chunks.

A *span* identifies the steps that became training samples: ``[env_id, episode, first_step, num_steps, num_samples]``,
with episodes and steps counted from 0 since the start of the collector. The spans of an episode are contiguous and do
not overlap, so a receiver can detect missing and duplicate chunks.
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

# Seconds of one wait for a policy version; afterwards the collector checks whether it is still needed.
_LOOK_S = 0.2

PARALLEL_CONFIG: dict[str, Any] = {
    # Vector steps between two log lines, which are at least 10 s apart.
    "print_freq": 5,
    # Accepted for configs of DI-engine; chunks are memory-mapped and therefore never compressed.
    "compressor": "none",
    # Seconds between two polls for a new policy, if the comm layer cannot wait for one.
    "update_policy_second": 3,
    # Minimum number of rows of a chunk of training samples.
    "chunk_rows": 1024,
    # Seconds after which a smaller chunk is sent.
    "chunk_seconds": 0.2,
    # Copy observations; needed for env managers that write into arrays they have returned.
    "deepcopy_obs": False,
    # Convert the policy's input to float32 tensors.
    "transform_obs": False,
    # Steps of an evaluation episode after which a warning reports that it does not end; None: no warning.
    "warn_steps": WARN_STEPS,
}


class ChunkingCollector(BaseParallelCollector):
    """Parallel collector of one or more players, each with its own chunks of training samples.

    Subclasses call :meth:`_set_players` before the start.
    """

    def __init__(self, cfg: EasyDict) -> None:
        self._feeds: list[PolicyFeed] = []
        # On-policy: the grants of the coordinator, the current grant, and the steps that are not sent yet.
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
        """Reset the state of the last task; policy and envs stay."""
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
        """Set the players and discard all unfinished trajectories.

        Args:
            policies: Mode of each player.
            settings: Keyword arguments of the forward, per player.
            recorded: Whether the steps become training samples, per player.
            game: How an env is split among the players; ``None``: a single player.
        """
        env_num = self._env_manager.env_num
        self._policies = list(policies)
        self._settings = list(settings)
        self._policy_iters = [-1] * len(policies)
        # Policy version that chose the last action sent to each env.
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
        # Each grant of an on-policy collector becomes one chunk.
        limits = (self._options["chunk_rows"], self._options["chunk_seconds"]) if self._grants is None else (INF, INF)
        self._cutters = {
            player: ChunkCutter(self._rollout, player, partial(self._send_chunk, player), *limits)
            for player, record in enumerate(recorded)
            if record
        }

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Launch the envs, or relaunch those of the last task; see :meth:`BaseParallelCollector.start`."""
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
        """Also abort the wait for a policy; see :meth:`BaseParallelCollector.stop`."""
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
        """Load the first version of each policy; keep those marked ``updated`` up to date."""
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
        """Load a version; a version that does not fit leaves the policy unchanged.

        Raises:
            ValueError: The first version does not fit.
        """
        if version is not None:
            number, state = version
            policy = self._policies[player]
            # Only models are checked here; the policy checks the rest.
            wrong = (
                misfit(state["model"], policy.state_dict().get("model", {}), "its model") if "model" in state else None
            )
            if wrong is not None:
                message = f"version {number} of the policy of player {player} is refused: {wrong}"
                if self._policy_iters[player] < 0:
                    raise ValueError(message)
                self.error(message)
                return
            # Train samples are built by the version that acted.
            if player in self._cutters:
                self._cutters[player].cut()
            if statistics_of(policy) is not None:
                # The first weights of a run have no iteration; this is not an error.
                state = {"normalization": {}, **state}
            policy.load_state_dict(state)
            self._policy_iters[player] = number
            self.debug(f"player {player} loaded policy iteration {self._policy_iters[player]}")

    def _shown_iters(self) -> int | list[int]:
        """Return the iterations of the policies for metadata and summary."""
        return list(self._policy_iters)

    # ------------------------------------------------------------------ grants

    def grant(self, grant: Mapping[str, int]) -> None:
        """Accept a grant of ``steps`` env steps with the policy ``version`` (on-policy runs)."""
        if self._grants is not None:
            self._grants.offer(grant)

    def _may_step(self) -> bool:
        """Wait, on-policy, for a grant and for the policy version that it names."""
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
        """Count steps of the current grant, and send them once it is used up."""
        self._granted_steps += num_steps
        if self._grants is not None and self._granted_steps >= self._grant["steps"]:
            self._grants.use_up(self._grant)
            self._send_granted(self._grant["id"])

    def _send_granted(self, grant: int | None = None) -> None:
        """Send, on-policy, all steps since the last call; unfinished segments end here."""
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
        """Record the end of an episode and return its return (that of player 0 in a game)."""
        episode = self._episodes.finished.pop(0)
        result: float = episode["reward"] if "reward" in episode else episode["reward0"]
        self._returns.add(result)
        return result

    # ------------------------------------------------------------------ messages

    def _progress(self) -> dict[str, int]:
        """Return the counters that accompany every message."""
        episodes = self._episodes
        return {
            "cur_episode": episodes.episode_count,
            "cur_sample": episodes.train_sample_count,
            "cur_step": episodes.envstep,
        }

    def _send_progress(self) -> None:
        """Report the progress, after sending everything collected before."""
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
        """Return the summary of the task. ``train_iter`` is the policy iteration (one per player of a game; -1: none).

        Ratios with a zero denominator are 0; ``reward_raw`` holds the last 10,000 returns.
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
    """Return the maximum number of steps of a trajectory: ``n_sample``, or infinity if ``n_episode`` is set.

    Raises:
        AssertionError: Neither is set.
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
    """Cuts the finished segments of a player into chunks of about equal size.

    A segment is never split. The segments of a chunk are converted to samples together.

    Args:
        rollout: Rollout that provides the segments.
        player: Index of the player.
        send: Receives each complete chunk.
        chunk_rows: Number of rows from which on a chunk is complete.
        chunk_seconds: Seconds after which a smaller chunk is complete; limits the age of the data.
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
        # For each vector step with finished segments that are not converted yet: the environments, their episode
        # numbers, and the numbers of steps.
        self._finished: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._parts: list[Samples] = []
        self._spans: list[Span] = []
        self._rows = 0
        self._begin_s = INF

    def note_finished(self) -> None:
        """Record the segments that the last step or cut of the rollout finished."""
        env_ids, episodes = self._rollout.finished[self._player], self._rollout.episodes
        if len(env_ids):
            self._finished.append((env_ids, episodes.numbers[env_ids], episodes.steps[env_ids]))
            self._begin_s = min(self._begin_s, time.monotonic())

    def cut(self) -> None:
        """Convert the finished segments to samples."""
        finished, self._finished = self._finished, []
        if finished:
            taken = self._rollout.take_samples(self._player)
            env_ids, numbers, ends = map(np.concatenate, zip(*finished))
            columns = [env_ids, numbers, ends - taken.num_steps, taken.num_steps, taken.num_samples]
            self._parts.append(taken.samples)
            self._spans.extend(np.stack(columns, axis=1).tolist())
            self._rows += len(taken.samples)

    def flush_if_due(self) -> None:
        """Send the chunk if it is complete."""
        segments = self._rollout.segments[self._player]
        assert segments is not None  # its steps become samples
        if self._is_due(segments.samples_waiting):
            self.cut()
            if self._is_due():
                self.flush()

    def _is_due(self, num_more: float = 0) -> bool:
        return self._rows + num_more >= self._chunk_rows or time.monotonic() - self._begin_s >= self._chunk_seconds

    def flush(self, grant: int | None = None) -> None:
        """Send the remaining rows; they complete the grant with this id."""
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
    """Return the smallest and largest ``collect_iter`` of a chunk; sequence samples have one per step."""
    column = batch.columns.get("collect_iter")
    if column is None:
        return -1, -1
    values = np.asarray(column, dtype=np.int64)
    return int(values.min()), int(values.max())


def joined_spans(spans: list[Span]) -> list[Span]:
    """Merge consecutive spans."""
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
