"""What a script does while a pipeline runs, beside the hooks of the learner."""

from collections.abc import Sequence

from ding.entry.view.status import RunStatus


class RunCallback:
    """Base class; override what is needed. The methods are called by the thread of the pipeline.

    In a parallel run they are called in the process of the pipeline, when the coordinator reports (about twice a
    second): evaluations and passes between two reports are one call. That process also watches over the others, so a
    call there must be quick.

    Each gets a ``RunStatus``: ``exp_name``, ``env_step``, ``train_iter``, ``last_return``, ``returns``, ``solved``, ...
    """

    def on_evaluation(self, status: RunStatus) -> bool | None:
        """An evaluation is over; ``False`` ends the run in order, as a limit does."""

    def on_iteration(self, status: RunStatus) -> bool | None:
        """A pass of the loop (collect, then train) is over; ``False`` ends the run in order.

        In a parallel run: the learners have done train iterations since the last call.
        """

    def on_end(self, status: RunStatus) -> None:
        """The run came to its end: solved, at a limit, or ended by a callback; not after an error or a signal."""


class Callbacks:
    """Several callbacks as one.

    Attributes:
        watch_iterations: whether one of them wants to be called after each pass.
    """

    def __init__(self, callbacks: Sequence[RunCallback] = ()) -> None:
        self._all = list(callbacks)
        self.watch_iterations = any(type(one).on_iteration is not RunCallback.on_iteration for one in self._all)

    def evaluated(self, status: RunStatus) -> bool:
        """Call ``on_evaluation`` of all; returns whether the run goes on."""
        # All are called, also behind one that ends the run.
        answers = [one.on_evaluation(status) for one in self._all]
        return False not in answers

    def iterated(self, status: RunStatus) -> bool:
        """Call ``on_iteration`` of all; returns whether the run goes on."""
        answers = [one.on_iteration(status) for one in self._all]
        return False not in answers

    def ended(self, status: RunStatus) -> None:
        """Call ``on_end`` of all."""
        for one in self._all:
            one.on_end(status)


class ReportedProgress:
    """Calls callbacks of a run that other processes do, from the statuses that are read of it.

    Args:
        callbacks: of the user.
        begun: where the run begins.
    """

    def __init__(self, callbacks: Sequence[RunCallback], begun: RunStatus) -> None:
        self._callbacks = Callbacks(callbacks)
        self._last = begun

    def update(self, status: RunStatus) -> bool:
        """Call what has happened since the last status; returns whether the run goes on."""
        last, self._last = self._last, status
        goes_on = status.evaluations <= last.evaluations or self._callbacks.evaluated(status)
        if status.train_iter > last.train_iter:
            goes_on = self._callbacks.iterated(status) and goes_on
        return goes_on

    def end(self, status: RunStatus) -> None:
        """Call what has happened until the end, and ``on_end``."""
        self.update(status)
        self._callbacks.ended(status)
