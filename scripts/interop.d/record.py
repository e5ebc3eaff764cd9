"""Requests that a real node sends, by every way to sign and of every kind of body, written down for the libraries.

    record.py BINARY FILE
"""

import base64
import json
import os
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/api/openapi"))
from node import Node, Receiver  # noqa: E402

BODIES = {
    "empty object": "{}",
    "astral characters": json.dumps({"text": "Ünï€ 😀 𝔘 \u2028", "deep": [{"a": 1.50}]}, ensure_ascii=False),
    "1 MiB": json.dumps({"pad": "🦀x" * (1 << 20)}, ensure_ascii=False).encode()[: 1 << 20].decode(errors="ignore")[:-8] + '"}',
}
# What a destination is made with, and what is rotated afterwards.
WAYS = {
    "v1": ({}, []),
    "v1 rotated": ({}, ["secret"]),
    "v1 + v1a": ({"ed25519": True}, []),
    "v1a": ({"scheme": "none", "ed25519": True}, []),
    "v1a rotated": ({"scheme": "none", "ed25519": True}, ["key_pair"]),
    "svix": ({"svix_headers": True}, []),
    "svix rotated": ({"svix_headers": True}, ["secret"]),
    "stripe": ({"scheme": "stripe"}, []),
    "stripe rotated": ({"scheme": "stripe"}, ["secret"]),
    "github": ({"scheme": "github"}, []),
    "github rotated": ({"scheme": "github"}, ["secret"]),
}


def main(binary, file):
    receiver = Receiver()
    with Node(binary) as node:
        def asked(method, path, body):
            request = urllib.request.Request(node.url + path, method=method, data=body)
            request.add_header("authorization", f"Bearer {node.key}")
            request.add_header("content-type", "application/json")
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)

        def post(path, **members):
            return asked("POST", path, json.dumps(members).encode())

        made = {}
        for way, (signing, rotated) in WAYS.items():
            destination = post("/v1/destinations", name=way, url=f"{receiver.url}?{len(made)}", signing=signing,
                               headers={"x-way": way})
            post("/v1/routes", destination_id=destination["id"], event_types=["interop.*"])
            keys = {"secrets": [destination["signing"]["secret"]],
                    "public_keys": [destination["signing"].get("public_key")]}
            for which in rotated:
                changed = post(f"/v1/destinations/{destination['id']}/rotate-secret", which=which)["signing"]
                if which == "secret":
                    keys["secrets"].insert(0, changed["secret"])
                else:
                    keys["public_keys"].insert(0, changed["public_key"])
            keys["public_keys"] = [key for key in keys["public_keys"] if key]
            made[way] = keys
        for at, body in enumerate(BODIES.values()):
            json.loads(body)
            event = b'{"type":"interop.n%d","data":' % at + body.encode() + b"}"
            asked("POST", "/v1/events", event)
        until = time.monotonic() + 60
        while len(receiver.requests) < len(WAYS) * len(BODIES):
            assert time.monotonic() < until, f"{len(receiver.requests)} requests have come"
            time.sleep(0.05)
    names = {body.encode(): name for name, body in BODIES.items()}
    requests = [
        {"way": headers["x-way"], "body_is": names[body], "headers": headers, **made[headers["x-way"]],
         "body": base64.b64encode(body).decode()}
        for headers, body in receiver.requests
    ]
    assert {(it["way"], it["body_is"]) for it in requests} == {(way, name) for way in WAYS for name in BODIES}
    with open(file, "w") as out:
        json.dump(requests, out)
    sizes = ", ".join(f"{name} ({len(body.encode())} bytes)" for name, body in BODIES.items())
    print(f"{len(requests)} requests of a node: {len(WAYS)} ways to sign; {sizes}")


if __name__ == "__main__":
    main(*sys.argv[1:])
