"""Each shipped policy gives the same data through columns as through the classic calls per environment."""

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch, is_batched
from ding.policy import (
    A2CPolicy,
    ACERPolicy,
    BDQPolicy,
    BehaviourCloningPolicy,
    C51Policy,
    CalQLPolicy,
    CQLPolicy,
    CrossQPolicy,
    D4PGPolicy,
    DDPGPolicy,
    DiscreteCQLPolicy,
    DiscreteSACPolicy,
    DQFDPolicy,
    DQNPolicy,
    DQNSTDIMPolicy,
    DREAMERPolicy,
    DroQPolicy,
    EDACPolicy,
    FQFPolicy,
    HAPPOPolicy,
    IMPALAPolicy,
    IQLPolicy,
    IQNPolicy,
    MADDPGPolicy,
    MASACPolicy,
    MATPolicy,
    MDQNPolicy,
    NGUPolicy,
    PDQNPolicy,
    PGPolicy,
    PolicyConfigError,
    PPGOffPolicy,
    PPGPolicy,
    PPOOffPolicy,
    PPOPGPolicy,
    PPOPolicy,
    PPOSTDIMPolicy,
    PQNPolicy,
    QRDQNPolicy,
    R2D2CollectTrajPolicy,
    R2D2GTrXLPolicy,
    R2D2Policy,
    R2D3Policy,
    RainbowDQNPolicy,
    ReBRACPolicy,
    REDQPolicy,
    RLPDPolicy,
    SACPolicy,
    SQILSACPolicy,
    SQLPolicy,
    SQNPolicy,
    TD3BCPolicy,
    TD3Policy,
    TDMPC2Policy,
    TQCPolicy,
    TRPOPolicy,
    XQLPolicy,
)
from ding.policy.edac import diversity_loss
from ding.utils import deep_merge_dicts, set_pkg_seed
from tests.policy.dreamer_world import DETER, DISCRETE, STOCH, World
from tests.torch_utils.graph.test_torch_graph_capture import Captures

_ENVS, _STEPS = 3, 7
_BATCHED = ("_forward_learn", "_forward_collect", "_forward_eval", "_process_transition", "_get_train_sample")

CONTINUOUS = {"action_space": "continuous", "model": {"action_space": "continuous"}}
HYBRID = {
    "action_space": "hybrid",
    "model": {"action_space": "hybrid", "action_shape": {"action_type_shape": 3, "action_args_shape": 2}},
}
REGRESSION = {"model": {"action_space": "regression"}}
MIXED = {"model": {"action_shape": {"action_type_shape": 3, "action_args_shape": 2}}}
MULTI_DISCRETE = {"model": {"action_shape": [2, 3]}}
# Sequences of 5 steps of segments of 7: the second overlaps the first.
SIMBA = {"type": "simba_qac", "actor_head_hidden_size": 8, "critic_head_hidden_size": 8, "critic_head_layer_num": 1}
R2D2 = {
    "priority": False,
    "priority_IS_weight": False,
    "nstep": 2,
    "burnin_step": 1,
    "learn_unroll_len": 4,
    "collect": {"env_num": _ENVS},
    "eval": {"env_num": _ENVS},
}
RESETS = {
    "nstep": 2,
    "act_with_target": True,
    "learn": {
        "optim_type": "adamw",
        "weight_decay": 0.1,
        "reset": {"every": 2, "nstep": 4, "discount_factor": 0.9, "anneal_updates": 2},
    },
}
MEMORY = {
    "recurrent": True,
    "learn_unroll_len": 4,
    "learn": {"epoch_per_collect": 2, "batch_size": 8},
    "collect": {"env_num": _ENVS},
    "eval": {"env_num": _ENVS},
}
GTRXL = {**{key: value for key, value in R2D2.items() if key != "learn_unroll_len"}, "unroll_len": 5, "seq_len": 3}
# Two agents, each of which sees half of an observation.
AGENTS = {"agent_num": 2, "agent_obs_shape": 2, "global_obs_shape": 4}
TDMPC2 = {
    "plan": {"iterations": 2, "num_samples": 12, "num_elites": 4, "num_policy_trajectories": 3},
    "model": {"latent_size": 16, "hidden_size": 16, "encoder_hidden_size": 16, "num_buckets": 21, "dropout": 0.1},
}
SEQUENCE = {"agent_num": 2, "agent_obs_shape": 2, "embed_dim": 8, "head_num": 2}
SIZES = {"dyn_stoch": STOCH, "dyn_deter": DETER, "dyn_discrete": DISCRETE, "units": 8}
DREAMER = {"imag_horizon": 3, "collect": {"collect_dyn_sample": False}}
CASES = {
    "dqn": (DQNPolicy, {}, {"eps": 0.4}),
    "dqn_resets": (DQNPolicy, RESETS, {"eps": 0.4}),
    "rainbow_resets": (RainbowDQNPolicy, {**RESETS, "priority": False, "priority_IS_weight": False}, {"eps": 0.4}),
    "dqn-nstep": (DQNPolicy, {"nstep": 3}, {"eps": 0.4}),
    "dqn-reference": (DQNPolicy, {"nstep": 3, "reference_numerics": True}, {"eps": 0.4}),
    "dqn-noisy": (DQNPolicy, {"noisy_net": True, "model": {"noise": True}}, {"eps": 0.0}),
    "dqn-stdim": (DQNSTDIMPolicy, {}, {"eps": 0.4}),
    "bdq": (BDQPolicy, {"nstep": 3, "model": {"num_branches": 2, "action_bins_per_branch": 3}}, {"eps": 0.4}),
    "c51": (C51Policy, {"nstep": 3}, {"eps": 0.4}),
    "qrdqn": (QRDQNPolicy, {"nstep": 3}, {"eps": 0.4}),
    "discrete-cql": (DiscreteCQLPolicy, {"nstep": 3}, {"eps": 0.4}),
    "iqn": (IQNPolicy, {}, {"eps": 0.4}),
    "fqf": (FQFPolicy, {}, {"eps": 0.4}),
    "rainbow": (RainbowDQNPolicy, {"priority": False, "priority_IS_weight": False}, {"eps": 0.4}),
    "sqn": (SQNPolicy, {}, {"eps": 0.4}),
    "sql": (SQLPolicy, {}, {"eps": 0.4}),
    "mdqn": (MDQNPolicy, {}, {"eps": 0.4}),
    "pqn": (PQNPolicy, {"learn": {"epoch_per_collect": 2, "batch_size": 7}}, {"eps": 0.4}),
    "pqn-multi-discrete": (PQNPolicy, MULTI_DISCRETE, {"eps": 0.4}),
    "r2d2": (R2D2Policy, R2D2, {"eps": 0.4}),
    "r2d2-reference": (R2D2Policy, {**R2D2, "reference_numerics": True}, {"eps": 0.4}),
    "bc": (BehaviourCloningPolicy, {}, {"eps": 0.4}),
    "bc-continuous": (
        BehaviourCloningPolicy,
        {"continuous": True, "model": {"action_space": "regression"}},
        {"sigma": 0.1},
    ),
    "dqfd": (DQFDPolicy, {"nstep": 3, "priority": False, "priority_IS_weight": False}, {"eps": 0.4}),
    "r2d3": (R2D3Policy, R2D2, {"eps": 0.4}),
    "ngu": (NGUPolicy, {**R2D2, "model": {"collector_env_num": _ENVS}}, {}),
    "r2d2-collect-traj": (R2D2CollectTrajPolicy, {**R2D2, "unroll_len": 4}, {}),
    "r2d2-gtrxl": (R2D2GTrXLPolicy, GTRXL, {"eps": 0.4}),
    "r2d2-gtrxl-old": (R2D2GTrXLPolicy, {**GTRXL, "learn": {"init_memory": "old"}}, {"eps": 0.4}),
    "ppo-stdim": (PPOSTDIMPolicy, {"recompute_adv": False, "learn": {"epoch_per_collect": 2}}, {}),
    "ppo": (PPOPolicy, {"learn": {"epoch_per_collect": 2, "batch_size": 7}}, {}),
    "ppo-stored-adv": (PPOPolicy, {"recompute_adv": False, "learn": {"epoch_per_collect": 1}}, {}),
    "ppo-lstm": (PPOPolicy, deep_merge_dicts(MEMORY, {"model": {"lstm_type": "pytorch"}}), {}),
    "ppo-gru-continuous": (
        PPOPolicy,
        deep_merge_dicts(deep_merge_dicts(MEMORY, CONTINUOUS), {"model": {"lstm_type": "gru", "share_encoder": False}}),
        {},
    ),
    "ppo-stdim-lstm": (PPOSTDIMPolicy, MEMORY, {}),
    "ppo-continuous": (PPOPolicy, {"learn": {"epoch_per_collect": 2}, **CONTINUOUS}, {}),
    "ppo-rpo": (PPOPolicy, {"learn": {"epoch_per_collect": 2, "rpo_alpha": 0.5}, **CONTINUOUS}, {}),
    "ppo-hybrid": (PPOPolicy, {"learn": {"epoch_per_collect": 2}, **HYBRID}, {}),
    "trpo": (TRPOPolicy, {"learn": {"batch_size": 7}}, {}),
    "trpo-continuous": (TRPOPolicy, CONTINUOUS, {}),
    "trpo-hybrid": (TRPOPolicy, HYBRID, {}),
    "trpo-multi-discrete": (TRPOPolicy, MULTI_DISCRETE, {}),
    "ppo-offpolicy": (PPOOffPolicy, {}, {}),
    "ppo-offpolicy-nstep": (PPOOffPolicy, {"nstep_return": True}, {}),
    "ppo-offpolicy-hybrid": (PPOOffPolicy, HYBRID, {}),
    "ppo-pg": (PPOPGPolicy, {"learn": {"epoch_per_collect": 2}}, {}),
    "ppo-pg-continuous": (PPOPGPolicy, {"learn": {"epoch_per_collect": 2}, **CONTINUOUS}, {}),
    "ppg": (PPGPolicy, {"learn": {"aux_freq": 1, "batch_size": 7}}, {}),
    "ppg-hybrid": (PPGPolicy, {"learn": {"aux_freq": 1}, **HYBRID}, {}),
    "ppg-offpolicy": (PPGOffPolicy, {"learn": {"aux_freq": 1}}, {}),
    "ppg-offpolicy-continuous": (PPGOffPolicy, {"learn": {"aux_freq": 1}, **CONTINUOUS}, {}),
    "ppo-multi-discrete": (PPOPolicy, {"learn": {"epoch_per_collect": 2}, **MULTI_DISCRETE}, {}),
    "ppg-multi-discrete": (PPGPolicy, {"learn": {"aux_freq": 1}, **MULTI_DISCRETE}, {}),
    "a2c-multi-discrete": (A2CPolicy, MULTI_DISCRETE, {}),
    "pg-multi-discrete": (PGPolicy, MULTI_DISCRETE, {}),
    "pg": (PGPolicy, {}, {}),
    "pg-continuous": (PGPolicy, CONTINUOUS, {}),
    "impala": (IMPALAPolicy, {"unroll_len": 4}, {}),
    "impala-continuous": (IMPALAPolicy, {"unroll_len": 4, **CONTINUOUS}, {}),
    "acer": (ACERPolicy, {"learn": {"unroll_len": 4}}, {}),
    "a2c": (A2CPolicy, {}, {}),
    "ddpg": (DDPGPolicy, REGRESSION, {}),
    "ddpg-hybrid": (DDPGPolicy, {**HYBRID, "random_collect_size": 0}, {"eps": 0.4}),
    "td3": (TD3Policy, REGRESSION, {}),
    "d4pg": (D4PGPolicy, {"priority": False, "priority_IS_weight": False}, {}),
    "td3-bc": (TD3BCPolicy, REGRESSION, {}),
    "cql": (CQLPolicy, {}, {}),
    "edac": (EDACPolicy, {"model": {"ensemble_num": 3}}, {}),
    "iql": (IQLPolicy, {}, {}),
    "sac": (SACPolicy, {}, {}),
    "sac-simba": (SACPolicy, {"model": SIMBA}, {}),
    "td3-simba": (TD3Policy, {"model": {**SIMBA, "action_space": "regression"}}, {}),
    "tqc": (TQCPolicy, {"model": {"ensemble_num": 3, "critic_head_hidden_size": 16}}, {}),
    "redq": (REDQPolicy, {"model": {"ensemble_num": 4}, "learn": {"actor_update_freq": 2}}, {}),
    "rlpd": (RLPDPolicy, {"model": {"ensemble_num": 4}, "learn": {"actor_update_freq": 2}}, {}),
    "rebrac": (ReBRACPolicy, {"model": {"actor_head_hidden_size": 16, "critic_head_hidden_size": 16}}, {}),
    "xql": (XQLPolicy, {}, {}),
    "cal-ql": (CalQLPolicy, {}, {}),
    "droq": (DroQPolicy, {"learn": {"actor_update_freq": 2}}, {}),
    "crossq": (
        CrossQPolicy,
        # A bias before a normalisation has no gradient but rounding, which Adam makes a step of.
        {
            "model": {"actor_head_hidden_size": 16, "critic_head_hidden_size": 16, "batch_norm_warmup": 1},
            "learn": {"learning_rate_q": 1e-6, "learning_rate_policy": 1e-6},
        },
        {},
    ),
    "maddpg": (MADDPGPolicy, {"model": AGENTS, "learn": {"learning_rate_critic": 1e-3}}, {}),
    "masac": (MASACPolicy, {"model": AGENTS}, {}),
    "happo": (HAPPOPolicy, {"agent_num": 2, "model": AGENTS, "learn": {"epoch_per_collect": 2, "batch_size": 7}}, {}),
    "mat": (MATPolicy, {"model": SEQUENCE, "learn": {"epoch_per_collect": 2, "batch_size": 7}}, {}),
    "mat-continuous": (
        MATPolicy,
        {"action_space": "continuous", "model": {**SEQUENCE, "action_space": "continuous"}},
        {},
    ),
    "mappo": (PPOPolicy, {"multi_agent": True, "model": AGENTS, "learn": {"epoch_per_collect": 2}}, {}),
    "sac-logit": (SACPolicy, {"collect": {"collector_logit": True}}, {}),
    "sqil-sac": (SQILSACPolicy, {}, {}),
    "discrete-sac": (DiscreteSACPolicy, {}, {"eps": 0.4}),
    "pdqn": (PDQNPolicy, {"nstep": 3, **MIXED}, {"eps": 0.4}),
    "a2c-continuous": (A2CPolicy, CONTINUOUS, {}),
    "tdmpc2": (TDMPC2Policy, TDMPC2, {}),
    "dreamer": (DREAMERPolicy, {**DREAMER, "model": {**SIZES, "actor_dist": "onehot"}}, {}),
    "dreamer-continuous": (DREAMERPolicy, {**DREAMER, "model": SIZES}, {}),
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
    set_pkg_seed(0, use_cuda=False)
    dreams = issubclass(cls, DREAMERPolicy)
    shapes = {} if cls.__name__.endswith("BDQPolicy") else {"action_shape": 2}
    if "agent_num" not in overrides.get("model", {}):
        shapes["obs_shape"] = 4
    cfg = deep_merge_dicts(cls.default_config(), {"model": {"action_shape": 2} if dreams else shapes})
    policy = cls(deep_merge_dicts(cfg, overrides))
    if dreams:
        kind = "discrete" if overrides["model"].get("actor_dist") == "onehot" else "continuous"
        policy.collect_mode.set_attribute("world_model", World(kind))
    return policy


def _observation(t: int) -> np.ndarray:
    return np.sin(np.arange(_ENVS * 4).reshape(_ENVS, 4) + t).astype(np.float32)


def _has_agents(policy: Any) -> bool:
    return "agent_num" in policy.collect_mode.get_attribute("cfg").model


def _seen(policy: Any, t: int) -> Any:
    """What a policy sees at step t: observations, for NGU beside the actions and rewards before them."""
    obs = torch.from_numpy(_observation(t))
    if _has_agents(policy):
        return {"agent_state": obs.reshape(_ENVS, 2, 2), "global_state": obs}
    if not isinstance(policy, NGUPolicy):
        return obs
    return {"obs": obs, "prev_action": torch.arange(_ENVS) % 2, "prev_reward_extrinsic": obs[:, :1]}


def _row(columns: Any, i: int) -> Any:
    return {key: value[i] for key, value in columns.items()} if isinstance(columns, dict) else columns[i]


def _ends(t: int) -> tuple[np.ndarray, np.ndarray]:
    """Env 0 meets a time limit, env 1 ends, env 2 goes on."""
    done = np.array([t == _STEPS - 1, t == _STEPS - 1, False])
    return done, np.array([t == _STEPS - 1, False, False])


def _following(policy: Any, t: int) -> Any:
    """What comes after step t: an array, of several agents as they see it."""
    return _seen(policy, t + 1) if _has_agents(policy) else _observation(t + 1)


def _joint(policy: Any, action: Any, start: int) -> Any:
    """Of several agents the actions of all in one axis, ``start``."""
    return action.flatten(start) if _has_agents(policy) else action


def _payoff(action: Any) -> np.ndarray:
    """A reward that depends on the action, ``[..., 1]``."""
    if isinstance(action, dict):
        return _payoff(action["action_type"]) + _payoff(action["action_args"])
    if isinstance(action, list) and isinstance(action[0], list):
        return np.stack([_payoff(row) for row in action])
    if isinstance(action, list):
        return sum(_payoff(one) for one in action)
    return action.numpy().sum(-1, keepdims=True)


def _finished(pieces: list, cls: type) -> list:
    """The segments that a policy learns from: of whole episodes only, where there is no critic."""
    return pieces[:2] if issubclass(cls, (PGPolicy, PPOPGPolicy)) else pieces


def _learn(policy: Any, samples: Any) -> list[dict]:
    set_pkg_seed(2, use_cuda=False)
    np.random.seed(2)
    if isinstance(policy, PPGOffPolicy):
        samples = {"policy": samples, "value": samples}
    if isinstance(policy, DREAMERPolicy):
        samples = _latents(policy.learn_mode.get_attribute("world_model"), TransitionBatch.of(samples).columns)
    output = policy.learn_mode.forward(samples)
    return output if isinstance(output, list) else [output]


def _latents(world: World, columns: dict) -> dict:
    """What Dreamer learns from: the states ``[1, T, ...]`` in which its world model is along the samples."""
    action = torch.as_tensor(columns["action"])
    action = action.float() if action.dim() == 2 else one_hot(action, 2).float()
    embed, state = world.encoder(world.network_obs(columns["obs"])), world.dynamics.initial(1)
    states = []
    for t in range(len(action)):
        state, _ = world.dynamics.obs_step(state, action[t : t + 1], embed[t : t + 1], False)
        states.append(state)
    return {key: torch.stack([one[key] for one in states], 1).detach() for key in state}


def _collect_columns(policy: Any, kwargs: dict) -> list[TransitionBatch]:
    ids = np.arange(_ENVS)
    steps = []
    for t in range(_STEPS):
        obs = EnvBatch(ids, _seen(policy, t))
        output = policy.collect_mode.forward(obs, **kwargs)
        done, truncated = _ends(t)
        reward = (_observation(t)[:, :1] + _payoff(_joint(policy, output.columns["action"], 1))).astype(np.float32)
        step = TimestepBatch(ids, _following(policy, t), reward, done, truncated, {})
        columns = policy.collect_mode.process_transition(obs.columns, output.columns, step)
        if "next_obs" in columns and not _has_agents(policy):
            columns["next_obs"] = torch.from_numpy(columns["next_obs"])
        columns["reward"] = torch.from_numpy(reward)
        steps.append(TransitionBatch(columns))
    pieces = [TransitionBatch.concat([step[[i]] for step in steps]) for i in range(_ENVS)]
    return [TransitionBatch(piece.columns) for piece in pieces]


def _collect_rows(policy: Any, kwargs: dict) -> list[list[dict]]:
    pieces: list[list[dict]] = [[] for _ in range(_ENVS)]
    for t in range(_STEPS):
        obs = {i: _row(_seen(policy, t), i) for i in range(_ENVS)}
        output = policy.collect_mode.forward(obs, **kwargs)
        done, truncated = _ends(t)
        for i in range(_ENVS):
            reward = (_observation(t)[i, :1] + _payoff(_joint(policy, output[i]["action"], 0))).astype(np.float32)
            info = {"TimeLimit.truncated": True} if truncated[i] else {}
            after = _row(_seen(policy, t + 1), i) if _has_agents(policy) else torch.from_numpy(_observation(t + 1)[i])
            step = BaseEnvTimestep(after, torch.from_numpy(reward), bool(done[i]), info)
            pieces[i].append(policy.collect_mode.process_transition(obs[i], output[i], step))
    return pieces


def _same(left: Any, right: Any) -> None:
    # A row of a batch is a dict with attributes.
    assert isinstance(left, type(right)) or isinstance(right, type(left))
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            _same(left[key], right[key])
    elif isinstance(left, list):
        for one, other in zip(left, right, strict=True):
            _same(one, other)
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    else:
        assert left == right


def _close(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            _close(left[key], right[key])
    elif isinstance(left, list):
        for one, other in zip(left, right, strict=True):
            _close(one, other)
    else:
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", list(CASES))
def test_columns_and_rows_agree(case):
    cls, overrides, kwargs = CASES[case]
    batched, classic = _make(cls, overrides), _make(_unmarked(cls), overrides)
    for name in _BATCHED:
        assert is_batched(getattr(batched, name)), name
        assert not is_batched(getattr(classic, name)), name

    set_pkg_seed(1, use_cuda=False)
    columns = _collect_columns(batched, kwargs)
    set_pkg_seed(1, use_cuda=False)
    rows = _collect_rows(classic, kwargs)
    for piece, expected in zip(columns, rows):
        for left, right in zip(TransitionBatch(piece.columns), expected, strict=True):
            _same(left, right)

    samples = [batched.collect_mode.get_train_sample(piece) for piece in _finished(columns, cls)]
    expected_samples = [classic.collect_mode.get_train_sample(piece) for piece in _finished(rows, cls)]
    for piece, expected in zip(samples, expected_samples):
        assert isinstance(piece, TransitionBatch)
        assert isinstance(expected, list)
        for left, right in zip(TransitionBatch(piece.columns), expected, strict=True):
            assert left.keys() == right.keys()
            for key in left:
                _close(left[key], right[key])

    outputs = _learn(batched, TransitionBatch.concat(samples))
    expected_outputs = _learn(classic, [row for piece in expected_samples for row in piece])
    for output, expected in zip(outputs, expected_outputs, strict=True):
        assert output.pop("priority", []) == pytest.approx(expected.pop("priority", []), rel=1e-6)
        assert output == pytest.approx(expected, rel=1e-5, abs=1e-6)
    greedy = batched.eval_mode.forward(EnvBatch(np.arange(_ENVS), _seen(batched, 0)))
    expected_greedy = classic.eval_mode.forward({i: _row(_seen(classic, 0), i) for i in range(_ENVS)})
    for i in range(_ENVS):
        _close(greedy[i]["action"], expected_greedy[i]["action"])


@pytest.mark.parametrize("case", list(CASES))
def test_networks_of_the_library_take_integers_and_bools(case, monkeypatch):
    cls, overrides, kwargs = CASES[case]
    found = []
    for dtype in (np.float32, np.int64, np.bool_):
        bits = ((np.arange(12 * _STEPS + 12).reshape(-1, _ENVS, 4) * 7) % 3 > 0).astype(dtype)
        monkeypatch.setattr(sys.modules[__name__], "_observation", lambda t, bits=bits: bits[t])
        policy = _make(cls, overrides)
        pieces = _finished(_collect_columns(policy, kwargs), cls)
        samples = TransitionBatch.concat([policy.collect_mode.get_train_sample(piece) for piece in pieces])
        greedy = policy.eval_mode.forward(EnvBatch(np.arange(_ENVS), _seen(policy, 0)))
        found.append([_learn(policy, samples), *(greedy[i]["action"] for i in range(_ENVS))])
    _close(found[1:], found[:1] * 2)


SETTINGS = (
    *("dqn", "c51", "fqf", "sqn", "r2d2", "ppo", "ppo-lstm", "ppo-offpolicy", "ppo-pg", "pg", "impala", "acer", "a2c"),
    *("d4pg", "td3", "sac", "discrete-sac", "pdqn", "bc", "maddpg", "masac", "tdmpc2", "mat"),
)


def _learner(case: str, **learn: Any) -> tuple[Any, TransitionBatch]:
    """A policy and a batch of it."""
    cls, overrides, kwargs = CASES[case]
    policy = _make(cls, deep_merge_dicts(overrides, {"learn": learn}))
    set_pkg_seed(1, use_cuda=False)
    pieces = _finished(_collect_columns(policy, kwargs), cls)
    return policy, TransitionBatch.concat([policy.collect_mode.get_train_sample(piece) for piece in pieces])


def _rates(policy: Any) -> list[float]:
    state = policy.learn_mode.state_dict()
    return [group["lr"] for key, part in state.items() if "optimizer" in key for group in part["param_groups"]]


@pytest.mark.parametrize("case", SETTINGS)
def test_learning_rates_follow_the_schedule_also_after_a_restart(case):
    policy, batch = _learner(case, lr_scheduler={"epoch_num": 2, "min_lr_lambda": 0.25})
    start = _rates(policy)
    _learn(policy, batch)
    other, _ = _learner(case, lr_scheduler={"epoch_num": 2, "min_lr_lambda": 0.25})
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert _rates(other) == pytest.approx([rate * 0.625 for rate in start])
    for _ in range(2):
        _learn(other, batch)
        assert _rates(other) == pytest.approx([rate * 0.25 for rate in start])


# ACER clips the gradients of its actor alone.
@pytest.mark.parametrize("case", [case for case in SETTINGS if case != "acer"])
def test_gradients_are_clipped_as_the_config_says(case):
    limit = {"clip_value" if case == "impala" else "grad_clip_value": 1e-14}
    policy, batch = _learner(case, grad_clip_type="clip_norm", **limit)
    before = [p.clone() for p in policy.learn_mode.get_attribute("model").parameters()]
    _learn(policy, batch)
    after = list(policy.learn_mode.get_attribute("model").parameters())
    # RMSprop divides by the size of the gradient, but never by less than its eps.
    assert all(torch.allclose(left, right, rtol=0, atol=1e-7) for left, right in zip(before, after))
    with pytest.raises(PolicyConfigError, match="grad_clip_type"):
        _learner(case, grad_clip_type="clip_nrom", **limit)


@pytest.mark.parametrize("case", SETTINGS)
def test_mixed_precision_learns_nearly_the_same(case):
    (exact, batch), (mixed, _) = _learner(case), _learner(case, amp="bfloat16")
    assert is_batched(mixed.learn_mode.forward)
    (left, *_), (right, *_) = _learn(exact, batch), _learn(mixed, batch)
    losses = [key for key in left if key.endswith("loss")]
    assert any(left[key] != right[key] for key in losses)
    assert [left[key] for key in losses] == pytest.approx([right[key] for key in losses], rel=0.06, abs=0.03)
    assert all(p.dtype is torch.float32 for p in mixed.learn_mode.get_attribute("model").parameters())
    with pytest.raises(PolicyConfigError, match="amp"):
        _ = _learner(case, amp="float61")[0].learn_mode


# Policies whose updates can be one graph.
COMPILED = (
    *("dqn", "dqn-nstep", "dqn-noisy", "bdq", "c51", "qrdqn", "discrete-cql", "iqn", "rainbow", "sql", "mdqn", "dqfd"),
    *("ddpg", "ddpg-hybrid", "td3", "d4pg", "td3-bc", "cql", "edac", "iql", "sac", "discrete-sac"),
    *("ppo", "ppo-stored-adv", "ppo-continuous", "ppo-hybrid", "ppo-multi-discrete", "a2c", "a2c-continuous"),
    *("r2d2", "r2d3", "sac-simba", "tqc", "redq", "droq", "crossq", "pqn"),
    *("ppo-lstm", "ppo-gru-continuous", "ppo-rpo", "trpo"),
    *("rlpd", "rebrac", "xql", "cal-ql", "maddpg", "masac", "mappo", "tdmpc2", "mat"),
)


@pytest.mark.parametrize("case", COMPILED)
def test_recorded_updates_give_the_numbers_of_eager_ones(case):
    (eager, batch), (recorded, same) = _learner(case), _learner(case, compile="record")
    for _ in range(3):
        expected, found = _learn(eager, batch), _learn(recorded, same)
        assert len(expected) == len(found)
        for one, other in zip(expected, found):
            assert other == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in one.items()}
    forms = recorded.learn_mode.get_attribute("compiled_updates").graphs.num_compiled
    assert forms == (2 if case in {"td3", "td3-bc", "redq", "droq", "crossq", "rlpd", "rebrac"} else 1)
    for key, state in eager.learn_mode.state_dict().items():
        if "model" in key:
            for name, value in recorded.learn_mode.state_dict()[key].items():
                torch.testing.assert_close(value, state[name], rtol=1e-4, atol=1e-5, msg=f"{key}.{name}")


def test_joined_updates_take_turns_as_single_ones_do():
    (single, batch), (joined, same) = _learner("td3"), _learner("td3", compile="record")
    set_pkg_seed(2, use_cuda=False)
    expected = [single.learn_mode.forward(batch) for _ in range(4)]
    set_pkg_seed(2, use_cuda=False)
    twice = TransitionBatch.concat([same, same])
    found = [one for _ in range(2) for one in joined.learn_mode.forward(twice, num_updates=2)]
    for one, other in zip(expected, found, strict=True):
        assert other == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in one.items()}


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_captured_updates_draw_noise_and_take_turns_as_eager_ones_do(on_gpu):
    on_gpu(captures := Captures())
    (eager, batch), (captured, same) = _learner("td3"), _learner("td3", compile=True)
    for _ in range(4):
        ((expected,), (found,)) = _learn(eager, batch), _learn(captured, same)
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in expected.items()}
    assert (captures.count, captured.learn_mode.get_attribute("compiled_updates").graphs.num_runs) == (2, 4)


@pytest.fixture(scope="module")
def compiler_cache(tmp_path_factory):
    """The compiler prepares its headers once in a cache, which takes longer than most of the graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *("dqn", "c51", "qrdqn", "iqn", "r2d2", "ppo", "a2c", "ddpg", "td3", "sac", "discrete-sac", "cql", "td3-bc"),
        *("tqc", "redq", "droq", "crossq", "sac-simba", "rebrac", "xql", "cal-ql", "maddpg", "masac", "tdmpc2", "mat"),
    ],
)
def test_20_compiled_updates_give_the_numbers_of_eager_ones_and_the_same_bits_again(case, compiler_cache):
    (eager, batch), *compiled = _learner(case), _learner(case, compile=True), _learner(case, compile=True)
    for _ in range(20):
        expected, (found, again) = _learn(eager, batch), [_learn(*one) for one in compiled]
        assert found == again
        for one, other in zip(expected, found, strict=True):
            assert other == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in one.items()}
    assert compiled[0][0].learn_mode.get_attribute("compiled_updates").graphs.num_runs >= 19


@pytest.mark.parametrize("mode", ["collect_mode", "eval_mode"])
def test_quantiles_of_iqn_belong_to_their_environment(mode):
    policy = _make(IQNPolicy, {})
    kwargs = {"eps": 0.0} if mode == "collect_mode" else {}
    acted = getattr(policy, mode).forward({i: torch.randn(4) for i in range(40)}, **kwargs)
    assert list(acted) == list(range(40))
    assert acted[39]["q"].shape == (32, 2)
    assert acted[39]["quantiles"].shape == (32,)


@pytest.mark.parametrize("envs", [2, 3])
def test_heads_of_sqn_belong_to_their_environment(envs):
    policy = _make(SQNPolicy, {"model": {"action_shape": [2, 3]}})
    acted = policy.collect_mode.forward({i: torch.randn(4) for i in range(envs)}, eps=0.0)
    assert [[head.shape[0] for head in network] for network in acted[envs - 1]["q_value"]] == [[2, 3], [2, 3]]
    assert torch.equal(acted[envs - 1]["q_value"][0][1], acted[envs - 1]["logit"][1])


@pytest.mark.parametrize("sigma_type", ["independent", "conditioned", "fixed"])
def test_ppo_begins_with_small_means_whatever_its_sigma_is(sigma_type):
    policy = _make(PPOPolicy, {**CONTINUOUS, "model": {"action_space": "continuous", "sigma_type": sigma_type}})
    model = policy.learn_mode.get_attribute("model")
    assert model.actor_head.mu.weight.detach().norm() < 0.05
    assert model.critic_head.last.weight.detach().norm().item() == pytest.approx(math.sqrt(2), rel=1e-4)


def test_one_critic_of_edac_has_nothing_to_be_kept_apart_from():
    loss = diversity_loss(lambda *args, **kwargs: {}, torch.randn(5, 4), torch.randn(5, 2), ensemble_num=1)
    assert loss.item() == 0.0


def test_an_action_shape_of_one_entry_has_an_entropy():
    cfg = {"model": {"obs_shape": 4, "action_shape": [3]}}
    policy = DiscreteSACPolicy(deep_merge_dicts(DiscreteSACPolicy.default_config(), cfg))
    assert policy.learn_mode.get_attribute("target_entropy") == pytest.approx(0.98 * math.log(3))


@pytest.mark.parametrize(("cls", "told"), [(SQNPolicy, 1), (DQNPolicy, 0)])
def test_priorities_that_an_algorithm_does_not_give_are_told_once(cls, told, caplog):
    cfg = deep_merge_dicts(cls.default_config(), {"priority": True, "model": {"obs_shape": 3, "action_shape": 2}})
    policy = cls(cfg, enable_field=["learn"])
    row = {"obs": torch.zeros(3), "next_obs": torch.ones(3), "action": torch.tensor([1]), "reward": torch.ones(1)}
    for _ in range(2):
        policy.learn_mode.forward([{**row, "done": False}] * 4)
    assert caplog.text.count(f"policy.priority=True has no effect: {cls.__name__} gives no priorities") == told
