"""What the image's own Python sees on every node of a Ray cluster; runs alone inside the image.

    docker exec -i HEAD python3 - '{"names": […], "weights": […], "seconds": 30}' < rayprobe.py

One task a node, held to it by node affinity (``soft=False``: elsewhere it would report another
node's facts) with no CPU (a busy node would keep it waiting). Everything has a time limit: with a
wrong token Ray waits without a word.
"""

import json
import os
import socket
import sys
import threading


def look(names, weights):
    """Return what one process sees: variables, hashed where they are secrets, and weights."""
    import hashlib
    import re

    import ray

    values = {}
    for name in names:
        value = os.environ.get(name)
        if value is not None and re.search(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY($|_)", name):
            value = "sha256:" + hashlib.sha256(value.encode()).hexdigest()
        values[name] = value
    sizes = {}
    for folder in weights:
        total = 0
        try:
            for entry in os.scandir(folder):
                if entry.name.endswith(".safetensors"):
                    total += entry.stat().st_size
        except OSError:
            total = 0
        sizes[folder] = total
    return {
        "node": ray.get_runtime_context().get_node_id(),
        "host": socket.gethostname(),
        "environment": values,
        "weights": sizes,
        "versions": [
            "python " + ".".join(map(str, sys.version_info[:3])),
            "ray " + ray.__version__,
        ],
    }


def probe(asked):
    """Ask every living node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address=asked.get("address") or "auto", log_to_driver=False, logging_level="ERROR")
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    found = []
    waiting = []
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        about = {
            "node": node["NodeID"],
            "host": node.get("NodeManagerHostname") or node.get("NodeManagerAddress"),
            "gpus": node.get("Resources", {}).get("GPU", 0),
        }
        strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        try:
            reference = task.options(scheduling_strategy=strategy).remote(
                asked["names"], asked["weights"]
            )
        except Exception as error:  # noqa: BLE001 - one node hides no other
            found.append({**about, "environment": {}, "error": type(error).__name__})
            continue
        waiting.append((about, reference))
    for about, reference in waiting:
        try:
            said = ray.get(reference, timeout=asked["seconds"])
            if said["node"] != about["node"]:
                said["error"] = "another node answered"
            found.append({**about, **said})
        except Exception as error:  # noqa: BLE001 - one node hides no other
            found.append({**about, "environment": {}, "error": type(error).__name__})
    return found


def main():
    """Print one JSON document, or leave with 3 after the time limit."""
    asked = json.loads(sys.argv[1])
    done = []

    def work():
        try:
            done.append({"schema": 1, "nodes": probe(asked)})
        except BaseException as error:  # noqa: BLE001 - told below
            done.append({"schema": 1, "error": "%s: %s" % (type(error).__name__, error)})

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(asked["seconds"] * 2)
    if not done:
        done.append({"schema": 1, "error": "the cluster did not answer in time"})
    sys.stdout.write(json.dumps(done[0]) + "\n")
    sys.stdout.flush()
    # Ray's threads would keep the process
    os._exit(3 if "error" in done[0] else 0)


if __name__ == "__main__":
    main()
