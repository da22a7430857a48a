"""Continue the training of a policy that comes with the repository, on a CartPole that it does not know.

    python examples/fine_tune.py [SEED]

The policy in `trained/cartpole_dqn` balances the pole of CartPole-v1. Here the force is a quarter as strong and the
pole ten times as heavy. The run is in `fine_tune_seed<SEED>/`. Seen on seed 0: a mean return of 105 before, 476 after.
"""

import sys

import gymnasium

import ding


def heavy_pole() -> gymnasium.Env:
    """CartPole-v1 with a heavier pole and less force."""
    env = gymnasium.make("CartPole-v1")
    cart_pole = env.unwrapped
    cart_pole.masspole, cart_pole.force_mag = 1.0, 2.5
    cart_pole.total_mass = cart_pole.masspole + cart_pole.masscart
    cart_pole.polemass_length = cart_pole.masspole * cart_pole.length
    return env


def main(seed: int = 0, max_env_step: int = 20_000) -> tuple[float, float]:
    """Return the mean return of 16 episodes before and after the training."""
    agent = ding.load("trained/cartpole_dqn", env=heavy_pole, seed=seed)
    agent.exp_name = agent.cfg.exp_name = f"fine_tune_seed{seed}"
    before = agent.batch_evaluate(env_num=4, n_evaluator_episode=16).eval_value
    agent.train(step=max_env_step)
    return float(before), float(agent.best.batch_evaluate(env_num=4, n_evaluator_episode=16).eval_value)


if __name__ == "__main__":
    before, after = main(*map(int, sys.argv[1:2]))
    print(f"mean return: {before:.1f} before, {after:.1f} after")
