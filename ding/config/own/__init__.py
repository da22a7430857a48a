"""The user's own code that a run needs to be loaded again, and who may have it imported.

An experiment folder of a run with code of the user's has a file ``own_code.json``: the modules that register its env,
policy and other parts, and the class of a network that was handed in. It holds names and paths, no code.

To import them is to run code, so a folder of others must not decide it. The file carries an HMAC-SHA256 under a key in
the home of the user who ran it (``$XDG_STATE_HOME/ding/runs.key``), over the record and the config next to it. A run
whose HMAC is right is the user's *own*: its code is imported from where it was. Any other needs ``--trust`` or
``trust_config=True``. A config without code is read as data in both cases.
"""
