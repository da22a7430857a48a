"""The tokens of workers, made of that of a run."""

import itertools

import pytest

from ding.utils.credentials import WorkerName, is_worker_token, planes_key, wire_token, worker_of, worker_token

RUN = "r" * 32


def test_each_worker_has_its_own_token_and_all_have_the_key_of_the_planes():
    of = [worker_token(run, *who) for run in (RUN, "s" * 32) for who in itertools.product("ab", "ab")]
    assert len({wire_token(one) for one in of}) == len(of)
    assert [planes_key(one) for one in of] == [planes_key(RUN)] * 4 + [planes_key("s" * 32)] * 4
    assert all(is_worker_token(one) and planes_key(one) not in wire_token(one) for one in of)
    assert wire_token(RUN) == RUN
    assert not is_worker_token(RUN)


def test_whose_token_was_sent():
    rank = worker_token(worker_token(RUN, "learner", "l0"), "learner", "l0_rank1")
    sent = wire_token(rank)
    assert worker_of(sent, worker_token(RUN, "learner", "l0")) == WorkerName("learner", "l0_rank1")
    assert worker_of(sent, RUN) is worker_of(sent, "s" * 32) is worker_of(RUN, RUN) is None
    own = wire_token(worker_token(RUN, "learner", "l0"))
    assert worker_of(own, RUN) == ("learner", "l0")
    for forged in (own.replace("l0", "l1"), own[:-1] + ("0" if own[-1] != "0" else "1"), own + "0", own + "\n", ""):
        assert worker_of(forged, RUN) is None


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n"])
def test_a_name_that_cannot_be_one(name):
    with pytest.raises(ValueError, match="no blanks and colons"):
        worker_token(RUN, "learner", name)
