"""Misspelt and unused keys, reported with their full path and value.

A key of the user's config is *known* if a default config or ``OPTIONAL_KEYS`` contains it. An unknown key that
resembles a known one of the same section is probably misspelt. One that resembles none is allowed in sections of user
code (models, envs, policies of users). The sections of a built-in policy are *closed*: keys unknown to its defaults,
its ``optional_keys`` and the parts that run it have no effect, and are also reported. A user-defined policy is checked
in the same way if its class, or a user-defined base class, has its own ``optional_keys``.
"""

import difflib
import logging
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ding.config.errors import UnknownKeyError
from ding.utils import POLICY_REGISTRY

logger = logging.getLogger("ding.config")

# Optional keys without a default in any config, by section.
_OPTIONAL_TEXT: dict[str, str] = {
    "": (
        "exp_name seed env policy reward_model rnd_reward_model episodic_reward_model world_model bco level_replay "
        "wandb_logger train_seeds"
    ),
    "env": (
        "type import_names env_id collector_env_num evaluator_env_num n_evaluator_episode stop_value manager cfg_type "
        "collector_episode_num evaluator_episode_num replay_path save_replay act_scale check_actions rew_clip "
        "env_wrapper is_train frame_stack max_step max_episode_steps norm_obs norm_reward reward_norm use_act_scale "
        "obs_plus_prev_action_reward continuous n_bits render_mode kwargs dynamic_seed per_collector "
        "shared_norm"
    ),
    "env.manager": (
        "type import_names episode_num max_retry retry_type auto_reset step_timeout reset_timeout retry_waiting_time "
        "shared_memory copy_on_get context wait_num step_wait_timeout connect_timeout reset_inplace cfg_type"
    ),
    "policy": (
        "type import_names cfg_type cuda multi_gpu on_policy priority priority_IS_weight traj_len_inf model "
        "learn collect eval other random_collect_size expert_random_collect_size transition_with_policy_data "
        "load_path unroll_len n_sample n_episode batch_size"
    ),
    "policy.learn": (
        "learner batch_size train_epoch offline_train_iter offline_share resume_training ignore_done run_state_freq "
        "run_state_every_s cfg_type"
    ),
    "policy.learn.learner": "type import_names load_path learner_num send_policy_freq",
    "policy.learn.learner.dataloader": "chunk_size",
    "policy.learn.learner.hook": "log_reduce_after_iter",
    "policy.collect": (
        "n_sample n_episode unroll_len collector data_type data_path save_path model_path compile cfg_type"
    ),
    "policy.collect.collector": (
        "type import_names deepcopy_obs transform_obs collect_print_freq get_train_sample reward_shaping "
        "collector_num compressor update_policy_second cfg_type"
    ),
    "policy.eval": "evaluator compile cfg_type",
    "policy.eval.evaluator": "type import_names n_episode stop_value multi_gpu",
    "policy.other": "replay_buffer commander league her cfg_type",
    "policy.other.replay_buffer": (
        "type import_names replay_buffer_size multi_buffer deepcopy enable_track_used_data periodic_thruput_seconds "
        "set_buffer_size max_use max_staleness alpha beta anneal_step thruput_controller monitor max_reuse name "
        "replay_buffer_start_size cfg_type"
    ),
}

# Keys that many policies have in their defaults; a key of a user-defined policy may be a misspelling of one of these.
_COMMON_TEXT: dict[str, str] = {
    "policy": (
        "discount_factor nstep bp_update_sync reference_numerics num_threads action_space burnin_step "
        "reward_batch_norm noisy_net nstep_return loss_type continuous recompute_adv"
    ),
    "policy.learn": (
        "update_per_collect epoch_per_collect multi_gpu optimizer optim_type adam_eps min_replay weight_decay "
        "target_update_freq target_theta target_update_theta grad_clip_type grad_clip_value "
        "value_norm entropy_weight clip_ratio value_weight learning_rate learning_rate_q "
        "learning_rate_policy learning_rate_value learning_rate_actor learning_rate_critic learning_rate_alpha"
    ),
    "policy.eval": "env_num",
    "policy.collect": "type import_names env_num discount_factor gae_lambda noise noise_sigma noise_range",
    "policy.other": "eps eps_greedy",
    "policy.other.eps": "type start end decay",
}

OPTIONAL_KEYS = {section: frozenset(text.split()) for section, text in _OPTIONAL_TEXT.items()}
COMMON_KEYS = {section: frozenset(text.split()) for section, text in _COMMON_TEXT.items()}

#: Parts named in a create config.
CREATE_KEYS = frozenset(
    (
        *("env", "env_manager", "policy", "learner", "collector", "commander", "comm_learner", "comm_collector"),
        *("replay_buffer", "evaluator", "reward_model", "world_model", "league"),
    )
)
#: Additional parts of serial pipelines.
SERIAL_CREATE_KEYS = {
    *("rnd_reward_model", "episodic_reward_model", "imagination_buffer", "model", "import_names", "exp_name"),
}

# Sections of user code: there, an additional key next to the correctly spelt one is not a misspelling.
FREE_SECTIONS = ("env",)

# Sections that are read completely by the policy or by the parts that run it.
CLOSED_SECTIONS = ("policy", "policy.learn", "policy.collect", "policy.eval", "policy.other", "policy.other.eps")

_NEEDED_SECTIONS = ("env", "policy", "env_manager")

_CUTOFF = 0.84


def check_keys(
    user: Mapping[str, Any],
    defaults: Mapping[str, Any],
    strict: bool,
    policy: type | None = None,
    found_before: Iterable[str] = (),
) -> None:
    """Warn about misspelt and unused keys.

    Args:
        user: User's main config.
        defaults: Config without the user's settings.
        strict: Raise instead of warning.
        policy: Class of the policy.
        found_before: Findings in another config, see ``misspelt_in_create``.

    Raises:
        UnknownKeyError: ``strict`` and there is at least one such key; the message lists all of them.
    """
    found = [*found_before, *unknown_keys(user, defaults, policy)]
    if found and strict:
        raise UnknownKeyError("the config has unknown keys: " + " ".join(found), found)
    for text in found:
        logger.warning("config key %s", text)


def unknown_keys(user: Mapping[str, Any], defaults: Mapping[str, Any], policy: type | None = None) -> list[str]:
    """Return a message for each misspelt or unused key; the arguments are those of check_keys."""
    return list(_Keys(defaults, policy).unknown(user, defaults, ""))


def refuse_misspelt_sections(main: Mapping[str, Any], create: Mapping[str, Any]) -> None:
    """Raise for a section with a misspelt name, which would be ignored as a whole.

    Args:
        main, create: Main config and create config as written.

    Raises:
        UnknownKeyError: Contains the name as written and the known name. A section in addition to the one with the
            correct name may be the user's own.
    """
    places = {"": (main, OPTIONAL_KEYS[""]), "create_config.": (create, CREATE_KEYS | SERIAL_CREATE_KEYS)}
    found = [
        f"{where}{key}={reprlib.repr(value)}: did you mean {where}{near}?"
        for where, (config, known) in places.items()
        for key, value in config.items()
        if isinstance(value, Mapping)
        and key not in known
        and (near := _missing_section(str(key), config) or _nearest(str(key), set(known))) is not None
        and near not in config
    ]
    if found:
        raise UnknownKeyError(" ".join(found), found)


def _missing_section(key: str, config: Mapping[str, Any]) -> str | None:
    """Return the required section that is missing in ``config`` and resembles ``key`` at least slightly."""
    near = difflib.get_close_matches(key, [name for name in _NEEDED_SECTIONS if name not in config], n=1)
    return near[0] if near else None


def misspelt_in_create(create: Mapping[str, Any], env_manager: Mapping[str, Any]) -> list[str]:
    """Return a message for each misspelt part of a create config, and each misspelt key of its env manager.

    Args:
        create: Create config.
        env_manager: Defaults of the env manager's class.
    """
    manager = create.get("env_manager")
    places = {"create_config": (create, CREATE_KEYS | SERIAL_CREATE_KEYS)}
    if isinstance(manager, Mapping):
        places["create_config.env_manager"] = manager, OPTIONAL_KEYS["env.manager"] | env_manager.keys()
    return [
        f"{where}.{key}={reprlib.repr(value)}: did you mean {where}.{near}?"
        for where, (section, known) in places.items()
        for key, value in section.items()
        if key not in known and (near := _nearest(str(key), set(known))) is not None
    ]


def refuse_misspelt(section: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise for a key of ``section`` that resembles a known one; warn about one that resembles none.

    For sections that only the parallel mode reads: no other code can use the key, and the default of the misspelt key
    would go unnoticed in a run of many processes.

    Raises:
        UnknownKeyError: Contains the path as written and the known path.
    """
    names = set(known)
    for key in set(section) - names:
        near = _nearest(str(key), names)
        if near is not None:
            raise UnknownKeyError(f"{where}.{key}: there is no such key; did you mean {where}.{near}?")
        logger.warning("%s.%s: no part of the parallel mode reads this key", where, key)


class _Keys:
    """Known keys of a config with this policy."""

    def __init__(self, defaults: Mapping[str, Any], policy: type | None) -> None:
        self._defaults = defaults
        # A task reads the keys of the command mode, too, although its policy has none.
        twin = POLICY_REGISTRY.get(f"{defaults.get('policy', {}).get('type', '')}_command", None)
        classes = [*getattr(policy, "__mro__", ()), *getattr(twin, "__mro__", ())]
        declaring = [cls for cls in classes if "optional_keys" in vars(cls)]
        outside = [cls for cls in getattr(policy, "__mro__", ()) if not _is_ours(cls)]
        #: Whether the policy is known to read no other keys.
        self._closed = policy is not None and (not outside or any(cls in outside for cls in declaring))
        self._policy = getattr(policy, "__name__", "the policy")
        self._declared: dict[str, set[str]] = {}
        if "reward_model" in defaults:
            # Its on-policy pipeline reads the number of trainings per collection.
            self._declared["policy.learn"] = {"update_per_collect"}
        for cls in declaring:
            for section, text in vars(cls)["optional_keys"].items():
                where = f"policy.{section}" if section else "policy"
                self._declared.setdefault(where, set()).update(text.split())

    def unknown(
        self, user: Mapping[str, Any], defaults: Mapping[str, Any], section: str, table: str | None = None
    ) -> Iterator[str]:
        """Yield a message for each misspelt or unused key; ``table``: section of the optional keys."""
        if section == "policy.model":
            return  # the network checks its own keys when it is created
        buffers = section == "policy.other.replay_buffer" and bool(user.get("multi_buffer"))
        known = {str(key) for key in defaults} | OPTIONAL_KEYS.get(table or section, frozenset())
        known |= self._declared.get(section, set()) if self._closed else COMMON_KEYS.get(section, frozenset())
        for key, value in user.items():
            path = f"{section}.{key}" if section else str(key)
            below = defaults.get(key)
            if buffers:
                # Here the keys are the user's names of the buffers.
                if isinstance(value, Mapping):
                    yield from self.unknown(value, {}, path, table=section)
            elif key in known:
                if isinstance(value, Mapping):
                    yield from self.unknown(value, below if isinstance(below, Mapping) else {}, path)
            else:
                text = self._text(path, section, str(key), known, user)
                if text:
                    yield f"{path}={reprlib.repr(value)}: {text}"

    def _text(self, path: str, section: str, key: str, known: set[str], user: Mapping[str, Any]) -> str:
        """Return the problem of an unknown key; empty if it may be correct."""
        near = _nearest(key, known)
        if near is not None and not (section in FREE_SECTIONS and near in user):
            return f"did you mean {f'{section}.{near}' if section else near}?"
        if not self._closed or section not in CLOSED_SECTIONS or not known:
            return ""
        same = [other for other in self._homes(self._defaults["policy"], "policy", key) if other != path]
        close = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.0)
        return f"{self._policy} does not read it; the nearest known key is {(same or [f'{section}.{close[0]}'])[0]}."

    def _homes(self, defaults: Mapping[str, Any], section: str, key: str) -> Iterator[str]:
        """Yield paths of the policy's sections that have a key of this name."""
        if section in CLOSED_SECTIONS:
            if key in defaults:
                yield f"{section}.{key}"
            for name, below in defaults.items():
                if isinstance(below, Mapping):
                    yield from self._homes(below, f"{section}.{name}", key)


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("ding", "abc", "builtins", "typing")


def _nearest(key: str, known: set[str]) -> str | None:
    plain = {name.replace("_", "").lower(): name for name in sorted(known)}
    bare = key.replace("_", "").lower()
    if bare in plain:
        return plain[bare]
    near = difflib.get_close_matches(bare, plain, n=1, cutoff=_CUTOFF)
    # Keys that differ only in a number (``layer_1``, ``layer_2``) are different keys.
    if not near or near[0].rstrip("0123456789") == bare.rstrip("0123456789"):
        return None
    return plain[near[0]]
