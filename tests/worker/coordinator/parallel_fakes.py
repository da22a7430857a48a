"""Workers of a coordinator in this very process, which do what a test says and may be cut off at any point."""

import json
import threading
import time
from collections import deque

from ding.parallel.messages import pack_infos, unpack_batches
from ding.worker.coordinator.errors import WorkerLost, WorkerTaskFailed
from ding.worker.coordinator.tasks.records import Holder


def wait_until(condition, timeout_s=60.0):
    """For tests only: most of what a coordinator does is told to nobody."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not happen"
        pause.wait(0.005)


class FakeLink:
    """A connection to a fake worker; ``cut`` ends it as a broken network or a killed process would."""

    def __init__(self, worker, holder):
        self.worker, self.name, self.role, self.holder = worker, worker.name, worker.role, holder
        self._cut = threading.Event()
        self.closed = False

    @property
    def alive(self):
        return not self._cut.is_set()

    def cut(self):
        self._cut.set()

    def close(self):
        self.closed = True
        self._cut.set()

    def call(self, data, timeout_s):
        if self._cut.is_set():
            raise WorkerLost("the connection is cut")
        fault = self.worker.faults.popleft() if self.worker.faults and data["name"] != "resource" else None
        if fault == "lose request":
            raise WorkerLost("the request was lost")
        result = self.worker.handle(data)
        if fault == "double":
            result = self.worker.handle(data)
        if fault == "lose answer" or self._cut.is_set():
            raise WorkerLost("the answer was lost")
        return result


class FakeHub:
    """Hands workers to a coordinator."""

    def __init__(self):
        self._connected = self._disconnected = None
        self.links = []
        self.closed = False

    def start(self, connected, disconnected, left=None):
        self._connected, self._disconnected, self._left = connected, disconnected, left

    def connect(self, name, role, host, port):
        raise WorkerLost("fake workers come by themselves")

    def join(self, worker, incarnation=None):
        """A worker comes: for the first time, again, or in a new life."""
        link = FakeLink(worker, Holder(worker.name, incarnation or worker.incarnation))
        self.links.append(link)
        worker.link = link
        self._connected(link)
        return link

    def cut(self, worker):
        """The connection of a worker breaks, and the hub notices."""
        worker.link.cut()
        self._disconnected(worker.link)

    def leave(self, worker):
        """A worker says that it ends."""
        worker.link.cut()
        self._left(worker.link)

    def close(self):
        self.closed = True
        for link in self.links:
            link.close()


class FakeCollector:
    """Gives chunks ``<name>-<task>-<n>`` of ``rows`` rows, ``per_answer`` at a time, ``total`` in all, then is done."""

    role = "collector"

    def __init__(self, name, total=10, rows=4, per_answer=3, finish=None, incarnation="life1"):
        self.name, self.total, self.rows, self.per_answer = name, total, rows, per_answer
        self.incarnation = incarnation
        self.finish = {"eval_flag": False, "step_count": total * rows} if finish is None else finish
        self.faults = deque()
        self.log = []
        self.task = None
        self.pending = {}
        self.made = 0
        self.produced = []
        self.acked = set()
        self.ended = {}
        self.start_error = None
        self.data_error = None
        self.close_acks = []

    def handle(self, data):
        self.log.append(data["name"])
        return getattr(self, data["name"])(data)

    def resource(self, data):
        busy = {} if self.task is None else {"task_id": self.task["task_id"]}
        return {"gpu": 1, "cpu": 20, **busy}

    def collector_start_task(self, data):
        if self.start_error:
            raise WorkerTaskFailed(self.start_error)
        if self.task is None or self.task["task_id"] != data["task_info"]["task_id"]:
            self.task, self.made, self.pending = data["task_info"], 0, {}
        return {"message": "collector task has started"}

    def collector_data_task(self, data):
        if self.task is None:
            raise WorkerTaskFailed("no task")
        if self.data_error:
            raise WorkerTaskFailed(self.data_error)
        for seq in [seq for seq in self.pending if seq <= data["ack"]]:
            self.acked.add(self.pending.pop(seq)["chunk"])
        while len(self.pending) < self.per_answer and self.made < self.total:
            self.made += 1
            # Every chunk has a name of its own, also when the task begins anew.
            chunk = f"{self.name}-{self.incarnation}-{self.task['task_id']}-{len(self.produced) + 1}"
            self.pending[self.made] = {
                "chunk": chunk, "rows": self.rows, "bytes": 10, "seq": self.made, "policy_iter": 0,
            }  # fmt: skip
            self.produced.append(chunk)
        refs = list(self.pending.values())
        info = None
        if self.made == self.total and not refs:
            info = {"collector_done": True, "cur_episode": 1, "cur_sample": 1, "cur_step": 1}
        ids = {"buffer_id": self.task["buffer_id"], "task_id": self.task["task_id"]}
        return {**ids, "seq": self.made, "refs": refs, "info": info}

    def collector_close_task(self, data):
        self.close_acks.append(data.get("ack"))
        if self.task is None and self.ended.get("task_id") == data.get("task_id"):
            return self.ended
        if self.task is None:
            raise WorkerTaskFailed("no task")
        task, self.task = self.task, None
        self.ended = {**self.finish, "task_id": task["task_id"], "seq": 0, "refs": list(self.pending.values())}
        return self.ended


class FakeLearner:
    """Takes ``iterations`` batches of ``batch_size`` rows, then is done."""

    role = "learner"

    def __init__(self, name="learner0", iterations=6, batch_size=4, ahead=3, incarnation="life1"):
        self.name, self.iterations, self.batch_size, self.ahead = name, iterations, batch_size, ahead
        self.incarnation = incarnation
        self.faults = deque()
        self.log = []
        self.task = None
        self.start_error = None

    def handle(self, data):
        self.log.append(data["name"])
        return getattr(self, data["name"])(data)

    def resource(self, data):
        return {"gpu": 1}

    def learner_start_task(self, data):
        if self.start_error:
            raise WorkerTaskFailed(self.start_error)
        if self.task is None or self.task["task_id"] != data["task_info"]["task_id"]:
            self.task, self.batches, self.infos, self.numbers = data["task_info"], [], [], set()
        return {"message": "learner task has started"}

    def learner_get_data_task(self, data):
        return self.report(data)

    def learner_learn_task(self, data):
        for batch in unpack_batches(json.loads(json.dumps(data["batches"]))):
            if batch["batch"] > max(self.numbers, default=0) and len(self.batches) < self.iterations:
                assert len(batch["rows"]) == len(batch["unique_id"]) == len(batch["IS"]) == self.batch_size
                self.numbers.add(batch["batch"])
                self.batches.append(batch)
                number = len(self.infos) + 1
                info = {
                    "learner_step": number - 1,
                    "learner_done": False,
                    "priority_info": {
                        "replay_unique_id": batch["unique_id"].tolist(),
                        "replay_buffer_idx": batch["buffer_idx"].tolist(),
                        "priority": [2.0] * self.batch_size,
                    },
                }
                self.infos.append({"seq": number, "info": info})
        return self.report(data)

    def report(self, data):
        if self.task is None:
            raise WorkerTaskFailed("no task")
        done = len(self.batches) >= self.iterations
        wanted = min(self.ahead, self.iterations - len(self.batches))
        return {
            "demand": [{"batch_size": self.batch_size, "cur_learner_iter": 0} for _ in range(wanted)],
            **pack_infos([info for info in self.infos if info["seq"] > data.get("info_ack", 0)]),
            "loaded": max(self.numbers, default=0),
            "policy_version": len(self.batches),
            "done": done,
            "final": {"learner_step": len(self.batches), "learner_done": True} if done else {},
        }

    def learner_close_task(self, data):
        if self.task is None:
            raise WorkerTaskFailed("no task")
        task, self.task = self.task, None
        return {"task_id": task["task_id"], "buffer_id": task["buffer_id"]}


class RecordingPlane:
    """A data plane that notes what is released, and believes every ref."""

    def describe(self, ref):
        return {"bytes": 0, **ref}

    def __init__(self):
        self.released = []
        self.stored = []

    def chunks(self):
        return [chunk for chunk in self.stored if chunk not in self.released]

    def release(self, refs):
        self.released.extend(ref["chunk"] for ref in refs)
        return len(refs)
