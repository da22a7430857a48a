"""Misspelt keys, reported by their full path.

A key of the user's config is *known* when a default config has it or when `OPTIONAL_KEYS` lists it. A key that is not
known and resembles a known one of the same section is most likely misspelt. A key that resembles nothing is let
through: policies, models and envs read keys of their own.
"""

import difflib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ding.config.errors import UnknownKeyError

logger = logging.getLogger("ding.config")

# Keys that are read when they are there and that no default config lists, by section.
_OPTIONAL_TEXT: dict[str, str] = {
    "": "exp_name seed env policy reward_model world_model wandb_logger",
    "env": (
        "type import_names env_id collector_env_num evaluator_env_num n_evaluator_episode stop_value manager cfg_type "
        "collector_episode_num evaluator_episode_num replay_path save_replay act_scale rew_clip env_wrapper is_train "
        "frame_stack max_step max_episode_steps norm_obs norm_reward use_act_scale obs_plus_prev_action_reward "
        "continuous n_bits render_mode kwargs dynamic_seed"
    ),
    "env.manager": (
        "type import_names episode_num max_retry retry_type auto_reset step_timeout reset_timeout retry_waiting_time "
        "shared_memory copy_on_get context wait_num step_wait_timeout connect_timeout reset_inplace cfg_type"
    ),
    "policy": (
        "type import_names cuda multi_gpu on_policy priority priority_IS_weight discount_factor nstep traj_len_inf "
        "bp_update_sync model learn collect eval other cfg_type random_collect_size transition_with_policy_data "
        "reference_numerics num_threads load_path action_space unroll_len burnin_step reward_batch_norm noisy_net "
        "nstep_return n_sample n_episode batch_size loss_type continuous recompute_adv"
    ),
    "policy.model": (
        "type import_names obs_shape action_shape encoder_hidden_size_list dueling head_hidden_size head_layer_num "
        "activation norm_type action_space twin_critic share_encoder actor_head_hidden_size critic_head_hidden_size "
        "actor_head_layer_num critic_head_layer_num v_min v_max n_atom num_quantiles init_bias agent_num "
        "global_obs_shape hidden_size_list sigma_type fixed_sigma_value bound_type dropout noise res_link_shape "
        "collector_env_num agent_obs_shape"
    ),
    "policy.learn": (
        "batch_size update_per_collect epoch_per_collect train_epoch learning_rate learner resume_training ignore_done "
        "run_state_freq "
        "target_update_freq target_theta target_update_theta grad_clip_type grad_clip_value value_norm entropy_weight "
        "clip_ratio value_weight weight_decay optimizer optim_type adam_eps min_replay multi_gpu learning_rate_q "
        "learning_rate_policy learning_rate_value learning_rate_actor learning_rate_critic learning_rate_alpha"
    ),
    "policy.learn.learner": "type import_names load_path learner_num send_policy_freq",
    "policy.learn.learner.dataloader": "chunk_size",
    "policy.learn.learner.hook": "log_reduce_after_iter",
    "policy.collect": (
        "type import_names n_sample n_episode unroll_len collector discount_factor gae_lambda data_type env_num "
        "data_path noise noise_sigma noise_range cfg_type"
    ),
    "policy.collect.collector": (
        "type import_names deepcopy_obs transform_obs collect_print_freq get_train_sample reward_shaping "
        "collector_num compressor update_policy_second cfg_type"
    ),
    "policy.eval": "evaluator env_num cfg_type",
    "policy.eval.evaluator": "type import_names n_episode stop_value multi_gpu",
    "policy.other": "replay_buffer eps commander league eps_greedy",
    "policy.other.eps": "type start end decay",
    "policy.other.replay_buffer": (
        "type import_names replay_buffer_size multi_buffer deepcopy enable_track_used_data periodic_thruput_seconds "
        "set_buffer_size max_use max_staleness alpha beta anneal_step thruput_controller monitor max_reuse name "
        "replay_buffer_start_size cfg_type"
    ),
}

OPTIONAL_KEYS = {section: frozenset(text.split()) for section, text in _OPTIONAL_TEXT.items()}

# Sections whose keys belong to code that is not ours: there, a key beside the correctly spelt one is not a misspelling.
FREE_SECTIONS = ("env", "policy.model")

_CUTOFF = 0.84


def check_keys(user: Mapping[str, Any], defaults: Mapping[str, Any], strict: bool) -> None:
    """Warn about keys that look misspelt.

    Args:
        user: The user's main config.
        defaults: What the config would be without it.
        strict: Raise instead of warning.

    Raises:
        UnknownKeyError: ``strict`` and at least one key looks misspelt; the message lists them all.
    """
    found = list(_misspelt(user, defaults, ""))
    if found and strict:
        raise UnknownKeyError("the config has unknown keys: " + " ".join(found))
    for text in found:
        logger.warning("config key %s", text)


def refuse_misspelt(section: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise for a key of ``section`` that resembles a known one; warn about one that resembles nothing.

    For sections that only the parallel mode reads: nothing else could want the key, and its default would go unnoticed
    in a run of many processes.

    Raises:
        UnknownKeyError: With the path as written and as it is known.
    """
    names = set(known)
    for key in set(section) - names:
        near = _nearest(str(key), names)
        if near is not None:
            raise UnknownKeyError(f"{where}.{key}: there is no such key; did you mean {where}.{near}?")
        logger.warning("%s.%s: no part of the parallel mode reads this key", where, key)


def _misspelt(
    user: Mapping[str, Any], defaults: Mapping[str, Any], section: str, table: str | None = None
) -> Iterator[str]:
    """``"path: did you mean path?"`` for each misspelt key; ``table``: of which section the optional keys are."""
    buffers = section == "policy.other.replay_buffer" and bool(user.get("multi_buffer"))
    known = {str(key) for key in defaults} | OPTIONAL_KEYS.get(table or section, frozenset())
    for key, value in user.items():
        path = f"{section}.{key}" if section else str(key)
        below = defaults.get(key)
        if buffers:
            # Here the keys are names that the user gives to the buffers.
            if isinstance(value, Mapping):
                yield from _misspelt(value, {}, path, table=section)
        elif key in known:
            if isinstance(value, Mapping):
                yield from _misspelt(value, below if isinstance(below, Mapping) else {}, path)
        else:
            near = _nearest(str(key), known)
            if near is not None and not (section in FREE_SECTIONS and near in user):
                yield f"{path}: did you mean {f'{section}.{near}' if section else near}?"


def _nearest(key: str, known: set[str]) -> str | None:
    plain = {name.replace("_", "").lower(): name for name in sorted(known)}
    bare = key.replace("_", "").lower()
    if bare in plain:
        return plain[bare]
    near = difflib.get_close_matches(bare, plain, n=1, cutoff=_CUTOFF)
    # Two keys that differ in a number only (`layer_1`, `layer_2`) are two keys.
    if not near or near[0].rstrip("0123456789") == bare.rstrip("0123456789"):
        return None
    return plain[near[0]]
