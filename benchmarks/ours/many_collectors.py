"""One coordinator, one learner and many light collectors: what a collector costs the coordinator.

The collectors play nothing (`paced_collectors`); many of them share a process, each with a server, connections and a
task of its own. The learner is held back (``max_samples_per_insert``), so that the cores are left to the coordinator.
Coordinator, learner and the processes of collectors are those of ``ding -m dist``, joined over the loopback interface.
``--planes ray``: chunks and policies are in the object store of a cluster, to which all of them are connected.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import paced_collectors  # noqa: F401 - registers the collector
from bench_events import FOLDER_VARIABLE, read_events
from bench_figures import chunk_latencies, quantile
from bench_runs import end, once, wait_until
from bench_side import Side, serve, tree_cpu_seconds
from ding_parts import check_import
from parallel import EXP_NAME, configs, plain  # installs the probe in each process

from ding.parallel.planes.ray.store import start_store, stop_store
from ding.parallel.ray_cluster import new_namespace, ray_cluster, require_ray

STORE_BYTES = 500 * 2**20
CONFIG, TOKEN_VARIABLE = "many_config.py", "DING_RUN_TOKEN"
STOP_TIMEOUT_S = 10.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectors", type=int, default=16)
    parser.add_argument("--processes", type=int, default=4, help="that share the collectors")
    parser.add_argument("--rows", type=int, default=25, help="of a chunk")
    parser.add_argument("--chunk-every", type=float, default=0.5, help="seconds between two chunks of a collector")
    parser.add_argument("--warm-up", type=float, default=6.0, help="seconds after all collectors have sent something")
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    parser.add_argument("--role", choices=("coordinator", "learner", "collectors"), help="be this, do not serve")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--planes", choices=("file", "ray"), default="file")
    parser.add_argument("--cluster", help="address of the cluster of Ray that this process joins")
    parser.add_argument("--first", type=int, default=0, help="number of the first collector of this process")
    return parser.parse_args()


def write_config(args: argparse.Namespace, name: str | None) -> None:
    """The config file that all processes read; ``name``: of the store of the run."""
    main, create, system = configs(args.collectors, 1)
    main.policy.other.replay_buffer.max_samples_per_insert = 0.05
    # No evaluation but the first: a paced collector cannot play.
    main.policy.other.commander.eval_interval = 10**6
    main.policy.learn.learner.send_policy_freq = 10**6
    main.policy.nstep = 1
    own = {"rows_per_chunk": args.rows, "chunk_every_s": args.chunk_every}
    main.policy.collect.collector.update(own)
    create.collector = {"type": "paced", "import_names": ["paced_collectors"]}
    if name is not None:
        system.update(path_data=name, path_policy=name, coordinator={"planes": "ray"})
        for part in (create.comm_learner, create.comm_collector):
            part.planes = "ray"
    text = "from easydict import EasyDict\n"
    for name, config in (("main", main), ("create", create), ("system", system)):
        text += f"{name}_config = EasyDict({plain(config)!r})\n"
    Path(CONFIG).write_text(text, encoding="utf-8")


def be_role(args: argparse.Namespace) -> None:
    """A process of the run."""
    with contextlib.ExitStack() as ends:
        if args.cluster is not None:
            ends.enter_context(ray_cluster(args.cluster, {}))
        if args.role == "collectors":
            be_collectors(args)
            return
        from ding.entry.cli import cli

        where = ["-cdh", "127.0.0.1", "-cdp", str(args.port)]
        cli(["-m", "dist", "-M", args.role, "-c", CONFIG, "-s", "0", *where, "--quiet"])


def be_collectors(args: argparse.Namespace) -> None:
    """Many comm collectors in one process, until SIGTERM."""
    from ding.config import compile_config_parallel, read_config_with_system
    from ding.entry.parallel.workers import worker_config
    from ding.worker.collector.comm import create_comm_collector

    cfg = compile_config_parallel(*read_config_with_system(CONFIG), save_cfg=False, free_ports=False)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    workers = []
    for number in range(args.first, args.first + args.collectors):
        section = cfg.system[f"collector{number}"]
        if args.cluster is None:
            section.update(path_data=f"{EXP_NAME}/data", path_policy=f"{EXP_NAME}/policy")
        own = worker_config(section, f"collector{number}", [], f"http://127.0.0.1:{args.port}")
        workers.append(create_comm_collector(own))
        workers[-1].start()
    over.wait()
    os._exit(0)  # the window is over: nobody looks at what an orderly end would bring


def build() -> Side:
    args = arguments()
    check_import()
    ends = contextlib.ExitStack()
    cluster, name = joined_cluster(ends) if args.planes == "ray" else ((), None)
    write_config(args, name)
    folder = Path("events").resolve()
    folder.mkdir()
    port, environment = free_port(), {**os.environ, FOLDER_VARIABLE: str(folder), TOKEN_VARIABLE: secrets.token_hex(32)}
    processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, role: str, **more: int) -> None:
        words = [sys.executable, __file__, "--role", role, "--port", str(port), *cluster]
        words += [word for key, value in more.items() for word in (f"--{key}", str(value))]
        processes[name] = subprocess.Popen(words, env=environment)

    start("coordinator", "coordinator")
    wait_until(lambda: listens(port), processes)
    start("learner", "learner")
    shares = [args.collectors * (i + 1) // args.processes for i in range(args.processes)]
    for first, last in zip([0, *shares], shares):
        if last > first:
            start(f"collectors{first}", "collectors", first=first, collectors=last - first)

    def all_send() -> bool:
        writers = {event.name.partition("-")[0] for event in read_events(folder) if event.kind == "arrived"}
        return len(writers) >= args.collectors

    wait_until(all_send, processes)

    def look() -> dict[str, float]:
        time.sleep(args.warm_up)
        pid = processes["coordinator"].pid
        cpu, began = tree_cpu_seconds(pid), time.monotonic()
        time.sleep(args.window)
        spent, ended = tree_cpu_seconds(pid) - cpu, time.monotonic()
        dead = [name for name, process in processes.items() if process.poll() is not None]
        if dead:
            raise RuntimeError(f"{', '.join(dead)} ended before the window did")
        return figures(folder, began, ended, spent, resident_mib(pid), threads_of(pid))

    work = {"collectors": args.collectors, "rows_per_chunk": args.rows, "chunk_every_s": args.chunk_every}
    ends.callback(end, processes, STOP_TIMEOUT_S)
    return Side(once(look, "flow", "coordinator", "latency"), work, ends.close)


def joined_cluster(ends: contextlib.ExitStack) -> tuple[tuple[str, ...], str]:
    """Start a cluster and a store; returns the words by which processes join it, and the name of the store."""
    ends.enter_context(ray_cluster(None, {"object_store_memory": STORE_BYTES}))
    name = new_namespace()
    ends.callback(stop_store, start_store(name))
    return ("--cluster", require_ray().get_runtime_context().gcs_address), name


def figures(
    folder: Path, began: float, ended: float, cpu_s: float, memory_mib: float, threads: int
) -> dict[str, float]:
    """What a window shows."""
    events = list(read_events(folder))
    rows = sum(event.number for event in events if event.kind == "push" and began <= event.time_s < ended)
    arrivals = sum(event.kind == "arrived" and began <= event.time_s < ended for event in events)
    arrival = chunk_latencies(events, "arrived", began, ended)
    return {
        "transitions_per_s": rows / (ended - began),
        "chunks_per_s": arrivals / (ended - began),
        "coordinator_cpu_percent": 100 * cpu_s / (ended - began),
        "coordinator_cpu_ms_per_chunk": 1000 * cpu_s / max(1, arrivals),
        "coordinator_mib": memory_mib,
        "coordinator_threads": threads,
        "arrival_median_s": quantile(arrival, 0.5),
        "arrival_p95_s": quantile(arrival, 0.95),
    }


def resident_mib(pid: int) -> float:
    """Memory that a process has in RAM (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    arguments_given = arguments()
    if arguments_given.role:
        be_role(arguments_given)
    else:
        serve(build, "DI-engine", "gym")
