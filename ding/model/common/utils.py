"""Build models from configs."""

from __future__ import annotations

import copy
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from torch import nn

from ding.config.errors import ConfigError, ConfigValueError, ModelConfigError
from ding.torch_utils import build_activation
from ding.utils import MODEL_REGISTRY, did_you_mean
from ding.utils.signature import takes_argument

# Annotations of arguments that accept only an int.
_WHOLE = ("int", "<class 'int'>")
# Accepted values of a switch; a string such as 'no' would count as on.
_SWITCHES = (bool, int, float, np.bool_, type(None))


def create_model(cfg: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> nn.Module:
    """Build the model that ``cfg['type']`` names, with the other entries as its arguments.

    Arguments:
        cfg: ``type``; ``import_names``, a list of modules to import first (optional); the arguments of the model.
            Unchanged. If the model takes a module as ``activation``, a name known to `build_activation` is accepted.
        defaults: Arguments of the network that a policy has by default. Those that ``cfg`` repeats, and that this model
            does not take, are left out.

    Raises:
        ConfigValueError: there is no activation of that name (the message names those that there are), the model has
            no such argument, or it takes an int, a list of ints or a switch and gets something else.
        ModelConfigError: a model of this library refuses its arguments. Errors of custom models propagate unchanged.
        KeyError: no ``type``, or a name that is not registered (the message names the nearest known one).
    """
    kind = MODEL_REGISTRY.type_of(cfg)
    cfg = _without_foreign_defaults(cfg, defaults or {})
    arguments = copy.deepcopy({key: value for key, value in cfg.items() if key not in ("type", "import_names")})
    _check_arguments(MODEL_REGISTRY[kind], arguments)
    if isinstance(arguments.get("activation"), str) and _takes_module(MODEL_REGISTRY[kind], "activation"):
        arguments["activation"] = _activation(arguments["activation"])
    return _built(kind, arguments)


def _built(kind: str, arguments: dict[str, Any]) -> nn.Module:
    model = MODEL_REGISTRY[kind]
    try:
        made: nn.Module = MODEL_REGISTRY.build(kind, **arguments)
    except ConfigError:
        raise
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if not str(getattr(model, "__module__", "")).startswith("ding."):
            raise
        sentence = str(error.args[0] if error.args else error).strip().partition("\n")[0]
        raise ModelConfigError(
            f"policy.model: {sentence or type(error).__name__} (network {model.__name__})"
        ) from error
    return made


def _without_foreign_defaults(cfg: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model config without the defaults of another network that this one has no arguments for."""
    model = MODEL_REGISTRY.class_of(cfg)

    def is_foreign(key: str) -> bool:
        return key in defaults and cfg[key] == defaults[key] and not takes_argument(model, key)

    return {key: value for key, value in cfg.items() if key in ("type", "import_names") or not is_foreign(key)}


def _check_arguments(model: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Refuse unknown argument names, and values of the wrong type where the model accepts only ints, lists of ints or
    switches. Whole numbers written as floats become ints.
    """
    known = inspect.signature(model).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for name, value in arguments.items():
        if name not in known and not takes_all:
            text = f"policy.model.{name}={value!r}: {getattr(model, '__name__', 'the model')} takes no {name!r}."
            raise ConfigValueError(text + did_you_mean(name, known))
        if name in known and _takes_sizes(known[name].annotation) and not _are_sizes(value):
            raise ConfigValueError(f"policy.model.{name}: expected a list of ints, got {value!r}")
        if name in known and "hidden" in name and _takes_sizes(known[name].annotation) and min(value or [1]) < 1:
            raise ConfigValueError(f"policy.model.{name}: expected ints of at least 1, got {value!r}")
        if name in known and str(known[name].annotation) in _WHOLE:
            arguments[name] = _whole(name, value)
        if name in known and known[name].annotation in (bool, "bool") and not isinstance(value, _SWITCHES):
            raise ConfigValueError(f"policy.model.{name}: expected True or False, got {value!r}")
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [name for name, one in known.items() if one.default is one.empty and one.kind in plain]
    missing = [f"policy.model.{name}" for name in needed if name not in arguments]
    if missing:
        text = f"{' and '.join(missing)} must be given: {getattr(model, '__name__', 'the model')} needs"
        raise ConfigValueError(f"{text} {'them' if len(missing) > 1 else 'it'}")


def _whole(name: str, value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return value
    raise ConfigValueError(f"policy.model.{name}: expected a whole number, got {value!r}")


def _takes_sizes(annotation: object) -> bool:
    """Return whether an argument of a built-in model takes a list of ints (or None), and nothing else."""
    return str(annotation).replace("collections.abc.", "") in ("Sequence[int]", "Sequence[int] | None")


def _are_sizes(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    return all(isinstance(size, numbers.Integral) for size in value)


def _takes_module(model: Callable[..., Any], name: str) -> bool:
    """Return whether an argument is annotated as a module; a model of the user's may have a text there."""
    parameter = inspect.signature(model).parameters.get(name)
    return parameter is not None and "Module" in str(parameter.annotation)


def _activation(name: str) -> nn.Module:
    try:
        made = build_activation(name)
    except KeyError as error:
        raise ConfigValueError(f"policy.model.{error.args[0]}") from error
    if not isinstance(made, nn.Module):
        raise ConfigValueError(f"policy.model.activation={name!r} needs sizes; choose another, such as 'relu'")
    return made
