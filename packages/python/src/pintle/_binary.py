"""Finds the binary of the server."""

import os
import pathlib
import shutil

from pintle._errors import PintleError

#: The binary that the wheel carries.
PACKAGED = pathlib.Path(__file__).parent / "bin" / "pintle"


def find_binary(binary: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Returns the path of the binary.

    It is `binary` if given. Otherwise it is the first of these that exists: the wheel's own binary, the binary that
    PINTLE_BINARY names, `pintle` on the PATH. Raises PintleError if there is no binary, or if the named file is not a
    program.
    """
    if binary is not None:
        return _program(pathlib.Path(binary), "the given binary")
    if PACKAGED.exists():
        return PACKAGED
    named = os.environ.get("PINTLE_BINARY")
    if named:
        return _program(pathlib.Path(named), "PINTLE_BINARY")
    found = shutil.which("pintle")
    # The command that this package installs asks for the binary itself.
    if found and not _is_script(pathlib.Path(found)):
        return pathlib.Path(found).absolute()
    raise PintleError("no binary of pintle: this installation has none, PINTLE_BINARY is not set, and the PATH has none")


def _program(path: pathlib.Path, source: str) -> pathlib.Path:
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise PintleError(f"{source} is not a program: {path}")
    return path.absolute()


def _is_script(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"
