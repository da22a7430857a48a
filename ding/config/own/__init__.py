"""User code that a run needs for loading, and the conditions for importing it.

The experiment folder of a run with user code has a file ``own_code.json``: the modules that register its env, policy
and other parts, and the class of a network that was passed in. It contains names and paths, no code.

Importing the modules runs code, so a folder of another user must not trigger it. The file carries an HMAC-SHA256 over
the record and the config next to it, under a key in the home of the user who ran it
(``$XDG_STATE_HOME/ding/runs.key``). A run with a valid HMAC is the user's *own*: its code is imported from its original
location. Other runs need ``--trust`` or ``trust_config=True``. A config without code is read as data in both cases.
"""
