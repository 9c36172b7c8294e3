"""The Dockerfile, the compose file and the Kubernetes manifests name files, options and routes that exist."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from harken.cli.app import app as cli
from harken.errors import UserError
from harken.serving.limits import require_keys

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def options_of(verb: str, arguments: list[str]) -> dict[str, Any]:
    """The options that a command would run with; an unknown one raises."""
    command = typer.main.get_command(cli).commands[verb]  # type: ignore[attr-defined]
    parsed: dict[str, Any] = command.make_context(verb, list(arguments)).params
    return parsed


def serve_accepts(arguments: list[str]) -> dict[str, Any]:
    return options_of("serve", arguments)


def instruction(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name}\s+(.*)$", joined, flags=re.MULTILINE)


def manifests(name: str = "kubernetes.yaml") -> dict[str, Any]:
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def test_the_entry_point_is_a_command_of_harken() -> None:
    program, verb, *options = json.loads(instruction("ENTRYPOINT")[0])
    assert (program, verb) == ("harken", "serve")
    found = serve_accepts([*options, "/models/demo"])
    assert found["host"] == "0.0.0.0" and found["port"] == int(instruction("EXPOSE")[0])
    assert found["state"] == Path(instruction("VOLUME")[0])


def test_the_image_does_not_serve_without_keys_and_nothing_says_otherwise() -> None:
    options = serve_accepts([*json.loads(instruction("ENTRYPOINT")[0])[2:], "/models/demo"])
    with pytest.raises(UserError, match="--api-keys FILE"):
        require_keys(options["host"], options["api_keys"], options["no_keys"])
    for path in (ROOT / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "deploy").iterdir()):
        assert "--no-keys" not in path.read_text(encoding="utf-8"), path


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in instruction("COPY"):
        if line.startswith("--from"):
            continue
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored


def test_the_image_runs_as_a_user_without_rights() -> None:
    (user,) = instruction("USER")
    assert user.isdigit() and int(user) > 0
    for pod in all_pods():
        security = pod["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] == security["fsGroup"] == int(user)
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
            assert mounted["tmp"] == "/tmp"


def all_pods() -> list[Any]:
    """The pods of all manifests."""
    ray = manifests("kuberay.yaml")
    clusters = [ray["RayService"]["spec"]["rayClusterConfig"], ray["RayJob"]["spec"]["rayClusterSpec"]]
    groups = [group for cluster in clusters for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    return [part["template"]["spec"] for part in (manifests()["Deployment"]["spec"], *groups)]


def test_health_checks_ask_a_route_of_the_server(capital_client: Any) -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    asked = {
        probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert asked == {"startupProbe": "/ready", "readinessProbe": "/ready", "livenessProbe": "/health"}
    (check,) = instruction("HEALTHCHECK")
    assert re.findall(r"127\.0\.0\.1:5000(/\w+)", check) == ["/health"]
    assert capital_client.get("/health").status_code == 200


def test_compose_gives_keys_by_a_secret_and_a_root_that_cannot_be_written() -> None:
    file = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    service = file["services"]["harken"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
    assert service["security_opt"] == ["no-new-privileges:true"] and service["ports"] == ["127.0.0.1:5000:5000"]
    options = serve_accepts(service["command"])
    assert options["models"] == ["/models/demo"]
    (secret,) = service["secrets"]
    assert options["api_keys"] == Path("/run/secrets") / secret and secret in file["secrets"]
    assert [volume.split(":")[1] for volume in service["volumes"]] == ["/models", *instruction("VOLUME")]
    assert "state" in file["volumes"]


def test_kubernetes_gives_keys_by_a_secret_and_a_root_that_cannot_be_written() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert serve_accepts(container["args"])["api_keys"] == Path("/keys/keys.json")
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"models": "/models", "keys": "/keys", "state": "/state", "tmp": "/tmp"}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert volumes["keys"] == {"secret": {"secretName": "harken-keys", "defaultMode": 0o440}}
    assert volumes["state"] == volumes["tmp"] == {"emptyDir": {}}


def test_kuberay_names_an_application_and_a_command_that_exist() -> None:
    found = manifests("kuberay.yaml")
    config = yaml.safe_load(found["RayService"]["spec"]["serveConfigV2"])
    (application,) = config["applications"]
    module, _, name = application["import_path"].partition(":")
    deployment = importlib.import_module(module)
    assert callable(getattr(deployment, name)) and application["name"] == deployment.NAME
    given = deployment.ApplicationSettings(**application["args"])
    assert (given.models, given.settings.workers, given.max_workers) == (["/models/demo"], 2, 16)
    assert given.settings.api_keys == Path("/keys/keys.json")
    assert not config["logging_config"]["enable_access_log"]  # a query string may carry a text
    program, verb, *arguments = shlex.split(found["RayJob"]["spec"]["entrypoint"])
    options = options_of(verb, arguments)
    assert program == "harken" and options["engine"] == "ray" and options["resume"] == Path("/data/out.txt")


def test_pods_of_kuberay_run_one_image_and_report_nothing() -> None:
    found = manifests("kuberay.yaml")
    service, job = found["RayService"]["spec"]["rayClusterConfig"], found["RayJob"]["spec"]["rayClusterSpec"]
    for cluster in (service, job):
        assert cluster["authOptions"] == {"mode": "token"}
        assert f"ray[serve,data]=={cluster['rayVersion']}" in DOCKERFILE
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            pod = group["template"]["spec"]
            (container,) = pod["containers"]
            assert container["image"] == "harken-ray:latest"
            assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
