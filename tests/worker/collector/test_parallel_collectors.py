"""The parallel collectors on the counting env: what is sent, in which order, and what is counted."""

import threading
import time

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, batched
from ding.envs.testing import CountingEnv, InjectedFault
from ding.utils import ENV_REGISTRY, POLICY_REGISTRY
from ding.worker import (
    BaseParallelCollector,
    MarineParallelCollector,
    ZerglingParallelCollector,
    create_parallel_collector,
    get_parallel_collector_cls,
)
from ding.worker.collector._chunking import joined_spans
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy

FINISH_KEYS = {
    "eval_flag", "env_num", "duration", "train_iter", "collector_done", "predefined_episode_count",
    "real_episode_count", "step_count", "sample_count", "avg_time_per_episode", "avg_time_per_step",
    "avg_time_per_train_sample", "avg_step_per_episode", "avg_sample_per_episode", "reward_mean", "reward_std",
    "reward_min", "reward_max", "reward_raw", "finish_time", "collect_setting",
}  # fmt: skip


def _scripted(base):
    class Policy(base):
        """A scripted policy that is built from a config, whose action is its weight."""

        def __init__(self, cfg, model=None, enable_field=None):
            super().__init__(
                action=lambda env_id, step: int(self.weights["weight"][0]),
                attributes={"cfg": cfg, **{key: cfg.collect.get(key) for key in ("n_sample", "n_episode")}},
            )
            self.made_for = enable_field

    return Policy


class _Misfits(ScriptedPolicy):
    """No two of its samples are of one shape."""

    def _get_train_sample(self, transitions):
        return [{**row, "hint": torch.zeros(int(1000 * row["obs"][0] + row["obs"][1]))} for row in transitions]


class _Noting(BatchedScriptedPolicy):
    """Notes of how many steps it makes samples at once, and with which weight."""

    made: list[tuple[int, int]]

    @batched
    def _get_train_sample(self, transitions):
        self.made = [*getattr(self, "made", []), (len(transitions), int(self.weights["weight"][0]))]
        return super()._get_train_sample(transitions)


POLICY_REGISTRY.register("parallel_misfits", _scripted(_Misfits))
POLICY_REGISTRY.register("parallel_noting", _scripted(_Noting))
for _name, _base in {"parallel_scripted": BatchedScriptedPolicy, "parallel_scripted_rows": ScriptedPolicy}.items():
    POLICY_REGISTRY.register(_name, _scripted(_base))


@ENV_REGISTRY.register("parallel_counting")
class _LengthsEnv(CountingEnv):
    """Counting envs whose lengths go by their number."""

    @staticmethod
    def create_collector_env_cfg(cfg):
        return [EasyDict({**cfg, "episode_length": length}) for length in cfg.lengths]

    create_evaluator_env_cfg = create_collector_env_cfg


@ENV_REGISTRY.register("parallel_game")
class _GameEnv(_LengthsEnv):
    """Two players see the counting env, player 1 with 100 added; player 0 gets the reward, player 1 its negative."""

    def reset(self, **kwargs):
        return self._both(super().reset(**kwargs))

    def step(self, action):
        timestep = super().step(int(np.asarray(action).flat[0]))
        info = dict(timestep.info)
        if timestep.done:
            result = info["eval_episode_return"] * self.sign
            info["eval_episode_return"] = np.array([result, -result], dtype=np.float32)
        reward = [timestep.reward * self.sign, -timestep.reward * self.sign]
        return timestep._replace(obs=self._both(timestep.obs), reward=reward, info=info)

    sign = 1.0

    def _both(self, obs):
        return np.stack([obs, obs + 100])


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(*lengths, episodes=2, eval_flag=False, policy="parallel_scripted", n_sample=4, n_episode=None, **changes):
    env_cfg = {"type": changes.pop("env", "parallel_counting"), "lengths": list(lengths), **changes.pop("env_cfg", {})}
    manager = {"type": "base", "episode_num": episodes, **changes.pop("manager", {})}
    cfg = {
        **ZerglingParallelCollector.default_config(),
        "type": "zergling",
        "exp_name": "exp",
        "eval_flag": eval_flag,
        "env": {**env_cfg, "manager": manager},
        "policy": {"type": policy, "on_policy": False, "collect": {"n_sample": n_sample, "n_episode": n_episode}},
        "policy_update_path": "policy_0",
        "collect_setting": {"eps": 0.5},
        "chunk_rows": 1,
    }
    return EasyDict({**cfg, **changes})


class Comm:
    """Takes what a collector sends, and gives it policies."""

    def __init__(self, collector, versions=((0, 0.0),)):
        self.batches, self.metas, self.infos, self.events = {}, [], [], []
        self.versions = list(versions)
        collector.send_stepdata = self.send_stepdata
        collector.send_metadata = self.send_metadata
        collector.get_policy_update_info = self.get_policy_update_info

    def send_stepdata(self, data_id, batch):
        self.batches[data_id] = batch
        self.events.append("data")

    def send_metadata(self, meta):
        if "data_id" in meta:
            assert meta["data_id"] in self.batches
            self.metas.append(meta)
            self.events.append("meta")
        else:
            self.infos.append(meta)
            self.events.append("info")

    def get_policy_update_info(self, path, newer_than=-1, timeout_s=0.0):
        version, weight = self.versions[0] if len(self.versions) == 1 else self.versions.pop(0)
        if version == newer_than:
            time.sleep(min(timeout_s, 0.01))
            return None
        return {"model": {"weight": torch.full((2,), weight)}, "iter": version}

    def rows(self, player=None):
        """(env's second obs is the step, its first the episode): all rows as (episode, step) in the order sent."""
        found = []
        for meta in self.metas:
            if player is None or meta["player"] == player:
                found += [tuple(row) for row in np.asarray(self.batches[meta["data_id"]].columns["obs"]).tolist()]
        return found


def run(cfg, **kwargs):
    collector = create_parallel_collector(cfg)
    comm = Comm(collector, **kwargs)
    collector.start()
    collector.close()
    return collector, comm


def test_a_subclass_overrides_the_steps_of_the_original():
    called = []

    def noted(name):
        def method(self):
            called.append(name)
            return getattr(super(Own, self), name)()

        return method

    names = ("_setup_logger", "_setup_timer", "_iter_after_hook", "_finish_task")
    Own = type("Own", (ZerglingParallelCollector,), {name: noted(name) for name in names})
    collector = Own(config(3, episodes=1))
    Comm(collector)
    collector.start()
    collector.close()
    assert called == ["_setup_logger", "_setup_timer", *["_iter_after_hook"] * 3, "_finish_task"]


class TestZergling:
    @pytest.mark.parametrize("policy", ["parallel_scripted", "parallel_scripted_rows"])
    @pytest.mark.parametrize("chunk_rows", [1, 5, 1000])
    def test_every_transition_of_every_episode_is_sent_once(self, policy, chunk_rows):
        collector, comm = run(config(3, 6, policy=policy, n_sample=4, chunk_rows=chunk_rows))
        wanted = [(e, t) for length in (3, 6) for e in range(2) for t in range(length)]
        assert sorted(comm.rows()) == sorted(wanted)
        # The episodes of the second env come in pieces of 4 and 2 steps.
        sizes = [len(batch) for batch in comm.batches.values()]
        assert sum(sizes) == 18
        assert (len(sizes) > 1) == (chunk_rows < 18)
        assert all(size >= chunk_rows for size in sizes[:-1])

    def test_samples_have_the_classic_columns_and_nothing_of_the_metadata(self):
        _, comm = run(config(3))
        batch = next(iter(comm.batches.values()))
        assert isinstance(batch, TransitionBatch)
        assert set(batch.columns) == {"obs", "next_obs", "action", "reward", "done", "collect_iter"}
        assert batch.columns["obs"].dtype == torch.float32

    def test_n_episode_sends_whole_episodes(self):
        _, comm = run(config(3, 7, n_sample=None, n_episode=4))
        assert sorted(meta["rows"] for meta in comm.metas) == [3, 3, 7, 7]

    def test_neither_n_sample_nor_n_episode(self):
        with pytest.raises(AssertionError, match="n_sample or n_episode"):
            create_parallel_collector(config(3, n_sample=None))

    def test_the_metadata_of_a_chunk(self):
        collector, comm = run(config(3, n_sample=2), versions=[(7, 0.0)])
        first, last = comm.metas[0], comm.metas[-1]
        assert first == {
            "eval_flag": False,
            "data_id": first["data_id"],
            "policy_iter": 7,
            "collect_iter": 7,
            "rows": 2,
            "unroll_len": 2,
            "spans": [[0, 0, 0, 2, 2]],
            "compressor": "none",
            "get_data_time": first["get_data_time"],
            "priority": 1.0,
            "cur_episode": 0,
            "cur_sample": 2,
            "cur_step": 2,
        }
        assert (last["cur_episode"], last["cur_sample"], last["cur_step"]) == (1, 6, 6)
        assert len({meta["data_id"] for meta in comm.metas}) == len(comm.metas) == 4

    def test_spans_tell_each_step_once(self):
        _, comm = run(config(3, 7, episodes=3, n_sample=4, chunk_rows=6))
        steps = [
            (env_id, episode, t)
            for meta in comm.metas
            for env_id, episode, first, count, _ in meta["spans"]
            for t in range(first, first + count)
        ]
        wanted = [(i, e, t) for i, length in enumerate((3, 7)) for e in range(3) for t in range(length)]
        assert sorted(steps) == wanted
        assert all(sum(span[4] for span in meta["spans"]) == meta["rows"] for meta in comm.metas)

    def test_progress_is_told_when_episodes_end_and_after_their_data(self):
        _, comm = run(config(3, 3, episodes=2, n_sample=4, chunk_rows=1000))
        assert comm.events == ["info", "data", "meta", "info"]
        keys = {"eval_flag", "get_info_time", "collector_done", "cur_episode", "cur_sample", "cur_step"}
        assert all(set(info) == keys for info in comm.infos)
        assert [info["collector_done"] for info in comm.infos] == [False, True]
        assert comm.infos[-1]["cur_episode"] == 4
        assert comm.infos[-1]["cur_step"] == comm.infos[-1]["cur_sample"] == 12

    def test_the_finish_info(self):
        collector = create_parallel_collector(config(3, 6))
        Comm(collector)
        collector.start()
        assert collector.get_finish_info()["collector_done"] is True
        info = collector.get_finish_info()
        assert set(info) == FINISH_KEYS
        assert (info["env_num"], info["train_iter"], info["collect_setting"]) == (2, 0, {"eps": 0.5})
        assert (info["predefined_episode_count"], info["real_episode_count"]) == (4, 4)
        assert (info["step_count"], info["sample_count"]) == (18, 18)
        assert (info["avg_step_per_episode"], info["avg_sample_per_episode"]) == (4.5, 4.5)
        assert info["avg_time_per_step"] == pytest.approx(info["duration"] / 18)
        assert sorted(info["reward_raw"]) == [6.0, 6.0, 21.0, 21.0]
        assert info["reward_mean"] == pytest.approx(13.5)
        assert info["reward_std"] == pytest.approx(7.5)

    def test_the_finish_info_of_a_collector_that_did_nothing(self):
        collector = create_parallel_collector(config(3))
        info = collector.get_finish_info()
        assert set(info) == FINISH_KEYS
        assert info["train_iter"] == -1
        assert (info["step_count"], info["avg_time_per_step"], info["reward_mean"], info["reward_raw"]) == (0, 0, 0, [])
        collector.close()

    def test_an_evaluator_sends_progress_only(self):
        collector, comm = run(config(3, 5, eval_flag=True))
        assert comm.metas == []
        assert [info["cur_episode"] for info in comm.infos] == [1, 2, 3, 4]
        assert all(info["eval_flag"] for info in comm.infos)
        info = collector.get_finish_info()
        assert set(info) == FINISH_KEYS - {"collect_setting"}
        assert (info["eval_flag"], info["sample_count"], info["step_count"]) == (True, 0, 16)
        assert collector.policy.forward.__self__.made_for == ["eval"]

    def test_the_forward_gets_the_collect_setting(self):
        collector, _ = run(config(3))
        forwards = collector.policy.forward.__self__.forwards
        assert {mode for mode, _, _ in forwards} == {"collect"}
        assert all(kwargs == {"eps": 0.5} for _, _, kwargs in forwards)
        evaluator, _ = run(config(3, eval_flag=True))
        assert all(kwargs == {} for _, _, kwargs in evaluator.policy.forward.__self__.forwards)

    @pytest.mark.parametrize("policy", ["parallel_scripted", "parallel_scripted_rows"])
    def test_a_transition_names_the_policy_that_chose_its_action(self, policy):
        collector = create_parallel_collector(config(50, episodes=1, policy=policy, n_sample=10))
        comm = Comm(collector)
        sent = threading.Semaphore(1)
        asked = [-1]

        def fetch(path, newer_than=-1, timeout_s=0.0):
            """A new version for each chunk. Only a version that is stored is asked for a newer one."""
            asked.append(newer_than)
            if not sent.acquire(timeout=timeout_s):
                return None
            version = max(newer_than, 0) + 1
            return {"model": {"weight": torch.full((2,), 10.0 * version)}, "iter": version}

        def send_metadata(meta):
            comm.send_metadata(meta)
            if "data_id" in meta:
                wanted, deadline = asked[-1] + 1, time.monotonic() + 10
                sent.release()
                while asked[-1] < wanted and time.monotonic() < deadline:
                    time.sleep(0.001)

        collector.get_policy_update_info, collector.send_metadata = fetch, send_metadata
        collector.start()
        collector.close()
        batches = list(comm.batches.values())
        assert [np.unique(batch.columns["collect_iter"]).tolist() for batch in batches] == [[1], [2], [3], [4], [5]]
        actions = [batch.columns["action"].flatten().unique().tolist() for batch in batches]
        assert actions == [[10], [20], [30], [40], [50]]

    def test_samples_are_made_for_a_chunk_at_once(self):
        collector, comm = run(config(3, 6, policy="parallel_noting", n_sample=2, chunk_rows=10, chunk_seconds=1e9))
        assert [rows for rows, _ in collector.policy.forward.__self__.made] == [meta["rows"] for meta in comm.metas]
        # With step 6 of both envs there are 12.
        assert [meta["rows"] for meta in comm.metas] == [12, 6]

    def test_samples_are_made_by_the_version_that_acted(self):
        step_count, sent = 0, threading.Semaphore(1)
        asked = threading.Event()

        def fetch(path, newer_than=-1, timeout_s=0.0):
            """Only a version that is stored is asked for a newer one."""
            if newer_than == 2:
                asked.set()
            if not sent.acquire(timeout=timeout_s):
                return None
            version = max(newer_than, 0) + 1
            return {"model": {"weight": torch.full((2,), float(version))}, "iter": version}

        class Own(ZerglingParallelCollector):
            def _iter_after_hook(self):
                nonlocal step_count
                step_count += 1
                if step_count == 10:
                    sent.release()
                    assert asked.wait(10.0)

        collector = Own(
            config(16, episodes=1, policy="parallel_noting", n_sample=2, chunk_rows=1000, chunk_seconds=1e9)
        )
        comm = Comm(collector)
        collector.get_policy_update_info = fetch
        collector.start()
        collector.close()
        assert collector.policy.forward.__self__.made == [(10, 1), (6, 2)]
        assert [meta["rows"] for meta in comm.metas] == [16]

    def test_a_function_of_the_path_alone_will_do(self):
        collector = create_parallel_collector(config(3, update_policy_second=0.01))
        comm = Comm(collector)
        paths = []

        def fetch(path):
            paths.append(path)
            return None if len(paths) < 3 else {"model": {"weight": torch.ones(2)}, "iter": 4}

        collector.get_policy_update_info = fetch
        collector.start()
        collector.close()
        assert set(paths) == {"policy_0"}
        assert {meta["policy_iter"] for meta in comm.metas} == {4}

    def test_an_abnormal_episode_is_dropped_and_its_number_with_it(self):
        _, comm = run(config(3, episodes=2, n_sample=10, env_cfg={"abnormal_steps": [2]}))
        assert [span for meta in comm.metas for span in meta["spans"]] == [[0, 1, 0, 3, 3], [0, 2, 0, 3, 3]]

    def test_small_chunks_do_not_wait_longer_than_they_may(self):
        _, comm = run(config(20, n_sample=2, chunk_rows=1000, chunk_seconds=0.0))
        assert {meta["rows"] for meta in comm.metas} == {2}

    def test_what_the_env_raises_comes_out_of_start(self):
        collector = create_parallel_collector(config(3, env_cfg={"fault": {"kind": "raise", "step": 2}}))
        Comm(collector)
        with pytest.raises(Exception, match="episode 0, step 2") as caught:
            collector.start()
        assert isinstance(caught.value.__cause__ or caught.value, (InjectedFault, Exception))
        collector.close()

    def test_what_the_policy_raises_comes_out_of_start(self):
        collector = create_parallel_collector(config(3))
        Comm(collector)
        collector.get_policy_update_info = lambda path: {"iter": 0}
        with pytest.raises(KeyError, match="model"):
            collector.start()
        collector.close()

    def test_a_later_fetch_that_fails_comes_out_of_start(self):
        collector = create_parallel_collector(config(3, episodes=float("inf")))
        Comm(collector)
        answers = [{"model": {"weight": torch.zeros(2)}, "iter": 0}]

        def fetch(path, newer_than=-1, timeout_s=0.0):
            if answers:
                return answers.pop()
            raise OSError("the folder is gone")

        collector.get_policy_update_info = fetch
        with pytest.raises(OSError, match="the folder is gone"):
            collector.start()
        collector.close()

    def test_close_ends_an_endless_task_and_leaves_no_thread(self):
        collector = create_parallel_collector(config(3, episodes=float("inf")))
        comm = Comm(collector)
        before = set(threading.enumerate())
        thread = threading.Thread(target=collector.start)
        thread.start()
        deadline = time.monotonic() + 10
        while len(comm.metas) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        collector.close()
        collector.close()
        thread.join(10)
        assert not thread.is_alive()
        assert set(threading.enumerate()) <= before
        assert collector.env_manager.closed
        # What was counted was sent.
        assert collector.get_finish_info()["sample_count"] == sum(meta["rows"] for meta in comm.metas)

    def test_close_ends_the_wait_for_the_first_policy(self):
        collector = create_parallel_collector(config(3))
        Comm(collector)
        asked = threading.Event()

        def fetch(path):
            asked.set()

        collector.get_policy_update_info = fetch
        thread = threading.Thread(target=collector.start)
        thread.start()
        assert asked.wait(10)
        collector.close()
        thread.join(10)
        assert not thread.is_alive()
        assert collector.get_finish_info()["step_count"] == 0

    def test_samples_that_do_not_fit_together_are_told_by_name(self):
        collector = create_parallel_collector(config(2, 3, policy="parallel_misfits", chunk_rows=100))
        comm = Comm(collector)
        with pytest.raises(ValueError, match=r"same fields.*hint"):
            collector.start()
        collector.close()
        assert comm.metas == []

    @pytest.mark.parametrize(
        ("key", "value", "error"), [("compressor", "lz5", KeyError), ("chunk_rows", 0, ValueError)]
    )
    def test_mistakes_in_the_config(self, key, value, error):
        with pytest.raises(error, match="lz4" if key == "compressor" else key):
            create_parallel_collector(config(3, **{key: value}))

    def test_a_drop_in_compressor_needs_nothing_installed(self):
        _, comm = run(config(3, compressor="lz4"))
        assert {meta["compressor"] for meta in comm.metas} == {"none"}

    def test_logs_go_to_a_file_of_its_own(self, tmp_path):
        for eval_flag, kind in ((False, "collector"), (True, "evaluator")):
            collector, _ = run(config(3, eval_flag=eval_flag, collector_uid="seven"))
            collector.info("a line")
            text = (tmp_path / "exp" / "log" / kind / "seven_logger.txt").read_text()
            assert f"[{kind.upper()}(seven)]: a line" in text

    def test_factories(self):
        assert get_parallel_collector_cls(EasyDict(type="zergling")) is ZerglingParallelCollector
        assert issubclass(ZerglingParallelCollector, BaseParallelCollector)
        with pytest.raises(KeyError, match="zergling"):
            create_parallel_collector(config(3, type="zerglin"))

    def test_subprocess_envs(self):
        _, comm = run(config(3, 6, manager={"type": "subprocess"}))
        assert sorted(comm.rows()) == sorted((e, t) for length in (3, 6) for e in range(2) for t in range(length))


def game(*lengths, eval_flag=False, flags=(True, False), n=None, **changes):
    cfg = config(*lengths, eval_flag=eval_flag, env="parallel_game", type="marine", **changes)
    n = n or (1 if eval_flag else 2)
    cfg.policy = [EasyDict(cfg.policy) for _ in range(n)]
    cfg.policy_update_path = [f"player_{i}" for i in range(n)]
    cfg.policy_update_flag = list(flags[:n])
    return cfg


class TestMarine:
    @pytest.mark.parametrize("policy", ["parallel_scripted", "parallel_scripted_rows"])
    @pytest.mark.parametrize(("n_sample", "n_episode"), [(4, None), (None, 4)])
    def test_nothing_is_lost_or_mixed_at_episode_ends(self, policy, n_sample, n_episode):
        collector, comm = run(
            game(3, 6, flags=(True, True), policy=policy, n_sample=n_sample, n_episode=n_episode, chunk_rows=5)
        )
        wanted = [(e, t) for length in (3, 6) for e in range(2) for t in range(length)]
        assert sorted(comm.rows(player=0)) == sorted(wanted)
        assert sorted(comm.rows(player=1)) == sorted((e + 100, t + 100) for e, t in wanted)
        info = collector.get_finish_info()
        assert (info["step_count"], info["sample_count"]) == (18, 36)

    def test_only_flagged_players_leave_data(self):
        _, comm = run(game(3, flags=(False, True)))
        assert {meta["player"] for meta in comm.metas} == {1}

    def test_each_player_gets_its_reward(self):
        _, comm = run(game(3, flags=(True, True), episodes=1))
        rewards = {meta["player"]: [] for meta in comm.metas}
        for meta in comm.metas:
            rewards[meta["player"]] += comm.batches[meta["data_id"]].columns["reward"].flatten().tolist()
        assert rewards == {0: [1, 2, 3], 1: [-1, -2, -3]}

    def test_the_env_gets_the_joint_action(self):
        collector = create_parallel_collector(game(3, episodes=1))
        Comm(collector, versions=[(0, 7.0)])
        actions = []
        step = collector.env_manager.step
        collector.env_manager.step = lambda action: (actions.append(dict(action)), step(action))[1]
        collector.start()
        collector.close()
        assert [action[0].tolist() for action in actions] == [[7, 7]] * 3

    def test_metadata_and_finish_info(self):
        collector, comm = run(game(3, 4), versions=[(5, 0.0)])
        assert {tuple(meta["policy_iter"]) for meta in comm.metas} == {(5, 5)}
        assert {meta["collect_iter"] for meta in comm.metas} == {5}
        info = collector.get_finish_info()
        assert set(info) == FINISH_KEYS | {"game_result"}
        # One per player; the original told none, and its logs had nothing to show.
        assert info["train_iter"] == [5, 5]
        assert info["game_result"] == [["wins", "wins"], ["wins", "wins"]]
        assert sorted(info["reward_raw"]) == [6, 6, 10, 10]

    @pytest.mark.parametrize(("sign", "result"), [(-1.0, "losses"), (0.0, "draws")])
    def test_game_results(self, monkeypatch, sign, result):
        monkeypatch.setattr(_GameEnv, "sign", sign)
        collector, _ = run(game(3, episodes=1))
        assert collector.get_finish_info()["game_result"] == [[result]]

    def test_only_flagged_players_are_updated(self):
        collector = create_parallel_collector(game(200, episodes=1, n_sample=10))
        comm = Comm(collector)
        fetched = {"player_0": [], "player_1": []}

        def fetch(path, newer_than=-1, timeout_s=0.0):
            fetched[path].append(newer_than)
            if len(fetched[path]) > 5:
                time.sleep(0.01)
                return None
            return {"model": {"weight": torch.zeros(2)}, "iter": newer_than + 1}

        collector.get_policy_update_info = fetch
        collector.start()
        collector.close()
        assert fetched["player_1"] == [-1]
        assert len(fetched["player_0"]) > 1
        assert {meta["policy_iter"][1] for meta in comm.metas} == {0}

    @pytest.mark.parametrize(
        ("flags", "frozen", "modes"),
        [
            ((True, False), None, ("collect", "eval")),
            ((True, False), "collect", ("collect", "collect")),
            ((True, True), None, ("collect", "collect")),
        ],
    )
    def test_frozen_players_act_as_in_an_evaluation_unless_told_otherwise(self, flags, frozen, modes):
        collector, _ = run(game(3, flags=flags, **({} if frozen is None else {"frozen_players": frozen})))
        for mode, policy in zip(modes, collector.policy):
            forwards = policy.forward.__self__.forwards
            assert {(made, tuple(kwargs.items())) for made, _, kwargs in forwards} == {
                (mode, (("eps", 0.5),) if mode == "collect" else ())
            }

    def test_an_unknown_way_to_act(self):
        with pytest.raises(ValueError, match="frozen_players must be 'eval' or 'collect', found 'greedy'"):
            create_parallel_collector(game(3, frozen_players="greedy"))

    def test_an_evaluator_has_one_policy(self):
        collector, comm = run(game(3, 5, eval_flag=True))
        assert comm.metas == []
        assert collector.get_finish_info()["game_result"] == [["wins", "wins"], ["wins", "wins"]]

    def test_an_evaluator_of_an_env_that_is_no_game(self):
        cfg = game(3, eval_flag=True)
        cfg.env.type = "parallel_counting"
        collector, _ = run(cfg)
        assert collector.get_finish_info()["reward_raw"] == [6.0, 6.0]

    def test_an_abnormal_game_is_dropped_for_both(self):
        _, comm = run(game(3, flags=(True, True), n_sample=10, env_cfg={"abnormal_steps": [2]}))
        assert sorted((m["player"], *span) for m in comm.metas for span in m["spans"]) == [
            (player, 0, episode, 0, 3, 3) for player in (0, 1) for episode in (1, 2)
        ]

    @pytest.mark.parametrize(("eval_flag", "n"), [(False, 1), (False, 3), (True, 2)])
    def test_a_wrong_number_of_policies(self, eval_flag, n):
        with pytest.raises(AssertionError, match="list of"):
            create_parallel_collector(game(3, eval_flag=eval_flag, n=n, flags=(True,) * 3))

    def test_registered(self):
        assert get_parallel_collector_cls(EasyDict(type="marine")) is MarineParallelCollector


class TestSpans:
    def test_neighbours_are_joined(self):
        spans = [[0, 0, 0, 2, 2], [1, 0, 0, 2, 1], [0, 0, 2, 3, 3], [0, 1, 0, 1, 1], [1, 0, 5, 1, 1]]
        assert joined_spans(spans) == [[0, 0, 0, 5, 5], [1, 0, 0, 2, 1], [0, 1, 0, 1, 1], [1, 0, 5, 1, 1]]
        assert spans[0] == [0, 0, 0, 2, 2]

    def test_nothing(self):
        assert joined_spans([]) == []
