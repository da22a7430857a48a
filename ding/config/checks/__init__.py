"""Checks of a config before anything is created; every message has the full path of the key.

* ``keys``: misspelt keys. ``values``: values of the wrong type or out of range. Both compare with the defaults.
  ``ranges``: allowed ranges of numbers, by key.
* ``parallel``: additional requirements of the parallel mode on its three configs.
"""
