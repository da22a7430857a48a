"""``Agent``: an algorithm, an env and an experiment folder in one object.

experiment folder   ``<exp_name>/``, as of a serial run; created by the first :meth:`Agent.train`
env step            one step of one collector env
train iter          one optimisation step
"""

import signal
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from easydict import EasyDict

from ding.bonus.common import AgentConfigError, CheckpointError, EvalReturn, ExperimentNotFoundError, TrainingReturn
from ding.bonus.core.base_config import pattern_and_base
from ding.bonus.core.best_checkpoint import best_checkpoint_of, learner_state
from ding.bonus.core.env_pattern import AnyEnv, EnvPattern
from ding.bonus.core.fit import DEFAULT_WRAPPERS, fitted_config, model_section, wrappers_for
from ding.bonus.core.joined_video import join_videos
from ding.bonus.core.observations import network_batch_of
from ding.bonus.core.run_config import manager_section, run_config
from ding.config import compile_config
from ding.config.sections import dig
from ding.data.roles import EnvManager, StateDict
from ding.entry.serial.arguments import RunArguments
from ding.entry.serial.loop import OnPolicyPath, ReplayPath
from ding.entry.serial.parts import Kept, ReplayBuffer
from ding.entry.serial.run_state import newest_good_snapshot, read_run_state
from ding.entry.serial.shape_check import check_model_shapes
from ding.entry.serial_entry import run_pipeline
from ding.envs import BaseEnv, create_env_manager
from ding.envs.env.norms import defer_norms
from ding.framework import OnlineRLContext, Task
from ding.framework.middleware import StepCollector
from ding.framework.middleware.functional.evaluator import play_episodes
from ding.parallel.launch.signals import RunInterrupted
from ding.policy import Policy, create_policy
from ding.policy.action_kind import check_action_kind
from ding.rollout import seed_evaluation, statistics_of, v1_interface
from ding.utils import SeedTree, deep_merge_dicts
from ding.utils.checkpoint import read_checkpoint
from ding.utils.data import offline_data_save_type
from ding.utils.file_helper import read_file
from ding.utils.seed import generator_states


class CompleteConfig(dict[str, Any]):
    """Config of an agent saved by a run: its ``policy.model`` is complete and must not be extended."""


class Agent:
    """Trains, evaluates and renders a policy on any Gymnasium env.

    Missing config keys are derived from the spaces of the env; for some envs there are tuned configs
    (:func:`ding.bonus.config.get_instance_config`). No folder is created before :meth:`train`, so a second agent with
    the same ``exp_name`` finds the checkpoints of the first.

    Args:
        env_id: Id of a registered Gymnasium env.
        env: An env instead of an id (Gymnasium or :class:`~ding.envs.BaseEnv`), or a callable that creates one.
        seed: Seed of Python, NumPy, torch and the envs.
        exp_name: Experiment folder; by default ``<env>-<algorithm>``.
        model: Network; by default the policy's own.
        cfg: Main config, merged over the defaults; misspelt keys are reported.
        policy_state_dict: State of a trained policy, or the path of a checkpoint.

    Attributes:
        cfg: Compiled config.
        env: An env of this kind, for its spaces.
        policy: Policy with learn, collect and eval modes.
        buffer_: Replay buffer; ``None`` before the first :meth:`train`, and for on-policy algorithms.
        statistics: Normalisation statistics of observations and rewards, if the policy keeps them.
        given_model: The argument ``model``; ``None`` for the policy's own network.

    Raises:
        AgentConfigError: Neither an id nor an env is given, ``env_id`` contradicts ``cfg``, or the spaces do not fit
            the algorithm.
        ConfigError: ``cfg`` is invalid.
        CheckpointError: ``policy_state_dict`` belongs to another algorithm or network.
    """

    #: Name of the algorithm, and registered ``type`` of its policy; without one, ``cfg.policy.type`` names it.
    algorithm: ClassVar[str] = "Agent"
    policy_type: ClassVar[str | None] = None
    #: Kinds of action spaces that the algorithm supports.
    action_kinds: ClassVar[tuple[str, ...]] = ("discrete", "continuous", "hybrid")
    #: Whether policy and model have a key ``action_space``.
    names_action_space: ClassVar[bool] = False
    #: Whether the network can encode vectors as well as images.
    encodes_vectors: ClassVar[bool] = True
    #: Section ``policy`` for envs without a config of their own.
    policy_defaults: ClassVar[Mapping[str, Any]] = {}
    #: Overrides of that section for hybrid actions.
    hybrid_defaults: ClassVar[Mapping[str, Any]] = {}
    #: Ids of the envs that have a config.
    supported_env_list: ClassVar[Sequence[str]] = ()

    def __init__(
        self,
        env_id: str | None = None,
        env: AnyEnv | None = None,
        seed: int = 0,
        exp_name: str | None = None,
        model: torch.nn.Module | None = None,
        cfg: Mapping[str, Any] | None = None,
        policy_state_dict: StateDict | str | None = None,
    ) -> None:
        main, pattern = self.written_config(env_id, env, exp_name, cfg)
        policy_type = self.policy_type or main["policy"].get("type", "").removesuffix("_command")
        if not policy_type:
            raise AgentConfigError("cfg.policy.type is missing: it names the policy of an Agent, such as 'dqn'")
        self.seed = seed
        self.cfg = self._compile(main, policy_type)
        self._pattern = pattern.with_cfg(self.cfg.env)
        self.env: BaseEnv = self._pattern.clone("evaluator")
        self.exp_name: str = self.cfg.exp_name
        SeedTree(seed).seed_process("learner", use_cuda=self.cfg.policy.cuda)
        self.given_model = model
        fields = ["learn", "collect", "eval", "command"]
        self.policy: Policy = create_policy(self.cfg.policy, model=model, enable_field=fields)
        self._kept = Kept(self.policy, generator_states(), config_makes_envs=pattern.is_registered)
        norms, self.statistics = defer_norms(self.env), statistics_of(self.policy.eval_mode)
        if norms is not None and self.statistics is not None:
            self.statistics.activate(norms)
        model_used = self.policy.learn_mode.get_attribute("model")
        check_action_kind(policy_type, model_used, self.env, getattr(self.policy, "acts_in_unit_range", False))
        if model is None:
            check_model_shapes(type(self.policy), self.cfg.policy.model, self.env)
        if policy_state_dict is not None:
            self.load(policy_state_dict)

    @classmethod
    def written_config(
        cls,
        env_id: str | None = None,
        env: AnyEnv | None = None,
        exp_name: str | None = None,
        cfg: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, Any], EnvPattern]:
        """Return a main config that fits the env, without the defaults of classes, and the pattern of its envs.

        Arguments and errors are those of the agent.
        """
        own = EasyDict(deepcopy(cls._sections(cfg or {})))
        pattern, found = pattern_and_base(env_id, env, own, cls.algorithm)
        base = cls._sections(found) if found else {}
        user = EasyDict({**own, "env": deep_merge_dicts(base.get("env", {}), own.env)})
        if exp_name is not None:
            user.exp_name = exp_name
        made = pattern.with_cfg(user.env).clone("evaluator")
        try:
            wrappers = [] if "env_wrapper" in user.env else wrappers_for(made.observation_space)
            if wrappers:
                user.env.env_wrapper = [*wrappers, *DEFAULT_WRAPPERS]
                made.close()
                made = pattern.with_cfg(user.env).clone("evaluator")
            fitted = fitted_config(made, cls.action_kinds, cls.algorithm, cls.names_action_space, cls.encodes_vectors)
        finally:
            made.close()
        hybrid = cls.hybrid_defaults if isinstance(fitted["policy"]["model"]["action_shape"], Mapping) else {}
        defaults = {} if "policy" in base else {"policy": deep_merge_dicts(cls.policy_defaults, hybrid)}
        main = deep_merge_dicts(deep_merge_dicts(fitted, defaults), deep_merge_dicts(base, user))
        written = dig(own, "policy", "model")
        if isinstance(cfg, CompleteConfig):
            main["policy"]["model"] = deepcopy(dict(written))
        else:
            policy_type = cls.policy_type or str(main["policy"].get("type", ""))
            main["policy"]["model"] = model_section(policy_type, main["policy"]["model"], written)
        return main, pattern

    # Setup. Agents of policies with a special config or special modes override these methods.

    @classmethod
    def _sections(cls, cfg: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the user's config to one with the sections ``env`` and ``policy``."""
        return dict(cfg)

    def _compile(self, main: dict[str, Any], policy_type: str) -> EasyDict:
        """Return the config with all defaults, as compiled by a pipeline."""
        main["policy"].pop("type", None)
        self._create = {
            "env": {"type": main["env"]["type"], "import_names": main["env"].get("import_names", ["ding.envs"])},
            "env_manager": {"type": "base"},
            "policy": {"type": f"{policy_type}_command"},
        }
        self._written_manager = dict(dig(main, "env", "manager"))
        if "n_episode" in dig(main, "policy", "collect"):
            self._create["collector"] = {"type": "episode", "get_train_sample": True}
        return compile_config(main, seed=self.seed, auto=True, create_cfg=self._create, save_cfg=False)

    @property
    def buffer_(self) -> ReplayBuffer | None:
        """Replay buffer of the trainings."""
        return self._kept.buffer

    @property
    def env_step(self) -> int:
        """Number of env steps over all calls of :meth:`train`."""
        return int(self._stopped.get("env_step", 0))

    @property
    def train_iter(self) -> int:
        """Number of train iterations over all calls of :meth:`train`."""
        return int(self._stopped.get("train_iter", 0))

    @property
    def best_eval_value(self) -> float:
        """Mean return of the best evaluation in :meth:`train`, which :attr:`best` loads; -inf before the first."""
        return float(dig(self._stopped, "evaluator").get("max_episode_return", -np.inf))

    @property
    def _stopped(self) -> StateDict:
        return self._kept.stopped or {}

    def make_envs(self, caller: str, env_num: int | None, context: str | None, debug: bool) -> EnvManager:
        """Return a manager of ``env_num`` envs: in processes if ``context`` is set or the envs have images.

        Args:
            caller: ``collector`` or ``evaluator``.
            env_num: Number of envs; ``None``: that of the config.
            context: Start method of the processes.
            debug: Run the envs in this process.
        """
        count = env_num or self.cfg.env[f"{caller}_env_num"]
        made = create_env_manager(self._manager(context, debug), [partial(self._pattern.clone, caller)] * count)
        return v1_interface(made)

    def _manager(self, context: str | None, debug: bool) -> EasyDict:
        return manager_section(self.cfg.env.manager, self._written_manager, self.env, context, debug)

    # Use.

    def train(
        self,
        step: int = int(1e7),
        collector_env_num: int | None = None,
        evaluator_env_num: int | None = None,
        n_iter_log_show: int = 500,
        n_iter_save_ckpt: int = 1000,
        context: str | None = None,
        debug: bool = False,
        wandb_sweep: bool = False,
    ) -> TrainingReturn:
        """Train with a serial pipeline until the mean evaluation return reaches ``env.stop_value``, or for ``step`` env
        steps.

        A second call continues in the same folder with the next ``step`` env steps. Folder, lock, log lines and
        resumption by ``ding -m serial --resume`` are those of :func:`ding.entry.serial_pipeline`. ``cfg.wandb_logger``
        also logs the run to Weights & Biases.

        Args:
            step: Number of env steps.
            collector_env_num, evaluator_env_num: Numbers of envs; by default those of the config.
            n_iter_log_show: Train iterations between two points of the training curves.
            n_iter_save_ckpt: Train iterations between two checkpoints ``iteration_*``. These two override
                ``policy.learn.learner.hook`` of the config.
            context: Start method of processes for the envs; see :meth:`make_envs`.
            debug: Run the envs in this process.
            wandb_sweep: Whether the run is part of a sweep of Weights & Biases.

        The first Ctrl-C ends the training with a snapshot; another call continues.

        Raises:
            AgentConfigError: ``step`` is not positive.
            ExperimentDirError: Another run is active in the folder of the run to continue.
            KeyboardInterrupt: Ctrl-C was pressed.
            RunInterrupted: SIGTERM arrived (a ``SystemExit``).
        """
        if step < 1:
            raise AgentConfigError(f"step must be at least 1 env step, got {step}")
        numbers = {"collector_env_num": collector_env_num, "evaluator_env_num": evaluator_env_num}
        hooks = {"log_show_after_iter": n_iter_log_show, "save_ckpt_after_iter": n_iter_save_ckpt}
        continues = self._kept.stopped is not None
        main = run_config(self.cfg, numbers, self._manager(context, debug), hooks, continues)
        self._create["env_manager"]["type"] = main.env.manager.type
        self._kept.wandb_sweep = wandb_sweep
        setting, limit = self._pattern.setting(main.env), self.env_step + step
        arguments = RunArguments(
            (main, self._create), self.seed, setting, self.given_model, max_env_step=limit, kept=self._kept
        )
        try:
            run_pipeline(OnPolicyPath if main.policy.on_policy else ReplayPath, arguments)
        except RunInterrupted as interrupted:
            if interrupted.signum != signal.SIGINT:
                raise
            raise KeyboardInterrupt(f"stopped; train() goes on, and the snapshot is {interrupted.checkpoint}") from None
        finally:
            self.exp_name = self.cfg.exp_name = self._kept.exp_name or self.exp_name
        return TrainingReturn(wandb_url=self._kept.wandb_url)

    def deploy(
        self,
        enable_save_replay: bool = False,
        concatenate_all_replay: bool = False,
        replay_save_path: str | None = None,
        seed: int | Sequence[int] | None = None,
        debug: bool = False,
    ) -> EvalReturn:
        """Play one episode per seed without exploration.

        Args:
            enable_save_replay: Save a video of each episode.
            concatenate_all_replay: Also join the videos into one, ``deploy.mp4``.
            replay_save_path: Folder for the videos; by default ``<exp_name>/videos``.
            seed: One or several seeds; by default that of the agent.
            debug: Ignored; accepted for compatibility.

        Raises:
            MissingExtraError: No package that writes videos is installed.
        """
        seeds = [self.seed] if seed is None else [int(one) for one in np.atleast_1d(seed)]
        env = self.make_envs("evaluator", len(seeds), None, debug=True)
        folder = Path(replay_save_path or Path(self.exp_name) / "videos")
        try:
            env.seed(seeds, dynamic_seed=False)
            if enable_save_replay:
                folders = [folder / f"seed{one}" for one in seeds] if len(seeds) > 1 else [folder]
                for one in folders:
                    one.mkdir(parents=True, exist_ok=True)
                env.enable_save_replay([str(one) for one in folders])
            result = self._play(env, len(seeds))
        finally:
            env.close()
        if enable_save_replay and concatenate_all_replay:
            join_videos(folder)
        return result

    def batch_evaluate(
        self, env_num: int = 4, n_evaluator_episode: int = 4, context: str | None = None, debug: bool = False
    ) -> EvalReturn:
        """Play episodes in ``env_num`` envs without exploration.

        Raises:
            AssertionError: There are fewer episodes than envs.
        """
        env = self.make_envs("evaluator", env_num, context, debug)
        try:
            seed_evaluation(env, self.seed)
            return self._play(env, n_evaluator_episode)
        finally:
            env.close()

    def _play(self, env: EnvManager, num_episodes: int) -> EvalReturn:
        monitor, _ = play_episodes(env, self.policy.eval_mode, num_episodes, False, {})
        returns = monitor.get_episode_return()
        return EvalReturn(np.float32(np.mean(returns)), np.float32(np.std(returns)))

    def collect_data(
        self,
        env_num: int = 8,
        save_data_path: str | None = None,
        n_sample: int | None = None,
        n_episode: int | None = None,
        context: str | None = None,
        debug: bool = False,
        data_type: str = "hdf5",
    ) -> None:
        """Collect transitions without exploration, and save them for offline training.

        Args:
            env_num: Number of envs.
            save_data_path: Path of the file; by default ``<exp_name>/demo_data``. ``hdf5`` writes
                ``<path>_demos.hdf5``.
            n_sample: Number of transitions; by default ``policy.collect.n_sample``.
            n_episode: Not supported.
            context, debug: See :meth:`make_envs`.
            data_type: ``hdf5`` (extra ``hdf5``) or ``naive``.

        Raises:
            NotImplementedError: ``n_episode`` is given.
        """
        if n_episode is not None:
            raise NotImplementedError("collect_data takes n_sample; whole episodes cannot be collected")
        cfg = deepcopy(self.cfg)
        cfg.policy.collect.n_sample = n_sample or cfg.policy.collect.n_sample
        path = Path(save_data_path or Path(self.exp_name) / "demo_data")
        path.parent.mkdir(parents=True, exist_ok=True)
        env = self.make_envs("collector", env_num, context, debug)
        try:
            ctx = OnlineRLContext(collect_kwargs=self._greedy())
            with Task().start(ctx=ctx), self.statistics.frozen() if self.statistics else nullcontext():
                collector = StepCollector(cfg, self.policy.collect_mode, env)
                # Do not repeat the initial states of the training.
                env.seed(SeedTree(self.seed).env_seeds(env.env_num, "demonstrator"))
                collector(ctx)
        finally:
            env.close()
        offline_data_save_type(ctx.trajectories, str(path), data_type)

    def _greedy(self) -> dict[str, Any]:
        return {"eps": 0.0} if "eps" in self.cfg.policy.other else {}

    def predict(self, obs: Any, deterministic: bool = True) -> Any:
        """Return the policy's actions for observations.

        Args:
            deterministic: Act without exploration; ``False`` samples from the policy's action distribution, if it has
                one, as during collection. Exploration outside of the policy (epsilon) is disabled in both cases.
            obs: One observation in the form of the env, or of its wrappers (flat, channels first, scaled): an array, a
                dict of arrays, a number; or N of them on a new first axis, or in a list.

        Returns:
            An action for ``env.step``; for N observations an array or a list of N actions.

        Raises:
            AgentConfigError: The shape of ``obs`` fits neither form.
        """
        actions, is_single = self.policy_actions(obs, deterministic)
        to_env = getattr(self.env, "env_action", lambda action: action)
        actions = [to_env(action) for action in actions]
        if is_single:
            return actions[0]
        return np.asarray(actions) if isinstance(actions[0], (int, float, np.ndarray)) else actions

    def policy_actions(self, obs: Any, deterministic: bool = True) -> tuple[list[Any], bool]:
        """Return the actions of :meth:`predict` in the policy's form, and whether there is a single one."""
        batch, is_single = network_batch_of(obs, self.env, self.statistics)
        mode = self.policy.eval_mode if deterministic else self.policy.collect_mode
        outputs = mode.forward(batch, **({} if deterministic else self._greedy()))
        mode.reset(None)
        return [outputs[number]["action"] for number in range(len(batch))], is_single

    # Checkpoints.

    @property
    def checkpoint_save_dir(self) -> str:
        """Folder of the checkpoints."""
        return str(Path(self.exp_name) / "ckpt")

    @property
    def best(self) -> "Agent":
        """The agent itself, after loading the best checkpoint of its experiment folder.

        Raises:
            ExperimentNotFoundError: There is none, because the agent was not trained.
            CheckpointError: The checkpoint belongs to another algorithm or network.
        """
        return self.load(best_checkpoint_of(self.exp_name))

    def resume(self, snapshot: str | None = None) -> "Agent":
        """Make the next :meth:`train` resume the run in the experiment folder, like ``ding -m serial --resume``.

        Create the agent with the config of that run, or with :func:`ding.load`.

        Args:
            snapshot: Path of a snapshot of the run; by default the newest one of the experiment folder. A run saves one
                at its end, and every ``policy.learn.run_state_every_s`` seconds (default 600).

        Returns:
            The agent itself, with the weights and counters of the snapshot.

        Raises:
            ExperimentNotFoundError: There is no snapshot.
            FileRefusedError: The snapshot is damaged.
        """
        found = newest_good_snapshot(self.exp_name) if snapshot is None else snapshot
        state = None if found is None else read_run_state(found)
        if state is None:
            text = (
                f"{found or self.exp_name} holds no snapshot to resume from; policy.learn.run_state_every_s saves some"
            )
            raise ExperimentNotFoundError(text)
        self.load(read_checkpoint(str(found)))
        self._kept.stopped = state
        return self

    def load(self, state: StateDict | str) -> "Agent":
        """Load the state of a policy, or the checkpoint at a path; return the agent itself.

        The checkpoint of an evaluated policy contains only its networks; training then starts with new optimisers and
        with target networks equal to the loaded ones.

        Raises:
            ExperimentNotFoundError: The file does not exist.
            CheckpointError: The file is broken, or belongs to another algorithm or network.
        """
        name = "the state" if isinstance(state, Mapping) else str(state)
        try:
            found = state if isinstance(state, Mapping) else read_file(state)
            self.policy.learn_mode.load_state_dict(learner_state(found, self.policy.learn_mode.state_dict))
        except FileNotFoundError as error:
            raise ExperimentNotFoundError(f"there is no checkpoint {name}") from error
        except Exception as error:  # any error of torch about a file or a state that does not fit
            shown = " ".join(str(error).split())[:300]
            raise CheckpointError(f"{name} is no checkpoint of {self.algorithm} for this network: {shown}") from error
        return self

    def __repr__(self) -> str:
        policy = type(self.policy).__name__
        return f"{type(self).__name__}({self.cfg.env.get('env_id')!r}, {policy}, exp_name={self.exp_name!r})"
