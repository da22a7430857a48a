"""The tasks of a coordinator.

* ``machine``: which task is where; a pure state machine.
* ``journal``: what survives a killed coordinator.
* ``ledger``: the machine, the bodies of the tasks and the journal, shared by threads.
* ``session``: what is said between the coordinator and one worker while that works on a task.
"""
