"""The files of `docs/cluster.md`: their options exist, and the Slurm script runs with stand-ins for Slurm."""

import json
import os
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from ding.config.source import parallel_config_to_source
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry.cli import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)
# Starts the tasks of a step here, side by side; a signal ends all of their processes.
SRUN = """#!/bin/bash
tasks=1
while [[ $1 == --* ]]; do case $1 in --ntasks=*) tasks=${1#*=};; esac; shift; done
trap 'for job in $(jobs -p); do kill -- "-$job"; done; wait; exit 143' TERM
for ((rank = 0; rank < tasks; rank++)); do SLURM_PROCID=$rank setsid "$@" & done
code=0; for job in $(jobs -p); do wait "$job" || code=$?; done; exit "$code"
"""
# More names than a pipe holds: a script that reads only the first one ends this command, and then itself, by SIGPIPE.
SCONTROL = "#!/bin/bash\nexec seq -f node%g 20000\n"


def test_each_option_of_a_command_exists():
    known = {name for parameter in cli.params for name in [*parameter.opts, *parameter.secondary_opts]}
    commands = re.findall(r"\bding ((?:-m|-M|scale)[^\n&\"`]*)", PAGE)
    used = {word for command in commands for word in command.split() if re.fullmatch(r"--?[a-z][a-z-]*", word)}
    assert len(commands) > 6
    assert used - known - {"--collectors"} == set()


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_the_scripts_are_shell(script):
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.slow
def test_the_slurm_script_trains_and_ends(tmp_path):
    main, system = deepcopy(parallel_test_main_config), deepcopy(parallel_test_system_config)
    main.policy.collect.collector.collector_num = 2
    (tmp_path / "config.py").write_text(parallel_config_to_source(main, parallel_test_create_config, system))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("hostname", "#!/bin/sh\necho 127.0.0.1\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (tools / "ding").write_text(f'#!/bin/sh\nexec {sys.executable} -m ding "$@"\n')
    (tools / "ding").chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    slurm = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_ID": str(os.getpid())}
    script = re.sub(r"COLLECTORS=8", "COLLECTORS=2", SCRIPTS[0])
    environment = {**os.environ, **slurm, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "parallel_test" / "result.json").read_text())["solved"]
    assert (tmp_path / "run.token").stat().st_mode & 0o777 == 0o600
