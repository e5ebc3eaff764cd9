"""What the libraries from PyPI say to the requests that a node has sent, and Ed25519 by `cryptography`."""

import base64
import json
import sys
import time
from datetime import datetime, timezone

import standardwebhooks.webhooks
import stripe
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook as StandardWebhook
from svix.webhooks import Webhook as SvixWebhook

OTHER = "whsec_" + base64.b64encode(bytes([9] * 32)).decode()
OTHER_KEY = "whpk_" + base64.b64encode(bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")).decode()
real_time = time.time


class Shifted(datetime):
    """The clock that the libraries ask."""

    at = None

    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(cls.at if cls.at is not None else real_time(), tz)


standardwebhooks.webhooks.datetime = Shifted


def ed25519(it, key, body):
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    headers = it["headers"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for entry in headers["webhook-signature"].split(" "):
        if entry.startswith("v1a,"):
            try:
                return public.verify(base64.b64decode(entry[4:]), signed)
            except InvalidSignature:
                pass
    raise InvalidSignature


def by(webhook, family=""):
    def check(it, key, body):
        headers = {name: value for name, value in it["headers"].items() if name.startswith(family)}
        webhook(key).verify(body, headers)
    return check


def by_stripe(it, key, body):
    stripe.WebhookSignature.verify_header(body.decode(), it["headers"]["stripe-signature"], key, tolerance=300)


V1, V1A = ["v1", "v1 rotated", "v1 + v1a"], ["v1a", "v1a rotated", "v1 + v1a"]
CHECKS = [
    ("standardwebhooks", V1, "secrets", by(StandardWebhook), (301, -301)),
    ("svix, webhook-*", V1, "secrets", by(SvixWebhook), (301, -301)),
    ("svix, svix-*", ["svix", "svix rotated"], "secrets", by(SvixWebhook, "svix-"), (301, -301)),
    ("cryptography, Ed25519", V1A, "public_keys", ed25519, ()),
    ("stripe", ["stripe", "stripe rotated"], "secrets", by_stripe, (301,)),
]


def tried(check, it, key, body):
    try:
        check(it, key, body)
        return True
    except Exception:
        return False


def main(file):
    with open(file) as text:
        requests = json.load(text)
    for it in requests:
        it["body"] = base64.b64decode(it["body"])
    failed = False
    for name, ways, of, check, shifts in CHECKS:
        for way in ways:
            good = wanted = bad = tries = 0
            for it in (it for it in requests if it["way"] == way):
                body = it["body"]
                for key in it[of]:
                    wanted += 1
                    good += tried(check, it, key, body)
                    refused = [(key, body[:-1] + bytes([body[-1] ^ 1]), None)]
                    refused += [(key, body, int(it["headers"]["webhook-timestamp"]) + shift) for shift in shifts]
                    for key_of_one, of_one, at in refused:
                        tries += 1
                        Shifted.at = at
                        time.time = (lambda now: lambda: now)(at) if at is not None else real_time
                        bad += not tried(check, it, key_of_one, of_one)
                        Shifted.at, time.time = None, real_time
                tries += 1
                bad += not tried(check, it, OTHER if of == "secrets" else OTHER_KEY, body)
            failed |= good != wanted or bad != tries or wanted == 0
            print(f"PyPI  {name:<32} {way:<15} believed {good}/{wanted}, refused {bad}/{tries}")
    for name, webhook in (("standardwebhooks", StandardWebhook), ("svix", SvixWebhook)):
        alone = [it for it in requests if it["way"] == "v1a"]
        bad = sum(not tried(by(webhook), it, it["secrets"][0], it["body"]) for it in alone)
        failed |= bad != len(alone) or not alone
        print(f"PyPI  {name:<32} {'v1a':<15} knows it not: refused {bad}/{len(alone)}")
    sys.exit(1 if failed else 0)


main(*sys.argv[1:])
