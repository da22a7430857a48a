"""What the modes of the command line do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.utils import MissingExtraError, UnknownNameError, nearest

# Modes of the original command line that this version does not have.
_NOT_BUILT = (
    "serial_onpolicy",
    "serial_sqil",
    "serial_dqfd",
    "serial_trex",
    "serial_trex_onpolicy",
    "serial_reward_model",
    "serial_gail",
    "serial_offline",
    "serial_ngu",
)
MODULES = ("config", "coordinator", "learner", "collector", "learner_aggregator", "spawn_learner")


@dataclass(frozen=True)
class Options:
    """The options of the command line, as far as a mode reads them."""

    config: str | None
    seeds: tuple[int, ...]
    env: str | None
    policy: str | None
    exp_name: str | None
    train_iter: int
    env_step: int
    load_path: str | None
    state_freq: int
    replay_path: str | None
    quiet: bool
    strict: bool
    echo: Callable[[str], Any]
    enable_total_log: bool = False
    disable_flask_log: bool = True
    platform: str = "local"
    module: str | None = None
    module_name: str | None = None
    coordinator_host: str | None = None
    coordinator_port: int | None = None
    learner_host: str | None = None
    learner_port: int | None = None
    collector_host: str | None = None
    collector_port: int | None = None
    aggregator_host: str | None = None
    aggregator_port: int | None = None
    add: str | None = None
    delete: str | None = None
    restart: str | None = None
    kubeconfig: str | None = None
    coordinator_name: str | None = None
    namespace: str | None = None
    replicas: int = 1
    restart_pod_name: str | None = None
    cpus: int = 0
    gpus: int = 0
    memory: str | None = None
    operator_server: str | None = None
    token_file: str | None = None


def run_mode(mode: str, options: Options) -> None:
    """Run one mode to its end.

    Raises:
        ConfigError: The mode is unknown or not built, or the config or an option is wrong.
    """
    modes = {"serial": _serial, "parallel": _parallel, "dist": _dist, "eval": _eval}
    if mode in _NOT_BUILT:
        raise ConfigValueError(f"-m {mode}: this version does not have that mode; it has {', '.join(modes)}")
    if mode not in modes:
        near = nearest(mode, [*modes, *_NOT_BUILT])
        hint = f"; did you mean {near!r}?" if near else f"; known are {', '.join(modes)}"
        raise ConfigValueError(f"-m {mode}: there is no such mode{hint}")
    try:
        modes[mode](options)
    except _config_mistakes() as error:
        raise ConfigValueError(str(error)) from error


def _config_mistakes() -> tuple[type[Exception], ...]:
    """What other packages raise for a config value that only they can judge."""
    from ding.policy.errors import PolicyConfigError
    from ding.worker.learner.learner_hook import HookConfigError

    return UnknownNameError, MissingExtraError, PolicyConfigError, HookConfigError


def _serial(options: Options) -> None:
    from ding.entry.serial_entry import serial_pipeline
    from ding.entry.view.views import make_view

    path = _config_path(options)
    seeds = _seeds(options, path)
    for seed in seeds:
        main, create = _load(path)
        _name_experiment(main, options, path, seed, several=len(seeds) > 1)
        if options.load_path is not None:
            _resume(main, options)
        if options.state_freq:
            main.setdefault("policy", EasyDict()).setdefault("learn", EasyDict()).run_state_freq = options.state_freq
        serial_pipeline(
            (main, create),
            seed=seed,
            max_train_iter=options.train_iter,
            max_env_step=options.env_step,
            view=make_view(options.quiet),
            strict=options.strict,
        )


def _parallel(options: Options) -> None:
    from ding.entry.parallel_entry import load_parallel_input, parallel_pipeline
    from ding.entry.view.views import make_view
    from ding.parallel.launch import RoleFailed

    path = _config_path(options)
    seeds = options.seeds or (int(load_parallel_input(path)[0].get("seed", 0)),)
    for seed in seeds:
        main, create, system = load_parallel_input(path)
        _name_experiment(main, options, path, seed, several=len(seeds) > 1)
        if options.load_path is not None:
            _resume(main, options)
        try:
            parallel_pipeline(
                (main, create, system),
                seed=seed,
                enable_total_log=options.enable_total_log,
                disable_flask_log=options.disable_flask_log,
                max_train_iter=options.train_iter,
                max_env_step=options.env_step,
                view=make_view(options.quiet),
                strict=options.strict,
            )
        except RoleFailed as error:
            options.echo(f"ding: {error}")
            raise SystemExit(1) from error


def _dist(options: Options) -> None:
    from ding.entry import dist_entry
    from ding.parallel.launch import RoleFailed

    if options.add or options.delete or options.restart:
        _replicas(options)
        return
    if options.module not in MODULES:
        near = nearest(options.module, MODULES) if options.module else None
        hint = f"; did you mean {near!r}?" if near else f"; known are {', '.join(MODULES)}"
        raise ConfigValueError(f"-m dist: which module? -M {options.module or ''} is none{hint}")
    # An aggregator in a pod needs none.
    alone = options.module == "learner_aggregator" and options.config is None and options.env is None
    path = "" if alone else str(_config_path(options))
    seed = options.seeds[0] if options.seeds else 0
    where: dict[str, Any] = {"coordinator_host": options.coordinator_host, "coordinator_port": options.coordinator_port}
    token: dict[str, Any] = {"token_file": options.token_file}
    if options.module == "config":
        workers: dict[str, Any] = {
            key: getattr(options, key) for key in ("learner_host", "learner_port", "collector_host", "collector_port")
        }
        options.echo(dist_entry.dist_prepare_config(path, seed, options.platform, **where, **workers))
    elif options.module == "coordinator":
        dist_entry.dist_launch_coordinator(
            path,
            seed,
            **where,
            **token,
            max_train_iter=options.train_iter,
            max_env_step=options.env_step,
            quiet=options.quiet,
        )
    elif options.module == "learner_aggregator":
        dist_entry.dist_launch_learner_aggregator(
            path or None, seed, options.aggregator_host, options.aggregator_port, options.module_name, **where, **token
        )
    elif options.module == "spawn_learner":
        aggregator: dict[str, Any] = {
            "aggregator_host": options.aggregator_host,
            "aggregator_port": options.aggregator_port,
        }
        try:
            dist_entry.dist_launch_spawn_learner(
                path, seed, options.learner_port, options.module_name, host=options.learner_host, **aggregator, **token
            )
        except RoleFailed as error:
            options.echo(f"ding: {error}")
            raise SystemExit(1) from error
    else:
        launch = getattr(dist_entry, f"dist_launch_{options.module}")
        port, host = getattr(options, f"{options.module}_port"), getattr(options, f"{options.module}_host")
        launch(path, seed, port, options.module_name, **where, host=host, **token)


def _replicas(options: Options) -> None:
    from ding.entry import dist_entry
    from ding.worker.coordinator.errors import OperatorError

    asked = [key for key in ("add", "delete", "restart") if getattr(options, key)]
    if len(asked) > 1:
        raise ConfigValueError(f"give one of --add, --delete and --restart, not {' and '.join(asked)}")
    who: dict[str, Any] = {
        key: getattr(options, key) for key in ("kubeconfig", "coordinator_name", "namespace", "operator_server")
    }
    try:
        if options.add:
            resources: dict[str, Any] = {key: getattr(options, key) for key in ("cpus", "gpus", "memory")}
            sentence = dist_entry.dist_add_replicas(options.add, replicas=options.replicas, **resources, **who)
        elif options.delete:
            sentence = dist_entry.dist_delete_replicas(options.delete, replicas=options.replicas, **who)
        else:
            pod = options.restart_pod_name
            sentence = dist_entry.dist_restart_replicas(str(options.restart), restart_pod_name=pod, **who)
    except OperatorError as error:
        options.echo(f"ding: {error}")
        raise SystemExit(1) from error
    options.echo(sentence)


def _eval(options: Options) -> None:
    from ding.entry.application_entry import eval as evaluate
    from ding.entry.view.views import console_lines

    path = _config_path(options)
    returns = {}
    seeds = _seeds(options, path)
    for seed in seeds:
        main, create = _load(path)
        _name_experiment(main, options, path, seed, several=len(seeds) > 1)
        with console_lines():
            returns[str(seed)] = evaluate(
                (main, create), seed=seed, load_path=options.load_path, replay_path=options.replay_path
            )
        options.echo(f"seed {seed}: return {returns[str(seed)]:.2f}")
    if len(returns) > 1:
        options.echo(f"mean over {len(returns)} seeds: {sum(returns.values()) / len(returns):.2f}")


def _config_path(options: Options) -> Path:
    if options.config is not None:
        return Path(options.config)
    if options.load_path is not None and (Path(options.load_path) / "total_config.py").is_file():
        return Path(options.load_path) / "total_config.py"
    if options.env is None or options.policy is None:
        raise ConfigValueError("which config? give -c FILE, or -e ENV and -p POLICY for one of configs/")
    import ding

    name = f"{options.env}_{options.policy}_config.py"
    roots = (Path.cwd(), Path(ding.__file__).resolve().parents[1])
    for root in roots:
        path = root / "configs" / options.env / name
        if path.is_file():
            return path
    raise ConfigValueError(f"-e {options.env} -p {options.policy}: there is no configs/{options.env}/{name}")


def _load(path: Path) -> tuple[EasyDict, EasyDict]:
    from ding.entry.serial_entry import load_input

    return load_input(path)


def _seeds(options: Options, path: Path) -> Sequence[int]:
    """The seeds asked for; else the one in the config, which a saved config has; else 0."""
    if options.seeds:
        return options.seeds
    main, _ = _load(path)
    return [int(main.get("seed", 0))]


def _name_experiment(main: EasyDict, options: Options, path: Path, seed: int, several: bool) -> None:
    if several:
        main.exp_name = f"{options.exp_name or path.stem + '_result'}/seed{seed}"
    elif options.exp_name is not None:
        main.exp_name = options.exp_name


def _resume(main: EasyDict, options: Options) -> None:
    """Make a run go on from a checkpoint, in the experiment folder that the checkpoint lies in."""
    checkpoint = _checkpoint_file(Path(str(options.load_path)))
    learn = main.setdefault("policy", EasyDict()).setdefault("learn", EasyDict())
    learn.resume_training = True
    learn.setdefault("learner", EasyDict()).setdefault("hook", EasyDict()).load_ckpt_before_run = str(checkpoint)
    if options.exp_name is None and checkpoint.parent.name == "ckpt":
        main.exp_name = str(checkpoint.parent.parent)


def _checkpoint_file(path: Path) -> Path:
    """The checkpoint that ``path`` is, or the newest one with a saved state in the experiment folder ``path``."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigValueError(f"--load-path: there is no checkpoint or experiment folder {path}")
    from ding.entry.serial.run_state import newest_checkpoint

    checkpoint = newest_checkpoint(path)
    if checkpoint is None:
        raise ConfigValueError(
            f"--load-path: {path} holds no saved state; name a checkpoint file, and save states with --state-freq"
        )
    return checkpoint


def registry_text(name: str) -> str:
    """Return the aliases of a registry, one per line: ``alias file#line``.

    Raises:
        ConfigValueError: There is no such registry.
    """
    import importlib

    from ding.utils import registries

    if name not in registries:
        near = nearest(name, registries)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigValueError(f"-q {name}: there is no such registry{hint}; known are {', '.join(registries)}")
    for package in ("ding.envs", "ding.model", "ding.policy", "ding.worker"):
        importlib.import_module(package)
    details = registries[name].query_details()
    width = max((len(alias) for alias in details), default=0)
    lines = [f"{alias:<{width}}  {file}#{line}" for alias, (file, line) in sorted(details.items())]
    return "\n".join(lines) if lines else f"the registry {json.dumps(name)} is empty"
