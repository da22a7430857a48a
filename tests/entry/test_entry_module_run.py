"""`python -m ding` is the command line."""

import subprocess
import sys

import ding


def test_python_m_ding_is_the_command():
    done = subprocess.run([sys.executable, "-m", "ding", "-v"], capture_output=True, text=True, timeout=60, check=True)
    assert ding.__version__ in done.stdout
