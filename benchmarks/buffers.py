"""``python -m benchmarks.buffers``: replay buffers beside those of the peers."""

from __future__ import annotations

import sys

from benchmarks.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["buffers", *sys.argv[1:]]))
