"""A Kubernetes API server for tests.

>>> with pintle.Cluster() as cluster:
...     core = kubernetes.client.CoreV1Api(cluster.client())
"""

from pintle._binary import find_binary
from pintle._cluster import Cluster
from pintle._errors import PintleError

__all__ = ["Cluster", "PintleError", "find_binary"]
