"""Names of DI-engine 0.5 that lie elsewhere here, or are not built: what an import of them gives.

:mod:`ding.utils.exports` installs :class:`OriginalNames` as the first finder of modules; it answers for those that a
table here names, and leaves the others to Python. A module of ``MOVED`` is the one that has its content here, under
both names; in the place of one that many scripts import lies a stub (``from <module> import *``) for type checkers. A
name of ``MOVED_NAMES`` is that of the other module. A module of ``NOT_BUILT`` raises a
``ModuleNotFoundError`` that names the part it belongs to, a name of it an ``ImportError``, and ``ding migrate`` reports
both.

:class:`ZooModules`, the last finder, does the same for env modules of DI-engine's zoo where ``dizoo`` is not installed.
"""

import importlib
import importlib.util
import logging
import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

_log = logging.getLogger(__name__)

# Full name in DI-engine -> the module here.
MOVED = {
    "ding.bonus.model": "ding.model.template.ppof",
    "ding.data.storage.storage": "ding.data.storage.file",
    **{
        f"ding.entry.serial_entry_{name}": f"ding.entry.pipelines.{module}"
        for module, names in {
            "cloning": "bc bco",
            "expert": "dqfd r2d3 sqil",
            "guided_cost": "guided_cost",
            "offline": "offline",
            "onpolicy": "onpolicy onpolicy_ppg plr",
            "reward_model": (
                "gail ngu preference_based_irl preference_based_irl_onpolicy reward_model_offpolicy "
                "reward_model_onpolicy"
            ),
        }.items()
        for name in names.split()
    },
    "ding.framework.middleware.functional.priority": "ding.framework.middleware.functional.enhancer",
    "ding.interaction.base.app": "ding.interaction.base.endpoint",
    "ding.interaction.base.threading": "ding.interaction.base.common",
    "ding.interaction.config.base": "ding.interaction.config",
    "ding.interaction.exception.base": "ding.interaction.exception.response",
    "ding.interaction.exception.master": "ding.interaction.exception.response",
    "ding.interaction.exception.slave": "ding.interaction.exception.response",
    "ding.interaction.master.base": "ding.interaction.master",
    "ding.interaction.master.task": "ding.interaction.master.connection",
    "ding.torch_utils.backend_helper": "ding.torch_utils.device",
    "ding.torch_utils.model_helper": "ding.torch_utils.parameter",
    **{f"ding.utils.autolog.{name}": "ding.utils.autolog" for name in ("base", "data", "model", "time_ctl", "value")},
}

# Full name in DI-engine (its module under the name here) -> the module here that has it.
MOVED_NAMES = {
    "ding.config.config.compile_buffer_config": "ding.config.sections",
    "ding.config.config.compile_config": "ding.config.compile",
    "ding.config.config.compile_config_parallel": "ding.config.compile_parallel",
    "ding.config.utils.save_config_formatted": "ding.config.config",
    "ding.framework.middleware.functional.data_processor.offline_data_fetcher_from_mem": (
        "ding.framework.middleware.data_fetcher"
    ),
    **{
        f"ding.framework.middleware.functional.logger.wandb_{kind}_logger": (
            "ding.framework.middleware.functional.wandb_logger"
        )
        for kind in ("online", "offline")
    },
    "ding.interaction.base.endpoint.get_values_from_response": "ding.interaction.messages",
    "ding.interaction.base.network.get_host_ip": "ding.interaction.base.addresses",
    "ding.interaction.base.network.split_http_address": "ding.interaction.base.addresses",
    "ding.league.player.NaiveSpPlayer": "ding.league.starcraft_player",
    "ding.reward_model.icm_reward_model.collect_states": "ding.reward_model.rnd_reward_model",
    "ding.worker.collector.base_parallel_collector.TickMonitor": "ding.worker.learner.tick_monitor",
    "ding.worker.replay_buffer.naive_buffer.SequenceReplayBuffer": "ding.worker.replay_buffer.sequence_buffer",
}


def _command(names: str, suffix: str = "CommandModePolicy") -> str:
    """A policy class and its command twin for each name."""
    return " ".join(f"{name}Policy {name}{suffix}" for name in names.split())


def _names(module: str, names: str) -> str:
    """The full names of names in a module."""
    return " ".join(f"ding.{module}.{name}" for name in names.split())


_ATARI = "gym_lunarlander_v2 gym_pongnoframeskip_v4 gym_qbertnoframeskip_v4 gym_spaceInvadersnoframeskip_v4"
_CONTINUOUS = (
    "gym_bipedalwalker_v3 gym_halfcheetah_v3 gym_hopper_v3 gym_lunarlandercontinuous_v2 gym_pendulum_v1 gym_walker2d_v3"
)

# A part of DI-engine -> its modules (with a dot; what lies below them belongs to it), its exported names, the full
# names of what scripts find in other modules, and its types, each after the name of its registry.
NOT_BUILT = {
    "model-based learning (Dyna, Dream, MBPO, DDPPO, Dreamer, MBSAC, STEVE)": (
        "ding.entry.serial_entry_mbrl ding.policy.mbpolicy ding.torch_utils.network.dreamer "
        "ding.world_model.base_world_model ding.world_model.ddppo ding.world_model.dreamer ding.world_model.mbpo "
        "ding.world_model.model ding.world_model.utils "
        "serial_pipeline_dyna serial_pipeline_dream serial_pipeline_dreamer DREAMERVAC WorldModel DynaWorldModel "
        "DreamWorldModel HybridWorldModel get_world_model_cls create_world_model "
        "policy:dreamer policy:mbsac policy:stevesac world_model:mbpo world_model:ddppo world_model:dreamer "
        "model:dreamervac " + _command("DREAMER MBSAC STEVESAC")
    ),
    "procedure cloning": (
        "ding.entry.serial_entry_pc ding.policy.pc ding.model.template.procedure_cloning serial_pipeline_pc "
        "ProcedureCloningBFSPolicy ProcedureCloningMCTS ProcedureCloningBFS "
        "policy:pc_bfs model:pc_bfs model:pc_mcts"
    ),
    "prompting of language models": (
        "ding.policy.prompt_awr ding.policy.prompt_pg ding.model.template.language_transformer LanguageTransformer "
        "policy:prompt_awr policy:prompt_pg model:language_transformer "
        + _command("PromptPG PromptAWR")
    ),
    "planning with diffusion": (
        "ding.policy.plan_diffuser ding.model.template.diffusion ding.torch_utils.network.diffusion PlanDiffuser "
        "GaussianInvDynDiffusion policy:pd model:pd model:dd " + _command("PD", "CommandModelPolicy")
    ),
    "Q-guided policy optimisation (QGPO)": (
        "ding.policy.qgpo ding.model.template.qgpo ding.torch_utils.diffusion_SDE QGPO QGPOPolicy policy:qgpo "
        "qgpo_offline_data_fetcher qgpo_support_data_generator "
        + _names(
            "framework.middleware.functional.data_processor", "qgpo_offline_data_fetcher qgpo_support_data_generator"
        )
    ),
    "TD3-VAE": (
        "ding.policy.td3_vae ding.entry.serial_entry_td3_vae serial_pipeline_td3_vae policy:td3-vae policy:td3_vae "
        + _command("TD3VAE")
    ),
    "heterogeneous pre-trained transformers (HPT)": "ding.model.template.hpt HPT model:hpt",
    "imitation learning of football (IL)": "ding.policy.il ILPolicy policy:IL",
    "env managers on ding.framework.Supervisor": "ding.envs.env_manager.env_supervisor EnvSupervisor",
    "the league of StarCraft": (
        "MainPlayer MainExploiter LeagueExploiter player:main_player player:main_exploiter player:league_exploiter"
    ),
    "communication over linklink": "ding.utils.linklink_dist_helper ding.utils.fake_linklink",
    "the example scripts inside the package (the folder examples/ of the repository has some)": "ding.example",
    "a config module of one env (supported_env_cfg of the module above it has the configs by env id)": " ".join((
        _names("config.example.A2C", "gym_bipedalwalker_v3 gym_lunarlander_v2"),
        *(_names(f"config.example.{agent}", _ATARI) for agent in ("C51", "DQN", "PPOOffPolicy")),
        *(_names(f"config.example.{agent}", _CONTINUOUS) for agent in ("DDPG", "SAC", "TD3")),
        _names("config.example.PG", "gym_pendulum_v1"),
        _names("config.example.PPOF", "gym_lunarlander_v2 gym_lunarlandercontinuous_v2"),
        _names("config.example.SQL", "gym_lunarlander_v2"),
    )),
    "the CUDA kernels of hpc_rl": " ".join((
        "ding.hpc_rl",
        _names("rl_utils.gae", "shape_fn_gae"),
        _names("rl_utils.ppo", "shape_fn_ppo"),
        _names("rl_utils.td", "shape_fn_dntd shape_fn_qntd shape_fn_qntd_rescale shape_fn_td_lambda"),
        _names("rl_utils.vtrace", "shape_fn_vtrace_discrete_action"),
        _names("torch_utils.network.scatter_connection", "shape_fn_scatter_connection"),
    )),
    "the threads of its parallel pipeline (ding.parallel.launch starts and watches processes)": _names(
        "entry.parallel_entry", "launch_collector launch_coordinator launch_learner run_collector run_learner"
    ),
    "the system config of its schedulers (ding -m dist -M config makes it)": _names(
        "config.utils",
        "set_collector_interaction_for_coordinator set_learner_interaction_for_coordinator set_host_port_k8s "
        "set_host_port_slurm",
    ),
    "storages in ceph, redis and memcached (read_file and save_file use the file system)": _names(
        "utils.file_helper",
        "get_ceph_package get_mc_package get_redis_package get_rediscluster_package read_from_ceph read_from_file "
        "read_from_mc read_from_path read_from_redis read_from_rediscluster save_file_ceph save_file_redis "
        "save_file_rediscluster",
    ),
    "the memory of transformers as wrappers of a model (r2d2_gtrxl keeps it in its policy)": " ".join((
        _names("model.wrapper.model_wrappers",
               "TransformerInputWrapper TransformerMemoryWrapper TransformerSegmentWrapper"),
        "model_wrapper:transformer_input model_wrapper:transformer_memory model_wrapper:transformer_segment",
    )),
    "connections of DI-engine's masters (Master.new_connection makes them here)": " ".join((
        _names("interaction.master.connection", "SlaveConnection SlaveConnectionProxy TaskResultType"),
    )),
    "launchers of Kubernetes and Slurm in the library (ding -m dist and ditask have their own)": (
        "ding.utils.k8s_helper ding.utils.orchestrator_launcher ding.utils.slurm_helper K8sLauncher "
        "OrchestratorLauncher get_operator_server_kwargs exist_operator_server pod_exec_command find_free_port_slurm "
        "node_to_host node_to_partition DEFAULT_K8S_COLLECTOR_PORT DEFAULT_K8S_LEARNER_PORT "
        "DEFAULT_K8S_AGGREGATOR_SLAVE_PORT DEFAULT_K8S_COORDINATOR_PORT"
    ),
    "small helpers of DI-engine itself": " ".join((
        "ding.entry.predefined_config ding.league.algorithm "
        "ding.utils.data.base_dataloader ding.utils.deprecation ding.utils.fast_copy "
        "ding.utils.time_helper_base ding.utils.time_helper_cuda fastcopy",
        _names("config.config", "compile_collector_config save_project_state"),
        _names("data.storage_loader", "ShmObject"),
        _names("framework.middleware.barrier", "BarrierContext"),
        _names("framework.middleware.functional.logger", "action_prob return_distribution return_prob softmax"),
        _names("entry.cli", "print_registry print_version"),
        _names("entry.cli_ditask", "print_version"),
        _names("entry.utils", "AccMetric"),
        _names("envs.env.base_env", "FinalMeta"),
        _names("envs.env_manager.base_env_manager", "timeout_wrapper"),
        _names("envs.env_manager.subprocess_env_manager", "is_abnormal_timestep"),
        _names("model.common.encoder", "StructEncoder prod"),
        _names("model.template.ngu", "parallel_wrapper"),
        _names("model.template.q_learning", "parallel_wrapper"),
        _names("model.wrapper.model_wrappers", "TeacherNetworkWrapper sample_action"),
        _names("policy.fqf", "compute_grad_norm"),
        _names("policy.ppg", "ExperienceDataset create_shuffled_dataloader"),
        _names("reward_model.ngu_reward_model",
               "collect_data_and_exclude_null_data_episodic collect_data_and_exclude_null_data_rnd "
               "collect_data_episodic collect_data_rnd"),
        _names("reward_model.pwil_irl_model", "collect_state_action_pairs"),
        _names("torch_utils.network.nn_module", "weight_init_"),
        _names("torch_utils.network.res_block", "TemporalSpatialResBlock"),
        _names("utils.compression_helper", "dummy_decompressor"),
        _names("utils.log_helper", "TBLoggerFactory"),
        _names("utils.log_writer_helper", "distributed_writer enable_parallel"),
        _names("utils.memory_helper", "ActivationMemState SimpleMemState get_current_device multi_chunk_test"),
        _names("utils.normalizer_helper", "CDFNormalizer1d atleast_2d empirical_cdf"),
        _names("utils.pytorch_ddp_dist_helper", "get_group simple_group_split"),
        _names("utils.segment_tree", "njit"),
        _names("worker.learner.learner_hook", "find_char"),
        _names("worker.replay_buffer.advanced_buffer", "to_positive_index"),
    )),
}  # fmt: skip

# Exported name of DI-engine before 0.5 -> its name since then.
RENAMED = {
    "EvalEpisodeReturnEnv": "EvalEpisodeReturnWrapper",
    "FinalEvalRewardEnv": "EvalEpisodeReturnWrapper",
    "QAC": "ContinuousQAC",
}
_PARTS = {name: part for part, names in NOT_BUILT.items() for name in names.split()}
# Modules that are here and lack some of the names; the last three lack exported ones.
_INCOMPLETE = {
    *(name.rpartition(".")[0] for name in (*_PARTS, *MOVED_NAMES)),
    *("ding.league.starcraft_player", "ding.model.template.vac", "ding.policy.command_mode_policy_instance"),
}


def missing_part(name: str) -> str | None:
    """Return the part of ``NOT_BUILT`` to which a module or a name (in full), an exported name, or a type belongs."""
    while name not in _PARTS and "." in name:
        name = name.rpartition(".")[0]
    return _PARTS.get(name)


def missing_text(package: str, name: str) -> str | None:
    """Return the sentence for a name, or a module, of a package that is not built or has another name since DI-engine
    0.5; None for any other name.
    """
    if name in RENAMED:
        return (
            f"{package} has no {name!r}: it is called {RENAMED[name]!r} since DI-engine 0.5; ding migrate replaces it"
        )
    part = missing_part(name) or missing_part(f"{MOVED.get(package, package)}.{name}")
    return part and f"{package} has no {name!r} in this version: it belongs to {part}, which is not built"


def missing_type(registry: str, name: str) -> str | None:
    """Return the sentence for a type of a registry (its short name) that is not built, None for any other name."""
    part = missing_part(f"{registry}:{name}")
    return part and f"{name!r} belongs to {part}, which is not built"


class _Alias(Loader):
    """Loads a module of ``MOVED``: the other module itself, under this name too."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


class _Incomplete(SourceFileLoader):
    """Loads a module of this package that has not all the names of DI-engine's: these get a sentence, or are found."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        # A package that exports lazily has a function that asks :func:`missing_text`.
        vars(module).setdefault("__getattr__", partial(_original_name, module.__name__))
        # What is a package in DI-engine and a module here: an import below it asks `OriginalNames`, too.
        vars(module).setdefault("__path__", [])


def _original_name(module: str, name: str) -> object:
    """What a module has not itself: a name of ``MOVED_NAMES``, an error for any other."""
    home = MOVED_NAMES.get(f"{module}.{name}")
    if home is not None:
        return getattr(importlib.import_module(home), name)
    text = missing_text(module, name)
    if text is not None:
        # Python would replace the text of an AttributeError in "from module import name".
        raise ImportError(text, name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class OriginalNames:
    """Finds the modules of ``MOVED``, raises ``ModuleNotFoundError`` for those of ``NOT_BUILT``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("ding."):
            return None
        if name in MOVED:
            return ModuleSpec(name, _Alias())
        if name in _INCOMPLETE:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = _Incomplete(spec.loader.name, spec.loader.path)
            return spec
        part = missing_part(name)
        if part is not None:
            text = f"there is no {name} in this version: it belongs to {part}, which is not built"
            raise ModuleNotFoundError(text, name=name)
        return None


def built_in_env_module(name: str) -> str | None:
    """Return the module of ``ding.envs.zoo`` for a module (or package ``envs``) of ``dizoo``; None where none is."""
    *folders, last = name.split(".")
    if folders[:1] != ["dizoo"]:
        return None
    last = f"{folders[-1]}_env" if last == "envs" else last
    home = f"ding.envs.zoo.{'mtcar_env' if last == 'mountain_car_env' else last}"
    return home if importlib.util.find_spec(home) is not None else None


@cache
def _warn_of_zoo(name: str, home: str) -> None:
    _log.warning("%s cannot be imported, as no dizoo is installed; the built-in env of %s is used", name, home)


class _ZooLoader(Loader):
    """Loads a module of ``dizoo``: the env module here, a package with its names, or (without one) an empty package."""

    def __init__(self, home: str | None, is_package: bool) -> None:
        self.home, self._is_package = home, is_package

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self.home is None:
            return
        found = importlib.import_module(self.home)
        _warn_of_zoo(module.__name__.partition(".envs")[0], self.home)
        if self._is_package:
            vars(module).update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        else:
            sys.modules[module.__name__] = found


class ZooModules:
    """Finds modules of DI-engine's zoo ``dizoo`` that are env modules here; the last finder, after an installed zoo."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "dizoo":
            return None
        zoo = sys.modules.get("dizoo")
        if zoo is not None and not isinstance(getattr(zoo, "__loader__", None), _ZooLoader):
            return None
        last = name.rpartition(".")[2]
        home = built_in_env_module(name)
        if home is None and (name.count(".") > 2 or last in ("envs", "config", "entry")):
            text = f"'dizoo' is not installed, and ding.envs.zoo has no env module of the name of {name!r}"
            raise ModuleNotFoundError(text, name="dizoo")
        is_package = home is None or last == "envs"
        return ModuleSpec(name, _ZooLoader(home, is_package), is_package=is_package)


def install() -> None:
    """Make :class:`OriginalNames` the first finder, and :class:`ZooModules` the last one."""
    if OriginalNames not in sys.meta_path:
        sys.meta_path.insert(0, OriginalNames)
    if ZooModules not in sys.meta_path:
        sys.meta_path.append(ZooModules)
