"""Starts and stops a server as a process of its own."""

from __future__ import annotations

import collections
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib import resources
from os import PathLike
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from pintle import _kubeconfig
from pintle._binary import find_binary
from pintle._errors import PintleError

if TYPE_CHECKING:
    import kubernetes.client

#: The maximum time to end the server with SIGKILL and to remove its folder, in seconds.
_STOP_TIMEOUT = 30.0

#: The maximum number of lines of the log that are kept.
_LOG_LINES = 2000

#: The beginnings of the lines with the server's URL and the path of its kubeconfig.
_URL, _KUBECONFIG = "url:", "kubeconfig:"


class Cluster:
    """A Kubernetes API server that listens on a free port of 127.0.0.1 and stores objects in memory.

    It is a context manager: the server starts when the block begins, and ends with the block. It also ends when this
    process dies, whatever the cause. Several clusters can run at once.
    """

    def __init__(
        self,
        args: Sequence[str] = (),
        *,
        kubernetes_version: str | None = None,
        binary: str | PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Prepares a cluster, without starting it.

        `args` are further arguments of `pintle serve`. `kubernetes_version` is the minor version of Kubernetes that the
        cluster is, such as "1.35"; the default is the newest one. `binary` is the path of the server's program;
        `find_binary` finds the default. `timeout` is the maximum duration of the start, in seconds.
        """
        version = [] if kubernetes_version is None else [f"--kubernetes-version={kubernetes_version}"]
        self._args = [*version, *args]
        self._binary = binary
        self._timeout = timeout
        self._running: _Running | None = None

    def start(self) -> Cluster:
        """Starts the server and waits until it is ready. Raises PintleError, with the server's log, if that fails."""
        if self._running is not None:
            raise PintleError("the cluster has been started already")
        running = _Running(find_binary(self._binary), self._args)
        try:
            running.wait_until_ready(self._timeout)
        except BaseException:
            running.stop()
            raise
        self._running = running
        return self

    def stop(self) -> None:
        """Stops the server and removes its folder. Does nothing if the cluster is not running."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of the server, such as https://127.0.0.1:40219."""
        return self._get().url

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The path of the administrator's kubeconfig. The file is removed when the cluster stops."""
        return self._get().kubeconfig

    @property
    def kubeconfig_dict(self) -> dict[str, Any]:
        """The administrator's kubeconfig as a dictionary."""
        return _kubeconfig.parse(self.kubeconfig.read_text())

    @property
    def log(self) -> str:
        """The last lines that the server has printed."""
        return self._get().log()

    def client(self, kubeconfig: str | PathLike[str] | None = None) -> kubernetes.client.ApiClient:
        """Returns a client of the official package `kubernetes`, which must be installed, as the administrator.

        With a path that `user` returned it is a client as that user.
        """
        from kubernetes import config

        running = self._get()
        path = self.kubeconfig if kubeconfig is None else pathlib.Path(kubeconfig)
        client: kubernetes.client.ApiClient = config.new_client_from_config_dict(
            _kubeconfig.parse(path.read_text()), persist_config=False, temp_file_path=str(running.folder)
        )
        running.clients.append(client)
        return client

    def user(self, name: str, groups: Sequence[str] = ()) -> pathlib.Path:
        """Returns the path of a kubeconfig for a user, with a new client certificate. The user may do what RBAC allows."""
        if isinstance(groups, str):
            raise TypeError("groups must be a list of names")
        running = self._get()
        command = [str(running.binary), "kubeconfig", f"--data-dir={running.folder}", f"--user={name}"]
        command += [f"--group={group}" for group in groups]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise PintleError(f"pintle kubeconfig failed: {result.stderr.strip()}")
        running.users += 1
        path = running.folder / f"user-{running.users}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(result.stdout)
        return path

    def _get(self) -> _Running:
        if self._running is None:
            raise PintleError("the cluster is not running")
        return self._running


class _Running:
    """The process of a server, its folder and its log."""

    def __init__(self, binary: pathlib.Path, args: Sequence[str]) -> None:
        self.binary = binary
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pintle-"))
        self.url = ""
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.clients: list[kubernetes.client.ApiClient] = []
        self.users = 0
        self._lines: collections.deque[str] = collections.deque(maxlen=_LOG_LINES)
        # Set when the server is ready, and when its output ends.
        self._changed = threading.Event()
        self._is_ready = False
        guard = resources.files("pintle").joinpath("guard.sh").read_text()
        serve = ["serve", "--storage-backend=memory", "--secure-port=0", f"--data-dir={self.folder}", *args]
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", guard, "guard", str(self.folder), str(binary), *serve],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # An interrupt from the terminal reaches the tests, which may still use the server to clean up.
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="pintle-log", daemon=True
        )
        self._reader.start()

    def wait_until_ready(self, timeout: float) -> None:
        """Waits until the server has printed its URL and the path of its kubeconfig."""
        start = time.monotonic()
        if not self._changed.wait(timeout):
            raise PintleError(f"the server was not ready after {timeout:g} seconds. Its log:\n{self.log()}")
        if not self._is_ready:
            status = self._process.wait(_STOP_TIMEOUT)
            seconds = time.monotonic() - start
            raise PintleError(
                f"the server ended with status {status} after {seconds:.1f} seconds. Its log:\n{self.log()}"
            )

    def log(self) -> str:
        """The last lines of the log."""
        return "".join(list(self._lines))

    def stop(self) -> None:
        """Ends the process and removes the folder."""
        for client in self.clients:
            client.close()
        try:
            # The end of the input is not enough: a forked process may still hold the pipe.
            self._input.write(b"\n")
            self._input.close()
        except OSError:
            pass  # The server has ended by itself.
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise PintleError(f"the server did not end within {_STOP_TIMEOUT:g} seconds") from error
        self._reader.join()
        # The folder still exists only if the shell was killed.
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, output: IO[bytes]) -> None:
        """Keeps the log, so that the server never waits for a reader."""
        with output:
            for line in output:
                text = line.decode(errors="replace")
                self._lines.append(text)
                if self._is_ready:
                    continue
                if text.startswith(_URL):
                    self.url = text.removeprefix(_URL).strip()
                elif text.startswith(_KUBECONFIG) and self.url:
                    self.kubeconfig = pathlib.Path(text.removeprefix(_KUBECONFIG).strip())
                    self._is_ready = True
                    self._changed.set()
        self._changed.set()
