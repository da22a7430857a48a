"""User callbacks during a pipeline, in addition to the hooks of the learner."""

from collections.abc import Sequence

from ding.entry.view.status import RunStatus


class RunCallback:
    """Base class of callbacks; override the methods you need. They run in the thread of the pipeline.

    In a parallel run they are called in the pipeline's process when the coordinator reports (about twice a second):
    evaluations and passes between two reports result in one call. That process also supervises the others, so calls
    must be short.

    Each method gets a ``RunStatus``: ``exp_name``, ``env_step``, ``train_iter``, ``last_return``, ``returns``,
    ``solved``, ...
    """

    def on_evaluation(self, status: RunStatus) -> bool | None:
        """Called after an evaluation; return ``False`` to end the run in order, as at a limit."""

    def on_iteration(self, status: RunStatus) -> bool | None:
        """Called after a pass of the loop (collect, then train); return ``False`` to end the run in order.

        In a parallel run: called if the learners have done train iterations since the last call.
        """

    def on_end(self, status: RunStatus) -> None:
        """Called at the end of the run (solved, at a limit, or by a callback); not after an error or a signal."""


class Callbacks:
    """Several callbacks combined into one.

    Attributes:
        watch_iterations: Whether one of them must be called after each pass.
    """

    def __init__(self, callbacks: Sequence[RunCallback] = ()) -> None:
        self._all = list(callbacks)
        self.watch_iterations = any(type(one).on_iteration is not RunCallback.on_iteration for one in self._all)

    def evaluated(self, status: RunStatus) -> bool:
        """Call ``on_evaluation`` of all; return whether the run continues."""
        # All are called, even after one that ends the run.
        answers = [one.on_evaluation(status) for one in self._all]
        return False not in answers

    def iterated(self, status: RunStatus) -> bool:
        """Call ``on_iteration`` of all; return whether the run continues."""
        answers = [one.on_iteration(status) for one in self._all]
        return False not in answers

    def ended(self, status: RunStatus) -> None:
        """Call ``on_end`` of all."""
        for one in self._all:
            one.on_end(status)


class ReportedProgress:
    """Calls the callbacks for a run in other processes, based on its statuses.

    Args:
        callbacks: User callbacks.
        begun: Status at the start of the run.
    """

    def __init__(self, callbacks: Sequence[RunCallback], begun: RunStatus) -> None:
        self._callbacks = Callbacks(callbacks)
        self._last = begun

    def update(self, status: RunStatus) -> bool:
        """Call the callbacks for all events since the last status; return whether the run continues."""
        last, self._last = self._last, status
        goes_on = status.evaluations <= last.evaluations or self._callbacks.evaluated(status)
        if status.train_iter > last.train_iter:
            goes_on = self._callbacks.iterated(status) and goes_on
        return goes_on

    def end(self, status: RunStatus) -> None:
        """Call the callbacks for all events until the end, and ``on_end``."""
        self.update(status)
        self._callbacks.ended(status)
