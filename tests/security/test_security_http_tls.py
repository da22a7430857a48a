"""S7: TLS. A plain client, a wrong authority and a client without certificate are refused; the rest works."""

from __future__ import annotations

import shutil
import socket
import subprocess

import pytest

from ding.entry.view import read_status
from ding.entry.view.access_file import AccessFile
from ding.interaction import Master, Slave, TlsConfig, fetch_status
from ding.interaction.base.common import random_token
from ding.interaction.exception import BodyInvalid, UnreachableError

WAIT_S = 20.0
RUN_TOKEN = random_token()


class Adder(Slave):
    def _process_task(self, task):
        return {"sum": task["a"] + task["b"], "padding": "x" * task.get("padding", 0)}


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """``authority(name)`` is the folder of a new authority with a certificate for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl makes the certificates of this test, and is not installed")

    def make(name):
        folder = tmp_path_factory.mktemp(name)
        ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        ca = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        openssl(
            "req",
            "-x509",
            *ec,
            "-keyout",
            folder / "ca.key",
            "-out",
            folder / "ca.pem",
            "-days",
            2,
            "-subj",
            f"/CN={name}",
            *ca,
        )
        openssl("req", *ec, "-keyout", folder / "key.pem", "-out", folder / "req.pem", "-subj", "/CN=worker")
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        signer = ["-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-set_serial", 1]
        openssl(
            "x509",
            "-req",
            "-in",
            folder / "req.pem",
            *signer,
            "-out",
            folder / "cert.pem",
            "-days",
            2,
            "-extfile",
            folder / "ext",
        )
        return folder

    return make


@pytest.fixture(scope="module")
def ours(authority):
    return authority("ours")


@pytest.fixture(scope="module")
def theirs(authority):
    return authority("theirs")


def config(folder, **kwargs):
    return TlsConfig(str(folder / "cert.pem"), str(folder / "key.pem"), str(folder / "ca.pem"), **kwargs)


@pytest.mark.parametrize("mutual", [False, True])
def test_tasks_over_tls(ours, mutual):
    tls = config(ours, mutual=mutual)
    with Master(port=0, run_token=RUN_TOKEN, tls=tls) as master, Adder(port=0, run_token=RUN_TOKEN, tls=tls) as slave:
        assert master.my_address.startswith("https://")
        assert master.ping()
        with master.new_connection("w", "127.0.0.1", slave.port, https=True) as connection:
            for padding in (0, 100, 3_000_000):
                task = connection.new_task({"a": padding, "b": 1, "padding": padding}).start().join(WAIT_S)
                assert task.result == {"sum": padding + 1, "padding": "x" * padding}
        assert fetch_status(master.my_address, RUN_TOKEN, tls=tls)["slaves"] == []


def test_large_requests_and_answers(ours):
    tls = config(ours)
    status = {"text": "y" * 3_000_000}
    with Master(port=0, run_token=RUN_TOKEN, tls=tls, status=lambda: status) as master:
        assert fetch_status(master.my_address, RUN_TOKEN, tls=tls) == status


def test_plain_client_is_refused(ours):
    with Master(port=0, run_token=RUN_TOKEN, tls=config(ours)) as master:
        with pytest.raises(UnreachableError):
            fetch_status(f"http://127.0.0.1:{master.port}", RUN_TOKEN)
        with socket.create_connection(("127.0.0.1", master.port), timeout=WAIT_S) as connection:
            connection.sendall(b"GET /status HTTP/1.1\r\n\r\n")
            try:
                answer = connection.recv(1000)
            except ConnectionResetError:
                answer = b""
            assert b"HTTP" not in answer
        assert master.ping()


def test_wrong_authority_is_refused(ours, theirs):
    with Master(port=0, run_token=RUN_TOKEN, tls=config(ours)) as master:
        for tls in (None, TlsConfig(cafile=str(theirs / "ca.pem"))):
            with pytest.raises(UnreachableError, match=r"(?i)certificate"):
                fetch_status(master.my_address, RUN_TOKEN, tls=tls)


def test_client_without_certificate_is_refused_when_both_must_show_one(ours, theirs):
    with Master(port=0, run_token=RUN_TOKEN, tls=config(ours, mutual=True)) as master:
        stranger = TlsConfig(str(theirs / "cert.pem"), str(theirs / "key.pem"), str(ours / "ca.pem"), mutual=True)
        for tls in (TlsConfig(cafile=str(ours / "ca.pem")), stranger):
            with pytest.raises(UnreachableError):
                fetch_status(master.my_address, RUN_TOKEN, tls=tls)
        assert master.ping()


def test_a_run_with_tls_is_asked_by_what_its_folder_says(ours, tmp_path, monkeypatch):
    monkeypatch.chdir(ours)
    exp_name = str(tmp_path / "run")
    (tmp_path / "run").mkdir()
    settings = {"certfile": "cert.pem", "keyfile": "key.pem", "cafile": "ca.pem", "mutual": True}
    with Master(port=0, run_token=RUN_TOKEN, tls=TlsConfig(**settings), status=lambda: {"env_step": 3}) as master:
        access = AccessFile(exp_name, RUN_TOKEN, settings)
        access.update({"address": master.my_address})
        monkeypatch.chdir(tmp_path)
        assert read_status(exp_name) == {"env_step": 3}


def test_a_client_that_never_shakes_hands_holds_nobody_up(ours):
    with Master(port=0, run_token=RUN_TOKEN, tls=config(ours)) as master:
        silent = [socket.create_connection(("127.0.0.1", master.port)) for _ in range(20)]
        assert master.ping()
        for connection in silent:
            connection.close()


def test_no_token_over_a_plain_connection(ours):
    with Adder(port=0, run_token=RUN_TOKEN, tls=config(ours)) as slave:
        with Master(port=0, run_token=RUN_TOKEN, tls=TlsConfig(cafile=str(ours / "ca.pem"))) as plain:
            with pytest.raises(BodyInvalid):
                plain.new_connection("w", "127.0.0.1", slave.port, https=True).connect()
        with pytest.raises(ValueError, match="without TLS"):
            slave.enrol("http://127.0.0.1:1", "w", "collector")


def test_a_certificate_is_needed_to_serve(ours):
    with pytest.raises(FileNotFoundError):
        Master(port=0, tls=TlsConfig("missing.pem", "missing.key")).start()
