"""A process that has imported the library and forks those of the runs: ``python chaos_warm.py``.

Each line of its input is a job in JSON: ``module`` (``chaos_main`` or ``chaos_role``) with the ``args`` of its
``main``, ``environ``, ``output`` (a file that is written on) and ``end`` (a file for the exit code). The answer to each
is the pid of a process in a session of its own, as ``python`` would start it, but with the modules in memory.
"""

import contextlib
import json
import os
import sys

import chaos_main
import chaos_role

MAINS = {"chaos_main": chaos_main.main, "chaos_role": chaos_role.main}


def next_job():
    """Fork for each job; only returns, with its job, in the process of one."""
    for line in sys.stdin:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        job = json.loads(line)
        if os.fork() == 0 and keep(job):
            return job
    sys.exit()


def keep(job):
    """Fork the process of a job, in which this returns True; wait for it and leave its exit code."""
    pid = os.fork()
    os.setsid()
    if pid == 0:
        return True
    os.write(sys.stdout.fileno(), f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(f"{job['end']}.new", "w") as file:
        file.write(str(code))
    os.replace(file.name, job["end"])
    os._exit(0)


def become(job):
    os.environ.clear()
    os.environ.update(job["environ"])
    nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(job["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for descriptor, file in enumerate((nothing, output, output)):
        os.dup2(file, descriptor)
    os.close(nothing)
    os.close(output)


if __name__ == "__main__":
    job = next_job()
    become(job)
    MAINS[job["module"]](*job["args"])
