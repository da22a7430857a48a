"""Generation of a commented config for a policy on an env, for ``ding new config``."""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.bonus.quick.generated import compiled, generated_config
from ding.config import ConfigValueError
from ding.config.documented import documented_keys
from ding.config.key_meanings import SHARED_MEANINGS
from ding.utils import POLICY_REGISTRY
from ding.utils.file_helper import write_text

# Keys without a default in any component, or with another meaning in a config.
_MEANINGS = {
    "exp_name": "(str) The experiment folder.",
    "env.collector_env_num": "(int) Envs that collect, and envs that evaluate.",
    "env.n_evaluator_episode": "(int) Episodes of an evaluation.",
    "env.stop_value": "(float) The run ends when an evaluation reaches this mean return.",
    "env.act_scale": "(bool) Whether the policy's actions in [-1, 1] are scaled to the bounds of the env's.",
    "env.env_wrapper": "(list) Wrappers around the env, the innermost first.",
}
# Policy keys that are written with their defaults if the config does not contain them.
_SHOWN = (
    *("cuda", "nstep", "discount_factor", "action_space"),
    *("learn.update_per_collect", "learn.epoch_per_collect", "learn.batch_size", "learn.learning_rate"),
    *("learn.target_update_freq", "learn.entropy_weight", "learn.clip_ratio", "learn.value_weight"),
    *("collect.n_sample", "collect.n_episode", "collect.discount_factor", "collect.gae_lambda"),
    *("eval.evaluator.eval_freq", "other.eps.start", "other.eps.end", "other.eps.decay"),
    "other.replay_buffer.replay_buffer_size",
)
_WIDTH = 100
_ON_POLICY_UNREAD = ("policy.other", "policy.learn.update_per_collect")


def write_new_config(policy: str, env_id: str, out: str | None = None) -> tuple[str, str]:
    """Write a config file; return its path, and the mode of ``ding -m`` that runs it.

    Raises:
        AgentConfigError: The policy or env does not exist, or they do not fit.
        ConfigValueError: The file exists, or its folder does not.
    """
    path = Path(out or f"{env_id.replace('/', '_').replace('-', '_').lower()}_{policy.lower()}_config.py")
    if path.exists():
        raise ConfigValueError(f"{path} exists already; choose another file with --out")
    if not path.parent.is_dir():
        raise ConfigValueError(f"{path}: there is no folder {path.parent} to write to")
    main, create = generated_config(policy, env_id)
    whole = compiled(main, create)
    mode = "serial_onpolicy" if whole.policy.on_policy else "serial"
    pipeline = mode.replace("serial", "serial_pipeline")
    for key in _SHOWN:
        _fill(main, whole, f"policy.{key}", bool(whole.policy.on_policy))
    cls = POLICY_REGISTRY.get(create.policy.type)
    of_policy = {**SHARED_MEANINGS, **{key.path: key.meaning for key in documented_keys(cls)}}
    meanings = {**{f"policy.{path}": meaning for path, meaning in of_policy.items()}, **_MEANINGS}
    lines = [
        f'"""{policy} on {env_id}, written by `ding new config`; ding -q policy lists the policies."""',
        "",
        "from easydict import EasyDict",
        "",
        "main_config = EasyDict(",
        *_lines(main, "", "    ", meanings),
        ")",
        "create_config = EasyDict(",
        *_lines(create, "create_config", "    ", {}),
        ")",
        "",
        'if __name__ == "__main__":',
        f"    from ding.entry import {pipeline}",
        "",
        f"    {pipeline}((main_config, create_config), seed=0)",
    ]
    write_text(path, "\n".join(lines) + "\n")
    return str(path), mode


def _fill(main: EasyDict, whole: Mapping[str, Any], key: str, on_policy: bool) -> None:
    """Write the default of a policy key that the config does not contain."""
    if on_policy and key.startswith(_ON_POLICY_UNREAD):
        return
    *sections, name = key.split(".")
    to = main
    default = whole
    for section in sections:
        default = default.get(section, {}) if isinstance(default, Mapping) else {}
    if name not in default or isinstance(default[name], Mapping):
        return
    for section in sections:
        to = to.setdefault(section, EasyDict())
    to.setdefault(name, default[name])


def _lines(section: Mapping[str, Any], path: str, indent: str, meanings: Mapping[str, str]) -> Iterator[str]:
    # Sections follow single values.
    for key, value in sorted(section.items(), key=lambda item: isinstance(item[1], Mapping)):
        name = f"{path}.{key}" if path else str(key)
        if meanings.get(name):
            yield from textwrap.wrap(
                meanings[name], _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
            )
        if isinstance(value, Mapping):
            yield f"{indent}{key}=dict("
            yield from _lines(value, name, f"{indent}    ", meanings)
            yield f"{indent}),"
        else:
            yield f"{indent}{key}={_text(value)},"


def _text(value: Any) -> str:
    """Return the source text of a value, with containers of a compiled config as plain ones."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)):
        items = ", ".join(_text(one) for one in value)
        return f"[{items}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(one)}" for key, one in value.items()) + "}"
    return repr(value).replace("'", '"') if isinstance(value, str) else repr(value)
