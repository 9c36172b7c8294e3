"""The Ray engines on a cluster of two nodes on this machine, of which one is killed in the middle.

Needs the extra `ray`. Figures are printed: pytest -s.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app as cli
from harken.serving.ray.cluster import import_ray

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'harken[ray]'"),
]

SOURCE = str(Path(harken.__file__).parents[1])
STORE = 100 * 2**20  # bytes of shared memory of a node
WORDS = ("the", "black", "cat", "sleeps", "a", "queen", "reads", "and", "dogs", "run")


def sentence(number: int) -> str:
    return " ".join(WORDS[number // 10**place % 10] for place in range(2 + number % 4))


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of a head and another node, each with one core; `kill_node` kills the other one."""
    ray = import_ray("serve")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.setenv("HARKEN_KERNELS", "off")  # nothing is compiled here
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    node = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        other = cluster.add_node(num_cpus=1, object_store_memory=STORE)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        cluster.kill_node = lambda: cluster.remove_node(other, allow_graceful=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def alive() -> int:
    return sum(node["Alive"] for node in import_ray("data").nodes())


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_batch_job_loses_and_doubles_nothing_where_a_node_dies(
    two_nodes: Any, tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harken.cli.jobs import translate_ray

    monkeypatch.setattr(translate_ray, "SHARD_LINES", 40)
    folder, source, out, whole = (tiny_model("phrasebook-transformer"), *(tmp_path / name for name in "iow"))
    lines = [sentence(number) if number % 50 else "" for number in range(1200)]
    source.write_text("".join(f"{line}\n" for line in lines))
    command = ("translate", folder, source, "--beam", 2, "--scores", "--batch", 20)
    assert run(*command, "--out", whole).exit_code == 0
    killed_at: list[int] = []

    def kill() -> None:
        parts = tmp_path / ".o.parts"
        while not killed_at:
            done = out.read_bytes().count(b"\n") if out.exists() else 0
            if done + 40 * len(list(parts.glob("*.json"))) >= 200:
                two_nodes.kill_node()
                killed_at.append(done)
            time.sleep(0.05)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    started = time.monotonic()
    done = run(*command, "--engine", "ray", "--out", out)
    seconds = time.monotonic() - started
    assert done.exit_code == 0, done.stderr
    assert killed_at and killed_at[0] < len(lines) and alive() == 1
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.glob(".o.*")) == [".o.resume.json"]
    print(f"\n{len(lines)} lines in {seconds:.1f} s, node killed after {killed_at[0]} lines")

    # A job that was killed is continued: what is there stays, the rest is translated.
    record = tmp_path / ".o.resume.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "complete": False}))
    out.write_bytes(whole.read_bytes()[: len(whole.read_bytes()) * 2 // 3])
    done = run(*command, "--engine", "ray", "--resume", out)
    assert done.exit_code == 0 and "Continuing" in done.stderr
    assert out.read_bytes() == whole.read_bytes()


def test_no_request_is_lost_where_a_node_dies(two_nodes: Any, tiny_model: Callable[[str], Path]) -> None:
    import httpx

    from harken.serving.app import listen
    from harken.serving.ray.deployment import NAME, ApplicationSettings, application
    from harken.serving.settings import ServerSettings

    folder = tiny_model("phrasebook-transformer")
    wanted = {text: harken.load(folder, "cpu").translate(text).text for text in map(sentence, range(25))}
    serve = import_ray("serve").serve
    settings = ServerSettings(workers=2, timeout=300, stop_seconds=5)
    quiet = {"log_level": "ERROR", "enable_access_log": False}
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    serve.start(proxy_location="HeadOnly", http_options={"port": port}, logging_config=quiet)
    try:
        serve.run(application(ApplicationSettings(models=[str(folder)], settings=settings)), name=NAME)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=310) as client:
            for _ in range(600):
                if client.get("/ready").status_code == 200:
                    break
                time.sleep(0.5)
            assert client.get("/ready").json() == client.get("/health").json() == {"status": "ok"}
            assert "translate" in client.get("/v1/models").json()["models"][0]["operations"]
            bad = client.post("/translate", json={"q": "a", "source": "en", "target": "xx"})
            assert bad.status_code == 400 and bad.json()["error"].startswith("xx is not supported; served: ")
            late = client.post("/v1/translate", json={"text": ["the cat"] * 200, "timeout": 0.001})
            assert late.status_code == 504
            with client.stream("POST", "/v1/translate", json={"text": sentence(7), "stream": True}) as events:
                read = [line for line in events.iter_lines() if line]
            assert events.status_code == 200 and read[-2] == "event: done"
            assert json.loads(read[-1].removeprefix("data: "))["text"] == wanted[sentence(7)]

            statuses: list[int] = []
            kill_at, total = 40, 200

            def send(number: int) -> bool:
                if number == kill_at:
                    two_nodes.kill_node()
                text = sentence(number % 25)
                answer = client.post("/v1/translate", json={"text": text})
                statuses.append(answer.status_code)
                return answer.json()["results"][0]["hypotheses"][0]["text"] == wanted[text]

            started = time.monotonic()
            with ThreadPoolExecutor(8) as pool:
                right = list(pool.map(send, range(total)))
            seconds = time.monotonic() - started
            metrics = client.get("/metrics").text
        assert statuses.count(200) == total and all(right)
        assert alive() == 1
        resent = next(line for line in metrics.splitlines() if line.startswith("harken_worker_restarts_total"))
        print(f"\n{total} requests in {seconds:.1f} s, all answered and right; node killed at {kill_at}; {resent}")
    finally:
        serve.shutdown()
