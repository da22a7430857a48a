"""``ding migrate`` and env classes: how envs are made, stepped, reset, seeded and drawn.

The inputs look like what users of DI-engine write; what runs without extras is run after it was migrated.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.entry.migrate.test_entry_migrate import ORIGINAL, ROOT, migrated, run

FILES = ("own_env", "own_taxi", "own_helper_env", "own_helper_wrappers")
HEAD = "import gym\nfrom ding.envs import BaseEnv\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with env files of a user, which is the current one."""
    for name in FILES:
        (tmp_path / f"{name}.py").write_text((ORIGINAL / f"{name}.py.txt").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_class(body: str, base: str = "BaseEnv", head: str = HEAD) -> str:
    """A file with a class of these methods."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    return f"{head}class Own({base}):\n{lines}"


@pytest.mark.parametrize("name", ["own_env", "own_taxi", "own_helper_env"])
def test_a_migrated_env_runs(folder, name) -> None:
    code, output = run(".", "--write")
    assert code == 0, output
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SDL_VIDEODRIVER": "dummy"}
    done = subprocess.run(
        [sys.executable, f"{name}.py"], capture_output=True, text=True, timeout=300, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stderr
    code, output = run(".")
    assert code == 0
    assert output.endswith("4 files, 0 with replacements; 0 things left to do\n")


def test_the_helper_may_be_migrated_before_the_env(folder) -> None:
    run("own_helper_wrappers.py", "--write")
    run("own_helper_env.py", "--write")
    assert "obs, rew, done, truncated, info = self._env.step(" in (folder / "own_helper_env.py").read_text()


def test_an_env_file_that_imports_only_the_helper(folder) -> None:
    text = (folder / "own_helper_env.py").read_text()
    for part in ("import gym\n", " -> gym.spaces.Space"):
        text = text.replace(part, "")
    (folder / "own_helper_env.py").write_text(text)
    run(".", "--write")
    assert "obs, rew, done, truncated, info = self._env.step(" in (folder / "own_helper_env.py").read_text()
    assert "return to_ndarray(self._env.reset()[0])" in (folder / "own_helper_env.py").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # ids that are not known before the script runs
        (
            "import gym\nfrom ding.envs import DingEnvWrapper\nfn = lambda: DingEnvWrapper(gym.make(cfg.env_id))\n",
            "import gymnasium as gym\nfrom ding.envs import DingEnvWrapper, make_gym_env\n"
            "fn = lambda: DingEnvWrapper(make_gym_env(cfg.env_id))\n",
        ),
        (
            "import gym  # old\n\ndef f(env_id):\n    return gym.make(id=env_id, max_episode_steps=9)\n",
            "import gymnasium as gym  # old\nfrom ding.envs import make_gym_env\n\n"
            "def f(env_id):\n    return make_gym_env(env_id=env_id, max_episode_steps=9)\n",
        ),
        (
            "def f(x):\n    import gym\n    return gym.make(x)\n",
            "def f(x):\n    import gymnasium as gym\n    from ding.envs import make_gym_env\n"
            "    return make_gym_env(x)\n",
        ),
        ("import gymnasium\ne = gymnasium.make('Taxi-v2')\n", "import gymnasium\ne = gymnasium.make('Taxi-v4')\n"),
        (
            "from gym import make\ne = make('PongNoFrameskip-v4')\n",
            "from gymnasium import make\nfrom ding.envs import make_gym_env\ne = make_gym_env('PongNoFrameskip-v4')\n",
        ),
        # drawing
        (
            "import gym\nenv = gym.make('CartPole-v0')\nframe = env.render('rgb_array')\n",
            "import gymnasium as gym\nfrom ding.envs import make_gym_env\n"
            "env = make_gym_env('CartPole-v0')\nframe = env.render()\n",
        ),
        (
            "import gym\n"
            "env = gym.make('CartPole-v1', render_mode='rgb_array')\nframe = env.render(mode='rgb_array')\n",
            "import gymnasium as gym\nenv = gym.make('CartPole-v1', render_mode='rgb_array')\nframe = env.render()\n",
        ),
        # calls that are part of others
        (
            "import gym\nenv = gym.make('CartPole-v1')\nx: int = f(env.reset())\na, b = c = env.reset(seed=1)\n",
            "import gymnasium as gym\nenv = gym.make('CartPole-v1')\nx: int = f(env.reset()[0])\n"
            "a, b = c = env.reset(seed=1)[0]\n",
        ),
        # rewards
        (
            "import gymnasium as gym\nlow = env.unwrapped.reward_range[0]\n",
            "import gymnasium as gym\nlow = getattr(env.unwrapped, 'reward_range', (-float('inf'), float('inf')))[0]\n",
        ),
        # samples of spaces
        (
            "import numpy as np\ndef f(space):\n    a = space.sample()\n    for k, v in a.items():\n"
            "        if isinstance(v, (int, float)) or isinstance(a[k], int):\n            g(isinstance(k2, int))\n",
            "import numpy as np\ndef f(space):\n    a = space.sample()\n    for k, v in a.items():\n"
            "        if isinstance(v, (int, np.integer, float)) or isinstance(a[k], (int, np.integer)):\n"
            "            g(isinstance(k2, int))\n",
        ),
        ("import gym\ne = gym.make('Hopper-v3')\n", "import gymnasium as gym\ne = gym.make('Hopper-v4')\n"),
        (
            "import gymnasium\ne = gymnasium.make('Ant-v3', ctrl_cost_weight=1)\n",
            "import gymnasium\nfrom ding.envs import make_gym_env\ne = make_gym_env('Ant-v3', ctrl_cost_weight=1)\n",
        ),
        # packages that have moved
        ("import os, gym_hybrid\n", "import os, ding.envs.zoo.hybrid_move\n"),
        ("import gym_hybrid as h\n", "import ding.envs.zoo.hybrid_move as h\n"),
        ("import gym_hybrid\nx = gym_hybrid\n", "import ding.envs.zoo.hybrid_move as gym_hybrid\nx = gym_hybrid\n"),
        ("from pettingzoo.mpe import simple_spread_v3\n", "from mpe2 import simple_spread_v3\n"),
        ("import pettingzoo.mpe.simple_v3 as simple\n", "import mpe2.simple_v3 as simple\n"),
        (
            in_class(
                "def reset(self):\n    self.env = f()\n    obs = self.env.reset()\n    return obs\n"
                "def step(self, a):\n    obs, r, term, trunc, info = self.env.step(a)\n    return obs\n",
                head="import pettingzoo\nfrom ding.envs import BaseEnv\n",
            ),
            in_class(
                "def reset(self):\n    self.env = f()\n    obs, _ = self.env.reset()\n    return obs\n"
                "def step(self, a):\n    obs, r, term, trunc, info = self.env.step(a)\n    return obs\n",
                head="import pettingzoo\nfrom ding.envs import BaseEnv\n",
            ),
        ),
        # wrappers
        (
            in_class("def reset(self, n: int = 3):\n    return self.env.reset(n)\n", "gym.Wrapper", "import gym\n"),
            in_class(
                "def reset(self, n: int = 3, **kwargs):\n    return self.env.reset(n, **kwargs)\n",
                "gym.Wrapper",
                "import gymnasium as gym\n",
            ),
        ),
        (
            in_class("def seed(self, s):\n    self.env.seed(s)\n", "gym.ObservationWrapper", "import gym\n"),
            in_class(
                "def seed(self, s):\n    self.env.reset(seed=s)\n",
                "gym.ObservationWrapper",
                "import gymnasium as gym\n",
            ),
        ),
    ],
)
def test_small_pieces(tmp_path, before, after) -> None:
    pytest.importorskip("mpe2" if "mpe" in after else "gymnasium")
    assert migrated(tmp_path, before)[::2] == (0, after)
    code, output = run(str(tmp_path / "script.py"))
    assert (code, output) == (0, "1 file, 0 with replacements; 0 things left to do\n")


STEPS = """
def reset(self):
    return self._env.reset()
def step(self, a):
    o, r, d, i = self._env.step(a)
    return o
"""


def test_a_time_limit_is_in_the_info(tmp_path) -> None:
    after = migrated(tmp_path, in_class(f"def make(self):\n    self._env = gym.make('CartPole-v1')\n{STEPS}"))[2]
    assert "        return self._env.reset()[0]\n" in after
    assert after.endswith(
        "        o, r, d, truncated, i = self._env.step(a)\n"
        "        if truncated and not d:\n"
        "            i['TimeLimit.truncated'] = True\n"
        "        d = d or truncated\n"
        "        return o\n"
    )


def test_a_base_env_over_something_unknown_is_taken_for_one_of_gym(tmp_path) -> None:
    code, output, after = migrated(tmp_path, in_class(f"def make(self):\n    self._env = self._cfg.env_fn()\n{STEPS}"))
    assert code == 0
    assert "o, r, d, truncated, i = self._env.step(a)" in after
    assert "note: self._env is taken to be an env of gym" in output


@pytest.mark.parametrize(
    ("made", "head", "where"),
    [
        ("rocket.Rocket()", "import rocket\n", "rocket"),
        ("Rocket('hover')", "from rocket_recycling.rocket import Rocket\n", "rocket_recycling"),
        ("Game()", "class Game:\n    pass\n", "Game"),
    ],
)
def test_the_api_of_another_package_stays(tmp_path, made, head, where) -> None:
    text = in_class(f"def make(self):\n    self._env = {made}\n{STEPS}", head=HEAD + head)
    code, output, after = migrated(tmp_path, text)
    assert code == 0
    assert after == text.replace("import gym", "import gymnasium as gym")
    assert f"note: self._env comes from {where}, whose API is taken to be as it was" in output


def test_a_wrapper_that_returns_timesteps_has_the_api_of_ding(tmp_path) -> None:
    text = in_class(
        "def reset(self):\n    obs = self.env.reset()\n    return obs\n"
        "def step(self, a):\n    obs, r, d, _ = self.env.step(a)\n    return BaseEnvTimestep(obs, r, d, {})\n",
        "gym.Wrapper",
        "import gym\nfrom ding.envs import BaseEnvTimestep\n",
    )
    code, _, after = migrated(tmp_path, text)
    assert code == 0
    assert "def reset(self):\n        obs, _ = self.env.reset()\n        return obs\n" in after
    assert "obs, r, d, truncated, _ = self.env.step(a)\n        d = d or truncated\n" in after


def test_envs_of_ding_stay(tmp_path) -> None:
    text = (
        "import gym\nfrom ding.envs import DingEnvWrapper\nenv = DingEnvWrapper(gym.make('CartPole-v1'))\nenv.seed(0)\n"
        "obs = env.reset()\nobs, reward, done, info = env.step(env.random_action())\n"
    )
    assert migrated(tmp_path, text)[::2] == (0, text.replace("import gym", "import gymnasium as gym", 1))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import gym\ndef f(env):\n    o, r, d, i = env.step(0)\n", "3: left to do: env.step of gymnasium returns"),
        ("import gym\ndef f(env_id):\n    env = gym.make(env_id)\n    return env.step(0)\n", "4: left to do: env.step"),
        ("import gym\nenv = gym.make('CartPole-v1')\nenv.render(mode='human')\n", "3: left to do: env.render of gymna"),
        ("import gym\nenv = gym.make('CartPole-v1')\nx = env.seed(3)\n", "3: left to do: envs of gymnasium have no se"),
        ("import gym\nenv = gym.make('Taxi-v4')\nassert env.spec.id == 'Taxi-v3'\n", "3: left to do: Taxi-v3: gymna"),
        ("def f(space):\n    a = space.sample()\n    return isinstance(a, int)\n", "3: left to do: spaces of gymnas"),
        (in_class("def step(self, a):\n    return float(a)\n"), "5: left to do: float(a): an array (1,) is no number"),
        ("from gym.envs.mujoco.ant import AntEnv\n", "1: left to do: gym.envs.mujoco.ant: the classes of gymnasium"),
        ("from gym.envs.mujoco import mujoco_env as m\nclass A(m.MujocoEnv): ...\n", "1: left to do: gym.envs.mujoco"),
        ("import gym\nclass A(gym.envs.mujoco.MujocoEnv): ...\n", "2: left to do: gym.envs.mujoco.MujocoEnv: the cla"),
        ("import bsuite\n", "1: left to do: bsuite: its envs are those of gym; gymnasium needs a version of it that"),
        ("import pettingzoo.mpe\n", "1: left to do: pettingzoo.mpe: it is in the package mpe2 now"),
        ("from pettingzoo.mpe import simple_spread_v2\n", "1: left to do: pettingzoo.mpe.simple_spread_v2: it is in"),
        ("import_names = ['pettingzoo.mpe.simple_v3']\n", "1: left to do: pettingzoo.mpe.simple_v3: it is in the p"),
    ],
)
def test_what_only_the_user_can_put_right(tmp_path, text, left) -> None:
    code, output, _ = migrated(tmp_path, text)
    assert code == 1
    assert f"script.py:{left}" in output
    assert "1 thing left to do" in output


def test_a_comparison_with_an_id_that_is_not_built_any_more_is_shown(tmp_path) -> None:
    code, output, _ = migrated(tmp_path, "assert cfg.env_id in ('Taxi-v3', 'CartPole-v1')\n")
    assert code == 0
    assert "script.py:1: note: Taxi-v3: gymnasium builds Taxi-v4 in its place" in output
    assert "CartPole-v1: " not in output


def test_what_is_shown_and_not_written_is_nothing_left_to_do(folder) -> None:
    code, output = run("own_taxi.py")
    assert code == 0
    assert "1 with replacements (not written: give --write); 0 things left to do" in output


LISTED = """import gym
from ding.envs import BaseEnvTimestep, DingEnvWrapper
class Mask(gym.Wrapper):
    def reset(self, **kwargs):
        obs = self.env.reset(**kwargs)
        return {"observation": obs, "to_play": -1}
    def step(self, action):
        obs, rew, done, info = self.env.step(action)
        return BaseEnvTimestep({"observation": obs, "to_play": -1}, rew, done, info)
env = DingEnvWrapper(gym.make("CartPole-v1"), cfg={"env_wrapper": [lambda env: Mask(env)]})
to_play, reward = env.reset()["to_play"], env.step(0).reward
"""


def test_a_wrapper_in_an_env_wrapper_that_returns_timesteps_runs_after_it(tmp_path) -> None:
    code, _, after = migrated(tmp_path, LISTED)
    assert code == 0
    assert "obs, reset_info = self.env.reset(**kwargs)" in after
    assert 'return {"observation": obs, "to_play": -1}, rew, done, truncated, info' in after
    found = runpy.run_path(str(tmp_path / "script.py"))
    assert (found["to_play"], found["reward"].tolist()) == (-1, [1.0])


def test_names_from_before_di_engine_0_5(tmp_path) -> None:
    text = (
        "from ding.model import QAC\nfrom ding.envs import FinalEvalRewardEnv as Final, BaseEnvTimestep\n"
        "import ding.envs as envs\nwrapper = envs.EvalEpisodeReturnEnv\n"
        "def step(info, x):\n    info['final_eval_reward'] = x\n    return dict(final_eval_reward=x)\n"
    )
    code, _, after = migrated(tmp_path, text)
    assert code == 0
    assert after == (
        "from ding.model import ContinuousQAC as QAC\n"
        "from ding.envs import EvalEpisodeReturnWrapper as Final, BaseEnvTimestep\n"
        "import ding.envs as envs\nwrapper = envs.EvalEpisodeReturnWrapper\n"
        "def step(info, x):\n    info['eval_episode_return'] = x\n    return dict(eval_episode_return=x)\n"
    )
