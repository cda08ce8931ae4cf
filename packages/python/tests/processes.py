"""Processes and folders that a cluster could leave behind."""

import pathlib
import subprocess
import time


def of(folder: pathlib.Path) -> dict[int, str]:
    """The arguments of the processes that name the folder, by process ID."""
    listed = subprocess.run(["ps", "-Aww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.splitlines() if str(folder) in line]
    return {int(pid): args for pid, args in rows}


def wait_until_gone(folder: pathlib.Path) -> None:
    """Waits until neither a process nor the folder is left."""
    deadline = time.monotonic() + 30
    while of(folder) or folder.exists():
        assert time.monotonic() < deadline, f"still there: {of(folder)}, folder: {folder.exists()}"
        time.sleep(0.01)
