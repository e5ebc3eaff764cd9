"""The lines that docs/signatures.md tells people to write, run as they stand there.

    snippets.py cut DOCUMENT TOOLS      writes each to TOOLS/snippets, by its number and language
    snippets.py try REQUESTS TOOLS      has each believe what a node has sent, and nothing else
"""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

JAVA = """
import java.nio.file.*;
public class Try {
    public static void main(String[] args) throws Exception {
        byte[] body = Files.readAllBytes(Path.of(args[4]));
        System.out.print(new Webhook(args[0]).verify(args[1], args[2], args[3], body));
    }
}
"""


def cut(document, tools):
    folder = os.path.join(tools, "snippets")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    counts = {}
    with open(document) as text:
        for language, lines in re.findall(r"^```(js|python|rust|java|go)\n(.*?)^```", text.read(), re.M | re.S):
            number = counts.get(language, 0)
            counts[language] = number + 1
            with open(os.path.join(folder, f"{number}.{language}"), "w") as out:
                out.write(lines)
    assert counts == {"js": 2, "python": 2, "rust": 1, "java": 1, "go": 1}, counts


def altered(body):
    return body[:-1] + bytes([body[-1] ^ 1])


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def server(command, environment, it, body):
    """What a receiver answers to the request with this body. It listens on a port that is free, and on no other account as it
    is written."""
    port = free_port()
    with open(command[-1]) as lines:
        program = lines.read()
    assert "9000" in program
    moved = f"{os.path.splitext(command[-1])[0]}-{port}.{'mjs' if command[0] == 'node' else 'py'}"
    with open(moved, "w") as out:
        out.write(program.replace("9000", str(port)))
    command = [*command[:-1], moved]
    ours = {name: value for name, value in it["headers"].items() if name.startswith("webhook-")}
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until and process.poll() is None, f"{command} does not listen"
                time.sleep(0.05)
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body, headers=ours)
            return urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as refused:
            return refused.code
    finally:
        process.kill()
        process.wait()
        os.remove(moved)


def tries(folder, tools, it, secret, public):
    """By name, what says whether it believes a body."""
    path = lambda name: os.path.join(folder, name)
    node, python = "node", os.path.join(tools, "venv/bin/python")
    secrets = {"WEBHOOK_SECRET": secret}
    shutil.copy(path("0.js"), os.path.join(tools, "snippet-server.mjs"))
    yield "js", lambda body: server([node, os.path.join(tools, "snippet-server.mjs")], secrets, it, body) == 204
    yield "python", lambda body: server([python, path("0.python")], secrets, it, body) == 204

    def by_js(body):
        with open(path("1.js")) as lines:
            program = lines.read() + "\nimport { readFileSync } from 'node:fs';\n" \
                "const it = JSON.parse(readFileSync(0, 'utf8'));\n" \
                "console.log(verifyV1a(it.key, it.headers, Buffer.from(it.body, 'base64')));\n"
        given = json.dumps({"key": public, "headers": it["headers"], "body": base64.b64encode(body).decode()})
        run = subprocess.run([node, "--input-type=module", "-e", program], input=given, capture_output=True, text=True, check=True)
        return {"true": True, "false": False}[run.stdout.strip()]

    def by_python(body):
        names = {}
        with open(path("1.python")) as lines:
            exec(lines.read(), names)
        return names["verify_v1a"](public, it["headers"], body)

    yield "js, v1a", by_js
    yield "python, v1a", by_python
    if shutil.which("javac"):
        java = os.path.join(folder, "java")
        os.makedirs(java, exist_ok=True)
        shutil.copy(path("0.java"), os.path.join(java, "Webhook.java"))
        with open(os.path.join(java, "Try.java"), "w") as out:
            out.write(JAVA)
        subprocess.run(["javac", "-d", java, os.path.join(java, "Webhook.java"), os.path.join(java, "Try.java")], check=True)

        def by_java(body):
            with open(os.path.join(java, "body"), "wb") as out:
                out.write(body)
            parts = [it["headers"][f"webhook-{part}"] for part in ("id", "timestamp", "signature")]
            run = subprocess.run(["java", "-cp", java, "Try", secret, *parts, os.path.join(java, "body")],
                                 capture_output=True, text=True, check=True)
            return {"true": True, "false": False}[run.stdout.strip()]

        yield "java", by_java
    else:
        print("docs  java: no JDK here, not tried")


def attempt(requests, tools):
    with open(requests) as text:
        requests = [it for it in json.load(text) if it["way"] == "v1 + v1a"]
    folder, failed = os.path.join(tools, "snippets"), False
    found = {}
    for it in requests:
        body = base64.b64decode(it["body"])
        for name, believes in tries(folder, tools, it, it["secrets"][0], it["public_keys"][0]):
            good, bad = found.setdefault(name, ([], []))
            good.append(believes(body))
            bad.append(not believes(altered(body)))
    for name, (good, bad) in found.items():
        failed |= not all(good) or not all(bad)
        print(f"docs  {name:<32} {'v1 + v1a':<15} believed {sum(good)}/{len(good)}, refused {sum(bad)}/{len(bad)}")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit({"cut": cut, "try": attempt}[sys.argv[1]](*sys.argv[2:]))
