"""``python -m benchmarks.vs_reference``: the serial pipeline beside DI-engine and the other peers."""

from __future__ import annotations

import sys

from benchmarks.__main__ import command

if __name__ == "__main__":
    sys.exit(command("vs_reference"))
