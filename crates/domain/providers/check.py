"""What the providers' own packages on PyPI say to the requests that our rules are tried against: each is believed as it is, and
none with another body."""
import json
import sys
import types
from datetime import datetime, timezone
from urllib.parse import parse_qsl

import Adyen
import stripe
from discord_interactions import verify_key
from hubspot.utils.signature import Signature
from paddle_billing.Notifications import Secret, Verifier
from sendgrid.helpers.eventwebhook import EventWebhook
from slack_sdk.signature import SignatureVerifier
from square.utils import webhooks_helper
from standardwebhooks.webhooks import Webhook as StandardWebhook
from svix.webhooks import Webhook as SvixWebhook
from twilio.request_validator import RequestValidator
from werkzeug.datastructures import MultiDict


def by_stripe(it, headers):
    try:
        return stripe.WebhookSignature.verify_header(it["body"], headers["stripe-signature"], it["secret"], tolerance=None)
    except stripe.SignatureVerificationError:
        return False


def by_signing(webhook):
    """Their verifiers ask the clock; what they sign is compared instead."""

    def check(it, headers):
        if not it["secret"].startswith("whsec_"):
            return None
        family = "svix" if "svix-id" in headers else "webhook"
        at = datetime.fromtimestamp(int(headers[f"{family}-timestamp"]), timezone.utc)
        return webhook(it["secret"]).sign(headers[f"{family}-id"], at, it["body"]) in headers[f"{family}-signature"]

    return check


def by_twilio(it, headers):
    validator = RequestValidator(it["secret"])
    is_form = "form" in headers["content-type"]
    body = MultiDict(parse_qsl(it["body"], keep_blank_values=True)) if is_form else it["body"]
    return validator.validate(it["url"], body, headers["x-twilio-signature"])


def by_slack(it, headers):
    clock = types.SimpleNamespace(now=lambda: it["at"])
    verifier = SignatureVerifier(it["secret"], clock)
    return verifier.is_valid(it["body"], headers["x-slack-request-timestamp"], headers["x-slack-signature"])


def by_paddle(it, headers):
    request = types.SimpleNamespace(body=it["body"].encode(), headers={"Paddle-Signature": headers["paddle-signature"]})
    return Verifier().verify(request, Secret(it["secret"]), verify_time_drift=False)


def by_hubspot(it, headers):
    if "?" in it["url"]:
        return None  # it leaves the escapes of a URL to its caller
    found = Signature.get_signature(
        it["secret"], it["body"], "v3", it["url"], "POST", headers["x-hubspot-request-timestamp"])
    return found == headers["x-hubspot-signature-v3"]


def by_discord(it, headers):
    return verify_key(it["body"].encode(), headers["x-signature-ed25519"], headers["x-signature-timestamp"], it["secret"])


def by_sendgrid(it, headers):
    name = "x-twilio-email-event-webhook-"
    return EventWebhook(it["secret"]).verify_signature(it["body"], headers[name + "signature"], headers[name + "timestamp"])


def by_square(it, headers):
    return webhooks_helper.verify_signature(
        request_body=it["body"], signature_header=headers["x-square-hmacsha256-signature"], signature_key=it["secret"],
        notification_url=it["url"])


def by_adyen(it, headers):
    return Adyen.util.is_valid_hmac_notification(json.loads(it["body"]), it["secret"])


CHECKS = [
    ("stripe", "stripe", by_stripe), ("standardwebhooks", "standard", by_signing(StandardWebhook)),
    ("svix", "standard", by_signing(SvixWebhook)), ("twilio", "twilio", by_twilio), ("slack_sdk", "slack", by_slack),
    ("paddle-python-sdk", "paddle", by_paddle), ("hubspot-api-client", "hubspot", by_hubspot),
    ("discord-interactions", "discord", by_discord), ("sendgrid", "sendgrid", by_sendgrid),
    ("squareup", "square", by_square), ("Adyen", "adyen", by_adyen),
]

failed = False
vectors = json.load(open(sys.argv[1]))
for package, kind, check in CHECKS:
    good = bad = 0
    for it in (it for it in vectors if it["type"] == kind):
        headers = dict(it["headers"])
        found = check(it, headers)
        if found is None:
            continue
        signed = it["signed"] or it["body"]
        # A digit of what is signed; a letter where there is none.
        places = [n for n, c in enumerate(signed) if c.isdigit()] or [n for n, c in enumerate(signed) if c.isalpha()]
        at = it["body"].index(signed) + places[0]
        other = "1" if it["body"][at] != "1" else "2"
        altered = check({**it, "body": it["body"][:at] + other + it["body"][at + 1:]}, headers)
        good, bad = good + bool(found), bad + (not altered)
        failed |= not found or bool(altered)
    failed |= good == 0
    print(f"PyPI {package:<24} {kind:<10} {good} believed, {bad} altered ones not")
sys.exit(failed)
