"""The form in which the workers speak to an env manager."""

from typing import Any


def dict_form(env: Any) -> Any:
    """``env`` itself, or, of a manager of the second form (``base_v2``, ``subprocess_v2``), its view of the first form.

    The class is asked and not the manager, which hands on attributes of its envs.

    Raises:
        TypeError: this is no env manager.
    """
    if not hasattr(env, "launch"):
        raise TypeError(f"expected an env manager (see ding.envs.create_env_manager), found {type(env).__name__}")
    return env.as_dict_form() if hasattr(type(env), "as_dict_form") else env
