"""The parallel mode on CartPole DQN: one learner and some collectors. For this project and for DI-engine.

The numbers are those of the config that DI-engine calls ``cartpole_dqn_config`` among its parallel ones. The stop
value is out of reach. A side lets the run warm up, looks at it for one window, and reports everything from that window,
so that one run yields all figures. ``--serial`` is a serial collector on the same envs and network instead, ``--idle``
a coordinator that has a learner but no collector, so that nothing happens: one window after the other of the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import parallel_probe
from bench_figures import rates_of
from bench_runs import end, once, run_side, wait_until
from bench_side import Op, Side, serve, tree_cpu_seconds
from ding_parts import OWN, check_import, env_entry
from easydict import EasyDict

NEVER = 10**9
EXP_NAME = "bench_parallel"
STOP_TIMEOUT_S = 15.0 if OWN else 1.0

# Processes that are not forked import this script, so that they count, too.
parallel_probe.install()


def configs(collectors: int, envs: int, fixed_eps: float | None = None) -> tuple[EasyDict, EasyDict, EasyDict]:
    """``(main_config, create_config, system_config)``."""
    start, end = (0.95, 0.1) if fixed_eps is None else (fixed_eps, fixed_eps)
    main = {
        "exp_name": EXP_NAME,
        "env": {
            "env_id": "CartPole-v1",
            "collector_env_num": envs,
            "collector_episode_num": 2,
            "evaluator_env_num": 5,
            "evaluator_episode_num": 1,
            "stop_value": NEVER,
        },
        "policy": {
            "cuda": False,
            "model": {
                "obs_shape": 4,
                "action_shape": 2,
                "encoder_hidden_size_list": [128, 128, 64],
                "dueling": True,
            },
            "nstep": 3,
            "discount_factor": 0.97,
            "learn": {
                "batch_size": 32,
                "learning_rate": 0.001,
                "learner": {"learner_num": 1, "send_policy_freq": 1},
            },
            "collect": {"n_sample": 16, "collector": {"collector_num": collectors, "update_policy_second": 3}},
            "eval": {"evaluator": {"eval_freq": 50}},
            "other": {
                "eps": {"type": "exp", "start": start, "end": end, "decay": 100000},
                "replay_buffer": {"replay_buffer_size": 100000, "enable_track_used_data": False},
                "commander": {"collector_task_space": collectors, "learner_task_space": 1, "eval_interval": 5},
            },
        },
    }
    workers = "ding.worker"
    create = {
        "env": env_entry(),
        "env_manager": {"type": "base"},
        "policy": {"type": "dqn_command"},
        "learner": {"type": "base", "import_names": [f"{workers}.learner.base_learner"]},
        "collector": {"type": "zergling", "import_names": [f"{workers}.collector.zergling_parallel_collector"]},
        "commander": {"type": "solo", "import_names": [f"{workers}.coordinator.solo_parallel_commander"]},
        "comm_learner": {"type": "flask_fs", "import_names": [f"{workers}.learner.comm.flask_fs_learner"]},
        "comm_collector": {"type": "flask_fs", "import_names": [f"{workers}.collector.comm.flask_fs_collector"]},
    }
    folder = None if OWN else f"./{EXP_NAME}"
    system = {
        "coordinator": {},
        "path_data": "auto" if folder is None else f"{folder}/data",
        "path_policy": "auto" if folder is None else f"{folder}/policy",
        "communication_mode": "auto",
        "learner_gpu_num": 0 if OWN else 1,
    }
    return EasyDict(main), EasyDict(create), EasyDict(system)


def build() -> Side:
    args = arguments()
    check_import()
    work = {"task": "CartPole-v1", "network": [128, 128, 64], "envs_per_collector": args.envs}
    if args.serial:
        return serial_side(args, work)
    return idle_side(args, work) if args.idle else parallel_side(args, work)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--envs", type=int, default=8, help="per collector")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds from the first update to the window")
    parser.add_argument("--window", type=float, default=20.0, help="seconds")
    parser.add_argument("--backend", help="system_config.backend; its default when not given")
    parser.add_argument(
        "--fixed-eps",
        type=float,
        help="chance of a random action from begin to end, so that episodes are as long as they are at first",
    )
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--run", action="store_true", help="be the parallel run, do not serve")
    return parser.parse_args()


def run(args: argparse.Namespace) -> None:
    """The parallel run itself, in a process of its own."""
    from ding.entry.parallel_entry import parallel_pipeline

    own = {} if args.backend is None else {"backend": args.backend}
    parallel_pipeline(configs(args.collectors, args.envs, args.fixed_eps), seed=0, **own)


def parallel_side(args: argparse.Namespace, work: dict[str, Any]) -> Side:
    """Start a run, and wait until its learner learns."""
    command = [sys.executable, __file__, "--run", "--collectors", str(args.collectors), "--envs", str(args.envs)]
    command += [] if args.backend is None else ["--backend", args.backend]
    command += [] if args.fixed_eps is None else ["--fixed-eps", str(args.fixed_eps)]
    names = ("flow", "collect", "latency") if OWN else ("flow", "collect")

    def check(figures: dict[str, float]) -> None:
        if OWN and "policy_p95_s" not in figures:
            raise RuntimeError("no collector loaded a new policy in the window")

    return run_side(command, work, args.warm_up, args.window, names, STOP_TIMEOUT_S, check)


def serial_side(args: argparse.Namespace, work: dict[str, Any]) -> Side:
    """A serial collector and a buffer, without learning."""
    from ding_parts import Parts, arguments, rollout_samples

    words = ["--envs", str(args.envs), "--network", "dueling", "--hidden", "128", "128", "64"]
    parts = Parts(arguments("").parse_args(words), rollout_samples(args.envs))

    def look() -> dict[str, float]:
        steps, cpu, began = parts.collector.envstep, time.process_time(), time.monotonic()
        deadline = began + args.window / 4
        while time.monotonic() < deadline:
            samples = parts.collector.collect(train_iter=0, policy_kwargs={"eps": 0.1})
            parts.buffer.push(samples, cur_collector_envstep=parts.collector.envstep)
        steps, cpu = parts.collector.envstep - steps, time.process_time() - cpu
        return rates_of(steps, time.monotonic() - began, cpu)

    return Side(once(look, "collect"), work, parts.close)


def idle_side(args: argparse.Namespace, work: dict[str, Any]) -> Side:
    """A coordinator with a learner that waits for data, each started by hand."""
    import socket

    for name, config in zip(("main", "create", "system"), configs(args.collectors, args.envs)):
        text = f"{name}_config = EasyDict({plain(config)!r})\n"
        with Path("idle_config.py").open("a", encoding="utf-8") as file:
            file.write(text if file.tell() else f"from easydict import EasyDict\n{text}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    begin = [sys.executable, "-m", "ding.entry", "-m", "dist", "-c", "idle_config.py", "-s", "0"]
    address = ["-cdh", "127.0.0.1", "-cdp", port, "--token-file", "run.token"]
    processes = {"coordinator": subprocess.Popen([*begin, "-M", "coordinator", *address])}
    wait_until(lambda: Path("run.token").is_file() and listens(port), processes)
    processes["learner"] = subprocess.Popen([*begin, "-M", "learner", *address])
    wait_until(lambda: list(Path(EXP_NAME).glob("log/learner*")) != [], processes)
    pid = processes["coordinator"].pid
    time.sleep(args.warm_up)

    def look() -> dict[str, float]:
        cpu, began = tree_cpu_seconds(pid), time.monotonic()
        time.sleep(args.window)
        share = (tree_cpu_seconds(pid) - cpu) / (time.monotonic() - began)
        if any(process.poll() is not None for process in processes.values()):
            raise RuntimeError("the coordinator or the learner ended before the window did")
        return {"coordinator_cpu_percent": 100 * share}

    return Side({"idle": Op(look, dict, single=True)}, work, lambda: end(processes, STOP_TIMEOUT_S))


def plain(value: Any) -> Any:
    """Nested dicts of plain types."""
    return {key: plain(one) for key, one in value.items()} if isinstance(value, dict) else value


def listens(port: str) -> bool:
    """Whether somebody accepts connections at a port of this machine."""
    import socket

    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


if __name__ == "__main__":
    arguments_given = arguments()
    if arguments_given.run:
        run(arguments_given)
    else:
        serve(build, "DI-engine", "gym")
