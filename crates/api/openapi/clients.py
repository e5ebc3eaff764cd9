"""Tries the generated clients on a node of its own, and holds what we send against what the document says of it.

    clients.py BINARY DOCUMENT COMMAND...      each COMMAND is a client: a program in one argument
"""

import json
import os
import re
import shlex
import subprocess
import sys

from node import Node, Receiver


def main(binary, document, *clients):
    for client in clients:
        receiver = Receiver()
        with Node(binary) as node:
            environment = {
                **os.environ, "POSTHASTE_URL": node.url, "POSTHASTE_KEY": node.key, "RECEIVER_URL": receiver.url,
            }
            subprocess.run(shlex.split(client), env=environment, check=True, timeout=60)
        compare(document, receiver.requests)
        print(f"works: {client}")


def compare(document, requests):
    """Every header that is required is there, none of ours is there that is not described, and each fits its schema."""
    with open(document) as text:
        described = json.load(text)
    parameters = {header["name"]: header for header in described["webhooks"]["delivery"]["post"]["parameters"]}
    assert requests, "nothing was delivered"
    for headers, _ in requests:
        for name, header in parameters.items():
            schema = header["schema"]
            if "$ref" in schema:
                schema = described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            if name in headers:
                assert re.search(schema.get("pattern", ""), headers[name]), (name, headers[name])
            else:
                assert not header["required"], f"{name} is not sent"
        ours = [name for name in headers if name.startswith(("webhook-", "posthaste-", "svix-"))]
        unknown = [name for name in ours if name not in parameters]
        assert not unknown, f"sent and not described: {unknown}"


if __name__ == "__main__":
    main(*sys.argv[1:])
