"""Attributes and state dicts of a policy."""

from collections.abc import Iterable
from typing import Any

from easydict import EasyDict

from ding.policy.errors import PolicyAttributeError, PolicyStateError
from ding.utils.default_helper import did_you_mean

# What a learner writes beside the policy's state into one checkpoint file.
_CHECKPOINT_COUNTERS = frozenset({"last_iter", "last_step"})


class PolicyState:
    """The part of :class:`~ding.policy.Policy` that others read, save and restore.

    An algorithm sets ``_learn_model``, ``_optimizer``, ``_collect_model`` and ``_eval_model`` when its modes are
    initialised.
    """

    _cfg: EasyDict
    _learn_model: Any
    _collect_model: Any
    _eval_model: Any
    _optimizer: Any

    def _get_attribute(self, name: str) -> Any:
        """``_get_<name>()`` where there is one, else ``_<name>``.

        Raises:
            PolicyAttributeError: neither exists (a ``NotImplementedError``).
        """
        getter = getattr(self, "_get_" + name, None)
        if getter is not None:
            return getter()
        try:
            return getattr(self, "_" + name)
        except AttributeError:
            known = [key.removeprefix("_") for key in vars(self)]
            raise PolicyAttributeError(
                f"{type(self).__name__} has no attribute {name!r}." + did_you_mean(name, known)
            ) from None

    def _set_attribute(self, name: str, value: Any) -> None:
        """Set ``_<name>``."""
        setattr(self, "_" + name, value)

    def _get_batch_size(self) -> int | None:
        batch_size = self._cfg.get("batch_size")
        return batch_size if batch_size is not None else self._cfg.get("learn", {}).get("batch_size")

    def _get_n_sample(self) -> int | None:
        return self._from_collect("n_sample")

    def _get_n_episode(self) -> int | None:
        return self._from_collect("n_episode")

    def _from_collect(self, key: str) -> Any:
        value = self._cfg.get(key)
        return value if value is not None else self._cfg.get("collect", {}).get(key)

    # ------------------------------------------------------------------ state

    def _state_dict_learn(self) -> dict[str, Any]:
        return {"model": self._learn_model.state_dict(), "optimizer": self._optimizer.state_dict()}

    def _load_state_dict_learn(self, state_dict: dict[str, Any]) -> None:
        self._check_state_keys(state_dict, ("model", "optimizer"))
        self._learn_model.load_state_dict(state_dict["model"])
        self._optimizer.load_state_dict(state_dict["optimizer"])

    def _state_dict_collect(self) -> dict[str, Any]:
        return {"model": self._collect_model.state_dict()}

    def _load_state_dict_collect(self, state_dict: dict[str, Any]) -> None:
        self._load_model(self._collect_model, state_dict)

    def _state_dict_eval(self) -> dict[str, Any]:
        return {"model": self._eval_model.state_dict()}

    def _load_state_dict_eval(self, state_dict: dict[str, Any]) -> None:
        self._load_model(self._eval_model, state_dict)

    def _load_model(self, model: Any, state_dict: dict[str, Any]) -> None:
        # A checkpoint of the learner holds more than the model: the rest does not concern collecting and evaluating.
        if "model" not in state_dict:
            raise PolicyStateError(
                f"the state dict of {type(self).__name__} lacks 'model'; it has {sorted(map(str, state_dict))}"
            )
        model.load_state_dict(state_dict["model"], strict=True)

    def _check_state_keys(
        self, state_dict: dict[str, Any], required: Iterable[str], optional: Iterable[str] = ()
    ) -> None:
        """Raise :class:`PolicyStateError` unless the keys are the required ones and at most the optional ones too."""
        expected = [*required]
        missing = [key for key in expected if key not in state_dict]
        unknown = sorted(set(state_dict) - {*expected, *optional} - _CHECKPOINT_COUNTERS)
        if missing or unknown:
            raise PolicyStateError(
                f"the learn state of {type(self).__name__} has the keys {expected}: "
                f"missing {missing}, unknown {unknown}"
            )
