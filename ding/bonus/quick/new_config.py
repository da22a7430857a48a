"""A commented config for a policy on an env: what `ding new config` writes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.bonus.quick.generated import compiled, generated_config
from ding.config import ConfigValueError
from ding.utils.file_helper import write_text

# What keys mean; of those that are not written, these are written with their defaults.
_MEANINGS = {
    "exp_name": "The experiment folder.",
    "env.collector_env_num": "Envs that collect, and envs that evaluate.",
    "env.n_evaluator_episode": "Episodes of an evaluation.",
    "env.stop_value": "The run ends when an evaluation reaches this mean return.",
    "env.act_scale": "The policy's actions lie in [-1, 1] and are scaled to the range of the env's.",
    "env.env_wrapper": "Wrappers around the env, the innermost first.",
    "policy.cuda": "True, False, or 'auto': the GPU where there is one.",
    "policy.nstep": "Rewards in the target of a Q value.",
    "policy.discount_factor": "How much the reward of the next step counts.",
    "policy.priority": "Prioritised replay.",
    "policy.random_collect_size": "Samples that a random policy collects before the run.",
    "policy.recompute_adv": "Compute the advantages anew in each epoch.",
    "policy.action_space": "'discrete', 'continuous' or 'hybrid'.",
    "policy.model": "Arguments of the network.",
    "policy.learn.update_per_collect": "Updates after each collection.",
    "policy.learn.epoch_per_collect": "How often the policy goes through what was collected.",
    "policy.learn.batch_size": "Rows of an update.",
    "policy.learn.learning_rate": "Step size of the optimiser.",
    "policy.learn.target_update_freq": "Updates between two copies of the network to the target network.",
    "policy.learn.entropy_weight": "Weight of the entropy in the loss: larger explores more.",
    "policy.learn.clip_ratio": "How far an update may move the ratio of the probabilities from 1.",
    "policy.learn.value_weight": "Weight of the loss of the value.",
    "policy.collect.n_sample": "Samples of a collection, of all envs together.",
    "policy.collect.n_episode": "Episodes of a collection.",
    "policy.collect.discount_factor": "How much the reward of the next step counts.",
    "policy.collect.gae_lambda": "Bias (0) against variance (1) of the advantages.",
    "policy.eval.evaluator.eval_freq": "Train iterations between two evaluations.",
    "policy.other.eps.start": "Share of random actions at the begin of the run.",
    "policy.other.eps.end": "And at its end.",
    "policy.other.eps.decay": "Env steps over which it falls.",
    "policy.other.replay_buffer.replay_buffer_size": "Rows in the replay buffer.",
}
# What a config only says where it differs from the default.
_RARE = ("env.act_scale", "env.env_wrapper", "policy.recompute_adv", "policy.priority", "policy.random_collect_size")
_ON_POLICY_UNREAD = ("policy.other", "policy.learn.update_per_collect")


def write_new_config(policy: str, env_id: str, out: str | None = None) -> tuple[str, str]:
    """Write a config file; returns its path, and what ``ding -m`` calls the pipeline that runs it.

    Raises:
        AgentConfigError: there is no such policy or env, or they do not fit.
        ConfigValueError: the file exists already.
    """
    path = Path(out or f"{env_id.replace('/', '_').replace('-', '_').lower()}_{policy.lower()}_config.py")
    if path.exists():
        raise ConfigValueError(f"{path} exists already; choose another file with --out")
    main, create = generated_config(policy, env_id)
    whole = compiled(main, create)
    mode = "serial_onpolicy" if whole.policy.on_policy else "serial"
    pipeline = mode.replace("serial", "serial_pipeline")
    for key in _MEANINGS:
        if key not in _RARE:
            _fill(main, whole, key, bool(whole.policy.on_policy))
    lines = [
        f'"""{policy} on {env_id}, written by `ding new config`; ding -q policy lists the policies."""',
        "",
        "from easydict import EasyDict",
        "",
        "main_config = EasyDict(",
        *_lines(main, "", "    "),
        ")",
        "create_config = EasyDict(",
        *_lines(create, "create_config", "    "),
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
    """Write the default of a key that the policy has and the config does not say."""
    if on_policy and key.startswith(_ON_POLICY_UNREAD):
        return
    *sections, name = key.split(".")
    to: Any = main
    default: Any = whole
    for section in sections:
        default = default.get(section, {}) if isinstance(default, Mapping) else {}
    if name not in default or isinstance(default[name], Mapping):
        return
    for section in sections:
        to = to.setdefault(section, EasyDict())
    to.setdefault(name, default[name])


def _lines(section: Mapping[str, Any], path: str, indent: str) -> Iterator[str]:
    # Sections come after single values.
    for key, value in sorted(section.items(), key=lambda item: isinstance(item[1], Mapping)):
        name = f"{path}.{key}" if path else str(key)
        if name in _MEANINGS:
            yield f"{indent}# {_MEANINGS[name]}"
        if isinstance(value, Mapping):
            yield f"{indent}{key}=dict("
            yield from _lines(value, name, f"{indent}    ")
            yield f"{indent}),"
        else:
            yield f"{indent}{key}={_text(value)},"


def _text(value: Any) -> str:
    """Source text of a value; containers from a compiled config are plain again."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)):
        items = ", ".join(_text(one) for one in value)
        return f"[{items}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(one)}" for key, one in value.items()) + "}"
    return repr(value).replace("'", '"') if isinstance(value, str) else repr(value)
