"""Each shipped policy gives the same data through columns as through the classic calls per environment."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch, is_batched
from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts

_ENVS, _STEPS = 3, 7
_BATCHED = ("_forward_learn", "_forward_collect", "_forward_eval", "_process_transition", "_get_train_sample")

CASES = {
    "dqn": (DQNPolicy, {}, {"eps": 0.4}),
    "dqn-nstep": (DQNPolicy, {"nstep": 3}, {"eps": 0.4}),
    "dqn-reference": (DQNPolicy, {"nstep": 3, "reference_numerics": True}, {"eps": 0.4}),
    "dqn-noisy": (DQNPolicy, {"noisy_net": True, "model": {"noise": True}}, {"eps": 0.0}),
}


def _unmarked(cls: type) -> type:
    """A user's subclass that overrides all methods without the mark."""

    def override(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            assert not any(isinstance(arg, (EnvBatch, TimestepBatch, TransitionBatch)) for arg in args)
            return getattr(super(classic, self), name)(*args, **kwargs)

        return method

    classic = type("Classic" + cls.__name__, (cls,), {name: override(name) for name in _BATCHED})
    return classic


def _make(cls: type, overrides: dict) -> Any:
    torch.manual_seed(0)
    cfg = deep_merge_dicts(cls.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}})
    return cls(deep_merge_dicts(cfg, overrides))


def _observation(t: int) -> np.ndarray:
    return np.sin(np.arange(_ENVS * 4).reshape(_ENVS, 4) + t).astype(np.float32)


def _ends(t: int) -> tuple[np.ndarray, np.ndarray]:
    """Env 0 meets a time limit, env 1 ends, env 2 goes on."""
    done = np.array([t == _STEPS - 1, t == _STEPS - 1, False])
    return done, np.array([t == _STEPS - 1, False, False])


def _collect_columns(policy: Any, kwargs: dict) -> list[TransitionBatch]:
    ids = np.arange(_ENVS)
    steps = []
    for t in range(_STEPS):
        obs = EnvBatch(ids, torch.from_numpy(_observation(t)))
        output = policy.collect_mode.forward(obs, **kwargs)
        done, truncated = _ends(t)
        reward = (_observation(t)[:, :1] + output.columns["action"].numpy()).astype(np.float32)
        step = TimestepBatch(ids, _observation(t + 1), reward, done, truncated, {})
        columns = policy.collect_mode.process_transition(obs.columns, output.columns, step)
        columns["next_obs"], columns["reward"] = torch.from_numpy(columns["next_obs"]), torch.from_numpy(reward)
        steps.append(TransitionBatch(columns))
    pieces = [TransitionBatch.concat([step[[i]] for step in steps]) for i in range(_ENVS)]
    return [TransitionBatch(piece.columns) for piece in pieces]


def _collect_rows(policy: Any, kwargs: dict) -> list[list[dict]]:
    pieces: list[list[dict]] = [[] for _ in range(_ENVS)]
    for t in range(_STEPS):
        obs = {i: torch.from_numpy(_observation(t)[i]) for i in range(_ENVS)}
        output = policy.collect_mode.forward(obs, **kwargs)
        done, truncated = _ends(t)
        for i in range(_ENVS):
            reward = (_observation(t)[i, :1] + output[i]["action"].numpy()).astype(np.float32)
            info = {"TimeLimit.truncated": True} if truncated[i] else {}
            step = BaseEnvTimestep(
                torch.from_numpy(_observation(t + 1)[i]), torch.from_numpy(reward), bool(done[i]), info
            )
            pieces[i].append(policy.collect_mode.process_transition(obs[i], output[i], step))
    return pieces


def _same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            _same(left[key], right[key])
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    else:
        assert left == right


@pytest.mark.parametrize("case", list(CASES))
def test_columns_and_rows_agree(case):
    cls, overrides, kwargs = CASES[case]
    batched, classic = _make(cls, overrides), _make(_unmarked(cls), overrides)
    for name in _BATCHED:
        assert is_batched(getattr(batched, name)), name
        assert not is_batched(getattr(classic, name)), name

    torch.manual_seed(1)
    columns = _collect_columns(batched, kwargs)
    torch.manual_seed(1)
    rows = _collect_rows(classic, kwargs)
    for piece, expected in zip(columns, rows):
        for left, right in zip(TransitionBatch(piece.columns), expected, strict=True):
            _same(left, right)

    samples = [batched.collect_mode.get_train_sample(piece) for piece in columns]
    expected_samples = [classic.collect_mode.get_train_sample(piece) for piece in rows]
    for piece, expected in zip(samples, expected_samples):
        assert isinstance(piece, TransitionBatch)
        assert isinstance(expected, list)
        for left, right in zip(TransitionBatch(piece.columns), expected, strict=True):
            assert left.keys() == right.keys()
            for key in left:
                np.testing.assert_allclose(np.asarray(left[key]), np.asarray(right[key]), rtol=1e-6)

    torch.manual_seed(2)
    out = batched.learn_mode.forward(TransitionBatch.concat(samples))
    torch.manual_seed(2)
    expected_out = classic.learn_mode.forward([row for piece in expected_samples for row in piece])
    assert out.pop("priority") == pytest.approx(expected_out.pop("priority"), rel=1e-6)
    assert out == pytest.approx(expected_out, rel=1e-6)
    greedy = batched.eval_mode.forward(EnvBatch(np.arange(_ENVS), _observation(0)))
    expected_greedy = classic.eval_mode.forward({i: torch.from_numpy(_observation(0)[i]) for i in range(_ENVS)})
    for i in range(_ENVS):
        assert torch.equal(greedy[i]["action"], expected_greedy[i]["action"])
