"""Collectors, evaluators and middleware ask a policy of a script only for what they call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict

from ding.framework import OnlineRLContext, task
from ding.framework.middleware import (
    BattleEpisodeCollector,
    BattleStepCollector,
    EpisodeCollector,
    StepCollector,
    interaction_evaluator,
)
from ding.worker import (
    BattleEpisodeSerialCollector,
    BattleInteractionSerialEvaluator,
    BattleSampleSerialCollector,
    EpisodeSerialCollector,
    InteractionSerialEvaluator,
    SampleSerialCollector,
)
from ding.worker.testing import ScriptedEnvManager


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Scripted:
    """An opponent by a rule: it acts and nothing more."""

    collect_data = False

    def __init__(self) -> None:
        self.seen: list[int] = []

    def forward(self, data: dict[int, Any], **kwargs: Any) -> dict[int, dict[str, np.ndarray]]:
        assert type(data) is dict
        self.seen += data
        return {env_id: {"action": np.array([0])} for env_id in data}

    def reset(self, data_id: list[int] | None = None) -> None:
        pass


class Recorded(Scripted):
    """One whose steps become transitions."""

    collect_data = True

    def process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        return {"obs": obs, "action": policy_output["action"], "done": timestep.done}


class Sampled(Recorded):
    """One whose transitions become samples."""

    def get_train_sample(self, transitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return transitions


def _collector(cls: Any, players: Any, num_players: int = 1) -> Any:
    env = ScriptedEnvManager([[3], [2]], num_players=num_players)
    return cls(EasyDict(cls.default_config()), env, players, exp_name="exp")


def test_collectors_of_one_policy() -> None:
    samples = _collector(SampleSerialCollector, Sampled()).collect(6)
    assert len(samples) == 6
    assert set(samples[0]) == {"obs", "action", "done", "collect_iter"}
    episodes = _collector(EpisodeSerialCollector, Recorded()).collect(2)
    assert sorted(map(len, episodes)) == [2, 3]


@pytest.mark.parametrize("first", [True, False])
def test_battle_collectors_with_an_opponent_that_is_not_recorded(first: bool) -> None:
    def players() -> list[Any]:
        return [Scripted(), Sampled()] if first else [Sampled(), Scripted()]

    own = int(first)
    samples, infos = _collector(BattleSampleSerialCollector, players(), 2).collect(4)
    assert [len(samples[own]), len(samples[1 - own])] == [4, 0]
    assert len(infos[0]) == len(infos[1]) > 0
    episodes, infos = _collector(BattleEpisodeSerialCollector, players(), 2).collect(2)
    assert sorted(map(len, episodes[own])) == [2, 3]
    assert episodes[1 - own] == []
    assert len(infos[0]) == len(infos[1]) == 2


def test_evaluators() -> None:
    cfg = {"stop_value": 100, "n_episode": 2}
    for cls, num_players in ((InteractionSerialEvaluator, 1), (BattleInteractionSerialEvaluator, 2)):
        kind: Any = cls
        env = ScriptedEnvManager([[3], [2]], num_players=num_players)
        policy: Any = Scripted() if num_players == 1 else [Scripted(), Scripted()]
        evaluator = kind(EasyDict({**kind.default_config(), **cfg}), env, policy, exp_name="exp")
        evaluator.eval()


class _Seeded(ScriptedEnvManager):
    def seed(self, seed: Any, dynamic_seed: bool | None = None) -> None:
        pass


def _ran(make: Callable[[EasyDict, Any], Any], num_players: int = 1) -> Any:
    env = _Seeded([[3], [2]], num_players=num_players)
    collect = {"n_sample": 4, "n_episode": 2, "unroll_len": 1}
    cfg = EasyDict(
        seed=0,
        env={"n_evaluator_episode": 2, "stop_value": 100},
        policy={"type": "own", "collect": collect, "eval": {"evaluator": {"eval_freq": 1}}},
    )
    with task.start(async_mode=False, ctx=OnlineRLContext()) as running:
        kept: dict[str, Any] = {}
        running.use(make(cfg, env))
        running.use(lambda ctx: kept.update(trajectories=ctx.trajectories, episodes=ctx.episodes))
        running.run(max_step=1)
    return EasyDict(kept)


def test_middleware() -> None:
    assert len(_ran(lambda cfg, env: StepCollector(cfg, Recorded(), env)).trajectories) == 4
    assert len(_ran(lambda cfg, env: EpisodeCollector(cfg, Recorded(), env)).episodes) == 2
    _ran(lambda cfg, env: interaction_evaluator(cfg, Scripted(), env))
    players: list[Any] = [Recorded(), Scripted()]
    assert [len(one) for one in _ran(lambda cfg, env: BattleStepCollector(cfg, players, env), 2).trajectories] == [4, 0]
    assert [len(one) for one in _ran(lambda cfg, env: BattleEpisodeCollector(cfg, players, env), 2).episodes] == [2, 0]


def test_what_is_called_and_missing_is_told() -> None:
    with pytest.raises(TypeError, match=r"Scripted has no process_transition, .* has collect_data = False"):
        _collector(SampleSerialCollector, Scripted())
    with pytest.raises(
        TypeError, match=r"collector: expected policy\.collect_mode, found an object dict, which has no"
    ):
        _collector(SampleSerialCollector, {})
