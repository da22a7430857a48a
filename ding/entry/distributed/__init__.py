"""A parallel run over several machines: what ``ding.entry.dist_entry`` is made of.

* ``config``: the config, addresses, ports and the token that all machines agree on.
* ``group``: a learner of several processes. ``replicas``: workers that an operator starts (Kubernetes).
"""
