"""Process that runs one or more envs of a subprocess env manager."""

import faulthandler
import gc
import logging
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data.env_batch import is_abnormal, mark_truncated
from ding.envs.contract import (
    DataProblem,
    ReadObs,
    check_end,
    fits_reward_space,
    obs_reader,
    own_info,
    reward_array,
    reward_misfit,
    scalar,
)
from ding.envs.env.state import env_state, set_env_state
from ding.envs.env.stepping import FastStep, classic_step
from ding.envs.env_manager._columns import of_abnormal, reward_shape
from ding.envs.env_manager._errors import ENV_FAULTS, describe, traceback_text
from ding.envs.env_manager._workers.protocol import COMPLETION, FIRST_STEP, MESSAGE, Command, Failure, Flag, Message
from ding.envs.env_manager._workers.reward_forms import reward_code
from ding.envs.env_manager._workers.shared_columns import RowSchema, RowWriter, SharedColumns
from ding.utils.compression_helper import CloudPickleWrapper
from ding.utils.own_code import OwnModule, import_in_child
from ding.utils.seed import generator_states, seed_env_process, set_generator_states
from ding.utils.system_helper import die_with_parent

logger = logging.getLogger(__name__)

# Ends a worker that hangs, after the traceback of its threads was written to the crash log.
DUMP_SIGNAL = signal.SIGUSR2

Result: TypeAlias = tuple[int, Any]
"""Flags of the completion, and the payload if they announce one."""


@dataclass
class WorkerSetup:
    """Start arguments of a worker.

    Attributes:
        env_ids: Ids of its envs.
        generation: Number of earlier starts of this worker.
        env_fns: Functions that create the envs, in the order of ``env_ids``.
        conn: Worker's end of its pipe.
        completions: Write end of the completion pipe.
        parent_pid: Process id of the manager.
        die_with_parent: Let the kernel kill the worker when the thread that started it ends.
        own_code: User modules that a process that is not forked imports before it creates its envs.
    """

    env_ids: list[int]
    generation: int
    env_fns: list[CloudPickleWrapper]
    conn: Connection
    completions: Connection
    parent_pid: int
    die_with_parent: bool
    own_code: tuple[OwnModule, ...] = ()


def worker_main(setup: WorkerSetup, inherited: Callable[[], None] | None = None) -> None:
    """Entry point of the process.

    Args:
        setup: See :class:`WorkerSetup`.
        inherited: Closes descriptors that a forked child inherits and must not keep open.
    """
    # The parent handles Ctrl-C and closes its workers. Its other handlers must not run here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if inherited is not None:
        inherited()
    _bind_life_to_parent(setup)
    _use_one_thread()
    gc.freeze()  # exclude inherited objects from garbage collection
    EnvWorker(setup).run()


def _bind_life_to_parent(setup: WorkerSetup) -> None:
    if setup.die_with_parent and die_with_parent(signal.SIGKILL):
        if os.getppid() != setup.parent_pid:
            os._exit(1)  # the parent ended before the kernel watched it
        return
    threading.Thread(target=_exit_with, args=(setup.parent_pid,), name="parent-watch", daemon=True).start()


def _exit_with(parent_pid: int) -> None:
    """Exit at once when the parent ends. Needed if the kernel cannot do this and an env may hang."""
    parent = multiprocessing.parent_process()
    poller = select.poll()
    try:
        poller.register(os.pidfd_open(parent_pid), select.POLLIN)
    except (AttributeError, OSError):
        if parent is None:
            return
        poller.register(parent.sentinel, select.POLLIN)
    poller.poll()
    os._exit(1)


def _use_one_thread() -> None:
    """Use a single thread: envs share the cores already, and a forked child must not use the parent's thread pools."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(0)


class EnvWorker:
    """Executes the commands of the parent; see ``protocol`` for the messages."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._conn = setup.conn
        self._completions = setup.completions.fileno()
        self._handlers: dict[str, Callable[..., None]] = {
            "crash_log": self._on_crash_log,
            "build": self._on_build,
            "attach": self._on_attach,
            "reset": partial(self._attempt, Command.RESET, self._reset),
            "step": partial(self._attempt, Command.STEP, self._step),
            "call": partial(self._attempt, Command.CALL, self._call),
        }
        self._envs: dict[int, Any] = {}
        self._steppers: dict[int, FastStep] = {}
        self._readers: dict[int, ReadObs] = {}
        # Envs with discrete actions that are stepped without their wrapper, and the memory of scalar actions.
        self._take_ints: set[int] = set()
        # Envs whose rewards keep their form.
        self._keep_forms: set[int] = set()
        self._one_number: np.ndarray | None = None
        self._returns: dict[int, float] = {}
        self._static_seeds: dict[int, int | None] = {}
        self._results: SharedColumns | None = None
        self._obs: RowWriter
        self._reset_obs: RowWriter
        self._action: RowWriter
        self._reward: np.ndarray
        self._done: np.ndarray
        self._truncated: np.ndarray

    def run(self) -> None:
        """Serve until the order to close or the end of the parent, then close the envs."""
        try:
            while self._serve(os.read(self._conn.fileno(), 1)):
                pass
        except (EOFError, BrokenPipeError, ConnectionResetError):
            # The parent has ended, or has given up this worker.
            logger.debug("env worker %s lost its parent", self._setup.env_ids)
        finally:
            self._close_envs()

    def _serve(self, order: bytes) -> bool:
        if not order:
            return False  # the parent has ended
        if order[0] >= FIRST_STEP:
            env_id = self._setup.env_ids[order[0] - FIRST_STEP]
            self._attempt(Command.STEP, self._step_shared, env_id)
            return True
        if order[0] == MESSAGE:
            message: Message = self._conn.recv()
            self._handlers[message.name](*message.args)
            return True
        return False

    def _close_envs(self) -> None:
        for env_id, env in self._envs.items():
            try:
                env.close()
            except ENV_FAULTS:
                logger.exception("env %d raised while closing", env_id)

    # orders with arguments

    def _on_attach(self, key: str, schema: RowSchema, num_rows: int) -> None:
        shared = SharedColumns(schema, num_rows, reduction.recv_handle(self._conn))
        if key == "actions":
            self._action = shared.writer("action")
            array = shared.arrays[0]
            self._one_number = array if len(shared.arrays) == 1 and array[0].size == 1 else None
            return
        self._results = shared
        self._obs = shared.writer("obs")
        self._reset_obs = shared.writer("reset_obs")
        self._reward = shared.array("reward")
        self._form = shared.array("form")
        self._done = shared.array("done")
        self._truncated = shared.array("truncated")

    def _on_crash_log(self) -> None:
        # The file outlives the process: the parent reads the cause of death from it.
        log = os.fdopen(reduction.recv_handle(self._conn), "wb")
        faulthandler.enable(log)
        signal.signal(DUMP_SIGNAL, signal.SIG_DFL)
        faulthandler.register(DUMP_SIGNAL, log, all_threads=True, chain=True)
        self._crash_log = log

    def _on_build(self, seeds: list[int | None]) -> None:
        import_in_child(self._setup.own_code)
        for env_id, env_fn, seed in zip(self._setup.env_ids, self._setup.env_fns, seeds):
            # A forked process starts with the generators of its parent, like all the others.
            seed_env_process(seed, "build")
            self._attempt(Command.BUILD, self._build, env_id, env_fn)

    # commands

    def _attempt(self, command: Command, run: Callable[..., Result], env_id: int, *args: Any) -> None:
        """Run a command and report its result or its error, including ``SystemExit``."""
        try:
            flags, payload = run(env_id, *args)
            frame = pickle.dumps(payload, pickle.HIGHEST_PROTOCOL) if flags else b""
        except DataProblem as problem:
            text = describe(problem) if command == Command.RESET else str(problem)
            flags, frame = self._failure(Failure(text, "", "data"))
        except BaseException as error:  # noqa: BLE001 - it is reported, not swallowed
            flags, frame = self._failure(Failure(describe(error), traceback_text(error)))
        os.write(self._completions, COMPLETION.pack(env_id, self._setup.generation, command, flags))
        if flags:
            # After the completion: a payload larger than the pipe waits for the parent to read.
            self._conn.send_bytes(frame)

    @staticmethod
    def _failure(failure: Failure) -> tuple[int, bytes]:
        return Flag.PAYLOAD | Flag.FAILED, pickle.dumps(failure, pickle.HIGHEST_PROTOCOL)

    def _build(self, env_id: int, env_fn: CloudPickleWrapper) -> Result:
        self._envs[env_id] = env_fn.data()
        return 0, None

    def _reset(
        self, env_id: int, replay_path: str | None, seed: tuple[Any, ...] | None, kwargs: dict[str, Any]
    ) -> Result:
        env = self._envs.get(env_id)
        if env is None:
            # Its construction failed before.
            position = self._setup.env_ids.index(env_id)
            env = self._envs[env_id] = self._setup.env_fns[position].data()
        if replay_path is not None:
            env.enable_save_replay(replay_path)
        self._seed(env_id, seed)
        obs = env.reset(**kwargs)
        fast = getattr(env, "has_fast_step", False)
        if env_id not in self._readers:
            self._readers[env_id] = obs_reader(env.observation_space, strict=fast)
        obs = self._readers[env_id](obs)
        self._steppers[env_id] = env.fast_step() if fast else classic_step(env)
        if fast and isinstance(env.action_space, gymnasium.spaces.Discrete):
            self._take_ints.add(env_id)
        if not fast:
            self._keep_forms.add(env_id)
        self._returns[env_id] = 0.0
        if self._results is None:
            return Flag.PAYLOAD | Flag.OBJECT, obs
        self._put(self._reset_obs, env_id, obs)
        return 0, None

    def _put(self, rows: RowWriter, env_id: int, obs: object) -> None:
        if rows.write(env_id, obs) is None:
            return
        # It may have another form of the contract.
        problem = rows.write(env_id, self._readers[env_id](obs))
        if problem is not None:
            raise DataProblem(problem)

    def _seed(self, env_id: int, seed: tuple[Any, ...] | None) -> None:
        """Seed an env with new arguments of ``env.seed``, and the generators of the process."""
        if seed is not None:
            self._static_seeds[env_id] = seed[0] if len(seed) > 1 and not seed[1] else None
            seed_env_process(seed[0], "reset")
            self._envs[env_id].seed(*seed)
        elif self._static_seeds.get(env_id) is not None:
            # Each of its episodes starts from this seed.
            seed_env_process(self._static_seeds[env_id], "reset")

    def _step_shared(self, env_id: int) -> Result:
        if self._one_number is not None and env_id in self._take_ints:
            return self._step(env_id, self._one_number[env_id].item())
        return self._step(env_id, self._action.read(env_id))

    def _step(self, env_id: int, action: object) -> Result:
        if self._results is None:
            return self._object_step(env_id, self._envs[env_id].step(action))
        stepper = self._steppers[env_id]
        if type(action) is not int and env_id in self._take_ints:
            action = int(np.asarray(action).item())
        obs, reward, terminated, truncated, info = stepper.step(action)
        # A copy: the env must not see the additions.
        info = own_info(info) if info else {}
        flags = 0
        if info and is_abnormal(info):
            obs, reward = of_abnormal(obs, reward, None)
            flags = Flag.NO_OBS if obs is None else 0
        done = terminated or truncated
        if done:
            check_end(terminated, truncated)
        cut = bool(truncated and not terminated)
        if stepper.return_form is not None:
            self._returns[env_id] += scalar(reward)
            if done:
                info["eval_episode_return"] = stepper.return_form(self._returns[env_id])
        if isinstance(info, dict):
            mark_truncated(info, cut)
        if not flags:
            self._put(self._obs, env_id, obs)
        self._done[env_id] = done
        self._truncated[env_id] = cut
        if not self._write_reward(env_id, reward, isinstance(info, list)):
            return Flag.PAYLOAD | Flag.REWARD | flags, (info, np.asarray(reward, dtype=np.float32))
        # The truncated flag already implies this entry.
        return (Flag.PAYLOAD | flags, info) if len(info) > cut else (0, None)

    def _object_step(self, env_id: int, timestep: Iterable[Any]) -> Result:
        flags = Flag.PAYLOAD | Flag.OBJECT
        obs, reward, done, info = timestep
        if done:
            check_end(done, None)
        info = own_info(info) if info else {}
        if not (obs is None and is_abnormal(info)):
            obs = self._readers[env_id](obs)
        if not (reward is None and is_abnormal(info)):
            self._misfit(env_id, reward_array(reward).shape, isinstance(info, list))
        if info and is_abnormal(info):
            obs, paid = of_abnormal(obs, reward, None)
            flags |= (Flag.NO_OBS if obs is None else 0) | (0 if paid is reward else Flag.NO_REWARD)
            reward = paid
        return flags, (obs, reward, done, info)

    def _write_reward(self, env_id: int, reward: npt.ArrayLike, is_game: bool) -> bool:
        """Write a reward to shared memory; return whether it fits.

        Raises:
            DataProblem: The reward is not a number, or its shape differs from the env's declaration.
        """
        if not isinstance(reward, (float, int)):
            array = reward_array(reward)
            if array.shape != self._reward.shape[1:]:
                if array.size != 1 or self._reward[env_id].size != 1:
                    self._misfit(env_id, array.shape, is_game)
                    return False
                array = array.reshape(-1)
            self._reward[env_id] = array
        else:
            self._reward[env_id] = reward
        if env_id in self._keep_forms:
            self._form[env_id] = reward_code(reward)
        return True

    def _misfit(self, env_id: int, shape: tuple[int, ...], is_game: bool) -> None:
        """Raise if the shape of a reward differs from the env's declaration; games are exempt."""
        expected = None if is_game else reward_shape(getattr(self._envs[env_id], "reward_space", None))
        if np.prod(shape) != 1 and not fits_reward_space(shape, expected, env_id in self._keep_forms):
            raise DataProblem(reward_misfit(shape, expected or (1,)))

    def _call(self, env_id: int, name: str, args: tuple[Any, ...] | None) -> Result:
        if args is None:
            return Flag.PAYLOAD, getattr(self._envs[env_id], name, None)
        if name in ("get_state", "set_state"):
            return Flag.PAYLOAD, getattr(self, f"_{name}")(env_id, *args)
        return Flag.PAYLOAD, getattr(self._envs[env_id], name)(*args)

    def _get_state(self, env_id: int) -> dict[str, Any]:
        generators = generator_states(use_cuda=False)
        return {"env": env_state(self._envs[env_id]), "return": self._returns[env_id], "generators": generators}

    def _set_state(self, env_id: int, state: dict[str, Any]) -> None:
        set_env_state(self._envs[env_id], state["env"])
        self._returns[env_id] = state["return"]
        if "generators" in state:  # missing in older snapshots
            set_generator_states(state["generators"])
        if self._results is not None:
            self._put(self._reset_obs, env_id, state["obs"])
