from types import SimpleNamespace

import pytest

from ding.worker import BaseSerialCommander
from ding.worker.testing import ScriptedPolicy


def make(policy=None, collector=None):
    learner = SimpleNamespace(learn_info={"learner_step": 3, "priority_info": {}, "learner_done": False})
    return BaseSerialCommander(
        BaseSerialCommander.default_config(), learner, collector or SimpleNamespace(envstep=40), None, None, policy
    )


def test_step_tells_the_policy_how_far_learner_and_collector_are():
    policy = ScriptedPolicy(collect_setting={"eps": 0.25})
    collector = SimpleNamespace(envstep=40)
    commander = make(policy.command_mode, collector)
    assert commander.step() == {"eps": 0.25}
    assert policy.last_command_info == {"learner_step": 3, "priority_info": {}, "learner_done": False, "envstep": 40}
    collector.envstep = 48
    commander.step()
    assert policy.last_command_info["envstep"] == 48


def test_policy_may_be_set_later():
    commander = make()
    with pytest.raises(AssertionError, match="no policy"):
        commander.step()
    policy = ScriptedPolicy()
    commander.policy = policy.command_mode
    assert commander.policy == policy.command_mode
    assert commander.step() == {}


def test_default_config():
    assert BaseSerialCommander.default_config() == {"cfg_type": "BaseSerialCommanderDict"}
