"""What a program that calls Styx relies on, against a real server."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest
from conftest import Server

from styx_client import AsyncClient, Client, Entity, Error, Retry


def test_a_call_returns_what_the_function_returns(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "item", "apple", "insert", 5, 30)
        assert styx.state("shop", "item", "apple") == [5, 30]
        styx.entity("shop", "item", "apple").call("take", quantity=2)
        assert styx.entity("shop", "item", "apple").state() == [3, 30]
        assert styx.state("shop", "item", "nothing") is None
        reply = styx.request("shop", "item", "apple", "take", {"quantity": 1})
        later = styx.request("shop", "item", "apple", "take", [1])
        assert reply.value is None and reply.tid is not None and later.tid is not None and reply.tid < later.tid
        assert reply.epoch is not None and later.epoch is not None and reply.epoch <= later.epoch


def test_a_refusal_is_an_error_and_nothing_has_happened(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "item", "plum", "insert", 1, 10)
        with pytest.raises(Error) as aborted:
            styx.call("shop", "item", "plum", "take", 2)
        assert (aborted.value.code, aborted.value.is_aborted) == ("ABORTED", True)
        assert "plum" in aborted.value.message
        assert styx.state("shop", "item", "plum") == [1, 10]
        for call, code in [
            (("shop", "item", "plum", "tkae"), "UNKNOWN_FUNCTION"),
            (("shop", "itme", "plum", "take"), "UNKNOWN_OPERATOR"),
            (("shopp", "item", "plum", "take"), "UNKNOWN_APP"),
            (("shop", "item", "plum", "take", "many"), "BAD_ARGUMENTS"),
        ]:
            with pytest.raises(Error) as refused:
                styx.call(*call)
            assert refused.value.code == code and refused.value.hint
        with pytest.raises(TypeError):
            styx.call("shop", "item", "plum", "take", 1, quantity=1)


def test_under_one_key_a_call_happens_once(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "item", "fig", "insert", 10, 1)
        answers = [styx.request("shop", "item", "fig", "take", [3], idempotency_key="fig-1") for _ in range(3)]
        assert [answer.replayed for answer in answers] == [False, True, True]
        replies = {answer.tid for answer in answers}
        assert len(replies) == 1 and styx.state("shop", "item", "fig") == [7, 1]
        with pytest.raises(Error) as mismatch:
            styx.request("shop", "item", "fig", "take", [4], idempotency_key="fig-1")
        assert mismatch.value.code == "IDEMPOTENCY_MISMATCH"


def test_what_is_sent_ends_later(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "item", "kiwi", "insert", 1, 1)
        done = styx.result(styx.send("shop", "item", "kiwi", "take", 1), wait=10)
        assert (done.status, done.value()) == ("committed", None) and done.tid
        refused = styx.result(styx.send("shop", "item", "kiwi", "take", 1), wait=10)
        assert refused.status == "aborted" and refused.error is not None
        with pytest.raises(Error, match="ABORTED"):
            refused.value()
        with pytest.raises(Error) as unknown:
            styx.result("00000000000000000000000000000000")
        assert unknown.value.code == "UNKNOWN_REQUEST"


def test_pages_are_read_one_after_the_other(server: Server) -> None:
    with Client(**server.urls) as styx:
        begun = [styx.begin("shop", "user", f"scan/{n:04}", "insert", n) for n in range(1500)]
        for call in begun:
            call.result(60)
        found = list(styx.scan("shop", "user", "scan/"))
        assert found == [Entity(f"scan/{n:04}", n) for n in range(1500)]


def test_keys_are_texts_of_any_kind(server: Server) -> None:
    with Client(**server.urls) as styx:
        for key in ["a/b c", "ü", "100%", "?x=1#y", "\u202e", '"quoted"\n']:
            styx.call("shop", "user", key, "insert", 7)
            assert styx.state("shop", "user", key) == 7


def test_thousands_of_calls_share_a_connection(server: Server) -> None:
    async def all_of_them() -> None:
        async with AsyncClient(**server.urls) as styx:
            await styx.call("shop", "user", "rich", "insert", 10_000)
            await asyncio.gather(*(styx.call("shop", "user", "rich", "pay", 1) for _ in range(6_000)))
            assert await styx.state("shop", "user", "rich") == 4_000

    asyncio.run(all_of_them())


def test_threads_share_a_client(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "user", "shared", "insert", 1_000)
        pay = [lambda: [styx.call("shop", "user", "shared", "pay", 1) for _ in range(50)] for _ in range(4)]
        threads = [threading.Thread(target=work) for work in pay]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert styx.state("shop", "user", "shared") == 800


def test_a_server_that_is_killed_and_comes_back_is_asked_again(server: Server) -> None:
    with Client(**server.urls) as styx:
        styx.call("shop", "user", "steady", "insert", 1_000_000)
        calls, stop = [], threading.Event()

        def call() -> None:
            while not stop.is_set():
                styx.call("shop", "user", "steady", "pay", 1)
                calls.append(1)

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(0.3)
            server.stop(signal.SIGKILL)
            server.start()
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join(90)
        assert len(calls) > 50
        assert styx.state("shop", "user", "steady") == 1_000_000 - len(calls)


def test_without_a_key_nobody_guesses(server: Server) -> None:
    """A call that may have happened is not made again unless it has a key."""
    with Client(**server.urls, retry=Retry(patience=20)) as styx:
        styx.call("shop", "user", "unkeyed", "insert", 5)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        ends: list[Error] = []

        def call() -> None:
            try:
                styx.request("shop", "user", "unkeyed", "pay", [1], idempotency_key=False)
            except Error as error:
                ends.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.2)
        server.stop(signal.SIGKILL)
        thread.join(30)
        server.start()
        assert [error.code for error in ends] == ["CONNECTION"] and ends[0].outcome_unknown


def test_nobody_there() -> None:
    with Client("http://127.0.0.1:9", retry=Retry.never()) as styx:
        with pytest.raises(Error) as nobody:
            styx.call("shop", "user", "u", "pay", 1)
        assert (nobody.value.code, nobody.value.hint) == ("UNREACHABLE", "is the server running?")
        with pytest.raises(Error) as nobody:
            styx.state("shop", "user", "u")
        assert nobody.value.code == "UNREACHABLE"


def test_retries_take_as_long_as_they_may() -> None:
    begun = time.monotonic()
    with Client("http://127.0.0.1:9", retry=Retry(first=0.05, longest=0.2, patience=1.0)) as styx:
        with pytest.raises(Error, match="UNREACHABLE"):
            styx.call("shop", "user", "u", "pay", 1)
    assert 0.5 < time.monotonic() - begun < 5


def test_a_client_that_is_closed_says_so(server: Server) -> None:
    styx = Client(**server.urls)
    styx.call("shop", "user", "closed", "insert", 1)
    styx.close()
    styx.close()
    with pytest.raises(RuntimeError, match="closed"):
        styx.call("shop", "user", "closed", "pay", 1)

    async def closed() -> None:
        async with AsyncClient(**server.urls) as client:
            await client.call("shop", "user", "closed", "pay", 1)
        with pytest.raises(Error, match="CLOSED"):
            await client.call("shop", "user", "closed", "pay", 1)

    asyncio.run(closed())


def test_what_is_no_json_is_refused_here(server: Server) -> None:
    with Client(**server.urls) as styx:
        with pytest.raises(ValueError):
            styx.call("shop", "user", "nan", "insert", float("nan"))
        with pytest.raises(TypeError):
            styx.call("shop", "user", "object", "insert", object())
        styx.call("shop", "user", "after", "insert", 1)
