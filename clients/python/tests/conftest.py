"""A real server, with an app, in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STYX = Path(os.environ.get("STYX_BIN", ROOT / "target/release/styx"))


class Server:
    """A process that can be killed and started again at the same addresses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ingress = self.admin = "127.0.0.1:0"
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        addresses = ["--ingress-addr", self.ingress, "--admin-addr", self.admin]
        command = [STYX, "server", "--json", "--data-dir", self.directory / "data", *addresses]
        with (self.directory / "server.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("ready"):
                self.ingress, self.admin = told["ingress"], told["admin"]
                return
        raise AssertionError((self.directory / "server.log").read_text())

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(sign)
        self.process.wait(60)

    @property
    def urls(self) -> dict[str, str]:
        return {"ingress_url": f"http://{self.ingress}", "admin_url": f"http://{self.admin}"}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    server = Server(directory)
    try:
        source = ROOT / "guests/shopping-cart-c"
        arguments = ["deploy", source, "--app", "shop", "--admin-url", server.urls["admin_url"]]
        subprocess.run([STYX, *arguments], check=True, capture_output=True, timeout=300)
        yield server
    finally:
        server.stop()
