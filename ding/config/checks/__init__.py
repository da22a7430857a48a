"""What must be right in a config, before anything is built; every message has the full path of the key.

* ``keys``: misspelt keys. ``values``: values of the wrong kind or out of range. Both by comparison with the defaults.
  ``ranges``: what a number may be, by its key.
* ``parallel``: what the parallel mode asks of its three configs beyond that.
"""
