"""Names of DI-engine 0.5 that lie elsewhere here, or are not built: what an import of them gives.

:mod:`ding.utils.exports` installs :class:`OriginalNames` as the last finder of modules, so it sees only what is not a
file of the package. A module of ``MOVED`` is the one that has its content here, under both names. A module of
``NOT_BUILT`` raises a ``ModuleNotFoundError`` that names the part it belongs to, a name of it an ``ImportError``, and
``ding migrate`` reports both.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

# Full name in DI-engine -> the module here.
MOVED = {
    "ding.data.storage.storage": "ding.data.storage.file",
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


def _command(names: str, suffix: str = "CommandModePolicy") -> str:
    """A policy class and its command twin for each name."""
    return " ".join(f"{name}Policy {name}{suffix}" for name in names.split())


# A part of DI-engine -> its modules (with a dot; what lies below them belongs to it), its exported names, and its
# types, each after the name of its registry.
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
        "ding.policy.qgpo ding.model.template.qgpo ding.torch_utils.diffusion_SDE QGPO QGPOPolicy policy:qgpo"
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
    "the CUDA kernels of hpc_rl": "ding.hpc_rl",
    "launchers of Kubernetes and Slurm in the library (ding -m dist and ditask have their own)": (
        "ding.utils.k8s_helper ding.utils.orchestrator_launcher ding.utils.slurm_helper K8sLauncher "
        "OrchestratorLauncher get_operator_server_kwargs exist_operator_server pod_exec_command find_free_port_slurm "
        "node_to_host node_to_partition DEFAULT_K8S_COLLECTOR_PORT DEFAULT_K8S_LEARNER_PORT "
        "DEFAULT_K8S_AGGREGATOR_SLAVE_PORT DEFAULT_K8S_COORDINATOR_PORT"
    ),
    "small helpers of DI-engine itself": (
        "ding.entry.predefined_config ding.league.algorithm "
        "ding.utils.data.base_dataloader ding.utils.deprecation ding.utils.fast_copy "
        "ding.utils.time_helper_base ding.utils.time_helper_cuda fastcopy"
    ),
}  # fmt: skip


def missing_part(name: str) -> str | None:
    """Return the part of ``NOT_BUILT`` to which a module (full name), an exported name, or a type belongs."""
    return next((part for listed, part in _entries() if name == listed or name.startswith(f"{listed}.")), None)


def missing_text(package: str, name: str) -> str | None:
    """Return the sentence for a name, or a module, of a package that is not built, None for any other name."""
    part = missing_part(name) or missing_part(f"{package}.{name}")
    return part and f"{package} has no {name!r} in this version: it belongs to {part}, which is not built"


def missing_type(registry: str, name: str) -> str | None:
    """Return the sentence for a type of a registry (its short name) that is not built, None for any other name."""
    part = missing_part(f"{registry}:{name}")
    return part and f"{name!r} belongs to {part}, which is not built"


def _entries() -> Iterator[tuple[str, str]]:
    for part, names in NOT_BUILT.items():
        for name in names.split():
            yield name, part


class _Alias(Loader):
    """Loads a module of ``MOVED``: the other module itself, under this name too."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


class OriginalNames:
    """Finds the modules of ``MOVED``; raises ``ModuleNotFoundError`` for those of ``NOT_BUILT``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("ding."):
            return None
        if name in MOVED:
            return ModuleSpec(name, _Alias())
        part = missing_part(name)
        if part is not None:
            text = f"there is no {name} in this version: it belongs to {part}, which is not built"
            raise ModuleNotFoundError(text, name=name)
        return None


def install() -> None:
    """Make :class:`OriginalNames` the last finder."""
    if OriginalNames not in sys.meta_path:
        sys.meta_path.append(OriginalNames)
