"""Allowed ranges of numbers in a config, by the path or the name of a key.

A name such as ``target_update_freq`` shows that its value is a count, in every section. A fraction or a negative value
is therefore an error in every section whose defaults have that key.
"""

import math
import re
from numbers import Real
from typing import NamedTuple, TypeGuard


class Range(NamedTuple):
    """Allowed range of a number."""

    low: float
    high: float = math.inf
    whole: bool = False

    def text(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.high < math.inf:
            return f"{kind} between {self.low:g} and {self.high:g}"
        return f"{kind} of at least {self.low:g}"

    def holds(self, value: object) -> bool:
        if not is_number(value):
            return False
        number = float(value)
        return self.low <= number <= self.high and (not self.whole or math.isinf(number) or number.is_integer())


COUNT = Range(1, whole=True)
_COUNT_OR_NONE = Range(0, whole=True)
_SHARE = Range(0, 1)
_NOT_NEGATIVE = Range(0)
RANGES: dict[str, Range] = {
    "env.collector_env_num": COUNT,
    "env.evaluator_env_num": COUNT,
    "env.n_evaluator_episode": _COUNT_OR_NONE,  # 0: no evaluations
    "policy.nstep": COUNT,
    "policy.random_collect_size": _COUNT_OR_NONE,
    "policy.discount_factor": _SHARE,
    "policy.learn.batch_size": COUNT,
    "policy.learn.update_per_collect": COUNT,
    "policy.learn.learning_rate": _NOT_NEGATIVE,
    "policy.learn.run_state_freq": _COUNT_OR_NONE,
    "policy.learn.run_state_every_s": _NOT_NEGATIVE,
    "policy.collect.n_sample": COUNT,
    "policy.collect.n_episode": COUNT,
    "policy.collect.unroll_len": COUNT,
    "policy.collect.env_num": COUNT,
    "policy.eval.env_num": COUNT,
    # Below 1, as in configs of DI-engine: at every opportunity, in offline pipelines once per epoch.
    "policy.eval.evaluator.eval_freq": Range(-1, whole=True),
    "policy.other.eps.start": _SHARE,
    "policy.other.eps.end": _SHARE,
    "policy.other.eps.decay": Range(1),
    "policy.other.replay_buffer.replay_buffer_size": COUNT,
}
"""Meanings of the keys in every config; missing keys and ``None`` are not checked."""

_COUNTS = (
    r"(^|_)(freq|nstep|unroll_len|n_sample|n_episode|replay_buffer_size|average_range|warn_steps|wait_num)$",
    r"(^|_)(batch_size|per_collect|per_worker|after_iter|max_use|max_reuse|chunk_size)(_|$)",
)
_COUNTS_OR_NONE = (
    r"(^|_)(num|size|len|length|steps?|epochs?|iters?|iterations|circle|count|retry|failures|workers)$",
    r"^n_|^num_",
)
_SHARES = (r"(^|_)(discount_factor|gae_lambda|td_lambda|target_theta|update_theta)$",)
_RATES_AND_TIMES = (r"^learning_rate|_lr$|^weight_decay$", r"_(timeout|timeout_s|seconds?|time|interval_s)$")
_BY_NAME = tuple(
    (re.compile("|".join(patterns)), allowed)
    for patterns, allowed in (
        (_COUNTS, COUNT),
        (_COUNTS_OR_NONE, _COUNT_OR_NONE),
        (_SHARES, _SHARE),
        (_RATES_AND_TIMES, _NOT_NEGATIVE),
    )
)
#: Sections of networks, which check their own arguments.
_OF_NETWORKS = re.compile(r"(^|\.)(model|[a-z_]*model_cfg)\.")


def range_of(path: str, default: object) -> Range | None:
    """Return the allowed range of the number at ``path``.

    Args:
        path: Path of the key in the main config.
        default: Default value. A key without a default is the user's own; if the default is below the range, it is
            allowed.

    Returns:
        ``None`` if any number is allowed.
    """
    if path in RANGES:
        return RANGES[path]
    if not is_number(default) or _OF_NETWORKS.search(path):
        return None
    name = path.rpartition(".")[2]
    allowed = next((one for pattern, one in _BY_NAME if pattern.search(name)), None)
    return None if allowed is None or not allowed.holds(default) else allowed


def is_number(value: object) -> TypeGuard[Real]:
    """Return whether ``value`` is a number; ``True`` and ``False`` are not."""
    return isinstance(value, Real) and not isinstance(value, bool)
