"""The public surface: names that scripts import, what an import may cost, and which modules only scripts use."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ding.utils import registries
from tests.project.test_project_house import ROOT, Module, import_nodes, imported, modules

# Of the names that public DI-engine scripts import, those that this version has (see docs/migration.md).
NAMES = {
    "ding.entry": "serial_pipeline eval",
    "ding.envs": (
        "DingEnvWrapper BaseEnv BaseEnvTimestep BaseEnvManager get_vec_env_setting create_env_manager "
        "SubprocessEnvManagerV2 ObsPlusPrevActRewWrapper BaseEnvManagerV2 EvalEpisodeReturnWrapper "
        "SyncSubprocessEnvManager FrameStackWrapper ObsNormWrapper RewardNormWrapper WarpFrameWrapper "
        "ClipRewardWrapper update_shape NoopResetWrapper MaxAndSkipWrapper EpisodicLifeWrapper FireResetWrapper "
        "ScaledFloatFrameWrapper RamWrapper DelayRewardWrapper ActionRepeatWrapper StaticObsNormWrapper "
        "AllinObsWrapper"
    ),
    "ding.worker": (
        "BaseLearner InteractionSerialEvaluator SampleSerialCollector AdvancedReplayBuffer NaiveReplayBuffer "
        "BattleInteractionSerialEvaluator BaseSerialCommander create_buffer create_serial_collector LearnerHook "
        "MetricSerialEvaluator IMetric VectorEvalMonitor BattleSampleSerialCollector BattleEpisodeSerialCollector "
        "EpisodeSerialCollector EpisodeReplayBuffer SequenceReplayBuffer"
    ),
    "ding.utils": (
        "set_pkg_seed ENV_REGISTRY deep_merge_dicts DDPContext MODEL_REGISTRY get_rank POLICY_REGISTRY import_module "
        "EasyTimer get_world_size dist_init to_ddp_config build_logger SERIAL_COLLECTOR_REGISTRY dicts_to_lists "
        "Scheduler SequenceType squeeze split_data_generator SERIAL_EVALUATOR_REGISTRY fps"
    ),
    "ding.config": "compile_config read_config",
    "ding.torch_utils": (
        "to_ndarray to_list to_tensor to_device tensor_to_list one_hot to_dtype DataParallel fc_block Transformer "
        "ResFCBlock conv2d_block ResBlock build_activation ScatterConnection Adam to_item"
    ),
    "ding.policy": "DQNPolicy create_policy single_env_forward_wrapper Policy",
    "ding.policy.common_utils": "default_preprocess_learn",
    "ding.policy.command_mode_policy_instance": "DummyCommandModePolicy",
    "ding.model": "DQN C51DQN IQN FQF model_wrap",
    "ding.model.template.q_learning": "DQN",
    "ding.model.common": "FCEncoder ConvEncoder DiscreteHead DuelingHead MultiHead ReparameterizationHead",
    "ding.model.common.head": "DuelingHead",
    "ding.rl_utils": (
        "get_epsilon_greedy_fn ppo_data ppo_error v_nstep_td_data v_nstep_td_error get_nstep_return_data "
        "get_train_sample gae gae_data q_nstep_td_data q_nstep_td_error dist_nstep_td_data dist_nstep_td_error"
    ),
    "ding.data": "DequeBuffer create_dataset TransitionBatch EnvBatch batched",
    "ding.data.model_loader": "FileModelLoader ModelLoader",
    "ding.data.storage_loader": "FileStorageLoader StorageLoader",
    "ding.data.storage": "FileModelStorage FileStorage Storage",
    "ding.data.shm_buffer": "ShmBuffer ShmBufferContainer",
    "ding.utils.data.dataset": (
        "NaiveRLDataset HDF5Dataset D4RLDataset D4RLTrajectoryDataset BCODataset PCDataset DatasetStatistics "
        "create_dataset naive_save hdf5_save offline_data_save_type FixedReplayBuffer SequenceDataset "
        "D4RLDiffuserDataset load_bfs_datasets"
    ),
    "ding.bonus": (
        "A2CAgent C51Agent DDPGAgent DQNAgent PGAgent PPOF PPOOffPolicyAgent SACAgent "
        "SQLAgent TD3Agent supported_algo supported_algo_list "
        "supported_env env_supported algo_supported is_supported"
    ),
    "ding.bonus.common": "TrainingReturn EvalReturn",
    "ding.bonus.config": "get_instance_config get_instance_env get_hybrid_shape",
    "ding": "load",
    "ding.data.buffer": "DequeBuffer DequeBufferWrapper",
    "ding.data.buffer.deque_buffer_wrapper": "DequeBufferWrapper",
    "ding.utils.data": "default_collate default_decollate create_dataset NaiveRLDataset",
    "ding.utils.default_helper": "deep_merge_dicts",
    "ding.envs.common": "EnvElement EnvElementRunner affine_transform save_frames_as_gif div_func div_one_hot",
    "ding.envs.common.env_element": "EnvElement EnvElementInfo",
    "ding.envs.env_wrappers": "MaxAndSkipWrapper WarpFrameWrapper FrameStackWrapper TimeLimitWrapper",
    "ding.envs.env": (
        "check_all check_array_space check_different_memory check_obs_deepcopy check_reset check_space_dtype "
        "check_step demonstrate_correct_procedure"
    ),
    "ding.envs.env.base_env": "BaseEnv BaseEnvTimestep",
    "ding.worker.learner": "BaseLearner BaseCommLearner FlaskFileSystemLearner create_comm_learner",
    "ding.worker.collector.base_serial_collector": "ISerialCollector CachePool TrajBuffer INF to_tensor_transitions",
    "ding.entry.serial_entry": "serial_pipeline",
    "ding.entry.utils": "random_collect",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_resolve(module) -> None:
    imported = importlib.import_module(module)
    missing = [name for name in NAMES[module].split() if not hasattr(imported, name)]
    assert missing == []


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("ding.policy", "DQNPolcy", "; did you mean 'DQNPolicy'"),
        ("ding.model", "SomeNetwork", ""),
        ("ding.model.template", "SomeNetwork", ""),
        ("ding.worker.learner", "SomeLearner", ""),
    ],
)
def test_a_class_that_is_not_built_yet_is_told_as_such(module, name, hint) -> None:
    package = importlib.import_module(module)
    # An ImportError: the text of an AttributeError would not reach who writes "from ... import ...".
    with pytest.raises(ImportError, match=rf"^{module} has no '{name}' in this version{hint}"):
        getattr(package, name)
    assert not hasattr(package, "no_such_function")


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [("ding.policy", "create_polcy", "create_policy"), ("ding.worker", "BaseLerner", "BaseLearner")],
)
def test_a_name_that_is_not_there_is_told_with_the_nearest(module, name, near) -> None:
    with pytest.raises(AttributeError, match=near):
        getattr(importlib.import_module(module), name)


def test_the_import_of_the_workers_is_light() -> None:
    heavy = [
        "tensorboardX",
        "flask",
        "requests",
        "cheroot",
        "waitress",
        "rich",
        "matplotlib",
        "cv2",
        "gymnasium",
        "click",
        "imageio",
    ]
    code = f"import sys, ding.worker; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def _exported() -> list[tuple[str, str]]:
    """Package and name, of each line of what DI-engine 0.5.3's packages export."""
    pairs, package = [], ""
    for line in Path(__file__).with_name("api").joinpath("exports.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("package "):
            package = line.removeprefix("package ")
        else:
            pairs += [(package, name) for name in line.split()]
    return pairs


def test_packages_export_what_those_of_di_engine_do() -> None:
    """Or an import says to which part, which is not built, a name belongs."""
    missing = []
    for package, name in _exported():
        try:
            getattr(importlib.import_module(package), name)
        except ImportError as error:
            if "which is not built" not in str(error) and "is not installed" not in str(error):
                missing.append(f"{package}.{name}: {error}")
        except AttributeError:
            if importlib.util.find_spec(f"{package}.{name}") is None:
                missing.append(f"{package}.{name}")
    assert missing == []


def test_a_name_from_before_di_engine_0_5_says_what_it_is_called_now() -> None:
    for package, name, new in (
        ("ding.model.template", "QAC", "ContinuousQAC"),
        ("ding.model", "QAC", "ContinuousQAC"),
        ("ding.envs", "FinalEvalRewardEnv", "EvalEpisodeReturnWrapper"),
        ("ding.envs", "EvalEpisodeReturnEnv", "EvalEpisodeReturnWrapper"),
    ):
        with pytest.raises(ImportError, match=f"it is called '{new}' since DI-engine 0.5"):
            getattr(importlib.import_module(package), name)


# What uses all other modules.
STARTS = ("ding.__main__", "ding.entry", "ding.bonus", "ding.framework.middleware", "ding.framework.task")


def needed(module: Module) -> set[str]:
    """Modules that a module imports, or names in a string (docstrings aside), with the packages around it."""
    found: set[str] = set()
    for node, _ in import_nodes(module.tree):
        found |= imported(node) | ({str(node.module)} if isinstance(node, ast.ImportFrom) else set())
    docstrings = {node.value for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            found |= set(re.findall(r"ding(?:\.\w+)+", node.value))
    parts = module.name.split(".")
    return (found | {".".join(parts[:length]) for length in range(1, len(parts))}) & set(modules())


def registers(module: Module) -> bool:
    """Whether a class or function of a module is registered by a decorator."""
    defined = (node for node in ast.walk(module.tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef)))
    return any(re.search("register|REGISTRY", ast.unparse(one)) for node in defined for one in node.decorator_list)


def reached() -> set[str]:
    """Modules that commands, pipelines, agents, middleware and registered classes need."""
    for package in ("data", "entry", "envs", "framework.message_queue", "league", "model", "policy", "reward_model"):
        importlib.import_module(f"ding.{package}")
    entries = [entry for registry in registries.values() for entry in dict.values(registry)]
    waiting = [getattr(entry, "module", entry.__module__) for entry in entries]
    waiting += [name for name, module in modules().items() if name.startswith(STARTS) or registers(module)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in modules() and name not in seen:
            seen.add(name)
            waiting += needed(modules()[name])
    return seen


def test_modules_that_only_scripts_use_are_listed() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = page.split("## What only scripts use")[1].split("\n## ")[0].split("|---|---|\n")[1].splitlines()
    listed = [name for row in rows if row for name in re.findall(r"`([\w.]+)`", row.split("|")[1])]
    assert [name for name in listed if name not in modules()] == []
    skipped = {name for name in modules() if any(f"{name}.".startswith(f"{one}.") for one in listed)}
    unreached = set(modules()) - reached()
    assert sorted(unreached - skipped) == [], "reached by nothing, and not in the list of docs/architecture.md"
    assert sorted(skipped - unreached) == [], "in the list of docs/architecture.md, but reached"
