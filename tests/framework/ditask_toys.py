"""What ``ditask`` runs in the tests: the example on CartPole, custom middleware, exchanges, barriers."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from runner_toys import note, wait_a_little

from ding.data import FileModelLoader, FileStorageLoader
from ding.framework import OnlineRLContext, Parallel, Role, VoidMiddleware, task
from ding.framework.middleware import Barrier, ContextExchanger, ModelExchanger, PeriodicalModelExchanger
from ding.rl_utils.normalization import Normalization, Norms, attach_statistics

ROLES = (Role.LEARNER, Role.EVALUATOR, Role.COLLECTOR, Role.COLLECTOR)
EXAMPLES = str(Path(__file__).parents[2] / "examples")


def trains_a_little(folder: str) -> None:
    """The example, for some env steps."""
    sys.path.append(EXAMPLES)
    import dqn_ditask

    dqn_ditask.main(max_env_step=200, exp_name=os.path.join(folder, "exp"))
    note(folder, "ended", [task.ctx.env_step, task.ctx.train_iter])


def trains() -> None:
    """The example; the collector of node 3 is killed in its fifth iteration."""
    folder = os.environ["DITASK_FOLDER"]
    sys.path.append(EXAMPLES)
    import dqn_ditask

    whole = dqn_ditask.StepCollector
    router = Parallel()
    note(folder, f"pid{router._retries}", os.getpid())

    def collector(*args: object) -> object:
        collect = whole(*args)
        if isinstance(collect, VoidMiddleware) or router.node_id != 3 or router._retries > 0:
            return collect

        def collect_until_killed(ctx) -> None:
            if ctx.total_step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            collect(ctx)

        return collect_until_killed

    dqn_ditask.StepCollector = collector
    dqn_ditask.main(exp_name=os.path.join(folder, "exp"))
    note(folder, f"ended{router._retries}", task.ctx.env_step)


def meets() -> None:
    """Greets until it was greeted by both others, who may have been started long after it."""
    heard: set[int] = set()
    ready: set[int] = set()

    def greets(ctx) -> None:
        task.emit("greeting", task.router.node_id, only_remote=True)
        if len(heard) == 2:
            task.emit("ready", task.router.node_id)
        wait_a_little(ctx)
        # All have heard each other before the first one ends the run.
        task.finish = len(ready) == 3

    with task.start():
        task.on("greeting", heard.add)
        task.on("ready", ready.add)
        task.use(greets).run()
        note(os.environ["DITASK_FOLDER"], "met", sorted(heard))


class Doubles:
    """A middleware as a class."""

    def __call__(self, ctx) -> None:
        ctx.number *= 2


def own_middleware(folder: str, async_mode: bool = False) -> None:
    """A plain function, a generator function and an object; what they do to one context."""
    seen: list[object] = []

    def adds_one(ctx) -> None:
        ctx.number = getattr(ctx, "number", 0) + 1

    def notes_both_phases(ctx):
        seen.append(("forward", ctx.number))
        yield
        seen.append(("backward", ctx.number))
        ctx.keep("number")

    with task.start(async_mode=async_mode):
        task.use(adds_one, lock=True).use(notes_both_phases, lock=True).use(Doubles(), lock=True)
        if task.router.is_active and task.router.node_id > 0:
            task.use(wait_a_little)
        task.run(max_step=3 if not task.router.is_active or task.router.node_id == 0 else 10**9)
        note(folder, "seen", seen[:6])


def exchanges(folder: str, through_files: bool) -> None:
    """A learner, an evaluator and two collectors with made-up data; the learner ends the run after some iterations."""
    node = task.router.node_id
    torch.manual_seed(node)
    model = torch.nn.Linear(2, 2)
    storage_loader = FileStorageLoader(os.path.join(folder, "data")) if through_files else None
    model_loader = FileModelLoader(model, os.path.join(folder, "models"), ttl=100) if through_files else None
    seen: list[dict] = []

    def collects(ctx) -> None:
        assert ctx.trajectories is None
        ctx.trajectories = [{"obs": torch.full((2,), float(node)), "done": i == 2} for i in range(3)]
        ctx.trajectory_end_idx = [0, 2]
        ctx.env_step += 3
        ctx.env_episode += 1

    def learns(ctx) -> None:
        rows = list(ctx.trajectories)
        seen.append(
            {
                "nodes": sorted({int(row["obs"][0]) for row in rows}),
                "num": len(rows),
                "ends": ctx.trajectory_end_idx,
                "dones": [i for i, row in enumerate(rows) if row["done"]],
                "env_step": ctx.env_step,
                "last_eval_value": ctx.last_eval_value,
            }
        )
        ctx.trajectories = None
        ctx.train_iter += 10
        with torch.no_grad():
            model.weight.fill_(ctx.train_iter)
        task.finish = len(seen) >= 12 and ctx.last_eval_value == 7.0

    def evaluates(ctx) -> None:
        seen.append({"train_iter": ctx.train_iter, "weight": float(model.weight[0, 0]), "env_step": ctx.env_step})
        ctx.eval_value = ctx.last_eval_value = 7.0
        ctx.last_eval_iter = ctx.train_iter

    with task.start(ctx=OnlineRLContext()):
        task.add_role(ROLES[node])
        task.use(ContextExchanger(skip_n_iter=1, storage_loader=storage_loader))
        task.use(ModelExchanger(model, model_loader))
        note(folder, "first_weight", float(model.weight.abs().sum()))
        task.use((learns, evaluates, collects, collects)[node])
        task.run()
        note(folder, "seen", seen)


def exchanges_statistics(folder: str) -> None:
    """Nodes 2 and 3 see observations of their own; node 0 merges them until all others have them."""
    node = task.router.node_id
    model, statistics = torch.nn.Linear(1, 1), Normalization()
    attach_statistics(model, statistics)
    statistics.activate(Norms((1,)))

    def learns(ctx) -> None:
        wait_a_little(ctx)
        task.finish = len(told) == 3

    def tells(ctx) -> None:
        wait_a_little(ctx)
        if statistics.state_dict()["obs"]["count"] > 7.5:
            task.emit("merged", node)

    def collects(ctx) -> None:
        wait_a_little(ctx)
        if ctx.total_step < 2:
            statistics.update_obs(np.array([[100.0 * node - 1], [100.0 * node + 1]]))
        tells(ctx)

    told: set[int] = set()
    with task.start(ctx=OnlineRLContext()):
        task.on("merged", told.add)
        task.add_role(ROLES[node])
        task.use(ModelExchanger(model))
        task.use((learns, tells, collects, collects)[node])
        task.run()
        note(folder, "mean", float(statistics.obs_constants().mean[0]))


def exchanges_periodically(folder: str) -> None:
    """Node 0 sends every second iteration, node 1 loads."""
    model = torch.nn.Linear(1, 1)
    numbers: list[float] = []

    def sends(ctx) -> None:
        with torch.no_grad():
            model.weight.fill_(ctx.total_step)
        wait_a_little(ctx)
        task.finish = len(done) > 0

    def receives(ctx) -> None:
        numbers.append(float(model.weight))
        if numbers[-1] >= 6:
            task.emit("done", True)

    done: list[bool] = []
    with task.start():
        task.on("done", done.append)
        is_sender = task.router.node_id == 0
        task.use(PeriodicalModelExchanger(model, "send" if is_sender else "receive", period=2))
        task.use(sends if is_sender else receives)
        task.run()
        note(folder, "numbers", numbers)


def waits_at_barriers(folder: str) -> None:
    """What a process sees between its two barriers of an iteration: all are in this iteration."""
    node = task.router.node_id
    seen: list[list[int]] = []

    def writes(ctx) -> None:
        Path(folder, f"step{ctx.total_step}.{node}").touch()

    def looks(ctx) -> None:
        seen.append([len(list(Path(folder).glob(f"step{ctx.total_step + later}.*"))) for later in (0, 1)])

    with task.start():
        task.use(writes).use(Barrier(attch_from_nums=2 - node)).use(looks)
        task.run(max_step=4)
        note(folder, "seen", seen)
