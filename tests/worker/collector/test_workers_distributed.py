"""Serial workers in a run of two processes: what is counted over all, who evaluates, who logs."""

import json
import subprocess
import sys
import textwrap

import pytest
import torch

_SCRIPT = """
    import json, os, sys
    from functools import partial
    import torch
    import torch.distributed as dist
    from easydict import EasyDict
    from ding.envs import BaseEnvManager
    from ding.envs.testing import CountingEnv
    from ding.envs.testing_game import CountingGame
    from ding.worker import (
        BattleEpisodeSerialCollector, BattleInteractionSerialEvaluator, BattleSampleSerialCollector,
        EpisodeSerialCollector, IMetric, InteractionSerialEvaluator, MetricSerialEvaluator, SampleSerialCollector,
    )
    from ding.worker.testing import BatchedScriptedPolicy

    rank, folder = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {}

    def policies(count=1):
        cfg = EasyDict(type="s", traj_len_inf=False, on_policy=False, collect={"n_sample": 4, "n_episode": 2})
        return [BatchedScriptedPolicy(attributes={"cfg": cfg, "n_sample": 4, "n_episode": 2}) for _ in range(count)]

    def manager(env_cls, *lengths):
        envs = [partial(env_cls, {"episode_length": length}) for length in lengths]
        return BaseEnvManager(envs, BaseEnvManager.default_config())

    for cls, env_cls in [
        (SampleSerialCollector, CountingEnv), (EpisodeSerialCollector, CountingEnv),
        (BattleSampleSerialCollector, CountingGame), (BattleEpisodeSerialCollector, CountingGame),
    ]:
        modes = [policy.collect_mode for policy in policies(1 if env_cls is CountingEnv else 2)]
        cfg = EasyDict({**cls.default_config(), "collect_print_freq": 1})
        names = {"exp_name": folder + "/exp", "instance_name": cls.__name__}
        collector = cls(cfg, manager(env_cls, 2, 2 + rank), modes if len(modes) > 1 else modes[0], **names)
        for train_iter in (1, 2):
            collector.collect(train_iter=train_iter)
        state = collector.state_dict()
        totals = {key: value for key, value in state.items() if key.startswith("total") and key != "total_duration"}
        found[cls.__name__] = {**totals, "envstep": collector.envstep}
        collector.close()

    saved = []
    for cls, env_cls in [(InteractionSerialEvaluator, CountingEnv), (BattleInteractionSerialEvaluator, CountingGame)]:
        modes = [policy.eval_mode for policy in policies(1 if env_cls is CountingEnv else 2)]
        cfg = EasyDict({**cls.default_config(), "stop_value": 3, "n_episode": 2})
        env = manager(env_cls, 2 + rank)
        names = {"exp_name": folder + "/exp", "instance_name": cls.__name__}
        evaluator = cls(cfg, env, modes if len(modes) > 1 else modes[0], **names)
        found[cls.__name__] = [evaluator.should_eval(0), *evaluator.eval(saved.append, train_iter=1)]
        evaluator.close()

    class Metric(IMetric):
        def eval(self, inputs, label):
            return {"acc": 100.0 * float((inputs == label).all())}

        def reduce_mean(self, inputs):
            return {"acc": sum(one["acc"] for one in inputs) / len(inputs)}

        def gt(self, metric1, metric2):
            return metric2 is None or metric1["acc"] >= metric2["acc"]

    class Model:
        forward = staticmethod(lambda inputs: inputs)
        reset = staticmethod(lambda: None)
        get_attribute = staticmethod(lambda name: "cpu")

    # Rank 0 is right in both batches, rank 1 in one.
    data = [(torch.zeros(1), torch.zeros(1)), (torch.zeros(1), torch.full((1,), float(rank)))]
    cfg = EasyDict({**MetricSerialEvaluator.default_config(), "stop_value": {"acc": 75}, "multi_gpu": True})
    evaluator = MetricSerialEvaluator(cfg, (data, Metric()), Model, exp_name=folder + "/exp", instance_name="metric")
    found["metric"] = evaluator.eval(train_iter=1)
    evaluator.close()
    found["saved"] = saved

    with open(f"{folder}/rank{rank}.json", "w") as f:
        json.dump(found, f)
    dist.barrier()
    dist.destroy_process_group()
"""


# Two starts of Python with torch.
@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")
def test_two_processes(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    command = [sys.executable, str(script)]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    try:
        for process in ranks:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    # Only rank 0 keeps checkpoints and a writer; whatever else is known is known to both.
    assert (first.pop("saved"), second.pop("saved")) == (["ckpt_best.pth.tar"] * 2, [])
    assert len(list(tmp_path.glob("exp/log/*/*/events*"))) == len(list(tmp_path.glob("exp/log/*"))) == 7
    assert first == second
    # Rank 0 makes 8 steps in 4 episodes. Rank 1 makes 10: its samples come in segments of 2, 2, 2, 1 and 2.
    samples = {"total_envstep_count": 18, "total_episode_count": 7, "total_train_sample_count": 17, "envstep": 18}
    episodes = {"total_envstep_count": 18, "total_episode_count": 8, "total_train_sample_count": 0, "envstep": 18}
    assert first["SampleSerialCollector"] == samples
    assert first["BattleSampleSerialCollector"] == {**samples, "total_train_sample_count": 34}
    assert first["EpisodeSerialCollector"] == first["BattleEpisodeSerialCollector"] == episodes
    # Rank 0 has evaluated.
    result = {"eval_episode_return": [3.0, 3.0], "eval_episode_return_mean": 3.0}
    assert first["InteractionSerialEvaluator"] == [True, True, result]
    battle = [[{"eval_episode_return": sign * 3.0}] * 2 for sign in (1, -1)]
    assert first["BattleInteractionSerialEvaluator"] == [True, True, battle]
    assert first["metric"] == [True, {"acc": 75.0}]
