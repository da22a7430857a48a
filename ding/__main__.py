"""`python -m ding`: the command line `ding` where its script is not on the path."""

from ding.entry.cli import main

if __name__ == "__main__":
    main()
