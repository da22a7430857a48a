"""Supervision of processes: starts the roles of a run, starts again what ends, and ends them all.

* ``role``: what a role is, and the ``RoleContext`` that its body works with.
* ``launcher``, ``process``: the parent's side. ``Launcher.run`` keeps the processes of some roles running.
* ``leaving``: roles that leave while the others go on.
* ``forked``: a process from its start to its real end, whatever becomes of the fork server.
* ``child``: the child's side. ``local``: a role without a launcher, in the process that the user started.
* ``run_dir``: the folder that the processes of a run share. ``signals``: Ctrl-C and SIGTERM.

What a role does is handed in as a function: nothing here knows workers.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
