"""A serial run of two processes under torchrun, which train one network."""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap

import pytest

_SCRIPT = """
    import json, sys
    import torch
    from configs.cartpole import {config} as config
    from ding.entry import {pipeline}
    from ding.utils import DDPContext, get_rank

    main, create = config.main_config, config.create_config
    main.exp_name, main.policy.multi_gpu = "run", True
    main.policy.learn.run_state_freq = 20
    {shrink}
    main.env.env_wrapper = [dict(type="obs_norm"), dict(type="eval_episode_return")]
    with DDPContext():
        policy = {pipeline}((main, create), seed=3, max_env_step={steps})
        model = policy.learn_mode.get_attribute("model")
        weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).double().sum().item()
        draw = torch.rand(1).item()
        state = policy.learn_mode.state_dict()["normalization"]
        statistics = [*state["obs"]["mean"].tolist(), *state["obs"]["var"].tolist(), state["obs"]["count"]]
        with open(f"rank{{get_rank()}}.json", "w") as f:
            json.dump({{"weights": weights, "draw": draw, "obs": statistics, "sources": list(state["sources"])}}, f)
"""
_PPO = "main.policy.learn.batch_size, main.policy.collect.n_sample = 16, 64"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "config", "shrink", "steps"),
    [
        ("serial_pipeline", "cartpole_dqn_config", "", 400),
        ("serial_pipeline_onpolicy", "cartpole_ppo_config", _PPO, 512),
    ],
)
def test_two_processes_train_one_network_on_data_of_their_own(tmp_path, pipeline, config, shrink, steps):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(_SCRIPT).format(pipeline=pipeline, config=config, shrink=shrink, steps=steps), encoding="utf-8"
    )
    root = str(pytest.importorskip("ding").__path__[0]).removesuffix("/ding")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    command += [f"--master_port={_free_port()}", str(script)]
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, output
    left, right = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert left["weights"] == right["weights"]
    # One set of statistics covers the envs of both.
    assert left["obs"] == pytest.approx(right["obs"])
    assert sorted(left["sources"]) == ["rank0", "rank1"]
    assert left["obs"][-1] >= steps
    # Each explores by random numbers of its own.
    assert left["draw"] != right["draw"]
    # One of them shows the run, and they count the env steps together.
    assert len(re.findall("the run starts", output)) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["env_step"] >= steps
    states = {path.parent.name.split("_")[0] for path in (tmp_path / "run" / "ckpt").rglob("state.safetensors")}
    assert states == {"snapshot", "rank1"}
