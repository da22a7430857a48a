"""torchrl's SAC, TD3 and DDPG on the common work, eager, with its losses as its examples use them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_ALGORITHMS,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    control_work,
)
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    ProbabilisticActor,
    TanhModule,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import DDPGLoss, SACLoss, SoftUpdate, TD3Loss
from torchrl_parts import make_buffer, make_collector, make_env


def adam(params: Any) -> torch.optim.Adam:
    """Adam of the common work over a tensordict of parameters, or a list."""
    found = params if isinstance(params, list) else list(params.flatten_keys().values())
    return torch.optim.Adam(found, lr=3e-4)


def mlp(inputs: int, outputs: int) -> MLP:
    """A network of the common sizes."""
    return MLP(in_features=inputs, out_features=outputs, num_cells=list(CONTROL_HIDDEN), activation_class=nn.ReLU)


def make_agent(name: str, env: Any) -> tuple[Any, Callable[[Any], None]]:
    """``(acting policy, update on a batch)``."""
    spec = env.action_spec_unbatched
    value = ValueOperator(mlp(4, 1), in_keys=["action", "observation"], out_keys=["state_action_value"])
    if name == "sac":
        net = nn.Sequential(mlp(3, 2), NormalParamExtractor())
        actor = ProbabilisticActor(
            TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            spec=spec,
            distribution_class=TanhNormal,
            distribution_kwargs={"low": spec.space.low, "high": spec.space.high},
        )
        return actor, soft_update(SACLoss(actor_network=actor, qvalue_network=value, num_qvalue_nets=2))
    actor = TensorDictSequential(
        TensorDictModule(mlp(3, 1), in_keys=["observation"], out_keys=["param"]),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=spec),
    )
    noisy = TensorDictSequential(actor, AdditiveGaussianModule(spec=spec, sigma_init=0.1, sigma_end=0.1))
    if name == "ddpg":
        return noisy, ddpg_update(DDPGLoss(actor, value, delay_actor=True, delay_value=True))
    loss = TD3Loss(actor, value, num_qvalue_nets=2, action_spec=spec, delay_actor=True, delay_qvalue=True)
    return noisy, td3_update(loss)


def step(optimizers: list[torch.optim.Adam], loss: torch.Tensor) -> None:
    """One step on ``loss``."""
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


def soft_update(loss: SACLoss) -> Callable[[Any], None]:
    """An update of critics, actor and temperature."""
    loss.make_value_estimator(gamma=0.99)
    target = SoftUpdate(loss, eps=0.995)
    optimizers = [adam(loss.actor_network_params), adam(loss.qvalue_network_params), adam([loss.log_alpha])]

    def update(batch: Any) -> None:
        found = loss(batch)
        step(optimizers, found["loss_actor"] + found["loss_qvalue"] + found["loss_alpha"])
        target.step()

    return update


def td3_update(loss: TD3Loss) -> Callable[[Any], None]:
    """An update of the critics, every second time of the actor."""
    loss.make_value_estimator(gamma=0.99)
    target = SoftUpdate(loss, eps=0.995)
    actor, critics = adam(loss.actor_network_params), adam(loss.qvalue_network_params)
    count = 0

    def update(batch: Any) -> None:
        nonlocal count
        step([critics], loss.value_loss(batch)[0])
        count += 1
        if count % 2 == 0:
            step([actor], loss.actor_loss(batch)[0])
            target.step()

    return update


def ddpg_update(loss: DDPGLoss) -> Callable[[Any], None]:
    """An update of critic and actor."""
    loss.make_value_estimator(gamma=0.99)
    target = SoftUpdate(loss, eps=0.995)
    optimizers = [adam(loss.actor_network_params), adam(loss.value_network_params)]

    def update(batch: Any) -> None:
        found = loss(batch)
        step(optimizers, found["loss_actor"] + found["loss_value"])
        target.step()

    return update


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=CONTROL_ALGORITHMS, default="sac")
    args = parser.parse_args()
    updates = count_optimizer_steps()
    env = make_env(CONTROL_ENVS, track=True, env_id="Pendulum-v1")
    policy, update = make_agent(args.algorithm, env)
    buffer = make_buffer(CONTROL_BUFFER_SIZE, CONTROL_BATCH_SIZE)
    collector = make_collector(env, policy, CONTROL_ENVS)
    batches = iter(collector)
    steps = [0]

    def collect() -> None:
        rows = next(batches).reshape(-1)
        buffer.extend(rows)
        steps[0] += len(rows)

    def train() -> None:
        collect()
        for _ in range(CONTROL_ENVS):
            update(buffer.sample())
        collector.update_policy_weights_()

    for _ in range(2 * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": steps[0], "updates": updates()})}
    return Side(ops, control_work(args.algorithm), collector.shutdown, warm_calls=5)


if __name__ == "__main__":
    serve(build, "torchrl", "tensordict")
