"""A world model's training through the DI-engine API: one step of MBPO's ensemble, and a whole training.

For this project and for DI-engine. A whole training ends when no network improves, after as many steps as it takes; the
figure is steps per second, with all that lies between them.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from bench_side import Op, Side, serve
from ding_parts import OWN, check_import
from easydict import EasyDict


class Env:
    """No state ends an episode."""

    def termination_fn(self, next_obs: torch.Tensor) -> torch.Tensor:
        return torch.zeros(next_obs.shape[0], dtype=torch.bool)


class Writer:
    """Takes scalars and keeps none."""

    def add_scalar(self, *args: Any, **kwargs: Any) -> None:
        return None


def transitions(rows: int, state_size: int, action_size: int) -> dict[str, torch.Tensor]:
    """Columns of random states that follow a fixed function, with noise that ends trainings."""
    draw = np.random.RandomState(0)
    obs, action, weight, noise = (
        torch.from_numpy(draw.randn(*shape).astype(np.float32))
        for shape in (
            (rows, state_size),
            (rows, action_size),
            (state_size + action_size, state_size),
            (rows, state_size),
        )
    )
    next_obs = obs + torch.sin(0.3 * torch.cat([obs, action], 1) @ weight) + 0.2 * noise
    columns = {"obs": obs, "action": action, "next_obs": next_obs, "reward": next_obs[:, :1].clone()}
    return {**columns, "done": torch.zeros(rows)}


class Buffer:
    """Gives all of its rows: as columns, or as the list of dicts that DI-engine's buffers give."""

    def __init__(self, columns: dict[str, torch.Tensor]) -> None:
        self.rows: Any = [{key: column[i] for key, column in columns.items()} for i in range(len(columns["obs"]))]
        if OWN:
            from ding.data import TransitionBatch

            self.rows = TransitionBatch(columns)

    def count(self) -> int:
        return len(self.rows)

    def sample(self, size: int, train_iter: int, **kwargs: Any) -> Any:
        return self.rows


def make_model(args: argparse.Namespace) -> Any:
    """MBPO's world model with its default config but for the sizes."""
    from ding.utils import deep_merge_dicts
    from ding.world_model import create_world_model, get_world_model_cls

    sizes = {
        "ensemble_size": args.members, "elite_size": args.members - 1, "hidden_size": args.hidden,
        "state_size": args.state, "action_size": args.action, "batch_size": args.batch, "use_decay": True,
    }  # fmt: skip
    entry = {"type": "mbpo", "import_names": ["ding.world_model.mbpo"]}
    compiled = {"compile": True} if args.compile else {}
    defaults = get_world_model_cls(EasyDict(entry)).default_config()
    cfg = EasyDict(deep_merge_dicts(defaults, {**entry, "cuda": False, **compiled, "model": sizes}))
    return create_world_model(cfg, Env(), Writer())


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("state", "action", "members", "hidden", "batch", "rows"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--compile", type=int, default=0, help="1: this project's steps are compiled")
    args = parser.parse_args()
    check_import()
    torch.manual_seed(0)
    np.random.seed(0)
    learner = make_model(args)
    network = learner.ensemble_model
    x, y = (torch.randn(args.members, args.batch, size) for size in (args.state + args.action, args.state + 1))
    steps = {"steps": 0, "trained": 0}

    def step() -> None:
        if args.compile:
            learner.training_steps(network, {"inputs": x, "labels": y}, repeated=True)
        else:
            mean, logvar = network(x, ret_log_var=True)
            network.train(network.loss(mean, logvar, y)[0])
        steps["steps"] += 1

    buffer = Buffer(transitions(args.rows, args.state, args.action))

    def train() -> None:
        torch.manual_seed(0)
        model = make_model(args)
        made = model.ensemble_model.train

        def counted(loss: torch.Tensor) -> None:
            steps["trained"] += 1
            made(loss)

        model.ensemble_model.train = counted
        model.train(buffer, 1000, 0)
        if args.compile:
            # The last steps of the epochs are eager.
            steps["trained"] += model.training_steps.graphs.num_runs

    ops = {
        "step": Op(step, lambda: {"steps": steps["steps"]}),
        "train": Op(train, lambda: {"steps": steps["trained"]}, single=True),
    }
    return Side(ops, vars(args), warm_calls=5)


if __name__ == "__main__":
    serve(build, "DI-engine")
