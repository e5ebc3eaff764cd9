"""Thousands of requests made up from the document, by schemathesis, to a node of its own: no answer is a 5xx, none has a
status, a content type or a body that the document does not say, and what fits the document is refused only for what one of
its sentences says (refusals.json). The stream is left out: it has no end.

    fuzz.py BINARY DOCUMENT [CASES]
"""

import json
import os
import subprocess
import sys
import time
import urllib.request

from node import Node, Receiver

HERE = os.path.dirname(os.path.abspath(__file__))

def main(binary, document, cases=5000):
    receiver = Receiver()
    with Node(binary) as node:
        account, spare_account = ask(node, "/v1/account")["id"], made(node, "/v1/accounts", {"name": "Spare"}, node.operator_key)
        seeds = {"acc": account, **seed(node, receiver)}
        spares = {"acc": spare_account, **seed(node, receiver)}
        operations = count_operations(document)
        tally = os.path.join(node.folder.name, "tally")
        environment = {
            **os.environ, "PYTHONPATH": HERE, "SCHEMATHESIS_HOOKS": "fuzz_hooks",
            "TRIAL": json.dumps({
                "key": node.key, "operator_key": node.operator_key, "receiver": receiver.url, "seeds": seeds,
                "spares": spares, "document": os.path.abspath(document), "tally": tally,
            }),
        }
        # About as many again come of covering what the document says value by value.
        command = [
            os.path.join(os.path.dirname(sys.executable), "schemathesis"),
            "--config-file", os.path.join(HERE, "schemathesis.toml"), "run", os.path.abspath(document),
            "--url", node.url, "--phases", "examples,coverage,fuzzing",
            "--exclude-operation-id", "follow_stream", "--continue-on-failure", "--no-shrink", "--seed", "1",
            "--suppress-health-check", "all", "--workers", "1", "--max-examples", str(max(5, cases // operations // 2)),
        ]
        ended = subprocess.run(command, env=environment, cwd=node.folder.name)
        with open(tally) as kept:
            sent = sum(1 for _ in kept)
        alive = node.is_alive()
    print(f"{sent} requests, the node is {'up' if alive else 'DOWN'}")
    if sent < cases:
        sys.exit(f"that is fewer than {cases}")
    sys.exit(ended.returncode if alive else 1)


def ask(node, path, body=None, key=None):
    request = urllib.request.Request(node.url + path)
    request.add_header("authorization", f"Bearer {key or node.key}")
    data = None
    if body is not None:
        request.add_header("content-type", "application/json")
        data = json.dumps(body).encode()
    with urllib.request.urlopen(request, data) as answer:
        return json.load(answer)


def made(node, path, body, key=None):
    return ask(node, path, body, key)["id"]


def seed(node, receiver):
    """One of everything, so that ids of the made-up requests can be ids of something."""
    source = ask(node, "/v1/sources", {"name": "Shop"})
    destination = made(node, "/v1/destinations", {"name": "Orders", "url": receiver.url})
    route = made(node, "/v1/routes", {"destination_id": destination})
    event = made(node, "/v1/events", {"type": "order.paid", "data": {}})
    while ask(node, f"/v1/events/{event}")["fanout"]["completed_at"] is None:
        time.sleep(0.05)
    delivery = ask(node, f"/v1/deliveries?event_id={event}")["data"][0]["id"]
    return {
        "src": source["id"], "token": source["ingest_url"].rsplit("/", 1)[1], "dst": destination, "rte": route, "evt": event,
        "dlv": delivery, "rpl": made(node, "/v1/replays", {"delivery_ids": [delivery]}),
        "key": made(node, "/v1/api-keys", {"name": "another"}),
    }


def count_operations(document):
    with open(document) as text:
        return sum(len(item) for item in json.load(text)["paths"].values())


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:4]))
