"""One shell for a page, as a reader has one (what a command exports the next one sees), and its server."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


class Shell:
    """A bash that runs one command after the other in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str], log: Path) -> None:
        self.folder, self.environment = folder, environment
        self._command, self._output = log / "command.sh", log / "output.txt"
        self._bash: subprocess.Popen[str] | None = None

    def run(self, command: str, limit: float) -> tuple[int, str]:
        """Exit code and output of a command; 124 after `limit` seconds, and then a new shell."""
        if self._bash is None:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._command.write_text(command + "\n", encoding="utf-8")
        self._bash.stdin.write(f"source '{self._command}' >'{self._output}' 2>&1 </dev/null; echo $?\n")
        self._bash.stdin.flush()
        ready, _, _ = select.select([self._bash.stdout], [], [], limit)
        code = self._bash.stdout.readline().strip() if ready else ""
        output = self._output.read_text(encoding="utf-8", errors="replace")
        if not code:
            self.close()
        return (int(code) if code else 124), output

    def kill(self) -> None:
        """End what it runs, from another thread: `run` then returns."""
        if (bash := self._bash) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the shell and what it still runs."""
        self.kill()
        if self._bash is not None:
            self._bash.communicate()
            self._bash = None


class Server:
    """`throughtime serve ...` in the background, at a free port of this machine."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str], log: Path) -> None:
        self.port = free_port()
        self._log = log / "server.txt"
        with self._log.open("w", encoding="utf-8") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"exec {with_port(command, self.port)}"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait(self, limit: float) -> str | None:
        """Wait until it answers; what is wrong, if it does not."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self._process.poll() is not None:
                return f"the server ended with exit code {self._process.returncode}:\n{self.output()}"
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return None
            time.sleep(0.2)
        return f"the server does not answer after {limit:.0f} s:\n{self.output()}"

    def stop(self) -> str | None:
        """End it as Ctrl-C would; what is wrong, if it does not end well."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return "the server did not end at Ctrl-C"
        return None if code == 0 else f"the server ended with exit code {code}:\n{self.output()}"

    def output(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def with_port(command: str, port: int) -> str:
    """A `serve` command at this port, whatever port it names."""
    bare = command.split(" # ")[0].rstrip()
    return f"{bare.split(' --port ')[0]} --port {port}"


def at_port(text: str, port: int) -> str:
    """A client's command or source, asking at this port where the page says 8000."""
    return text.replace("localhost:8000", f"127.0.0.1:{port}").replace("127.0.0.1:8000", f"127.0.0.1:{port}")


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
