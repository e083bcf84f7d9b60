"""The cluster's API, by the official Python client; every failure is one line."""

import json
from typing import Any
from urllib.parse import urlencode

import yaml

from checkout import setup_command
from cluster.backends.kubernetes.model import Manifest
from user_error import UserError

PATHS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
}
ANSWERS_WITHIN_S = (10.0, 60.0)
LONGEST = 300
# What the client raises where the configuration is no YAML, or has something else in it.
MALFORMED = (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError)


class KubernetesFailed(Exception):
    """A request that failed; the text is the reason in one line."""

    def __init__(self, text: str, status: int = 0):
        super().__init__(" ".join(text.split())[:LONGEST])
        self.status = status


class KubernetesAway(KubernetesFailed):
    """There was no answer, and there may be one later."""


class Cluster:
    """A namespace of a cluster, as the user's configuration reaches it."""

    def __init__(self, namespace: str, context: str):
        try:
            from kubernetes import client, config
        except ImportError:
            raise UserError(
                "--backend=kubernetes needs Kubernetes' Python client: run "
                f"{setup_command('kubernetes', '--kubernetes')}."
            ) from None
        settings = client.Configuration()
        self.context, default = "", "default"  # in a pod, which has no contexts
        try:
            config.load_kube_config(context=context or None, client_configuration=settings)
            self.context, default = _context_of(config, context)
        except (config.ConfigException, OSError, *MALFORMED) as error:
            try:
                if context:  # another cluster than that of the pod in which this may run
                    raise config.ConfigException
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException:
                raise UserError(
                    f"no cluster is configured ({' '.join(str(error).split())}). Log in to one, or "
                    "name its file in KUBECONFIG, or its context with --kube_context."
                ) from None
        settings.retries = False
        self.namespace = namespace or default
        self._client = client.ApiClient(settings)
        self._host = settings.host

    def create(self, manifest: Manifest, only_check: bool = False) -> None:
        """Creates an object, or lets the cluster say whether it would."""
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if only_check else {})}
        self._request("POST", self._path(manifest["kind"]), query, manifest)

    def find(self, kind: str, name: str) -> Manifest | None:
        """An object, or None."""
        try:
            return json.loads(self._request("GET", f"{self._path(kind)}/{name}"))
        except KubernetesFailed as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, selector: str) -> list[Manifest]:
        """The objects with these labels."""
        answer = self._request("GET", self._path(kind), {"labelSelector": selector})
        return json.loads(answer)["items"]

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object, and then what it owns; one that is gone already is no error."""
        try:
            query = {"propagationPolicy": "Background"}
            self._request("DELETE", f"{self._path(kind)}/{name}", query)
        except KubernetesFailed as error:
            if error.status != 404:
                raise

    def log(self, pod: str, **query: Any) -> str:
        """The log of a pod, each line after its time; "" where there is none yet."""
        try:
            path = f"{self._path('Pod')}/{pod}/log"
            answer = self._request("GET", path, {"timestamps": "true", **query})
        except KubernetesFailed as error:
            if error.status in (400, 404):  # its container waits, or has been removed
                return ""
            raise
        return answer.decode(errors="replace")

    def _path(self, kind: str) -> str:
        return PATHS[kind].format(self.namespace)

    def _request(
        self, method: str, path: str, query: dict[str, Any] | None = None, body: Any = None
    ) -> bytes:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            request = self._client.param_serialize(
                method,
                path + (f"?{urlencode(query)}" if query else ""),
                header_params={"Accept": "application/json, */*"},
                body=body,
                auth_settings=["BearerToken"],
            )
            if body is not None:
                request[2]["Content-Type"] = "application/json"
            answer = self._client.call_api(*request, _request_timeout=ANSWERS_WITHIN_S)
            content = answer.read()
        except (HTTPError, ApiException, OSError) as error:
            raise KubernetesAway(f"{self._host} does not answer ({_reason(error)})") from None
        if answer.status >= 300:
            raise KubernetesFailed(_refusal(content, answer.status, path), answer.status)
        return content


def _context_of(config: Any, context: str) -> tuple[str, str]:
    """The name of the context that is given, or of the current one, and its namespace."""
    contexts, active = config.list_kube_config_contexts()
    named = [one for one in contexts if one["name"] == context]
    used = named[0] if named else active
    return used["name"], used["context"].get("namespace", "default")


def _reason(error: Exception) -> str:
    said = str(getattr(error, "reason", "") or error)
    return said.rpartition(": ")[2].strip("() ") or type(error).__name__


def _refusal(content: bytes, status: int, path: str) -> str:
    """What the API says in its answer."""
    try:
        said = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        said = f"HTTP {status}"
    if status == 404 and "mpijobs" in path:
        return f"several learners need Kubeflow's MPI operator in the cluster ({said})"
    if status in (401, 403):
        return f"you are not allowed to: {said}"
    return said
