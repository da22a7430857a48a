"""Profile a run with ``cProfile``."""

import atexit
import cProfile
import os
import pstats
from collections.abc import Callable


def write_profile(profiler: cProfile.Profile, folder_path: str) -> None:
    """Stop ``profiler`` and write its tables, sorted by cumulative and own time, and its raw data.

    The files are ``profile_cumtime.txt``, ``profile_tottime.txt`` and ``profile.prof`` in ``folder_path``.
    """
    profiler.disable()
    for key in ("cumtime", "tottime"):
        with open(os.path.join(folder_path, f"profile_{key}.txt"), "w", encoding="utf-8") as file:
            pstats.Stats(profiler, stream=file).sort_stats(key).print_stats()
    profiler.dump_stats(os.path.join(folder_path, "profile.prof"))


def register_profiler(
    write_profile: Callable[[cProfile.Profile, str], None], pr: cProfile.Profile, folder_path: str
) -> None:
    """Call ``write_profile(pr, folder_path)`` at interpreter exit."""
    atexit.register(write_profile, pr, folder_path)


class Profiler:
    """Profile from a call of ``Profiler().profile(folder)`` on, and write the result at interpreter exit."""

    def __init__(self) -> None:
        self.pr = cProfile.Profile()

    def mkdir(self, directory: str) -> None:
        """Create the folder if it is missing."""
        os.makedirs(directory, exist_ok=True)

    def write_profile(self, pr: cProfile.Profile, folder_path: str) -> None:
        """See the function ``write_profile``."""
        write_profile(pr, folder_path)

    def profile(self, folder_path: str = "./tmp") -> None:
        """Start profiling."""
        self.mkdir(folder_path)
        self.pr.enable()
        register_profiler(self.write_profile, self.pr, folder_path)
