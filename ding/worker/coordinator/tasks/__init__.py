"""Tasks of a coordinator.

* ``records``: data of a task.
* ``journal``: state that survives a killed coordinator.
* ``ledger``: phases and holders of the tasks; shared by threads, written to the journal.
* ``command``: the commander and other persistent state.
* ``dispatcher``: thread that assigns tasks and cleans up after finished ones.
* ``attendance``: one thread per task that communicates with its worker.
* ``session``: exchange between the coordinator and one worker about a task, and the answer types.
"""
