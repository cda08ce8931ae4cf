"""A cluster with the official client."""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import processes
import pytest
import yaml
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

import pintle


def config_map(name: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"key": "value"})


def test_the_official_client_creates_lists_and_watches(kube_cluster_session: pintle.Cluster) -> None:
    core = client.CoreV1Api(kube_cluster_session.client())
    core.create_namespaced_config_map("default", config_map("first"))
    found = core.list_namespaced_config_map("default")
    assert {item.metadata.name: item.data for item in found.items}["first"] == {"key": "value"}

    core.create_namespaced_config_map("default", config_map("second"))
    watcher = watch.Watch()
    events = watcher.stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=found.metadata.resource_version,
        timeout_seconds=60,
    )
    event = next(events)
    watcher.stop()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "second")


def test_a_user_may_do_what_a_role_allows(kube_cluster_session: pintle.Cluster) -> None:
    cluster = kube_cluster_session
    jane = client.CoreV1Api(cluster.client(cluster.user("jane", ["team: a", "other"])))
    with pytest.raises(ApiException) as refused:
        jane.list_namespaced_secret("default")
    assert refused.value.status == 403
    assert 'User "jane" cannot list resource "secrets"' in json.loads(refused.value.body)["message"]

    rbac = client.RbacAuthorizationV1Api(cluster.client())
    rbac.create_namespaced_role_binding(
        "default",
        client.V1RoleBinding(
            metadata=client.V1ObjectMeta(name="team"),
            role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="edit"),
            subjects=[client.RbacV1Subject(api_group="rbac.authorization.k8s.io", kind="Group", name="team: a")],
        ),
    )
    deadline = time.monotonic() + 30
    while True:
        try:
            assert jane.list_namespaced_secret("default").kind == "SecretList"
            return
        except ApiException as refusal:
            # The authorizer sees the binding a moment later.
            assert refusal.status == 403 and time.monotonic() < deadline


def test_the_dictionary_is_what_a_yaml_library_reads(kube_cluster_session: pintle.Cluster) -> None:
    cluster = kube_cluster_session
    assert cluster.kubeconfig_dict == yaml.safe_load(cluster.kubeconfig.read_text())
    assert cluster.kubeconfig_dict["clusters"][0]["cluster"]["server"] == cluster.url
    odd = cluster.user('a: "b" - # c')
    assert pintle._kubeconfig.parse(odd.read_text()) == yaml.safe_load(odd.read_text())


def test_two_clusters_share_nothing() -> None:
    with pintle.Cluster() as first, pintle.Cluster() as second:
        assert first.url != second.url
        client.CoreV1Api(first.client()).create_namespaced_config_map("default", config_map("only-in-first"))
        names = client.CoreV1Api(second.client()).list_namespaced_config_map("default").items
        assert "only-in-first" not in [item.metadata.name for item in names]


def test_stop_leaves_no_process_and_no_folder() -> None:
    cluster = pintle.Cluster().start()
    folder = cluster.kubeconfig.parent
    cluster.client()
    assert processes.of(folder)
    cluster.stop()
    assert processes.of(folder) == {}
    assert not folder.exists()
    cluster.stop()
    with pytest.raises(pintle.PintleError, match="not running"):
        _ = cluster.url


def test_a_stopped_cluster_starts_again() -> None:
    cluster = pintle.Cluster()
    for _ in range(2):
        with cluster:
            assert client.VersionApi(cluster.client()).get_code().major == "1"


START = "import pintle, sys; cluster = pintle.Cluster().start(); print(cluster.kubeconfig, flush=True); "


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("", id="exit without stop"),
        pytest.param("import os; os.kill(os.getpid(), 9)", id="kill"),
        pytest.param("import os; os.abort()", id="abort"),
    ],
)
def test_nothing_outlives_the_process_of_the_tests(ending: str) -> None:
    result = subprocess.run([sys.executable, "-c", START + ending], capture_output=True, text=True, check=False)
    assert result.stdout, result.stderr
    processes.wait_until_gone(pathlib.Path(result.stdout.strip()).parent)


def test_a_forked_process_does_not_delay_stop() -> None:
    # The fork has a copy of the pipe to the server's shell.
    script = START + "import os, time; pid = os.fork(); pid or time.sleep(600); cluster.stop(); os.kill(pid, 9)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_a_failed_start_shows_the_log_and_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(pintle.PintleError, match=r"status 2 .*(.|\n)*unexpected argument '--no-such-flag'"):
        pintle.Cluster(["--no-such-flag"]).start()
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_takes_too_long_is_stopped(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    silent = tmp_path.parent / "silent"
    silent.write_text("#!/bin/sh\necho waiting\nexec sleep 600\n")
    silent.chmod(0o755)
    with pytest.raises(pintle.PintleError, match="not ready after 0.5 seconds.*\nwaiting"):
        pintle.Cluster(binary=silent, timeout=0.5).start()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_can_be_stopped() -> None:
    cluster = pintle.Cluster().start()
    folder = cluster.kubeconfig.parent
    servers = [pid for pid, args in processes.of(folder).items() if "/bin/sh" not in args]
    assert len(servers) == 1
    os.kill(servers[0], signal.SIGKILL)
    processes.wait_until_gone(folder)
    cluster.stop()


def test_the_named_binary_must_be_a_program(tmp_path: pathlib.Path) -> None:
    with pytest.raises(pintle.PintleError, match="not a program: .*/missing"):
        pintle.Cluster(binary=tmp_path / "missing").start()


def test_arguments_reach_the_server(tmp_path: pathlib.Path) -> None:
    with pintle.Cluster(["--anonymous-auth=false"]) as cluster:
        authority = tmp_path / "ca.crt"
        encoded = cluster.kubeconfig_dict["clusters"][0]["cluster"]["certificate-authority-data"]
        authority.write_bytes(base64.b64decode(encoded))
        configuration = client.Configuration(host=cluster.url)
        configuration.ssl_ca_cert = str(authority)
        with client.ApiClient(configuration) as anonymous, pytest.raises(ApiException) as refused:
            client.VersionApi(anonymous).get_code()
        assert refused.value.status == 401


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_a_cluster_is_the_version_of_kubernetes_that_was_asked_for(version: str) -> None:
    with pintle.Cluster(kubernetes_version=version) as cluster:
        found = client.VersionApi(cluster.client()).get_code()
        assert f"{found.major}.{found.minor}" == version
        assert found.git_version.startswith(f"v{version}.")
