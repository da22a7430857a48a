"""PPO with comm collectors within one process, over the planes of each backend: what the learner gets, also when a
collector is lost.
"""

import sys
from copy import deepcopy
from pathlib import Path

import pytest
from easydict import EasyDict

sys.path.insert(0, str(Path(__file__).parent))
from on_policy_parts import check, holes, learned
from parallel_fakes import wait_until

from ding.config import compile_config_parallel
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.interaction import InprocTransport
from ding.worker.collector.comm.inproc_collector import InprocCollector
from ding.worker.coordinator import Coordinator
from ding.worker.learner.comm.inproc_learner import InprocLearner

N_SAMPLE, ENVS = 48, 4
SIZES = {"encoder_hidden_size_list": [4], "actor_head_hidden_size": 4, "critic_head_hidden_size": 4}


class Run:
    """A coordinator, a learner and two collectors of this process over planes of a kind."""

    def __init__(self, planes, name):
        main, create = deepcopy(parallel_test_main_config), deepcopy(parallel_test_create_config)
        main.env.update(collector_env_num=ENVS, collector_episode_num=5, evaluator_env_num=1, stop_value=10**9)
        main.policy = EasyDict(
            model={"obs_shape": 4, "action_shape": 2, "action_space": "discrete", **SIZES},
            learn={"epoch_per_collect": 1, "batch_size": 16, "learner": {"learner_num": 1}},
            collect={"n_sample": N_SAMPLE, "collector": {"collector_num": 2}},
            other={"commander": {"eval_interval": 3600}},
        )
        create.update(env={"type": "numbered_env"}, policy={"type": "noted_ppo_command"})
        create.update(comm_learner={"type": "inproc"}, comm_collector={"type": "inproc"})
        system = EasyDict({**parallel_test_system_config, "path_data": name, "path_policy": name})
        cfg = compile_config_parallel(main, create, system, save_cfg=False, free_ports=False)
        network = InprocTransport()
        common = {"transport": network, "run_token": "0123456789abcdef", "planes": planes}
        cfg.system.coordinator.update(common, host="127.0.0.1", port=0, path_data=name, long_poll_s=0.2)
        self.coordinator = Coordinator(cfg)
        hub = self.coordinator._interaction._hub
        self.coordinator.start()
        self._common = {**common, "path_data": name, "path_policy": name, "coordinator_address": hub.my_address}
        self.collectors = [self.add(InprocCollector, f"collector{number}") for number in range(2)]
        self.learner = self.add(InprocLearner, "learner0")

    def add(self, kind, name):
        worker = kind(EasyDict({**self._common, "name": name}))
        worker.start()
        return worker

    def counts(self):
        return self.coordinator.status()["buffers"]

    def close(self):
        self.coordinator.close()
        for worker in [self.learner, *self.collectors]:
            worker.close()


@pytest.fixture
def run(tmp_path, monkeypatch, planes_kind, new_root):
    monkeypatch.chdir(tmp_path)
    made = Run(planes_kind, new_root())
    yield made
    made.close()


def batches_of(run, count):
    def there():
        assert run.coordinator.exception is None
        return len(list(Path("learned").glob("*.npy"))) >= count

    wait_until(there)


def test_the_learner_gets_each_step_of_its_newest_policy_once(run):
    batches_of(run, 6)
    steps = check(learned()[:6], N_SAMPLE)
    assert not holes(steps)
    counts = run.counts()
    assert counts.get("stale_rows", 0) == 0
    assert 0 <= counts["rows"] - counts["sampled_rows"] <= N_SAMPLE + ENVS


def test_a_lost_collector_delays_a_round_and_spoils_none(run):
    batches_of(run, 2)
    lost = run.collectors.pop()
    # As a process that is killed, and a launcher that sees it.
    lost.slave.close()
    run.coordinator.drop_worker("collector1", "collector", "it was killed")
    batches_of(run, 5)
    run.collectors.append(run.add(InprocCollector, "collector2"))
    batches_of(run, 8)
    lost.close()
    steps = check(learned(), N_SAMPLE)
    # Of what the lost one was at, nothing was acknowledged.
    assert not holes(steps)
