"""The tasks of a coordinator.

* ``records``: what is known of a task.
* ``journal``: what survives a killed coordinator.
* ``ledger``: which task is where; shared by threads, written to the journal.
* ``command``: the commander, and what else must survive.
* ``dispatcher``: the thread that hands tasks out and clears away what is over.
* ``attendance``: a thread per task that talks to its worker.
* ``session``: what is said between the coordinator and one worker while that works on a task, and the types of answers.
"""
