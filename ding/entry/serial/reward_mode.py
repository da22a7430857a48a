"""Config keys that only some pipelines read, such as the reward model, and the modes of these pipelines."""

import logging

from easydict import EasyDict

from ding.config import UnknownKeyError

logger = logging.getLogger("ding.entry")

# Types that learn from demonstrations; all others are trained together with the policy.
_MODES = {"gail": "serial_gail", "guided_cost": "serial_guided_cost", "trex": "serial_trex", "drex": "serial_trex"}
# Types with an on-policy variant.
_BOTH = ("serial_reward_model", "serial_trex")


def reward_mode(kind: str, on_policy: bool) -> str:
    """Return the mode of ``ding -m`` for a reward model of this type."""
    mode = _MODES.get(kind, "serial_reward_model")
    return f"{mode}_onpolicy" if on_policy and mode in _BOTH else mode


def check_unread_reward_model(cfg: EasyDict, strict: bool) -> None:
    """Warn that a pipeline trains on the rewards of the env although the config has a reward model.

    Raises:
        UnknownKeyError: Raised instead of the warning if ``strict``.
    """
    section = next((key for key in ("reward_model", "rnd_reward_model") if cfg.get(key)), None)
    if section is None:
        return
    ngu = section == "rnd_reward_model"
    mode = "serial_ngu" if ngu else reward_mode(cfg[section].get("type", ""), bool(cfg.policy.on_policy))
    text = f"{section}: this pipeline trains on the rewards of the env; ding -m {mode} trains on those of the model"
    _report(text, strict)


def check_unread_data_share(cfg: EasyDict, strict: bool) -> None:
    """Warn that a pipeline ignores the keys that mix a data set with collected samples.

    Raises:
        UnknownKeyError: Raised instead of the warning if ``strict``.
    """
    key = next((key for key in ("offline_train_iter", "offline_share") if cfg.policy.learn.get(key) is not None), None)
    if key is not None:
        _report(f"policy.learn.{key}: this pipeline does not read it; ding -m serial_finetune does", strict)


def _report(text: str, strict: bool) -> None:
    if strict:
        raise UnknownKeyError(f"config key {text}", [text])
    logger.warning("config key %s", text)
