"""The plugin for pytest: fixtures that start a cluster, and their options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from pintle._cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("pintle", "Kubernetes API server")
    group.addoption("--pintle-binary", metavar="PATH", help="The program of the server. Default: the package's own")
    group.addoption(
        "--pintle-args", metavar="ARGS", default="", help="Further arguments of 'pintle serve', quoted as in a shell"
    )
    group.addoption(
        "--pintle-kubernetes-version",
        metavar="MINOR",
        help="The version of Kubernetes that clusters are, such as 1.35. Default: the newest one",
    )


@pytest.fixture
def kube_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster for one test, empty at its start."""
    with _cluster(pytestconfig) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kube_cluster_session(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """One cluster for all tests of the session. Tests that share it should use a namespace of their own."""
    with _cluster(pytestconfig) as cluster:
        yield cluster


def _cluster(config: pytest.Config) -> Cluster:
    return Cluster(
        shlex.split(config.getoption("--pintle-args")),
        kubernetes_version=config.getoption("--pintle-kubernetes-version"),
        binary=config.getoption("--pintle-binary"),
    )
