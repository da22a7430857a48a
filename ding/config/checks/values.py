"""Values of the wrong type, reported with the full path of their key.

Only certain errors are rejected: a string where the default is a number or a switch, a single value where the default
is a section, and a number outside of the meaningful range of the key. All other values are left to the code that reads
them.
"""

import logging
import os
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence, Set
from typing import Any

from ding.config.checks.ranges import RANGES, Range, is_number, range_of
from ding.config.errors import ConfigValueError

logger = logging.getLogger("ding.config")

# Keys that every pipeline requires.
_NEEDED = ("policy.learn.update_per_collect", "policy.eval.evaluator.eval_freq")
_SECTIONS = ("policy.learn", "policy.collect", "policy.eval", "policy.other")

_COMPILE_WORDS = {f"policy.{mode}.compile": ("auto", "record") for mode in ("learn", "collect", "eval")}
SWITCH_WORDS = {"policy.cuda": ("auto",), **_COMPILE_WORDS}
"""Words that are also allowed for a switch."""

# A hook may be its interval, or a section.
_HOOKS = "policy.learn.learner.hook"
_CHOICES = {"policy.other.eps.type": ("exp", "linear")}

_SEEDS = Range(0, 2**32 - 1, whole=True)
# Maximum loss of samples of one collection, in multiples of the buffer size.
_MAX_OVERFLOW = 100


def check_seed(seed: object) -> None:
    """Reject values that NumPy does not accept as a seed.

    Raises:
        ConfigValueError: The seed is not an integer in [0, 2**32).
    """
    if not _SEEDS.holds(seed):
        raise ConfigValueError(f"seed: expected a whole number between 0 and {2**32 - 1}, got {seed!r}")


def check_evaluation(env: Mapping[str, Any]) -> None:
    """Reject more evaluator envs than episodes of an evaluation, if the user sets both.

    Raises:
        ConfigValueError: Some envs would have no episode to play.
    """
    envs, episodes = env.get("evaluator_env_num"), env.get("n_evaluator_episode") or None  # 0: no evaluations
    if is_number(envs) and is_number(episodes) and float(episodes) < float(envs):
        raise ConfigValueError(
            f"env.n_evaluator_episode is {episodes}, but env.evaluator_env_num is {envs}: each env plays an episode at "
            "least; raise the first or lower the second"
        )


def check_buffer_fits(policy: Mapping[str, Any], buffer: Mapping[str, Any] | None = None, name: str = "") -> None:
    """Reject a replay buffer that is too small for one push or one sample.

    Args:
        policy: Compiled section ``policy`` of an off-policy algorithm that collects.
        buffer: One of its buffers; by default all.
        name: Name of that buffer.

    Raises:
        ConfigValueError: ``learn.batch_size`` exceeds the buffer, so nothing would be trained, or ``collect.n_sample``
            is 100 times as large, which is certainly an error. A smaller excess, which loses samples before they are
            used, causes a warning.
    """
    where = "policy.other.replay_buffer"
    if buffer is None:
        buffer = policy["other"]["replay_buffer"]
        if buffer.get("multi_buffer", False):
            for key, section in buffer.items():
                if isinstance(section, Mapping):
                    check_buffer_fits(policy, section, key)
            return
    size = buffer.get("replay_buffer_size")
    for key, value in (
        ("policy.learn.batch_size", policy["learn"].get("batch_size")),
        ("policy.collect.n_sample", policy["collect"].get("n_sample")),
        (f"{where}.replay_buffer_start_size", buffer.get("replay_buffer_start_size")),
    ):
        needed = value.get(name) if isinstance(value, Mapping) else value
        if is_number(needed) and is_number(size) and float(needed) > float(size):
            path = f"{where}.{name}" if name else where
            sentence = (
                f"{key} is {needed}, but the replay buffer holds {size} rows at most: make it smaller, or "
                f"{path}.replay_buffer_size larger"
            )
            # Configs of DI-engine do that (PPG: 128 samples for a buffer of 100; COMA: 600 for one of 64).
            if key.endswith("n_sample") and float(needed) < _MAX_OVERFLOW * float(size):
                logger.warning("%s; the oldest samples of a collection are lost", sentence)
                continue
            raise ConfigValueError(sentence)


def check_values(user: Mapping[str, Any], defaults: Mapping[str, Any], policy: type | None = None) -> None:
    """Reject values that are certainly wrong.

    Args:
        user: User's main config.
        defaults: Config without the user's settings.
        policy: Class of the policy. Sections in its ``optional_keys`` may replace a default that is a number.

    Raises:
        ConfigValueError: The message lists all such values.
    """
    sections = {name: user.get(name, {}) for name in ("env", "policy")}
    found = [f"{name}: expected a dict, got {one!r}" for name, one in sections.items() if not isinstance(one, Mapping)]
    found += _walk(user, defaults, "", _optional_sections(policy))
    if not isinstance(user.get("exp_name", ""), (str, os.PathLike)):
        found.append(f"exp_name: expected the name of a folder, got {user['exp_name']!r}")
    if found:
        raise ConfigValueError("; ".join(found))


def check_ranges(config: Mapping[str, Any]) -> None:
    """Reject values of a class or a create config that violate :data:`RANGES`.

    Args:
        config: Compiled config.

    Raises:
        ConfigValueError: The message names the key as in the main config.
    """
    for path, allowed in RANGES.items():
        *sections, key = path.split(".")
        section: Any = config
        for name in sections:
            section = section.get(name) if isinstance(section, Mapping) else None
        value = section.get(key) if isinstance(section, Mapping) else None
        if isinstance(value, str) or (is_number(value) and not allowed.holds(value)):
            raise ConfigValueError(f"{path}: expected {allowed.text()}, got {value!r}")


def make_whole(user: MutableMapping[str, Any], defaults: Mapping[str, Any], section: str = "") -> None:
    """Convert integral floats (``1e5``) to ints where ints are expected."""
    for key, value in user.items():
        path = f"{section}.{key}" if section else str(key)
        default = defaults.get(key)
        if isinstance(value, MutableMapping):
            make_whole(value, default if isinstance(default, Mapping) else {}, path)
        elif isinstance(value, float) and value.is_integer():
            allowed = range_of(path, default)
            user[key] = int(value) if allowed is not None and allowed.whole else value


def _optional_sections(policy: type | None) -> set[str]:
    """Return the paths of the policy's optional sections."""
    classes = getattr(policy, "__mro__", ())
    return {f"policy.{name}" for cls in classes for name in vars(cls).get("optional_keys", {}) if name}


def _walk(
    user: Mapping[str, Any], defaults: Mapping[str, Any], section: str, optional: Collection[str]
) -> Iterator[str]:
    for key, value in user.items():
        path = f"{section}.{key}" if section else str(key)
        default = defaults.get(key)
        if isinstance(value, Mapping) and (path in optional or default is None or isinstance(default, Mapping)):
            yield from _walk(value, default if isinstance(default, Mapping) else {}, path, optional)
            continue
        if isinstance(value, Mapping) and section == _HOOKS:
            continue
        if isinstance(value, str) and value in SWITCH_WORDS.get(path, ()):
            continue
        if isinstance(value, str) and default and value not in _CHOICES.get(path, (value,)):
            yield f"{path}: expected {' or '.join(_CHOICES[path])}, got {value!r}"
            continue
        expected = (
            _without_value(path, default) if value is None else _expected(value, default, range_of(path, default))
        )
        if expected is None and path.startswith("policy."):
            expected = _single(value, default)
        if expected is not None:
            yield f"{path}: expected {expected}, got {value!r}"


def _single(value: object, default: object) -> str | None:
    """Return the expected type instead of a collection; ``None`` if the value may be correct."""
    if not isinstance(value, (Mapping, Sequence, Set)) or isinstance(value, (str, bytes)):
        return None
    if isinstance(default, bool):
        return "True or False"
    return "a number" if is_number(default) else None


def _without_value(path: str, default: object) -> str | None:
    """Return the expected type instead of ``None``; ``None`` if the value may be correct."""
    if path in _SECTIONS:
        return "a dict"
    return RANGES[path].text() if path in _NEEDED and is_number(default) else None


def _expected(value: object, default: object, allowed: Range | None) -> str | None:
    """Return the expected value instead of ``value``; ``None`` if it may be correct."""
    if isinstance(default, Mapping):
        # In configs of DI-engine, a switch instead of a section disables it.
        return "a dict" if isinstance(value, str) or is_number(value) else None
    if allowed is not None and is_number(default) and isinstance(value, Mapping):
        return allowed.text()
    if allowed is not None and isinstance(value, (Sequence, Set)):
        return allowed.text()
    if allowed is not None and (isinstance(value, str) or (is_number(value) and not allowed.holds(value))):
        return allowed.text()
    if isinstance(default, bool):
        return "True or False" if isinstance(value, str) else None
    if is_number(default):
        return "a number" if isinstance(value, str) or value != value else None
    return None
