"""``python -m ding.entry``: the command ``ding`` if its script is not on the path."""

from ding.entry.cli import main

main()
