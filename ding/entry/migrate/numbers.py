"""Corrected numbers that affect a config.

Each entry of ``NUMBERS`` is a row of the table "Numbers that were corrected" in docs/migration.md; a test compares
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ding.config.sections import dig

Section = Mapping[str, Any]


@dataclass(frozen=True)
class _Sections:
    """Sections of a main config, and the type of its policy."""

    env: Section
    policy: Section
    kind: str

    @property
    def learn(self) -> Section:
        return dig(self.policy, "learn")

    @property
    def collect(self) -> Section:
        return dig(self.policy, "collect")

    @property
    def other(self) -> Section:
        return dig(self.policy, "other")

    def number(self, key: str) -> float:
        value = self.policy.get(key)
        return value if isinstance(value, (int, float)) else 0


@dataclass(frozen=True)
class Number:
    """A row: its topic, the behaviour of DI-engine and of this package, and a test for affected configs."""

    what: str
    original: str
    here: str
    meets: Callable[[_Sections], bool]


def _types(*names: str) -> Callable[[_Sections], bool]:
    return lambda cfg: cfg.kind in names


_PPO = ("ppo", "ppo_offpolicy", "ppo_stdim", "happo")
_PPG = ("ppg", "ppg_offpolicy")
_ON_POLICY = ("ppo", "ppo_pg", "ppo_stdim", "a2c", "pg", "happo", "ppg")
_R2D2 = ("r2d2", "r2d2_gtrxl", "r2d2_collect_traj", "ngu")

NUMBERS = (
    Number(
        "epsilon-greedy",
        "one draw for all environments of a step",
        "one draw per environment",
        lambda cfg: bool(cfg.other.get("eps")),
    ),
    Number(
        "priority",
        "squared TD error",
        "absolute TD error",
        lambda cfg: bool(cfg.policy.get("priority")),
    ),
    Number(
        "n-step tail of a trajectory segment that was cut",
        "discount `gamma^(k-1)` for a bootstrap k steps ahead",
        "`gamma^k`",
        lambda cfg: cfg.number("nstep") > 1,
    ),
    Number(
        "time limit",
        "counted as a terminal state",
        "`done` of the transition is False and the value behind it is bootstrapped",
        lambda cfg: not cfg.learn.get("ignore_done"),
    ),
    Number(
        "samples beyond `n_sample`",
        "thrown away",
        "returned first by the next `collect` (off-policy)",
        lambda cfg: cfg.kind not in _ON_POLICY and "n_sample" in cfg.collect,
    ),
    Number(
        "steps of an on-policy collection that belong to unfinished segments",
        "thrown away",
        "the segments are cut when there are enough steps",
        _types(*_ON_POLICY),
    ),
    Number(
        "end of an A2C segment that was cut",
        "its last step gives the bootstrap value and is dropped",
        "the critic's value of the last `next_obs`",
        _types("a2c"),
    ),
    Number(
        "0.01 scaling of the initial actor (PPO, continuous)",
        "all its layers, those of a shared encoder too",
        "the output layers",
        lambda cfg: cfg.kind == "ppo" and cfg.policy.get("action_space") in ("continuous", "hybrid"),
    ),
    Number(
        "dual clip of continuous actions",
        "also where the advantage is positive",
        "where it is negative",
        lambda cfg: cfg.kind in _PPO and "dual_clip" in cfg.learn,
    ),
    Number(
        "advantages of PPG",
        "of the policy's own value head, which only auxiliary phases teach",
        "of the separate critic, as in the paper",
        _types(*_PPG),
    ),
    Number(
        "clipping keys of PPG",
        "not used",
        "gradients are clipped",
        lambda cfg: cfg.kind in _PPG and "grad_clip_type" in cfg.learn,
    ),
    Number(
        "divergence in the auxiliary phase of PPG",
        "of the taken actions' probabilities: 0, or NaN with today's torch",
        "of the whole policies, always",
        _types(*_PPG),
    ),
    Number(
        "what fills up short sequences (IMPALA, ACER, R2D2, `r2d2_gtrxl`)",
        "learned",
        "left out",
        _types("impala", "acer", *_R2D2),
    ),
    Number(
        "steps that R2D2, `r2d2_gtrxl`, R2D3 and NGU learn",
        "neither the first `burnin_step` nor the last `nstep` of a sequence; sequences do not overlap",
        "each step whose target is defined; sequences overlap by half of the steps behind the burn-in (`overlap_step`)",
        _types("r2d3", *_R2D2),
    ),
    Number(
        "contrast of `ppo_stdim`",
        "of the whole batch at every minibatch",
        "of the minibatch, always",
        _types("ppo_stdim"),
    ),
    Number(
        "memory of `r2d2_gtrxl` while it collects",
        "takes a whole window of observations at every step",
        "takes one step, always",
        _types("r2d2_gtrxl"),
    ),
    Number(
        "deviation of `value_norm` that returns are divided by",
        "the one before them: values and deviation may grow without end where only time limits end episodes",
        "the one that these returns belong to, which the next values are multiplied by",
        lambda cfg: bool(cfg.learn.get("value_norm", cfg.kind in _PPO)),
    ),
    Number(
        "statistics of `value_norm`",
        "not in checkpoints",
        "in the learn state (`value_norm`; may be missing)",
        lambda cfg: bool(cfg.learn.get("value_norm")),
    ),
    Number(
        "R2D3 with `value_rescale`",
        "margin and weight of the one-step loss are exchanged",
        "each in its place",
        lambda cfg: cfg.kind == "r2d3" and bool(cfg.learn.get("value_rescale")),
    ),
    Number(
        "R2D3, values after one and after n steps",
        "begin with each other's recurrent states",
        "with the states of their own steps",
        _types("r2d3"),
    ),
    Number(
        "critic of hybrid DDPG and TD3",
        "reads the chances that the network gave the types, whatever type was drawn",
        "reads the type that was taken, in targets the best one",
        lambda cfg: cfg.kind in ("ddpg", "td3") and cfg.policy.get("action_space") == "hybrid",
    ),
    Number(
        "values in the auxiliary phase of PPG",
        "clipped around those that were collected",
        "not clipped, as in the paper",
        _types(*_PPG),
    ),
    Number(
        "last step of a sequence that COMA learns from",
        "its value learns nothing",
        "learns the reward where the episode ends there; else it is the first step of the next sequence",
        _types("coma"),
    ),
    Number(
        "values of FQF",
        "the plain mean of the quantiles, however wide their fractions are",
        "the mean weighted by the widths, as in the paper",
        _types("fqf"),
    ),
    Number(
        "types of P-DQN while it collects",
        "drawn by softmax of their values",
        "the best one but for epsilon",
        _types("pdqn"),
    ),
    Number(
        "previous action and reward of NGU while it learns",
        "those of the sample beside, with intrinsic rewards in them",
        "its own, as it acted on them",
        _types("ngu"),
    ),
    Number(
        "members of NGU's family with one or two envs",
        "division by zero",
        "as the limit of the formulas",
        lambda cfg: cfg.kind == "ngu" and cfg.env.get("collector_env_num") in (1, 2),
    ),
    Number(
        "novelty within an episode (NGU)",
        "statistics per step, over filled-up steps, too",
        "per batch, over real steps",
        _types("ngu"),
    ),
    Number(
        "random samples of R2D3 and SQIL",
        "marked as of single steps; keep the rewards of the env",
        "marked for each step; rewards 0 (the agent's)",
        _types("r2d3", "sqil_sac"),
    ),
    Number(
        "priorities of a batch of SQIL",
        "all to the agent's buffer",
        "each half to its own",
        lambda cfg: cfg.kind == "sqil_sac" and bool(cfg.policy.get("priority")),
    ),
    Number(
        "data set of `serial_pipeline_bc`",
        "in its own order; `lr_decay` has no effect",
        "shuffled in each epoch; the learning rate decays by epochs",
        _types("bc"),
    ),
    Number(
        "density of SAC's squashed actions",
        "`log(1 - tanh(u)^2 + 1e-6)`, which rounds at the borders",
        "exact",
        _types("sac", "sqil_sac", "cql", "edac"),
    ),
    Number(
        "temperature of SAC, discrete SAC, CQL",
        "not in checkpoints: it starts anew",
        "in the learn state (`alpha`; may be missing), always",
        _types("sac", "sqil_sac", "discrete_sac", "cql", "edac"),
    ),
    Number(
        "target entropy of discrete SAC",
        "minus the number of actions, which no policy can have",
        "0.98 of the entropy of uniform actions",
        _types("discrete_sac"),
    ),
    Number(
        "`entropy` of discrete SAC",
        "of the policy that drew the samples",
        "of the policy now",
        _types("discrete_sac"),
    ),
    Number(
        "priorities of several agents (DDPG, SAC)",
        "one per agent",
        "their mean, always",
        lambda cfg: bool(cfg.policy.get("multi_agent")) and bool(cfg.policy.get("priority")),
    ),
    Number(
        "networks of P-DQN",
        "values and arguments run on one encoder; arguments get noise twice",
        "an encoder and an optimiser each, noise once, always",
        _types("pdqn"),
    ),
    Number(
        "`logit` in the output of SAC's collect mode",
        "always",
        "with `collect.collector_logit=True`, always",
        _types("sac", "sqil_sac"),
    ),
    Number(
        "cosine of SQIL with SAC",
        "of two numbers, so 1 or -1",
        "of the gradients of both halves, always",
        _types("sqil_sac"),
    ),
    Number(
        "action space of an env with `act_scale`",
        "that of the env inside, so random actions are stored unscaled",
        "[-1, 1], as the actions are, always",
        lambda cfg: bool(cfg.env.get("act_scale")),
    ),
    Number(
        "target update",
        "`target_update_freq` always wins, because it has a default",
        "`target_theta` alone switches to momentum",
        lambda cfg: "target_theta" in cfg.learn and "target_update_freq" not in cfg.learn,
    ),
    Number(
        "evaluation",
        "episodes of fast envs replace earlier ones beyond the quota",
        "each env plays exactly its share of `n_evaluator_episode`",
        lambda cfg: cfg.env.get("n_evaluator_episode") != cfg.env.get("evaluator_env_num"),
    ),
)


def changed_numbers(main: Section, create: Section) -> list[str]:
    """Return one sentence for each corrected number that affects a config."""
    policy = dig(main, "policy")
    if policy.get("reference_numerics"):
        return []
    cfg = _Sections(dig(main, "env"), policy, str(dig(create, "policy").get("type", "")).removesuffix("_command"))
    return [f"{row.what}: {row.here} (DI-engine: {row.original})" for row in NUMBERS if row.meets(cfg)]
