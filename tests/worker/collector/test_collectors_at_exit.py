"""Workers and env managers at the level of a module, which nobody closes, end with the interpreter without a word."""

import subprocess
import sys

SCRIPT = """
import sys

from ding.envs import (
    AsyncSubprocessEnvManager, BaseEnvManager, DingEnvWrapper, GymVectorEnvManager, SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
)
from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts
from ding.worker import InteractionSerialEvaluator, SampleSerialCollector


def env():
    return DingEnvWrapper(cfg={"env_id": "CartPole-v1"})


def envs(cls, **settings):
    return cls([env] * 2, cls.default_config() | settings)


model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8]}
cfg = deep_merge_dicts(DQNPolicy.default_config(), {"cuda": False, "model": model, "collect": {"n_sample": 8}})
policy = DQNPolicy(cfg)
launched = [envs(SubprocessEnvManagerV2), envs(GymVectorEnvManager, vectorization_mode="async")]
for manager in launched:
    manager.launch()
    # A circle, which only the garbage collector breaks up.
    manager.myself = manager
collectors = [
    SampleSerialCollector(SampleSerialCollector.default_config(), envs(cls), policy.collect_mode)
    for cls in (BaseEnvManager, SyncSubprocessEnvManager, AsyncSubprocessEnvManager)
]
for collector in collectors:
    assert len(collector.collect(policy_kwargs={"eps": 0.5})) == 8
settings = InteractionSerialEvaluator.default_config()
settings.update(stop_value=1e9, n_episode=2)
evaluator = InteractionSerialEvaluator(settings, envs(SyncSubprocessEnvManager), policy.eval_mode)
evaluator.eval(train_iter=0)
print("done")
sys.exit(3)
"""


def test_nothing_is_written_at_exit(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr, run.stdout.splitlines()[-1]) == (3, "", "done")
