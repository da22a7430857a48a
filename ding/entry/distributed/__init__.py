"""Parallel runs over several machines; implements ``ding.entry.dist_entry``.

* ``config``: config, addresses, ports and the token shared by all machines.
* ``group``: a learner of several processes. ``replicas``: workers that an operator starts (Kubernetes).
"""
