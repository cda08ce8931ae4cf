"""The fixtures and options of the plugin."""

import pathlib

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import kubernetes

def write(cluster):
    core = kubernetes.client.CoreV1Api(cluster.client())
    name = kubernetes.client.V1ObjectMeta(generate_name="test-")
    core.create_namespaced_config_map("default", kubernetes.client.V1ConfigMap(metadata=name))
    return len([item for item in core.list_namespaced_config_map("default").items if item.metadata.name[:5] == "test-"])

def test_each_test_has_its_own_cluster(kube_cluster):
    assert write(kube_cluster) == 1

def test_each_test_has_its_own_cluster_again(kube_cluster):
    assert write(kube_cluster) == 1

def test_the_session_starts_one(kube_cluster_session):
    assert write(kube_cluster_session) == 1

def test_the_session_keeps_it(kube_cluster_session):
    assert write(kube_cluster_session) == 2
"""


def test_fixtures_have_the_scope_of_their_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=4)


def test_options_choose_the_binary_and_its_arguments(pytester: pytest.Pytester, tmp_path: pathlib.Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@"\nexit 7\n')
    echo.chmod(0o755)
    pytester.makepyfile("def test_it(kube_cluster): pass")
    result = pytester.runpytest_subprocess(f"--pintle-binary={echo}", "--pintle-args=--feature-gates 'A=true, B=false'", "--pintle-kubernetes-version=1.35")
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([".*ended with status 7 .*", ".*<--kubernetes-version=1.35><--feature-gates><A=true, B=false>.*"])
