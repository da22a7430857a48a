"""``python -m benchmarks.buffers``: replay buffers beside those of the peers."""

from __future__ import annotations

import sys

from benchmarks.__main__ import command

if __name__ == "__main__":
    sys.exit(command("buffers"))
