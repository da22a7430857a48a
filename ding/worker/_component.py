"""Shared parts of worker classes: logs, the env manager, and config errors."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

from easydict import EasyDict

from ding.data.roles import EnvManager, Writer
from ding.envs import create_env_manager, get_vec_env_setting
from ding.rollout import v1_interface
from ding.utils import Configurable, build_logger, get_rank, nearest, write_scalars


class InstanceLog:
    """Text log and TensorBoard writer of a collector or evaluator. Only rank 0 has a writer.

    Args:
        exp_name: Experiment directory.
        instance_name: Name of the log files and prefix of the TensorBoard tags.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
    """

    def __init__(self, exp_name: str, instance_name: str, tb_logger: Writer | None) -> None:
        self.name = instance_name
        self.is_first_rank = get_rank() == 0
        owns_writer = tb_logger is None and self.is_first_rank
        logger, self._own_writer = build_logger(f"{exp_name}/log/{instance_name}", instance_name, need_tb=owns_writer)
        assert logger is not None
        self.text = logger
        self.writer: Writer | None = (tb_logger or self._own_writer) if self.is_first_rank else None

    def scalars(self, by_iter: Mapping[str, Any], train_iter: int, by_step: Mapping[str, Any], envstep: int) -> None:
        """Write ``<name>_iter/<key>`` over train iterations and ``<name>_step/<key>`` over env steps."""
        write_scalars(self.writer, f"{self.name}_iter/", by_iter, train_iter)
        write_scalars(self.writer, f"{self.name}_step/", by_step, envstep)

    def close(self) -> None:
        """Flush the writer, and close it unless it is shared."""
        if self.writer is not None:
            self.writer.flush()
        if self._own_writer is not None:
            self._own_writer.close()


class EnvWorker(Configurable):
    """Env manager and logs of a collector or evaluator.

    Args:
        cfg: Config of the worker.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        exp_name: Experiment directory.
        instance_name: Name of the log files and prefix of the TensorBoard tags.
    """

    _end_flag = False
    _env: EnvManager | None = None
    _log: InstanceLog | None = None

    def __init__(self, cfg: Mapping[str, Any], tb_logger: Writer | None, exp_name: str, instance_name: str) -> None:
        self._cfg: Any = cfg
        self._instance_name = instance_name
        self._log = InstanceLog(exp_name, instance_name, tb_logger)

    def reset_env(self, _env: EnvManager | None = None) -> None:
        """Reset the env manager, or store and launch a new one.

        Raises:
            AssertionError: There is no env manager to reset.
            TypeError: ``_env`` is not an env manager.
        """
        if _env is not None:
            self._env = v1_interface(_env)
            self._env.launch()
        elif self._env is None:
            raise AssertionError(f"{self._instance_name}: there is no env manager to reset; pass one")
        else:
            self._env.reset()

    def close(self) -> None:
        """Close the env manager, and the TensorBoard writer unless it is shared. Repeated calls have no effect."""
        if self._end_flag or self._log is None:
            return
        self._end_flag = True
        self._close_env()
        self._log.close()

    def _close_env(self) -> None:
        if self._env is not None:
            self._env.close()

    def __del__(self) -> None:
        self.close()


class Absent:
    """Attribute of DI-engine that has no counterpart here.

    Reading it raises an ``AttributeError`` that names the replacement; a subclass may define the attribute itself.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name}: {self._instead}")


def make_env_manager(cfg: EasyDict, eval_flag: bool) -> EnvManager:
    """Create the env manager of a collector or evaluator task, not launched yet."""
    env_fn, collector_cfg, evaluator_cfg = get_vec_env_setting(cfg, collect=not eval_flag, eval_=eval_flag)
    env_cfgs = evaluator_cfg if eval_flag else collector_cfg
    return v1_interface(create_env_manager(cfg.manager, [partial(env_fn, cfg=env_cfg) for env_cfg in env_cfgs or []]))


def required_key(cfg: Mapping[str, Any], key: str, owner: str) -> Any:
    """Return ``cfg[key]``. A missing key raises a ``KeyError`` with the owner of the config and the closest key."""
    if key in cfg:
        return cfg[key]
    close = nearest(key, cfg)
    hint = "" if close is None else f"; did you mean {close!r}?"
    raise KeyError(f"the {owner} config has no key {key!r}{hint}")
