"""Implementation of the modes of the command line (``ding -m``)."""

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace as Options
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.overrides import apply_overrides
from ding.config.own.reading import build_network, read_run_config
from ding.config.resolve import import_by_name
from ding.entry.predefined_config import predefined_config_path
from ding.entry.view.experiment import config_file, experiment_of, last_checkpoint, seed_folder
from ding.utils import did_you_mean, registries
from ding.utils.checkpoint import is_checkpoint_folder

# Options of the pipelines.
_LIMITS = "max_train_iter=train_iter max_env_step=env_step strict"
# Pipeline and options of each mode that trains in one process.
_PIPELINES = {
    "serial": ("serial_pipeline", _LIMITS),
    "serial_onpolicy": ("serial_pipeline_onpolicy", _LIMITS),
    "serial_onpolicy_ppg": ("serial_pipeline_onpolicy_ppg", _LIMITS),
    "serial_plr": ("serial_pipeline_plr", _LIMITS),
    "serial_td3_vae": ("serial_pipeline_td3_vae", _LIMITS),
    # A data set has no env steps to limit.
    "serial_offline": ("serial_pipeline_offline", "max_train_iter=train_iter strict"),
    "serial_finetune": ("serial_pipeline_finetune", _LIMITS),
    "serial_bc": ("serial_pipeline_bc", "max_iter=train_iter data_path strict"),
    "serial_pc": ("serial_pipeline_pc", "max_iter=train_iter strict"),
    "serial_trex": ("serial_pipeline_trex", _LIMITS),
    "serial_trex_onpolicy": ("serial_pipeline_trex_onpolicy", _LIMITS),
    "serial_dyna": ("serial_pipeline_dyna", _LIMITS),
    "serial_dream": ("serial_pipeline_dream", _LIMITS),
    "serial_dreamer": ("serial_pipeline_dreamer", _LIMITS),
    "serial_ngu": ("serial_pipeline_ngu", _LIMITS),
    "serial_guided_cost": ("serial_pipeline_guided_cost", _LIMITS),
    "serial_reward_model": ("serial_pipeline_reward_model_offpolicy", _LIMITS),
    "serial_reward_model_onpolicy": ("serial_pipeline_reward_model_onpolicy", _LIMITS),
}
# Modes that learn from an expert, whose config is an additional argument.
_EXPERT_PIPELINES = {f"serial_{name}": f"serial_pipeline_{name}" for name in ("bco", "dqfd", "r2d3", "sqil", "gail")}
# Packages whose classes register themselves.
_REGISTERING = (
    *("ding.data", "ding.envs", "ding.framework.message_queue", "ding.league", "ding.model", "ding.policy"),
    *("ding.reward_model", "ding.utils.data", "ding.worker"),
)
# Function and options of each module of -m dist (with the parameter's name if it differs).
_COORDINATOR = "coordinator_host coordinator_port token_file"
_WORKER = f"name=module_name {_COORDINATOR}"
_DIST = {
    "config": (
        "dist_prepare_config",
        "platform coordinator_host coordinator_port learner_host learner_port collector_host collector_port overrides",
    ),
    "coordinator": (
        "dist_launch_coordinator",
        f"{_COORDINATOR} max_train_iter=train_iter max_env_step=env_step quiet",
    ),
    "learner": ("dist_launch_learner", f"learner_port host=learner_host {_WORKER}"),
    "collector": ("dist_launch_collector", f"collector_port host=collector_host {_WORKER}"),
    "learner_aggregator": ("dist_launch_learner_aggregator", f"aggregator_host aggregator_port {_WORKER}"),
    "spawn_learner": (
        "dist_launch_spawn_learner",
        f"learner_port host=learner_host aggregator_host aggregator_port {_WORKER}",
    ),
}
_CONFIG_NAMES = ("main_config", "create_config", "system_config")
_OPERATOR = "kubeconfig coordinator_name namespace operator_server"
_REPLICAS = {
    "add": ("dist_add_replicas", f"replicas cpus gpus memory {_OPERATOR}"),
    "delete": ("dist_delete_replicas", f"replicas {_OPERATOR}"),
    "restart": ("dist_restart_replicas", f"restart_pod_name {_OPERATOR}"),
}


def run_mode(mode: str, options: Options) -> None:
    """Run one mode to its end.

    Raises:
        ConfigError: The mode is unknown or not built, or the config or an option is invalid.
    """
    modes = {
        **dict.fromkeys(_PIPELINES, _serial),
        **dict.fromkeys(_EXPERT_PIPELINES, _serial_with_expert),
        "parallel": _parallel,
        "dist": _dist,
        "eval": _eval,
        "collect_demo_data": _collect_demo_data,
        "collect_episodic_demo_data": _collect_demo_data,
    }
    if mode not in modes:
        raise ConfigValueError(f"-m {mode}: there is no such mode.{did_you_mean(mode, modes)}")
    if options.resume is not None:
        if options.load_path is not None:
            raise ConfigValueError("--resume and --load-path: give one of them")
        options.load_path = options.resume
    modes[mode](options)


def _serial(options: Options) -> None:
    name, option_names = _PIPELINES[options.mode]
    _train(options, import_by_name("ding.entry", name), option_names)


def _serial_with_expert(options: Options) -> None:
    from ding.entry.serial_entry import load_input

    pipeline = import_by_name("ding.entry", _EXPERT_PIPELINES[options.mode])
    path = options.expert_config or options.ask("The config file of the expert")
    _train(options, lambda configs, **kwargs: pipeline(configs, load_input(path), **kwargs), _LIMITS)


def _train(options: Options, pipeline: Callable[..., object], names: str) -> None:
    from ding.entry.serial_entry import load_input
    from ding.entry.view.views import make_view

    for seed, (main, create) in _runs(options, load_input):
        _set_state_freq(main, options)
        model = _network(options, main)
        pipeline((main, create), seed=seed, view=make_view(options.quiet), **model, **_picked(options, names))


def _set_state_freq(main: EasyDict, options: Options) -> None:
    if options.state_freq:
        main.setdefault("policy", EasyDict()).setdefault("learn", EasyDict()).run_state_freq = options.state_freq


def _parallel(options: Options) -> None:
    from ding.entry.parallel_entry import load_parallel_input, parallel_pipeline
    from ding.entry.view.views import make_view

    names = "enable_total_log disable_flask_log max_train_iter=train_iter max_env_step=env_step strict backend address"
    resumes = options.load_path is not None and _experiment_folder(Path(options.load_path)) == Path(options.load_path)
    for seed, configs in _runs(options, load_parallel_input, resume=not resumes):
        _set_state_freq(configs[0], options)
        view, folder = make_view(options.quiet), options.load_path if resumes else None
        parallel_pipeline(configs, seed=seed, view=view, resume=folder, **_picked(options, names))


def _dist(options: Options) -> None:
    if options.add or options.delete or options.restart:
        _replicas(options)
        return
    module = options.module
    if module not in _DIST:
        raise ConfigValueError(f"-m dist: which module? -M {module or ''} is none.{did_you_mean(module or '', _DIST)}")
    if options.overrides and module != "config":
        raise ConfigValueError("-o: all roles have one config; give -o to ding -m dist -M config, and roles its file")
    # An aggregator in a pod needs none.
    alone = module == "learner_aggregator" and options.config is None and options.env is None
    path = None if alone else str(_config_path(options)[0])
    function, names = _DIST[module]
    seed = options.seeds[0] if options.seeds else 0
    result = import_by_name("ding.entry.dist_entry", function)(path, seed, **_picked(options, names))
    if module == "config":
        options.echo(result)


def _replicas(options: Options) -> None:
    asked = [key for key in _REPLICAS if getattr(options, key)]
    if len(asked) > 1:
        raise ConfigValueError(f"give one of --add, --delete and --restart, not {' and '.join(asked)}")
    function, names = _REPLICAS[asked[0]]
    options.echo(
        import_by_name("ding.entry.dist_entry", function)(getattr(options, asked[0]), **_picked(options, names))
    )


def _picked(options: Options, names: str) -> dict[str, Any]:
    """Return the options with these names, each as ``name`` or ``parameter=name``."""
    pairs = [name.rpartition("=") for name in names.split()]
    return {parameter or name: getattr(options, name) for parameter, _, name in pairs}


def _eval(options: Options) -> None:
    from ding.entry.application_entry import evaluate
    from ding.entry.view.views import console_lines

    returns = {}
    for seed, configs in _runs(options, _load_alone, resume=False):
        with console_lines():
            model = _network(options, configs[0])
            found = evaluate(configs, seed=seed, **model, **_picked(options, "load_path replay_path episodes"))
        options.echo(f"seed {seed}: {found.describe()}")
        returns[str(seed)] = found.mean
    if len(returns) > 1:
        options.echo(f"mean over {len(returns)} seeds: {sum(returns.values()) / len(returns):.2f}")


def _collect_demo_data(options: Options) -> None:
    from ding.entry import application_entry
    from ding.entry.view.views import console_lines

    if not options.collect_count:
        raise ConfigValueError(f"-m {options.mode}: give --collect-count, the number of samples or episodes")
    collect = getattr(application_entry, options.mode)
    names = "collect_count expert_data_path=data_path state_dict_path=load_path"
    for seed, configs in _runs(options, _load_alone, resume=False):
        with console_lines():
            collect(configs, seed=seed, **_network(options, configs[0]), **_picked(options, names))


def _network(options: Options, main: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument ``model`` if the run's experiment folder records a user-defined network, else nothing."""
    experiment = None if options.load_path is None else _experiment_folder(Path(options.load_path))
    model = None if experiment is None else build_network(experiment, main.get("policy", {}).get("model", {}))
    return {} if model is None else {"model": model}


def _load_alone(input_cfg: Any) -> tuple[EasyDict, EasyDict]:
    """Return the configs of a run for playing the policy in one process."""
    from ding.entry.serial_entry import load_input, without_roles

    return without_roles(*load_input(input_cfg))


def _config_path(options: Options) -> tuple[Path, bool]:
    """Return the config file, and whether a run saved it in its experiment folder."""
    if options.config is not None:
        return Path(options.config), False
    if options.load_path is not None:
        if not Path(options.load_path).exists():
            text = f"{_option(options)}: there is no checkpoint or experiment folder {options.load_path}"
            raise ConfigValueError(text)
        experiment = _experiment_folder(Path(options.load_path))
        if experiment is not None:
            return config_file(experiment), True
    if options.env is None or options.policy is None:
        raise ConfigValueError("which config? give -c FILE, or -e ENV and -p POLICY for one of configs/")
    path = predefined_config_path(options.env, options.policy)
    if path is None:
        name = f"configs/{options.env}/{options.env}_{options.policy}_config.py"
        raise ConfigValueError(f"-e {options.env} -p {options.policy}: there is no {name}")
    return path, False


def _option(options: Options) -> str:
    """Return the option that names the point to resume from."""
    return "--load-path" if options.resume is None else "--resume"


def _experiment_folder(path: Path) -> Path | None:
    """Return the experiment folder ``path``, or that of the checkpoint ``path``."""
    return path if path.is_dir() and not is_checkpoint_folder(path) else experiment_of(path)


def _runs(
    options: Options, load: Callable[[Any], tuple[EasyDict, ...]], resume: bool = True
) -> Iterator[tuple[int, tuple[EasyDict, ...]]]:
    """Yield each seed with the configs of its run, which ``load`` reads once.

    The seeds are the requested ones; by default that of a saved config, else 0. Several seeds run in ``EXP/seed<k>``.
    """
    path, of_run = _config_path(options)
    names = _CONFIG_NAMES if options.mode == "parallel" else _CONFIG_NAMES[:2]
    read = load(read_run_config(path, names, options.trust) if of_run else path)
    apply_overrides(options.overrides, dict(zip(names, read)))
    seeds: Sequence[int] = options.seeds or (int(read[0].get("seed", 0)),)
    for seed in seeds:
        main, *others = deepcopy(read)
        exp_name = options.exp_name or main.get("exp_name", "default_experiment")
        main.exp_name = seed_folder(exp_name, seed) if len(seeds) > 1 else exp_name
        if resume and options.load_path is not None:
            _resume(main, options)
        yield seed, (main, *others)


def _resume(main: EasyDict, options: Options) -> None:
    """Make a run resume from a checkpoint, in the checkpoint's experiment folder."""
    checkpoint = _checkpoint_file(Path(str(options.load_path)), _option(options))
    learn = main.setdefault("policy", EasyDict()).setdefault("learn", EasyDict())
    learn.resume_training = True
    learn.setdefault("learner", EasyDict()).setdefault("hook", EasyDict()).load_ckpt_before_run = str(checkpoint)
    if options.exp_name is None and checkpoint.parent.name == "ckpt":
        main.exp_name = str(checkpoint.parent.parent)


def _checkpoint_file(path: Path, option: str) -> Path:
    """Return the checkpoint ``path``, or the newest snapshot in the experiment folder ``path``; without snapshots, the
    checkpoint with the most train iterations.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigValueError(f"{option}: there is no checkpoint or experiment folder {path}")
    from ding.entry.serial.run_state import newest_good_snapshot

    checkpoint = newest_good_snapshot(path) or last_checkpoint(path)
    if checkpoint is None:
        raise ConfigValueError(f"{option}: {path} holds neither a snapshot nor a checkpoint; name a checkpoint file")
    return checkpoint


def registry_text(name: str) -> str:
    """Return the aliases of a registry, one per line: ``alias file#line``.

    Raises:
        ConfigValueError: The registry does not exist.
    """
    if name not in registries:
        raise ConfigValueError(f"-q {name}: there is no such registry.{did_you_mean(name, registries)}")
    for package in _REGISTERING:
        importlib.import_module(package)
    registry = registries[name]
    for alias in list(registry):
        # The class of a lazy entry registers itself, in its own line; the extra may be missing.
        with contextlib.suppress(ImportError):
            registry.get(alias)
    details = registry.query_details()
    width = max((len(alias) for alias in details), default=0)
    lines = [f"{alias:<{width}}  {file}#{line}" for alias, (file, line) in sorted(details.items())]
    return "\n".join(lines) if lines else f"the registry {json.dumps(name)} is empty"
