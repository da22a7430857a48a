"""Supervision of processes: starts, restarts and ends the roles of a run.

* ``role``: roles, and the ``RoleContext`` that their targets use.
* ``launcher``, ``process``: the parent's side. ``Launcher.run`` keeps the processes of several roles running.
* ``leaving``: roles that leave while the run continues.
* ``forked``: processes of a fork server, supervised independently of it.
* ``child``: the child's side. ``local``: a role without a launcher, in the user's process.
* ``run_dir``: folder shared by the processes of a run. ``signals``: Ctrl-C and SIGTERM.

The work of a role is passed in as a function; this package is independent of the workers.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
