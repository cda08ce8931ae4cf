"""The command `pintle`: the program that the wheel carries, with the same arguments."""

import os
import sys

from pintle import PintleError, find_binary


def main() -> None:
    """Replaces this process by the server's program."""
    try:
        binary = find_binary()
    except PintleError as error:
        sys.exit(f"pintle: {error}")
    os.execv(binary, ["pintle", *sys.argv[1:]])


if __name__ == "__main__":
    main()
