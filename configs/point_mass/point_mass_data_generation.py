"""Make a data set of `point_mass` in the format of D4RL: `point_mass_data/point_mass-v0.hdf5`.

A demonstrator passes the disc on a random side. How fast it is, how precise, and how much room it leaves differ from
episode to episode, and some episodes end at the disc. It needs the extra `hdf5`.
"""

from pathlib import Path

import numpy as np

from ding.envs.zoo.point_mass_env import PointMassEnv


def episode(env: PointMassEnv, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray, float, bool, bool]]:
    """Observations, actions, rewards, terminals and time-outs of one demonstration."""
    side, room = rng.choice([-1, 1]), rng.uniform(0.35, 0.8)
    speed, noise = rng.uniform(0.4, 1.0), rng.uniform(0.1, 0.5)
    steps, obs, done = [], env.reset(), False
    while not done:
        # Straight to the disc, around it on one side, to the goal.
        if obs[0] < -0.55:
            target = np.array([0.0, 0.0])
        elif obs[0] < -0.15:
            target = np.array([-0.1, side * room])
        else:
            target = np.array([0.8, 0.0])
        way = target - obs[:2]
        force = speed * way / max(np.abs(way).max(), 1e-6) + noise * rng.normal(size=2)
        action = force.clip(-1, 1).astype(np.float32)
        step = env.step(action)
        done = bool(step.done)
        timeout = bool(step.info.get("TimeLimit.truncated", False))
        steps.append((obs, action, float(step.reward[0]), done and not timeout, timeout))
        obs = step.obs
    return steps


def make_data(path: str, num_episodes: int = 250, seed: int = 0) -> list[float]:
    """Write the episodes to `path`; returns their returns."""
    import h5py

    env, rng = PointMassEnv(), np.random.default_rng(seed)
    env.seed(seed)
    episodes = [episode(env, rng) for _ in range(num_episodes)]
    names = ("observations", "actions", "rewards", "terminals", "timeouts")
    columns = dict(zip(names, map(np.array, zip(*(step for steps in episodes for step in steps)))))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, column in columns.items():
            file.create_dataset(name, data=column.astype(np.float32 if column.dtype.kind == "f" else column.dtype))
    return [sum(reward for _, _, reward, _, _ in steps) for steps in episodes]


if __name__ == "__main__":
    returns = make_data("point_mass_data/point_mass-v0.hdf5")
    print(f"{len(returns)} episodes, mean return {np.mean(returns):.2f}, best {max(returns):.2f}")
