"""What `scripts/destination-auth` tries: see there. Prints a line for each store and trial with what was counted, and fails if
anything does not hold."""

import argparse
import glob
import json
import os
import re
import ssl
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "browser.d"))
sys.path.insert(1, HERE)

import authority as certificates  # noqa: E402
from authority import Authority  # noqa: E402
from node import ROOT, TARGET, Api, Node, Problem, Store, line, wait_for  # noqa: E402
from receivers import Receiver, aws_judge, demanding  # noqa: E402
from tokens import Client, TokenServer  # noqa: E402

SECRET = "s3cr3t:with/odd+signs ~%"
GOOD_FOR = 3
ONCE = {"schedule_seconds": []}
SOON = {"schedule_seconds": [1, 1, 1, 2, 3, 5], "jitter": 0}


def must(holds, said):
    if not holds:
        raise AssertionError(said)


class World:
    def __init__(self, kind, binary, folder):
        self.kind, self.folder, self.binary = kind, folder, binary
        self.store = Store(kind)
        servers, self.clients, self.strangers = Authority("servers"), Authority("clients"), Authority("strangers")
        self.write("roots.pem", servers.pem())
        server, clients = self.write("server.pem", servers.server()), self.write("clients.pem", self.clients.pem())
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        plain.load_cert_chain(server)
        self.tokens = TokenServer(plain, [
            Client("posthaste", SECRET, ["client_secret_basic"]), Client("poster", SECRET, ["client_secret_post"]),
        ], GOOD_FOR)
        self.demanding = Receiver(demanding(server, clients))
        self.demanding_12 = Receiver(demanding(server, clients, ssl.TLSVersion.TLSv1_2))
        key, operator = line(binary, "keys", "generate"), line(binary, "keys", "generate", "--kind", "operator")
        self.node = Node(binary, {
            "POSTHASTE_MASTER_KEYS": line(binary, "keys", "master"), "POSTHASTE_BOOTSTRAP_API_KEY": key,
            "POSTHASTE_BOOTSTRAP_OPERATOR_KEY": operator, "POSTHASTE_EGRESS_ALLOW": "127.0.0.0/8",
            "POSTHASTE_EGRESS_ALLOW_HTTP": "true", "POSTHASTE_BREAKER_FAILURES": "3", "POSTHASTE_NODE_LEASE": "6s",
            # Whom the system trusts: the authority of these receivers.
            "SSL_CERT_FILE": os.path.join(folder, "roots.pem"), "SSL_CERT_DIR": folder, **self.store.settings(),
        }, "serve")
        self.api = Api(self.node.origin, key)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def destination(self, name, url, auth, **more):
        id = self.api.destination(name, url, **({"auth": auth} if auth else {}), **more)
        self.api.route(id, name)
        return id

    def send(self, name, count=1):
        return [self.api.publish(name, {"n": n, "text": "Zoë \U0001f600"}) for n in range(count)]

    def attempts(self, delivery):
        return self.api.get(f"/v1/deliveries/{delivery}")["attempts"]

    def ended(self, events):
        """Of each event its one delivery with its attempts."""
        found = []
        for event in events:
            its = self.api.ended(event, limit=60)[0]
            found.append((its["status"], its["reason"], self.attempts(its["id"])))
        return found

    def delivered(self, events):
        for status, reason, attempts in self.ended(events):
            must(status == "delivered", f"{reason}: {attempts[-1]}")

    def met(self, name):
        """How the one delivery of an event of this type ended: reason, and of each attempt outcome and error."""
        status, reason, attempts = self.ended(self.send(name))[0]
        return reason or status, [(it["outcome"], it["http_status"], it["error"] and it["error"].get("kind")) for it in attempts], attempts

    def close(self):
        self.tokens.gate.set()
        panics = self.node.panics()
        self.node.close()
        self.store.close()
        must(not panics, panics)


def tokens_expire(world):
    """Events for three lives of a token: no attempt is refused, and each token is asked for once."""
    tokens = world.tokens
    world.destination("expiring", f"{tokens.origin}/hook/expiring", tokens.auth("posthaste", SECRET))
    asked, events, until = tokens.asked, [], time.monotonic() + 3.2 * GOOD_FOR
    while time.monotonic() < until:
        events += world.send("expiring")
        time.sleep(0.05)
    world.delivered(events)
    asked = tokens.asked - asked
    must(tokens.refused == 0, f"{tokens.refused} requests were refused")
    must(3 <= asked <= 6, f"{asked} tokens")
    return f"{len(events)} delivered with {asked} tokens, 0 refused"


def tokens_are_revoked(world):
    """A revoked token is replaced within its delivery, by one request for all that are under way."""
    tokens = world.tokens
    world.destination("revoked", f"{tokens.origin}/hook/revoked", tokens.auth("poster", SECRET, client_auth="client_secret_post"),
                      max_concurrency=20, retry_policy=ONCE)
    world.delivered(world.send("revoked"))
    asked, refused = tokens.asked, tokens.refused
    tokens.revoke()
    events = world.send("revoked", 60)
    world.delivered(events)
    asked, refused = tokens.asked - asked, tokens.refused - refused
    must(1 <= refused <= 20, f"{refused} refused")
    must(1 <= asked <= 2, f"{asked} tokens")
    return f"{len(events)} delivered, {refused} of them refused once, {asked} tokens"


def the_endpoint_is_away(world):
    """Deliveries wait for it by their schedule; the destination is not blamed."""
    tokens = world.tokens
    id = world.destination("away", f"{tokens.origin}/hook/away", tokens.auth("posthaste", SECRET), retry_policy=SOON)
    tokens.away = 503
    events = world.send("away", 10)
    wait_for(lambda: all(it["attempt_count"] >= 2 for it in world.api.deliveries(destination_id=id)), "they are tried twice")
    status = world.api.get(f"/v1/destinations/{id}")["status"]
    tokens.away = None
    world.delivered(events)
    must(status == "active", status)
    outcomes = [it["outcome"] for _, _, attempts in world.ended(events) for it in attempts]
    must(set(outcomes) == {"token_error", "success"}, outcomes)
    return f"{len(events)} delivered after {outcomes.count('token_error')} attempts as token_error, destination {status}"


def the_client_is_refused(world):
    """A wrong secret ends deliveries at once; the right one has them again."""
    tokens = world.tokens
    id = world.destination("refused", f"{tokens.origin}/hook/refused", tokens.auth("posthaste", "wrong"), retry_policy=SOON)
    asked, before = tokens.asked, len(tokens.taken)
    endings = world.ended(world.send("refused", 10))
    must(all(reason == "undeliverable" for _, reason, _ in endings), endings)
    message = endings[0][2][0]["error"]["message"]
    must(message.endswith("answered 401, `invalid_client`"), message)
    must(tokens.asked - asked <= 2, f"asked {tokens.asked - asked} times")
    world.api.patch(f"/v1/destinations/{id}", {"auth": {"client_secret": SECRET}})
    replay = world.api.post("/v1/replays", {"filter": {"destination_id": [id]}})
    wait_for(lambda: world.api.get(f"/v1/replays/{replay['id']}")["delivered"] == 10, "the replay delivers", 60)
    must(len(tokens.taken) - before == 10, "ten were taken")
    return "10 undeliverable with one request for a token, delivered by a replay with the right secret"


def nothing_is_good_enough(world):
    """A destination that refuses every token rejects, after two attempts each."""
    tokens = world.tokens
    world.destination("stubborn", f"{tokens.origin}/hook/stubborn", tokens.auth("posthaste", SECRET), retry_policy=SOON)
    tokens.refuses_all = True
    asked, endings = tokens.asked, world.ended(world.send("stubborn", 5))
    tokens.refuses_all = False
    found = {(reason, tuple(it["http_status"] for it in attempts)) for _, reason, attempts in endings}
    must(found == {("rejected", (401, 401))}, found)
    return f"5 rejected after two attempts each, {tokens.asked - asked} tokens"


def killed_in_between(world):
    """kill -9 between the refusal and the new token: the delivery is neither lost nor rejected."""
    tokens = world.tokens
    world.destination("killed", f"{tokens.origin}/hook/killed", tokens.auth("posthaste", SECRET), retry_policy=ONCE)
    world.delivered(world.send("killed"))
    tokens.revoke()
    tokens.gate.clear()
    asked, events = tokens.asked, world.send("killed", 3)
    wait_for(lambda: tokens.asked > asked, "a new token is asked for")
    wait_for(lambda: all(it["attempt_count"] == 1 for it in world.api.deliveries(event_id=events)), "the refusals are written")
    world.node.process.kill()
    world.node.process.wait()
    tokens.gate.set()
    world.node.start()
    world.delivered(events)
    statuses = [[it["http_status"] for it in attempts] for _, _, attempts in world.ended(events)]
    must(all(it == [401, 204] for it in statuses), statuses)
    return f"{len(events)} delivered: {statuses}"


def certificates_are_shown(world):
    """Destinations of one host, each with a certificate of its own: each request under its own, over connections of its own."""
    names = ["billing", "orders", "stock"]
    counts = {}
    for version, receiver in (("1.3", world.demanding), ("1.2", world.demanding_12)):
        for kind, name in zip(["ec", "rsa", "ec"], names):
            certificate, key = world.clients.client(name, kind)
            auth = {"type": "mtls", "certificate": certificate, "private_key": key}
            path = f"{receiver.origin}/{name}"
            made = world.api.post("/v1/destinations", {"name": name, "url": path, "auth": auth})
            must(made["auth"]["subject"] == f"CN={name}" and made["auth"]["expires_at"], made["auth"])
            must(set(made["auth"]) == {"type", "subject", "expires_at"}, made["auth"])
            world.api.route(made["id"], "shown-" + version)
        events = world.send("shown-" + version, 30)
        for event in events:
            must(all(it["status"] == "delivered" for it in world.api.ended(event, 3)), f"TLS {version}")
        must(len(receiver.came) == 90, len(receiver.came))
        wrong = [each for each in receiver.came if each["path"] != "/" + each["subject"]]
        must(not wrong, wrong[:3])
        users = {}
        for each in receiver.came:
            users.setdefault(each["connection"], set()).add(each["path"])
        must(all(len(paths) == 1 for paths in users.values()), users)
        counts[version] = len(users)
    return f"180 requests over {counts['1.3']} connections of TLS 1.3 and {counts['1.2']} of 1.2, none of them shared"


def certificates_are_refused(world):
    """None, or one of another authority: the destination says no, and the attempt says why."""
    good = world.clients.client("changing")
    found = []
    for name, auth in (("none", None), ("stranger", world.strangers.client("changing"))):
        given = auth and {"type": "mtls", "certificate": auth[0], "private_key": auth[1]}
        id = world.destination("refused-" + name, f"{world.demanding.origin}/{name}", given, retry_policy=SOON)
        ended, attempts, _ = world.met("refused-" + name)
        # A receiver that resets the connection before its reason was read leaves none: that is trouble of the network.
        said = [each for each in attempts if each[0] != "network_error"]
        must((ended, said) == ("tls", [("tls_error", None, "client_certificate")] * 2), (name, ended, attempts))
        found.append(f"{name}: {ended}")
    world.api.patch(f"/v1/destinations/{id}", {"auth": {"certificate": good[0], "private_key": good[1]}})
    world.delivered(world.send("refused-stranger"))
    must([each["subject"] for each in world.demanding.at("/stranger")] == ["changing"], "the new one is shown")
    return ", ".join(found) + "; delivered with another"


def bad_pairs_are_not_kept(world):
    """What would fail in every handshake is refused when it is written, in plain words."""
    over = world.clients.client("over", since=certificates.NOW - 9 * certificates.DAY, until=certificates.NOW - certificates.DAY)
    (first, _), (second, other) = world.clients.client("a"), world.clients.client("b")
    backwards = "".join(re.findall(r"-----BEGIN.*?END CERTIFICATE-----\n", second, re.S)[::-1])
    said = []
    for certificate, key, member in ((*over, "certificate"), (first, other, "private_key"), (first, "hunter2", "private_key"),
                                     (backwards, other, "certificate")):
        try:
            auth = {"type": "mtls", "certificate": certificate, "private_key": key}
            world.api.destination("bad", f"{world.demanding.origin}/bad", auth=auth)
            raise AssertionError(f"it was taken: {member}")
        except Problem as problem:
            must(problem.status == 422 and f'"/auth/{member}"' in problem.body and "hunter2" not in problem.body, problem.body)
            said.append(problem.body)
    must(len(set(said)) == 4, said)
    return f"{len(said)} refused with 422"


def signatures_of_aws_hold(world):
    """Each request is signed as botocore signs what came."""
    keys = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    total = 0
    for service, region, token, path in (
        ("execute-api", "eu-central-1", None, "/prod/hooks"), ("execute-api", "us-east-1", None, "/a%20b//c/%C3%BC/?z=1&a=2&a=1&e="),
        ("lambda", "eu-central-1", "IQoJb3JpZ2luX2VjEXAMPLE//token==", "/"), ("s3", "us-east-1", None, "/bucket/a%20b//c"),
        ("events", "us-west-2", "another//token==", "/?x=%2Fy%3D"),
    ):
        receiver = Receiver(judge=aws_judge(keys, region, service, token))
        auth = {"type": "aws_sigv4", "access_key_id": keys[0], "secret_access_key": keys[1], "region": region, "service": service}
        name = f"signed-{total}"
        world.destination(name, receiver.origin + path, {**auth, **({"session_token": token} if token else {})},
                          headers={"x-amz-target": "Hooks.Put"}, retry_policy=ONCE)
        endings = world.ended(world.send(name, 8))
        wrong = [each["verdict"] for each in receiver.came if each["verdict"]]
        must(not wrong, f"{service} {path}: {wrong[:1]}")
        must(len(receiver.came) == 8 and all(status == "delivered" for status, _, _ in endings), f"{len(receiver.came)} came")
        shown = endings[0][2][0]["request"]["headers"]
        must(shown["authorization"] == "***", shown)
        total += 8
    return f"{total} requests signed as botocore signs them"


def nothing_is_told(world):
    """No value is in an answer, the audit log, the log, or, on SQLite, in a file."""
    told = [json.dumps(world.api.all("/v1/destinations", limit=100)), json.dumps(world.api.all("/v1/audit", limit=100)), world.node.tail()]
    if world.kind == "sqlite":
        for path in glob.glob(os.path.join(world.node.folder, "**", "*"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    told.append(file.read().decode("latin-1"))
    secrets = [SECRET, json.dumps(SECRET)[1:-1], "PRIVATE KEY", "wJalrXUtnFEMI", "IQoJb3JpZ2luX2VjEXAMPLE"]
    for secret in secrets:
        must(not any(secret in text for text in told), f"{secret[:12]} is told")
    return f"{len(secrets)} values in none of {len(told)} places"


TRIALS = [
    tokens_expire, tokens_are_revoked, the_endpoint_is_away, the_client_is_refused, nothing_is_good_enough, killed_in_between,
    certificates_are_shown, certificates_are_refused, bad_pairs_are_not_kept, signatures_of_aws_hold, nothing_is_told,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"])
    parser.add_argument("--binary", type=os.path.abspath, default=os.path.join(ROOT, TARGET, "debug", "posthaste"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    wrong = 0
    for kind in [options.store] if options.store else ["sqlite", "postgres"]:
        with tempfile.TemporaryDirectory(prefix="posthaste-auth-") as folder:
            world = World(kind, options.binary, folder)
            try:
                for trial in (it for it in TRIALS if options.only in it.__name__):
                    began = time.monotonic()
                    try:
                        said = trial(world)
                        print(f"ok    {kind:8} {trial.__name__}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
                    except Exception as failed:  # noqa: BLE001: every trial is tried
                        wrong += 1
                        print(f"WRONG {kind:8} {trial.__name__}: {type(failed).__name__}: {failed}", flush=True)
            finally:
                world.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
