"""Which of the corrected numbers a config meets.

Each row of ``NUMBERS`` is one of the table "Numbers that were corrected" in docs/migration.md; a test compares them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ding.config.sections import dig

Section = Mapping[str, Any]


class Number(NamedTuple):
    """A row: what it is about, DI-engine's way, the way here, and which configs meet it."""

    what: str
    original: str
    here: str
    meets: Callable[[Section, str], bool]


def _types(*names: str) -> Callable[[Section, str], bool]:
    return lambda policy, kind: kind in names


_ON_POLICY = ("ppo", "ppo_pg", "ppo_stdim", "a2c", "pg", "happo", "ppof")
_WITH_TEMPERATURE = ("sac", "sqil_sac", "discrete_sac", "cql")

NUMBERS = (
    Number(
        "epsilon-greedy",
        "one draw for all environments of a step",
        "one draw per environment",
        lambda policy, kind: bool(dig(policy, "other", "eps")),
    ),
    Number(
        "priority",
        "squared TD error",
        "absolute TD error",
        lambda policy, kind: bool(policy.get("priority")),
    ),
    Number(
        "n-step tail of a trajectory segment that was cut",
        "discount `gamma^(k-1)` for a bootstrap k steps ahead",
        "`gamma^k`",
        lambda policy, kind: isinstance(policy.get("nstep"), int) and policy["nstep"] > 1,
    ),
    Number(
        "time limit",
        "counted as a terminal state",
        "`done` of the transition is False and the value behind it is bootstrapped",
        lambda policy, kind: not dig(policy, "learn").get("ignore_done"),
    ),
    Number(
        "samples beyond `n_sample`",
        "thrown away",
        "returned first by the next `collect` (off-policy)",
        lambda policy, kind: kind not in _ON_POLICY and "n_sample" in dig(policy, "collect"),
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
        lambda policy, kind: kind == "ppo" and policy.get("action_space") in ("continuous", "hybrid"),
    ),
    Number(
        "advantages of PPG",
        "of the policy's own value head, which only auxiliary phases teach",
        "of the separate critic, as in the paper",
        _types("ppg", "ppg_offpolicy"),
    ),
    Number(
        "what fills up short sequences (IMPALA, ACER, R2D2, `r2d2_gtrxl`)",
        "learned",
        "left out",
        _types("impala", "acer", "r2d2", "r2d2_gtrxl", "r2d2_collect_traj"),
    ),
    Number(
        "random samples of R2D3 and SQIL",
        "marked as of single steps; keep the rewards of the env",
        "marked for each step; rewards 0 (the agent's)",
        _types("r2d3", "sqil_sac"),
    ),
    Number(
        "density of SAC's squashed actions",
        "`log(1 - tanh(u)^2 + 1e-6)`, which rounds at the borders",
        "exact",
        _types("sac", "sqil_sac", "cql"),
    ),
    Number(
        "temperature of SAC, discrete SAC, CQL",
        "not in checkpoints: it starts anew",
        "in the learn state (`alpha`; may be missing), always",
        _types(*_WITH_TEMPERATURE),
    ),
    Number(
        "target entropy of discrete SAC",
        "minus the number of actions, which no policy can have",
        "0.98 of the entropy of uniform actions",
        _types("discrete_sac"),
    ),
    Number(
        "networks of P-DQN",
        "values and arguments run on one encoder; arguments get noise twice",
        "an encoder and an optimiser each, noise once, always",
        _types("pdqn"),
    ),
    Number(
        "target update",
        "`target_update_freq` always wins, because it has a default",
        "`target_theta` alone switches to momentum",
        lambda policy, kind: (
            "target_theta" in dig(policy, "learn") and "target_update_freq" not in dig(policy, "learn")
        ),
    ),
)


def changed_numbers(main: Section, create: Section) -> list[str]:
    """One sentence for each corrected number that a config meets."""
    policy = dig(main, "policy")
    if policy.get("reference_numerics"):
        return []
    kind = str(dig(create, "policy").get("type", ""))
    return [f"{row.what}: {row.here} (DI-engine: {row.original})" for row in NUMBERS if row.meets(policy, kind)]
