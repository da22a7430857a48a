"""A network of one's own gets observations in the form in which the env gives them, wherever it is called."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import nn

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.envs import BaseEnvManager, DingEnvWrapper
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import (
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    gae_estimator,
    interaction_evaluator,
    multistep_trainer,
)
from ding.policy import DQNPolicy, PPOPolicy


class WordsEnv(gymnasium.Env):
    """Three words, a mask of actions, a picture, a pair of vectors and a note; three steps, each pays the action."""

    observation_space = gymnasium.spaces.Dict(
        {
            "tokens": gymnasium.spaces.MultiDiscrete([9, 9, 9]),
            "mask": gymnasium.spaces.Box(0, 1, (2,), np.bool_),
            "frame": gymnasium.spaces.Box(0, 255, (2, 2), np.uint8),
            "place": gymnasium.spaces.Box(-1, 1, (2,), np.float64),
        }
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self._step = 0
        return self.observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self._step += 1
        return self.observed(), float(action), self._step == 3, False, {}

    def observed(self) -> dict[str, Any]:
        number = self._step
        return {
            "tokens": np.array([number, 8, 0]),
            "mask": np.array([True, number != 1]),
            "frame": np.full((2, 2), 10 * number, np.uint8),
            "place": np.full(2, 0.5 * number),
        }


class PartsEnv(WordsEnv):
    """The same, as a list of parts, one of which is a dict with a note that nothing converts."""

    observation_space = gymnasium.spaces.Tuple(
        [WordsEnv.observation_space["tokens"], WordsEnv.observation_space["frame"], WordsEnv.observation_space]
    )  # type: ignore[assignment]

    def observed(self) -> Any:
        parts = super().observed()
        return [parts["tokens"], parts["frame"], {**parts, "collate_ignore_note": {"of": str(self._step)}}]


def _check(obs: dict[str, torch.Tensor]) -> None:
    kinds = {key: value.dtype for key, value in obs.items() if isinstance(value, torch.Tensor)}
    assert kinds == {"tokens": torch.int64, "mask": torch.bool, "frame": torch.float32, "place": torch.float32}
    shapes = {"tokens": (3,), "mask": (2,), "frame": (2, 2), "place": (2,)}
    assert {key: tuple(obs[key].shape) for key in kinds} == {key: (len(obs["tokens"]), *shapes[key]) for key in kinds}


class Words(nn.Module):
    """Embeds tokens, and forbids what the mask does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out, self.value = nn.Embedding(9, 4), nn.Linear(18, 2), nn.Linear(18, 1)
        self.calls = 0

    def parts(self, obs: Any) -> dict[str, torch.Tensor]:
        return obs

    def features(self, obs: Any) -> torch.Tensor:
        obs = self.parts(obs)
        _check(obs)
        self.calls += 1
        return torch.cat([self.table(obs["tokens"]).flatten(1), obs["frame"].flatten(1) / 255, obs["place"]], 1)

    def forward(self, obs: Any, mode: str = "") -> dict[str, torch.Tensor]:
        features = self.features(obs)
        output = {"value": self.value(features).squeeze(1)} if "critic" in mode else {}
        if mode != "compute_critic":
            output["logit"] = self.out(features).masked_fill(~self.parts(obs)["mask"], -1e9)
        return output


class Parts(Words):
    """The same of :class:`PartsEnv`."""

    def parts(self, obs: Any) -> dict[str, torch.Tensor]:
        assert isinstance(obs, list)
        tokens, frame, rest = obs
        assert torch.equal(tokens, rest["tokens"])
        assert torch.equal(frame, rest["frame"])
        note = rest["collate_ignore_note"]
        assert [set(one) for one in note] == [{"of"}] * len(tokens)
        assert [int(one["of"]) for one in note] == tokens[:, 0].tolist()
        return {key: value for key, value in rest.items() if key != "collate_ignore_note"}


def _config(name: str, policy: dict, manager: str = "base") -> tuple[EasyDict, EasyDict]:
    main = EasyDict(
        exp_name=name,
        env=dict(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=100),
        policy=dict(cuda=False, collect=dict(n_sample=12), eval=dict(evaluator=dict(eval_freq=2)), **policy),
    )
    create = EasyDict(env_manager=dict(type=manager), policy=dict(type=name))
    return main, create


ENVS: dict[str, tuple[Callable[[], gymnasium.Env], type[Words]]] = {
    "dict": (WordsEnv, Words),
    "list": (PartsEnv, Parts),
}


@pytest.mark.parametrize("form", list(ENVS))
def test_a_dqn_pipeline_gives_the_network_the_forms_of_the_env(form: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, network = ENVS[form]
    model = network()
    main, create = _config("dqn", dict(model={}, learn=dict(batch_size=8, update_per_collect=2)))
    setting = [lambda cfg: DingEnvWrapper(make(), cfg), [{}] * 2, [{}] * 2]
    serial_pipeline((main, create), seed=0, env_setting=setting, model=model, max_train_iter=4)
    assert model.calls > 10


@pytest.mark.parametrize("form", list(ENVS))
def test_a_ppo_pipeline_gives_the_network_the_forms_of_the_env(form: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, network = ENVS[form]
    model = network()
    main, create = _config(
        "ppo", dict(action_space="discrete", model={}, learn=dict(batch_size=6, epoch_per_collect=2))
    )
    setting = [lambda cfg: DingEnvWrapper(make(), cfg), [{}] * 2, [{}] * 2]
    serial_pipeline_onpolicy((main, create), seed=0, env_setting=setting, model=model, max_train_iter=8)
    assert model.calls > 10


@pytest.mark.parametrize("manager", ["subprocess", "gym_vector"])
def test_an_env_manager_that_shares_memory_keeps_the_forms(manager: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Words()
    main, create = _config("dqn", dict(model={}, learn=dict(batch_size=8, update_per_collect=2)), manager)
    setting = [_words_env, [{}] * 2, [{}] * 2]
    serial_pipeline((main, create), seed=0, env_setting=setting, model=model, max_train_iter=2)
    assert model.calls > 5


def _words_env(cfg: dict) -> DingEnvWrapper:
    return DingEnvWrapper(WordsEnv(), cfg)


def _task_config(policy: type, **more: Any) -> EasyDict:
    user = dict(exp_name="task", env=dict(n_evaluator_episode=2), policy=dict(cuda=False, model={}, **more))
    return compile_config(EasyDict(user), BaseEnvManager, policy, save_cfg=False)


@pytest.mark.parametrize("form", list(ENVS))
@pytest.mark.parametrize("on_policy", [True, False])
def test_a_task_gives_the_network_the_forms_of_the_env(form: str, on_policy: bool, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, network = ENVS[form]
    model = network()
    more: dict[str, Any] = dict(action_space="discrete") if on_policy else dict(other=dict(eps=dict(start=0.5)))
    kind: Any = PPOPolicy if on_policy else DQNPolicy
    cfg = _task_config(kind, collect=dict(n_sample=6, unroll_len=1), learn=dict(batch_size=6), **more)
    policy = kind(cfg.policy, model=model)
    collector_env, evaluator_env = (
        BaseEnvManager([lambda: DingEnvWrapper(make())] * 2, BaseEnvManager.default_config()) for _ in range(2)
    )
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(lambda ctx: ctx.collect_kwargs.update({} if on_policy else {"eps": 0.5}))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        if on_policy:
            task.use(gae_estimator(cfg, policy.collect_mode))
            task.use(multistep_trainer(policy.learn_mode, 1))
        else:
            buffer = DequeBuffer(size=50)
            task.use(data_pusher(cfg, buffer))
            task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
        task.run(max_step=3)
    assert model.calls > 5
