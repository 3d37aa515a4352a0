"""Keys of clients: any text, several with names, revoked while the server runs, and never written down."""

from __future__ import annotations

import io
import json
import logging
import os
from unittest.mock import Mock

import httpx2
import pytest
from tests.refusals import refuses
from tests.serve.conftest import serving
from tests.serve.test_server import gated

from throughtime.serve.keys import Keys, digest, read_keys
from throughtime.serve.requests import Options

ODD = ["schlüssel", "ключ", "鍵🔑", "a'b\"c", "~!@#$%^&*()"]


def status(address, key, path="/classify"):
    headers = [(b"Authorization", b"Bearer " + key.encode()), (b"Content-Type", b"application/json")]
    return httpx2.post(f"{address}{path}", content=b'{"q": "a"}', headers=headers).status_code


def test_any_text_is_a_key_and_names_are_told_but_keys_never(tmp_path):
    file = tmp_path / "keys"
    lines = [f"client-{number} {key}" for number, key in enumerate(ODD)]
    file.write_text("# who\n\n" + "\r\n".join(lines) + "\n", encoding="utf-8")
    log = io.StringIO()
    options = Options(key_file=file, api_key="clé", log_json=True)
    with serving(gated()[1], options, log) as (_, address):
        assert [status(address, key) for key in (*ODD, "clé")] == [200] * 6
        wrong = ("x", "client-0", "schlussel", "cle", "ключ ключ")
        assert [status(address, key) for key in wrong] == [403] * 5
        metrics = httpx2.get(f"{address}/metrics").text
    names = [json.loads(line).get("key") for line in log.getvalue().splitlines()]
    assert names == [f"client-{number}" for number in range(5)] + ["api-key"] + [None] * 6
    assert 'throughtime_key_requests_total{key="client-2"} 1.0' in metrics
    assert not [key for key in (*ODD, "clé") if key in metrics + log.getvalue()]


def test_a_key_is_revoked_and_added_while_the_server_runs_and_a_broken_file_changes_nothing(tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text("alice a1\nbob b2\n")
    keys = Keys(path=file)
    caplog.set_level(logging.WARNING)
    assert [keys.name_of([key]) for key in (b"a1", b"b2", b"c3")] == ["alice", "bob", None]
    file.write_text("alice a1\ncarol c3\n")  # as many bytes, perhaps at the same time
    assert [keys.name_of([key]) for key in (b"a1", b"b2", b"c3")] == ["alice", None, "carol"]
    for broken in (b"alice a1\ncarol\n", b"\xff\xfe", b"alice a1\nalice c3\n"):
        file.write_bytes(broken)
        assert [keys.name_of([key]) for key in (b"c3", b"c3", b"b2")] == ["carol", "carol", None]
    file.unlink()
    assert keys.name_of([b"c3"]) == "carol"
    assert len(caplog.records) == 4
    assert "keys:2" in caplog.text
    assert "c3" not in caplog.text
    file.write_text("")
    os.utime(file, (1, 1))
    assert keys.name_of([b"a1", b"c3"]) is None


def test_a_key_is_revoked_once_a_file_that_could_not_be_read_can_be_read(tmp_path, monkeypatch):
    """As after `chmod`, which leaves size and time of the content as they are."""
    file = tmp_path / "keys"
    file.write_text("alice a1\nbob b2\n")
    keys = Keys(path=file)
    file.write_text("alice a1\n")
    os.utime(file, (1, 1))
    monkeypatch.setattr("throughtime.serve.keys.UNSETTLED", -1e9)  # as if the change were long ago
    with monkeypatch.context() as patch:
        patch.setattr(type(file), "open", Mock(side_effect=PermissionError(13, "Permission denied")))
        assert keys.name_of([b"b2"]) == "bob"
    assert keys.name_of([b"b2"]) is None
    assert keys.name_of([b"a1"]) == "alice"


@pytest.mark.parametrize(
    "bad", ["alice\n", "a/b key\n", "# none\nalice x\nalice y\n", "a same\nb same\n", "a \n"]
)
def test_a_broken_file_is_refused_at_the_start_without_quoting_it(tmp_path, bad):
    (tmp_path / "keys").write_text(bad)
    with refuses(f"keys:{bad.strip().count(chr(10)) + 1}") as caught:
        read_keys(tmp_path / "keys")
    assert "same" not in str(caught.value)


def test_a_body_without_a_key_is_not_even_read():
    with serving(gated()[1], Options(api_key="k")) as (_, address):
        for path, status in (("/classify", 403), ("/v1/completions", 401), ("/translate", 400)):
            assert httpx2.post(f"{address}{path}", content=b"{").status_code == status


def test_metrics_may_need_a_key():
    with serving(gated()[1], Options(api_key="k", protect_metrics=True)) as (_, address):
        assert httpx2.get(f"{address}/metrics").status_code == 403
        assert httpx2.get(f"{address}/metrics", headers={"Authorization": "Bearer k"}).status_code == 200
        assert httpx2.get(f"{address}/health").status_code == 200


def test_a_key_is_compared_with_all_others_whatever_it_is(tmp_path, monkeypatch):
    """So that the time of a refusal tells nothing: neither how much of a key is right, nor whose it is."""
    file = tmp_path / "keys"
    file.write_text("".join(f"client-{number} key-{number}\n" for number in range(50)))
    compared = []

    def compare(first, second):
        compared.append((first, len(first), len(second)))
        return first == second

    monkeypatch.setattr("throughtime.serve.keys.hmac.compare_digest", compare)
    keys = Keys("only", file)
    for key in (b"only", b"key-0", b"key-49", b"key-", b"key-0x", b"x", b"\xff", b"x" * 10_000):
        compared.clear()
        keys.name_of([key])
        assert compared == [(digest(key), 32, 32)] * 51
    compared.clear()
    assert keys.name_of([b"key-3", b"key-4"]) == "client-3"
    assert len(compared) == 102
