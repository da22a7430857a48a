"""A module that takes long to import, as a library does on a machine that is busy."""

import time

time.sleep(120)
