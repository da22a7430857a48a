"""What every worker class shares: a default config, and being built by the ``type`` of a config."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from easydict import EasyDict

from ding.utils import Registry, import_module, nearest


class Configurable:
    """A class with a ``config`` dict of defaults.

    A subclass states its own dict; nothing is merged from its bases.
    """

    config: ClassVar[dict[str, Any]] = {}

    @classmethod
    def default_config(cls) -> EasyDict:
        """A fresh copy of the default config, with the key ``cfg_type``. Changing it never changes the class."""
        cfg = EasyDict(deepcopy(cls.config))
        cfg.cfg_type = cls.__name__ + "Dict"
        return cfg


def class_by_type(registry: Registry, cfg: Any) -> type:
    """The class that ``cfg.type`` names, after importing ``cfg.import_names``.

    Raises:
        KeyError: ``type`` is missing or names nothing that is registered.
    """
    import_module(cfg.get("import_names", []))
    if "type" not in cfg:
        raise KeyError(f"the {registry.name} config has no key 'type'; known types are {sorted(registry.query())}")
    return registry.get(cfg["type"])


def build_by_type(registry: Registry, cfg: Any, **kwargs: Any) -> Any:
    """``class_by_type(registry, cfg)(cfg=cfg, **kwargs)``.

    Raises:
        KeyError: ``type`` is missing or names nothing that is registered.
    """
    class_by_type(registry, cfg)
    return registry.build(cfg["type"], cfg=cfg, **kwargs)


def required_key(cfg: Mapping[str, Any], key: str, owner: str) -> Any:
    """``cfg[key]``. Raises ``KeyError`` that names the owner of the config, the key, and the nearest one there is."""
    if key in cfg:
        return cfg[key]
    close = nearest(key, cfg)
    hint = "" if close is None else f"; did you mean {close!r}?"
    raise KeyError(f"the {owner} config has no key {key!r}{hint}")
