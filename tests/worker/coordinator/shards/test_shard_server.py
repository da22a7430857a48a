"""A shard behind a server: who may talk to it, messages that come twice or too late, rubbish."""

import contextlib
from unittest.mock import patch

import numpy as np
import pytest
from shard_toys import TOKEN, ServedShards

from ding.interaction.errors import UnreachableError
from ding.utils.credentials import wire_token, worker_token
from ding.worker.coordinator.shards.messages import Draw, Drop, Push, Report, ShardLost, message_of_json
from ding.worker.coordinator.shards.remote import RemoteShard, ShardServer
from ding.worker.coordinator.shards.shard import ShardSpec

NUMBERS = np.array([0, 4]), np.array([0, 3]), np.array([3, 2]), np.array([7, 8])


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shards():
    served = ServedShards()
    yield served
    served.close()


def spec(buffer_id="b", **cfg):
    return ShardSpec(cfg={"max_use": float("inf"), **cfg}, buffer_id=buffer_id, number=0, size=10, exp_name="exp")


def push(**changes):
    values = dict(zip(("chunks", "first_ids", "rows", "iters"), NUMBERS), priority=np.zeros(0), largest=1.0)
    return Push(**{**values, **changes})


def test_what_is_pushed_is_drawn_over_http(tmp_path):
    """With the server of real runs."""
    server = ShardServer(run_token=worker_token(TOKEN, "shard", "shard0"))
    server.start()
    with contextlib.closing(server):
        link = RemoteShard(spec(), "shard0", server.my_address, 20.0, run_token=TOKEN)
        answer = link.ask(push(priority=np.array([1.0, 2.0, np.nan, 3.0, 1.0]), largest=4.0))
        assert (answer.rows, answer.largest, answer.left.tolist()) == (5, 4.0, [])
        found = link.ask(Draw(np.linspace(0, answer.mass * 0.999, 5), np.array([2, 3]), np.array([10, 11]))).columns
        assert found["chunk"].tolist() == [0, 0, 0, 4, 4]
        assert found["staleness"].tolist() == [3, 3, 4, 3, 3]
        assert link.ask(Drop(4)).left.tolist() == [4, 2]
        assert link.ask(Report()).columns["priorities"].tolist() == [1.0, 2.0, 4.0]
        link.close()
        with pytest.raises(ShardLost, match="closed"):
            link.ask(Report())


def test_other_tokens_do_not_open_it(shards):
    shards(spec())
    address = shards.servers[0].my_address
    for token, name in (("another-token-0123456789", "shard0"), (TOKEN, "shard1")):
        with pytest.raises(ShardLost, match="token"):
            RemoteShard(spec(), name, address, 5.0, run_token=token, transport=shards.network)


def test_no_route_is_open_to_other_workers(shards):
    shards(spec())
    wire = shards.network.open("127.0.0.1", shards.servers[0].port)
    own, other = (wire_token(worker_token(TOKEN, *who)) for who in (("shard", "shard0"), ("collector", "shard0")))
    for method, path in shards.servers[0].routes:
        for sent, status in ((None, 401), (other, 403), (wire_token(TOKEN), 403)):
            headers = {} if sent is None else {"Authorization": f"Bearer {sent}"}
            assert wire.send(method, path, {}, headers, 5.0).status_code == status, path
    # Its own token opens it; the body is no message.
    assert wire.send("POST", "/shard/ask", {}, {"Authorization": f"Bearer {own}"}, 5.0).status_code == 400


def test_a_message_that_is_sent_again_is_done_once(shards):
    link = shards(spec())
    assert link.ask(push()).rows == 5
    app, lost = shards.network.find(shards.servers[0].port), []

    def lose_first_answer(response):
        if lost:
            return response
        lost.append(response)
        raise UnreachableError("the answer broke off")

    app.config["PROPAGATE_EXCEPTIONS"] = True
    with patch.dict(app.after_request_funcs, {None: [lose_first_answer]}):
        assert link.ask(push(first_ids=np.array([5, 8]))).rows == 10
    assert len(lost) == 1
    assert shards.servers[0].asked == 2


def test_messages_of_an_earlier_life_are_refused(shards):
    former = shards(spec())
    former.ask(push())
    link = shards(spec())
    assert link.ask(push()).rows == 5
    with pytest.raises(ShardLost, match="another life"):
        former.ask(push())
    former.close()
    assert link.ask(Report()).rows == 5
    # Each buffer has a shard of its own.
    assert shards(spec("c")).ask(Report()).rows == 0
    assert link.ask(Report()).rows == 5


def test_a_shard_that_is_not_there_is_lost_at_once(shards):
    link = shards(spec())
    shards.lose(0)
    with pytest.raises(ShardLost, match="shard0"):
        link.ask(Report())
    link.close()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "Open"}, "'Open'"),
        ({"type": "Drop"}, "`chunk`"),
        ({"type": "Drop", "chunk": "x"}, r"`\$\.chunk`"),
        ({"type": "Update", "ids": [1], "slots": [1], "priority": {"dtype": "<f8", "b64": "%"}}, "damaged"),
        ({"type": "Restore", "ids": [1], "priorities": None, "uses": [1]}, "array of a message"),
    ],
)
def test_what_is_no_message_is_refused(message, text):
    with pytest.raises(ValueError, match=text):
        message_of_json(message)
