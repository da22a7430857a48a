"""How many shards a replay buffer can have is checked before anything starts."""

from copy import deepcopy

import pytest

from ding.config import ConfigValueError, compile_config_parallel
from ding.config.checks.shards import check_shards
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config


def compiled(**buffer):
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.policy.other.replay_buffer.update(buffer)
    return compile_config_parallel(main, create, system, save_cfg=False, free_ports=False)


def test_a_buffer_has_no_shards_by_default():
    assert compiled().main.policy.other.replay_buffer.shards == 1
    assert compiled(shards=4).main.policy.other.replay_buffer.shards == 4


@pytest.mark.parametrize("shards", [0, -1, 1.5, "2", True, None])
def test_a_number_that_cannot_be_is_named(shards):
    with pytest.raises(ConfigValueError, match=r"policy\.other\.replay_buffer\.shards(:| must).*, got"):
        compiled(shards=shards)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shards": 8}, r"shards is 8, more than policy.other.replay_buffer.replay_buffer_size 5"),
        ({"type": "sequence"}, r"shards is 2: .*type must be one of .*'advanced', 'naive'.*, got 'sequence'"),
        ({"replay_buffer_size": 10_000_000}, r"shards is 2 of 4194304 rows at most: 10000000 rows need 3 of them"),
        ({"on_policy": True}, r"shards is 2, but an on-policy run has no replay buffer"),
    ],
)
def test_buffers_that_can_have_no_shards_are_refused(change, text):
    buffer = {"shards": 2, "type": "advanced", "replay_buffer_size": 5, **change}
    policy = {"on_policy": buffer.pop("on_policy", False), "other": {"replay_buffer": buffer}}
    with pytest.raises(ConfigValueError, match=text):
        check_shards(policy)
