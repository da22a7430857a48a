"""``ding migrate`` makes scripts and configs of DI-engine 0.5 ready, without running them.

``original/`` has one of each kind, written for DI-engine: a config, the workers by hand, an evaluation, a task, a chain
of offline learning, a deployed policy, own envs, a reward model, self-play, the parallel mode, supervised learning,
distributed learning, and one that needs what is not built.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ding.entry.cli import cli
from ding.entry.migrate.numbers import NUMBERS

ORIGINAL = Path(__file__).with_name("original")
ROOT = Path(__file__).parents[3]
NAMES = sorted(path.name.removesuffix(".txt") for path in ORIGINAL.glob("*.txt"))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with all the files, which is the current one."""
    for name in NAMES:
        (tmp_path / name).write_text((ORIGINAL / f"{name}.txt").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> tuple[int, str]:
    """Exit code and output of ``ding migrate``."""
    result = CliRunner().invoke(cli, ["migrate", *args], catch_exceptions=False)
    return result.exit_code, result.output


def migrated(tmp_path: Path, text: str) -> tuple[int, str, str]:
    """Exit code, output and the written file."""
    path = tmp_path / "script.py"
    path.write_bytes(text.encode())
    code, output = run(str(path), "--write")
    return code, output, path.read_bytes().decode()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "not_built.py"])
def test_each_kind_is_ready_after_one_run(folder, name) -> None:
    before = (folder / name).read_text()
    code, shown = run(name)
    assert (folder / name).read_text() == before
    assert code == 0, shown
    code, written = run(name, "--write")
    assert code == 0, written
    assert "0 things left to do" in written
    assert run(name)[0] == 0
    after = (folder / name).read_text()
    compile(after, name, "exec")
    assert [line for line in after.splitlines() if "dizoo" in line or "import gym " in line or "ditk" in line] == []


def test_what_is_replaced_is_shown_as_a_diff_and_nothing_else_moves(folder) -> None:
    _, output = run("cartpole_dqn_config.py", "--write")
    assert "+    env=dict(type='cartpole', import_names=['ding.envs.zoo.cartpole_env']),\n" in output
    before = (ORIGINAL / "cartpole_dqn_config.py.txt").read_text().splitlines()
    after = (folder / "cartpole_dqn_config.py").read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_notes_name_the_numbers_that_change_and_the_keys_that_nobody_reads(folder) -> None:
    _, output = run("cartpole_dqn_config.py")
    assert "cartpole_dqn_config.py:18: note: config key policy.learn.target_thete=0.01: did you mean" in output
    assert "note: priority: absolute TD error (DI-engine: squared TD error)" in output
    assert "note: n-step tail of a trajectory segment" in output
    assert "SAC" not in output


def test_what_does_not_exist_here_is_listed(folder) -> None:
    code, output = run("not_built.py", "--write")
    assert code == 1
    left = [line.split(": left to do: ") for line in output.splitlines() if ": left to do: " in line]
    assert [int(where.rpartition(":")[2]) for where, _ in left] == [3, 4, 5, 6, 7, 8, 9, 17, 19, 21]
    texts = {where.rpartition(":")[2]: text for where, text in left}
    assert texts["6"].startswith("ding.policy has no 'ILPolicy'")
    assert texts["6"].endswith("which is not built")
    assert texts["7"].endswith("which is not built")
    assert texts["5"] == "ding.envs has no 'BaseEnvs'; the nearest name is 'BaseEnv'"
    assert texts["8"].startswith("dizoo.smac.envs.smac_env: not part of this package")
    assert texts["9"] == "gymnasium.wrappers has no 'Monitor'"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import gym, os\r\nx = gym.spaces.Discrete(2)\r\n",
            "import gymnasium as gym, os\r\nx = gym.spaces.Discrete(2)\r\n",
        ),
        ("import gym.spaces as sp\n", "import gymnasium.spaces as sp\n"),
        ("import gym\ne = gym.make('LunarLander-v2')\n", "import gymnasium as gym\ne = gym.make('LunarLander-v3')\n"),
        ("é = 'ü'; import gym\n", "é = 'ü'; import gymnasium as gym\n"),
        ("from ditk import logging as log\n", "import logging as log\n"),
        (
            "from ditk import logging\nlogging.getLogger().setLevel(logging.INFO)\n",
            "import logging\nlogging.basicConfig(level=logging.INFO)\n",
        ),
        ("import numpy\nx = numpy.float_(1), numpy.bool_(1)\n", "import numpy\nx = numpy.float64(1), numpy.bool_(1)\n"),
        (
            "from dizoo.classic_control.pendulum.envs import PendulumEnv\n",
            "from ding.envs.zoo.pendulum_env import PendulumEnv\n",
        ),
        (
            "from ding.policy import SACDiscretePolicy\n",
            "from ding.policy import DiscreteSACPolicy as SACDiscretePolicy\n",
        ),
        (
            "import gym\nenv = gym.make('CartPole-v1')\n_, _, _, info = env.step(0)\n",
            "import gymnasium as gym\nenv = gym.make('CartPole-v1')\n_, _, _, _, info = env.step(0)\n",
        ),
        # Edits inside of others.
        (
            "import gym\nimport numpy as np\nenv = gym.make('CartPole-v1')\n"
            "env.seed(gym.make('LunarLander-v2').spec.max_episode_steps)\nenv.seed(np.int(3))\n"
            "self.obs = env.reset()\nobs, a[np.int(0)], done, info = env.step(np.int(1))\n",
            "import gymnasium as gym\nimport numpy as np\nenv = gym.make('CartPole-v1')\n"
            "env.reset(seed=gym.make('LunarLander-v3').spec.max_episode_steps)\nenv.reset(seed=int(3))\n"
            "self.obs, _ = env.reset()\nobs, a[int(0)], done, truncated, info = env.step(int(1))\n"
            "if truncated and not done:\n    info['TimeLimit.truncated'] = True\ndone = done or truncated\n",
        ),
        (
            "import gym\nimport numpy as np\nclass W(gym.Wrapper):\n    def step(self, a):\n"
            "        obs, r, done, info = self.env.step(np.int(a))\n"
            "        return obs, np.float(r), np.bool8(done), info\n"
            "    def reset(self):\n        obs = self.env.reset()\n        return np.array(obs, dtype=np.float)\n",
            "import gymnasium as gym\nimport numpy as np\nclass W(gym.Wrapper):\n    def step(self, a):\n"
            "        obs, r, done, truncated, info = self.env.step(int(a))\n"
            "        return obs, float(r), np.bool_(done), truncated, info\n"
            "    def reset(self, **kwargs):\n        obs, reset_info = self.env.reset(**kwargs)\n"
            "        return np.array(obs, dtype=float), reset_info\n",
        ),
    ],
)
def test_small_pieces(tmp_path, before, after) -> None:
    assert migrated(tmp_path, before)[::2] == (0, after)
    assert run(str(tmp_path / "script.py")) == (0, "1 file, 0 with replacements; 0 things left to do\n")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import gym\nenv = gym.make('CartPole-v1')\nt = env.step(0)\n", "env.step of gymnasium returns"),
        ("import gym\nenv = gym.make('NoSuchGame-v1')\n", "NoSuchGame-v1: "),
        ("from dizoo.mujoco.config.hopper_sac_config import main_config\n", "put the file beside this one"),
        ("import ding\nding.policy.DQNPolcy\nimport ding.policy\n", "ding.policy has no 'DQNPolcy'"),
        ("from ding.worker import BaseLerner\n", "the nearest name is 'BaseLearner'"),
        ("import d4rl\n", "d4rl: "),
        ("from dizoo.league_demo.demo_league import DemoLeague\n", "put the file beside this one"),
        ("import hickle\n", "hickle: it comes with DI-engine and not with this package"),
        ("from hickle import load\n", "hickle: it comes with DI-engine and not with this package"),
        (
            "import gym\nclass W(gym.Wrapper):\n    def reset(self):\n        return self.obs(self.env.reset())\n",
            "W.reset: a wrapper of gymnasium returns (obs, info)",
        ),
        (
            "from gym import Wrapper\nclass W(Wrapper):\n    def step(self, a):\n        return self.twice(a)\n",
            "W.step: a wrapper of gymnasium returns (obs, reward, terminated, truncated, info)",
        ),
        (
            "import importlib as i\ni.import_module(f'dizoo.d4rl.config.{x}')\n",
            "'dizoo.d4rl.config.': dizoo is not part",
        ),
        ("def f(:\n", "it cannot be read as Python"),
        ("x = '\0'\n", "it cannot be read as Python"),
        (
            "main_config = dict(env=dict(), policy=dict(cuda=False))\n"
            "create_config = dict(env_manager=dict(type='base'), policy=dict(type='IL'))\n",
            "create_config.policy.type: 'IL' belongs to imitation learning of football (IL; its network was never "
            "published), which is not built",
        ),
    ],
)
def test_what_only_the_user_can_put_right(tmp_path, text, left) -> None:
    code, output, after = migrated(tmp_path, text)
    assert code == 1
    assert left in output
    assert "1 thing left to do" in output


def test_a_step_that_was_left_stays_on_the_list(tmp_path) -> None:
    text = "import gym\nenv = gym.make('CartPole-v1')\nfor _ in range(3): o, r, d, i = env.step(0)\n"
    assert "import gymnasium as gym\n" in migrated(tmp_path, text)[2]
    code, output = run(str(tmp_path / "script.py"))
    assert code == 1
    assert "script.py:3: left to do: env.step of gymnasium returns (obs, reward, terminated, truncated" in output


def test_modules_of_the_user_are_never_imported(folder) -> None:
    (folder / "own_policy.py").write_text("raise SystemExit('imported')\n")
    (folder / "config.py").write_text(
        "main_config = dict(env=dict(), policy=dict(cuda=False))\n"
        "create_config = dict(env_manager=dict(type='base'), policy=dict(type='mine', import_names=['own_policy']))\n"
    )
    code, output = run("config.py")
    assert code == 0
    assert output.endswith("1 file, 0 with replacements; 0 things left to do\n")


def test_a_folder_is_searched_and_hidden_ones_are_not(folder) -> None:
    (folder / "deep" / ".venv").mkdir(parents=True)
    (folder / "deep" / "a.py").write_text("import gym\n")
    (folder / "deep" / ".venv" / "b.py").write_text("import gym\n")
    (folder / "deep" / "run.sh").write_text("#!/bin/sh\n")
    code, output = run("deep", "--write")
    assert code == 0
    assert "1 file, 1 with replacements (written)" in output
    assert (folder / "deep" / ".venv" / "b.py").read_text() == "import gym\n"
    assert (folder / "deep" / "a.py").read_text() == "import gymnasium as gym\n"


def test_a_module_of_dizoo_that_lies_beside_the_script(tmp_path) -> None:
    (tmp_path / "demo_league.py").touch()
    (tmp_path / "cartpole_env.py").touch()
    text = (
        "from dizoo.league_demo.demo_league import DemoLeague\n"
        "from dizoo.classic_control.cartpole.envs.cartpole_env import CartPoleEnv\n"
        "from dizoo.classic_control.cartpole.envs.cartpole_env import TwoPolesEnv\n"
    )
    code, _, after = migrated(tmp_path, text)
    assert (code, after) == (
        0,
        "from demo_league import DemoLeague\nfrom ding.envs.zoo.cartpole_env import CartPoleEnv\n"
        "from cartpole_env import TwoPolesEnv\n",
    )


def test_a_module_of_the_users_own_folder_dizoo_stays(tmp_path) -> None:
    (tmp_path / "dizoo" / "sail" / "envs").mkdir(parents=True)
    (tmp_path / "dizoo" / "sail" / "envs" / "wind.py").touch()
    text = "from dizoo.sail.envs.wind import Wind\nimport_names = ['dizoo.sail.envs.wind']\n"
    code, output, after = migrated(tmp_path, text)
    assert (code, after) == (0, text)
    assert "script.py:1: note: dizoo.sail.envs.wind: it stays, as there is a folder dizoo that has it" in output


def test_parts_of_an_observation_that_are_numbers_are_noted(tmp_path) -> None:
    text = "main_config = dict(env=dict(), policy=dict(model=dict(obs_shape=dict(a=dict(b=()), c=(2, )))))\n"
    code, output, _ = migrated(tmp_path, text)
    assert code == 0
    assert "note: policy.model.obs_shape.a.b: an encoder gets such a part as [B, 1] here (DI-engine: [B])" in output
    assert "obs_shape.c" not in output


def test_a_path_that_is_not_there(folder) -> None:
    code, output = run("no_such_folder")
    assert (code, "'no_such_folder' does not exist" in output) == (2, True)


def test_the_numbers_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    rows = [f"| {row.what} | {row.original} | {row.here} |" for row in NUMBERS]
    assert [row for row in rows if row not in guide] == []


def test_a_migrated_config_trains(folder) -> None:
    run("cartpole_dqn_config.py", "--write")
    runpy.run_path("cartpole_dqn_config.py", run_name="__main__")
    assert (folder / "cartpole_dqn_seed0" / "ckpt").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("classic_main", "eval_main", "task_dqn", "offline_chain", "deploy", "own_env", "rnd_config", "selfplay_main"),
        *("wrapper_main", "supervised_main", "distributed_main", "cartpole_dqn_parallel_config"),
    ],
)
def test_migrated_scripts_run(folder, name) -> None:
    run(".", "--write")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, f"{name}.py"], capture_output=True, text=True, timeout=300, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stderr
