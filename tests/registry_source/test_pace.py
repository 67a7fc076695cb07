"""A registry that drips is given up, one on a slow line is read."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from imagegate.errors import FetchError
from imagegate.sources.registry.pace import FLOOR, Pace
from imagegate.sources.registry.retry import TransientError
from imagegate.sources.registry.wire import Body, Traffic


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def feed(pace: Pace, clock: Clock, count: int, seconds: float) -> None:
    since = pace.start()
    clock.now += seconds
    pace.received(count, since)


def test_a_byte_in_two_seconds_ends_within_the_window() -> None:
    clock = Clock()
    pace = Pace("it", now=clock)
    for _ in range(14):
        feed(pace, clock, 1, 2)
    with pytest.raises(FetchError, match="too slow: 15 bytes in 30 s") as caught:
        feed(pace, clock, 1, 2)
    # another attempt would bring another byte, and so on for ever
    assert not isinstance(caught.value, TransientError)


def test_a_modem_passes_and_so_does_who_is_quick_and_then_slow() -> None:
    clock = Clock()
    pace = Pace("it", now=clock)
    for _ in range(1000):
        feed(pace, clock, FLOOR * 4, 1)
    for _ in range(100):
        feed(pace, clock, FLOOR * 40, 29)
    feed(pace, clock, 0, 59)  # the end may take its time


def test_time_that_this_side_takes_is_not_counted() -> None:
    clock = Clock()
    pace = Pace("it", now=clock)
    for _ in range(100):
        clock.now += 3600
        feed(pace, clock, 1, 0.01)


class _Drip(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x")
                time.sleep(0.02)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_real_drip_is_noticed_although_it_is_never_silent() -> None:
    with HTTPServer(("127.0.0.1", 0), _Drip) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        response = requests.get(f"http://127.0.0.1:{server.server_port}/", stream=True, timeout=5)
        body = Body(response, Traffic(), "it", Pace("it", window=0.2))
        with pytest.raises(FetchError, match="too slow"):
            list(iter(lambda: body.read(1 << 20), b""))
        body.close()
        thread.join()
