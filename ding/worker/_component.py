"""What worker classes share: their logs, their env manager, and errors of their configs."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

from easydict import EasyDict

from ding.data.roles import EnvManager, Writer
from ding.envs import create_env_manager, get_vec_env_setting
from ding.rollout import v1_interface
from ding.utils import Configurable, build_logger, get_rank, nearest, write_scalars


class InstanceLog:
    """The text log and the tensorboard writer of a collector or evaluator; only rank 0 has a writer.

    Args:
        exp_name: folder of the experiment.
        instance_name: name of the log files and of the tags.
        tb_logger: a writer to share. Without one there is an own one, which is closed here.
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
        """Write values as ``<name>_iter/<key>`` over train iterations and as ``<name>_step/<key>`` over env steps."""
        write_scalars(self.writer, f"{self.name}_iter/", by_iter, train_iter)
        write_scalars(self.writer, f"{self.name}_step/", by_step, envstep)

    def close(self) -> None:
        """Flush the writer, and close it if it is the own one."""
        if self.writer is not None:
            self.writer.flush()
        if self._own_writer is not None:
            self._own_writer.close()


class EnvWorker(Configurable):
    """The env manager and the log of a collector or evaluator, and their end.

    Args:
        cfg: config of the worker.
        tb_logger: a tensorboard writer to share. Without one the worker makes its own, and closes it.
        exp_name: folder of the experiment.
        instance_name: name of the log files and of the tensorboard tags.
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
            AssertionError: there is no env manager to reset.
            TypeError: this is no env manager.
        """
        if _env is not None:
            self._env = v1_interface(_env)
            self._env.launch()
        elif self._env is None:
            raise AssertionError(f"{self._instance_name}: there is no env manager to reset; pass one")
        else:
            self._env.reset()

    def close(self) -> None:
        """Close the env manager, and the tensorboard writer if it is the worker's own. A second call does nothing."""
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
    """An attribute that subclasses find in DI-engine and that has no counterpart here.

    Reading it raises an ``AttributeError`` that says what to do instead; a subclass may set one of its own.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name}: {self._instead}")


def make_env_manager(cfg: EasyDict, eval_flag: bool) -> EnvManager:
    """The env manager of a collector or evaluator task, not launched yet."""
    env_fn, collector_cfg, evaluator_cfg = get_vec_env_setting(cfg, collect=not eval_flag, eval_=eval_flag)
    env_cfgs = evaluator_cfg if eval_flag else collector_cfg
    return v1_interface(create_env_manager(cfg.manager, [partial(env_fn, cfg=env_cfg) for env_cfg in env_cfgs or []]))


def required_key(cfg: Mapping[str, Any], key: str, owner: str) -> Any:
    """``cfg[key]``. Raises ``KeyError`` that names the owner of the config, the key, and the nearest one there is."""
    if key in cfg:
        return cfg[key]
    close = nearest(key, cfg)
    hint = "" if close is None else f"; did you mean {close!r}?"
    raise KeyError(f"the {owner} config has no key {key!r}{hint}")
