"""Sources, destinations and routes: made, changed, tried and deleted by their forms."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request

from node import Problem, wait_for, wait_until_is
from tab import it, want
from world import trial


def gone(api, path):
    try:
        api.get(path)
    except Problem as problem:
        return problem.status == 404


@trial(short=True)
def a_destination_is_added_changed_tested_and_deleted(world):
    tab, name = world.page("/destinations"), world.name("billing")
    tab.leaves(lambda: tab.click(it("main a, header a", "/^Add/", within="body")))
    tab.fill(it("input[name=name]"), name)
    tab.fill(it("input[name=url]"), world.receiver.url(f"/{name}"))
    with tab.allowing("422"):
        if not tab.count(it("input[name=max_concurrency]")):
            tab.click(it("summary", "Limits"))
        tab.fill(it("input[name=max_concurrency]"), "5000")
        tab.run("document.querySelector('form[data-form]').noValidate = true")
        tab.click(it("form[data-then=destination] button[type=submit]"))
        tab.shows(it(".field-problem"))
    tab.fill(it("input[name=max_concurrency]"), "")
    tab.fill(it("input[name='rate_limit.requests']"), "50")
    tab.leaves(lambda: tab.click(it("form[data-then=destination] button[type=submit]")))
    made = tab.path().split("/")[2].split("?")[0]
    kept = world.api.get(f"/v1/destinations/{made}")
    want(kept["name"] == name and kept["rate_limit"] == {"requests": 50, "per_seconds": 1}, f"the API has it: {kept}")
    want(any(route["destination_id"] == made for route in world.api.all("/v1/routes", limit=200)), "and the route to it")

    # A test, with the answer inline.
    world.receiver.set(f"/{name}", 418, {"x-teapot": "yes"}, b"short and stout")
    tab.click(it("[role=tab][aria-controls=test]"))
    tab.fill(it("#test-form textarea"), '{"probe": 1}')
    tab.click(it("#test-form button[type=submit]"))
    tab.shows(it("#test-form [data-form-result]", "/HTTP 418.*short and stout/"))
    want(any(b"probe" in body for _, body in world.receiver.came[f"/{name}"]), "the receiver got it")
    world.receiver.set(f"/{name}", 200)

    # Its settings.
    tab.click(it("[role=tab][aria-controls=settings]"))
    tab.fill(it("#settings input[name=name]"), name + "-2")
    tab.fill(it("#settings input[name=max_concurrency]"), "3")
    tab.fill(it("#settings input[name='retry_policy.schedule_seconds']"), "5, 60, 600")
    tab.leaves(lambda: tab.click(it("#settings button[type=submit]")))
    tab.toast("Saved")
    kept = world.api.get(f"/v1/destinations/{made}")
    want((kept["name"], kept["max_concurrency"]) == (name + "-2", 3), f"the API has what was saved: {kept}")
    want(kept["retry_policy"]["schedule_seconds"] == [5, 60, 600], "and the retries")

    # Its secret, and another.
    tab.click(it("[role=tab][aria-controls=signing]"))
    secret = world.api.get(f"/v1/destinations/{made}/secret")["secret"]
    tab.click(it("button[data-reveal]", within="#signing"))
    tab.shows(it("#signing [data-revealed]", f"/{secret}/".replace("+", r"\+")))
    tab.leaves(lambda: tab.click(it("button[type=submit]", within="#signing")))
    want(world.api.get(f"/v1/destinations/{made}/secret")["secret"] != secret, "the secret was changed")

    # Gone, after the question.
    tab.click(it("[role=tab][aria-controls=settings]"))
    tab.click(it("#settings button[data-method=DELETE]"))
    with tab.allowing("404"):  # a page that lives may ask once more for what is gone
        tab.leaves(lambda: tab.confirms("Its routes go with it"))
    want(tab.path().startswith("/destinations"), "deleting leads to the others")
    wait_for(lambda: gone(world.api, f"/v1/destinations/{made}"), "the API has it no more")


@trial(short=True)
def a_destination_is_paused_resumed_disabled_enabled_and_probed(world):
    destination, path, name = world.failing()
    tab = world.page(f"/destinations/{destination}")
    status = lambda: world.api.get(f"/v1/destinations/{destination}")["status"]

    def button(act):
        return it(f"button[data-action$='/{destination}/{act}']")
    tab.click(button("pause"))
    tab.confirms(name)
    tab.toast("Paused")
    wait_until_is(status, "paused", "it is paused")
    tab.shows(it(".banner", f"/{name} is paused/"))
    waiting = world.api.publish(f"{name}.one")
    tab.until(lambda: world.api.deliveries(event_id=waiting)[0]["waiting_for"], "what comes waits")
    tab.click(button("resume"))
    wait_for(lambda: status() != "paused", "it goes on")

    # Three failures open the breaker; a probe is asked for by hand, and finds it well.
    for number in range(4):
        world.api.publish(f"{name}.more", {"number": number})
    wait_until_is(status, "unhealthy", "the breaker opens")
    tab.shows(it(".banner", f"/{name} is held by its breaker/"))
    world.receiver.set(path, 200)
    tab.click(button("probe"))
    wait_until_is(status, "active", "a probe that succeeds ends the hold")
    tab.until(f"!find({json.dumps(it('.banner', f'/{name} is held/'))})", "the banner goes by itself")

    # Disabling has no question where the page has no button for it.
    if tab.count(button("disable")):
        tab.click(button("disable"))
        tab.confirms()
    else:
        world.api.post(f"/v1/destinations/{destination}/disable")
    wait_until_is(status, "disabled", "it is disabled")
    tab.shows(it(".banner", f"/{name} is disabled/"))
    tab.click(button("enable"))
    wait_until_is(status, "active", "it is enabled")
    tab.open(f"/destinations/{destination}")
    tab.click(it("[role=tab][aria-controls=history]"))
    tab.shows(it("#history", "/breaker/"))


@trial()
def what_a_destination_is_sent_as_proof_is_written_and_never_shown(world):
    name = world.name("proven")
    path = f"/{name}"
    world.receiver.set(path, 200)
    destination = world.api.destination(name, world.receiver.url(path))
    tab = world.page(f"/destinations/{destination}#auth")
    at = lambda: world.api.get(f"/v1/destinations/{destination}")

    def sent():
        world.api.post(f"/v1/destinations/{destination}/test", {"type": "test", "data": {}})
        return world.receiver.last(path)

    def saved():
        tab.leaves(lambda: tab.click(it("#auth button[type=submit]")))
        tab.click(it("[role=tab][aria-controls=auth]"))

    def fill(field, text):
        tab.fill(it(f"#auth [name='{field}']"), text)
    fill("auth.type", "bearer")
    fill("auth.token", "a-token-of-mine")
    fill("headers", "X-Tenant: north\nX-Other: 1")
    saved()
    want(at()["auth"]["type"] == "bearer", "the API has it")
    want(sent()["authorization"] == "Bearer a-token-of-mine", "it is sent")
    want("a-token-of-mine" not in tab.run("document.documentElement.outerHTML"), "and not shown")
    # What is not typed stays, also when something else is changed.
    fill("headers", "x-tenant: south")
    saved()
    said = sent()
    want((said["authorization"], said["x-tenant"], "x-other" in said) == ("Bearer a-token-of-mine", "south", False), f"the token stays, the headers are others: {said}")
    fill("auth.type", "headers")
    fill("auth.headers", "X-Api-Key: first\nX-Second: second")
    saved()
    want(at()["auth"]["header_names"] == ["x-api-key", "x-second"], f"the API has the names: {at()['auth']}")
    fill("auth.headers", "x-api-key:\nx-third: third")
    saved()
    said = sent()
    want((said.get("x-api-key"), said.get("x-second"), said.get("x-third"), said.get("authorization")) == ("first", None, "third", None), f"one stays, one goes, one comes: {said}")
    fill("auth.type", "basic")
    fill("auth.username", "ada")
    with tab.allowing("422"):
        tab.click(it("#auth button[type=submit]"))
        tab.shows(it("#auth .field-problem"))
    fill("auth.password", "countess")
    saved()
    want(sent()["authorization"] == "Basic YWRhOmNvdW50ZXNz", "name and password are sent")
    fill("auth.type", "aws_sigv4")
    for field, text in (("access_key_id", "AKIDEXAMPLE"), ("secret_access_key", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), ("region", "eu-central-1"), ("service", "execute-api")):
        fill(f"auth.{field}", text)
    saved()
    said = sent()["authorization"]
    want(said.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") and "/eu-central-1/execute-api/" in said, f"a signature of AWS is sent: {said}")
    fill("auth.type", "oauth2")
    tokens = f"/{name}-tokens"
    world.receiver.set(tokens, 200, {"content-type": "application/json"}, b'{"access_token":"the-token","token_type":"Bearer","expires_in":3600}')
    for field, text in (("token_url", world.receiver.url(tokens)), ("client_id", "posthaste"), ("client_secret", "a-secret-of-a-client"), ("params", "resource: orders")):
        fill(f"auth.{field}", text)
    saved()
    want(sent()["authorization"] == "Bearer the-token", "the token of the endpoint is sent")
    want((at()["auth"]["client_id"], at()["auth"]["param_names"]) == ("posthaste", ["resource"]), f"the API has it: {at()['auth']}")
    want("a-secret-of-a-client" not in tab.run("document.documentElement.outerHTML"), "and no page the secret")
    fill("auth.type", "mtls")
    with tab.allowing("422"):
        tab.click(it("#auth button[type=submit]"))
        tab.shows(it("#auth .field-problem"))
    fill("auth.type", "none")
    saved()
    want("authorization" not in sent(), "and nothing any more")


@trial()
def a_destination_is_signed_for_as_its_form_says(world):
    name = world.name("signed")
    path = f"/{name}"
    world.receiver.set(path, 200)
    destination = world.api.destination(name, world.receiver.url(path))
    tab = world.page(f"/destinations/{destination}#signing")
    at = lambda: world.api.get(f"/v1/destinations/{destination}")

    def sent():
        world.api.post(f"/v1/destinations/{destination}/test", {"type": "test", "data": {}})
        return world.receiver.last(path)

    def saved(form="#signing-form"):
        tab.leaves(lambda: tab.click(it(f"{form} button[type=submit]")))
        tab.click(it("[role=tab][aria-controls=signing]"))

    def fill(field, text):
        tab.fill(it(f"#signing-form [name='{field}']"), text)
    tab.shows(it("#signing", "/signed as Standard Webhooks/"))
    tab.click(it("#signing-form [name='signing.ed25519']"))
    tab.click(it("#signing-form [name='signing.svix_headers']"))
    saved()
    key = at()["signing"]["public_key"]
    tab.shows(it("#signing pre", key))
    said = sent()
    want("v1a," in said["webhook-signature"] and said["svix-signature"] == said["webhook-signature"], f"both are sent: {said}")
    tab.fill(it("#signing form.inline [name=which]"), "key_pair")
    tab.leaves(lambda: tab.click(it("#signing form.inline button[type=submit]")))
    want(at()["signing"]["previous_public_key"] == key, "the pair before signs as well")
    tab.click(it("[role=tab][aria-controls=signing]"))
    tab.shows(it("#signing", "/Two key pairs sign at present/"))
    tab.click(it("#signing-form [name='signing.ed25519']"))
    tab.click(it("#signing-form [name='signing.svix_headers']"))
    fill("signing.scheme", "github")
    fill("signing.header", "X-Own-Signature")
    fill("format", "cloudevents-structured")
    saved()
    want((at()["signing"]["header"].lower(), at()["format"]) == ("x-own-signature", "cloudevents-structured"), f"the API has it: {at()}")
    said = sent()
    want(said["x-own-signature"].startswith("sha256=") and "cloudevents" in said["content-type"], f"and so it is sent: {said}")
    fill("signing.scheme", "stripe")
    fill("signing.header", "")
    fill("format", "standard")
    saved()
    want(sent()["stripe-signature"].startswith("t="), "a scheme's own header is the default")


@trial()
def several_destinations_are_paused_and_resumed_at_once(world):
    names = [world.name("bulk") for _ in range(3)]
    ids = [world.api.destination(name, world.receiver.url("/well")) for name in names]
    tab = world.page("/destinations?sort=name")
    for word, done in (("Pause", "paused"), ("Resume", "active")):
        for each in ids:
            tab.click(it(f"[data-pick='{each}']"))
        tab.shows(it("#selection-count", "3"))
        tab.click(it("#selection button", word))
        tab.leaves(lambda: tab.confirms(f"{word} 3"))
        want(all(world.api.get(f"/v1/destinations/{each}")["status"] == done for each in ids), f"all three are {done}")


def open_new_source(tab):
    """Its form is open already where there is no source yet."""
    if not tab.count(it("form[data-form='/v1/sources'] [name=name]")):
        tab.click(it("summary", "New source"))


@trial(short=True)
def a_source_is_made_brings_events_in_and_goes(world):
    tab, name = world.page("/sources"), world.name("shop")
    open_new_source(tab)
    tab.fill(it("form[data-form='/v1/sources'] [name=name]"), name)
    tab.click(it("form[data-form='/v1/sources'] button[type=submit]"))
    url = tab.until("(/http\\S+\\/ingest\\/\\S+/.exec(document.querySelector('form[data-form=\"/v1/sources\"] [data-form-result]')?.innerText) || [])[0]", "the ingest URL is shown")
    source = next(each for each in world.api.all("/v1/sources", limit=200) if each["name"] == name)["id"]
    send(url, {"type": "order.paid", "id": 1})
    wait_for(lambda: world.api.all("/v1/events", source_id=source), "what was sent there came in")

    card = it(f"[data-key='{source}']")
    tab.shows(card)
    tab.click(it("button[data-reveal]", within=card))
    tab.shows(it("[data-revealed]", "/ingest/", within=card))
    tab.click(it("summary", "Edit", within=card))
    tab.fill(it("[name=name]", within=card), name + "-2")
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=card)))
    want(world.api.get(f"/v1/sources/{source}")["name"] == name + "-2", "the API has the new name")
    tab.click(it("button[data-action]", "Disable", within=card))
    tab.confirms(name)
    wait_for(lambda: not world.api.get(f"/v1/sources/{source}")["enabled"], "it is disabled")
    tab.click(it("button[data-action]", "Enable", within=card))
    wait_for(lambda: world.api.get(f"/v1/sources/{source}")["enabled"], "it is enabled")
    tab.click(it("button[data-action$='/rotate-token']", within=card))
    tab.confirms("The old one stops working")
    wait_for(lambda: world.api.get(f"/v1/sources/{source}/ingest-url")["ingest_url"] != url, "it has another URL")
    tab.click(it("button[data-method=DELETE]", within=card))
    tab.confirms(name)
    tab.hides(card)
    want(gone(world.api, f"/v1/sources/{source}"), "the API has it no more")


@trial()
def what_is_pressed_twice_is_done_once(world):
    tab, name = world.page("/sources"), world.name("hasty")
    open_new_source(tab)
    form = "form[data-form='/v1/sources']"
    tab.fill(it(f"{form} [name=name]"), name)
    twice = lambda css: tab.run(f"(() => {{ const button = document.querySelector({json.dumps(css)}); button.click(); button.click(); }})()")
    twice(f"{form} button[type=submit]")
    tab.shows(it(f"{form} [data-form-result]", "/ingest/"))
    made = [each["id"] for each in world.api.all("/v1/sources", limit=200) if each["name"] == name]
    want(len(made) == 1, f"one source is made of two presses: {made}")
    world.api.delete(f"/v1/sources/{made[0]}")
    tab.open("/dead-letters")
    twice("[data-replay]")
    tab.shows(it("dialog#confirm[open]", "/Replay/"))
    tab.press("Escape")
    tab.hides(it("dialog#confirm[open]"))


def send(url, body):
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        want(answer.status in (200, 202), f"the ingest URL answers {answer.status}")


@trial(short=True)
def a_source_verifies_its_provider_by_the_fields_of_its_form(world):
    tab, name = world.page("/sources"), world.name("payments")
    form = "form[data-form='/v1/sources']"
    open_new_source(tab)
    tab.fill(it(f"{form} [name=name]"), name)
    field = lambda way, member="secrets": it(f"{form} [data-for='{way}'] [name='verification.{member}']")
    tab.fill(it(f"{form} [name='verification.type']"), "hmac")
    tab.shows(field("hmac", "header"))
    tab.fill(it(f"{form} [name='verification.type']"), "stripe")
    tab.hides(field("hmac", "header"))
    tab.shows(it(f"{form} [data-for=stripe]", "/add an endpoint with the ingest URL/"))
    # Without a secret it is refused, at the field; not taking anything yet, it is made.
    with tab.allowing("422"):
        tab.click(it(f"{form} button[type=submit]"))
        tab.shows(it(f"{form} [data-for=stripe] .field-problem", "/needs a secret/"))
    tab.click(it(f"{form} [name=enabled]"))
    tab.click(it(f"{form} [name=keep_refused]"))
    tab.click(it(f"{form} button[type=submit]"))
    url = tab.until("(/http\\S+\\/ingest\\/\\S+/.exec(document.querySelector('form[data-form=\"/v1/sources\"] [data-form-result]')?.innerText) || [])[0]", "the ingest URL is shown")
    source = next(each for each in world.api.all("/v1/sources", limit=200) if each["name"] == name)
    want((source["enabled"], source["verification"]["type"]) == (False, "stripe"), f"the API has it: {source}")

    # Then the secret, and it is enabled: what is signed with it comes in, what is not is refused.
    secret, at = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", lambda: world.api.get(f"/v1/sources/{source['id']}")
    tab.open("/sources")
    card = it(f"[data-key='{source['id']}']")
    tab.click(it("summary", "Edit", within=card))
    tab.fill(it("[data-for=stripe] [name='verification.secrets']", within=card), secret)
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=card)))
    want(at()["verification"]["secret_count"] == 1, "the API has the secret")
    want(secret not in tab.run("document.documentElement.outerHTML"), "no page has it")
    tab.click(it("button[data-action]", "Enable", within=card))
    wait_for(lambda: at()["enabled"], "it is enabled")
    body, moment = json.dumps({"id": "evt_1", "type": "charge.paid"}), str(int(time.time()))
    signature = hmac.new(secret.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()
    for signed, status in ((signature, 202), ("0" * 64, 401)):
        asked = urllib.request.Request(url, body.encode(), {"content-type": "application/json", "stripe-signature": f"t={moment},v1={signed}"})
        answered = status_of(asked)
        want(answered == status, f"{signed} is answered with {status}: {answered}")

    # Why the other one was refused stands there, without what could be used again.
    tab.open("/sources")
    tab.click(it("summary", "Refused requests", within=card))
    tab.shows(it(".refused li", "/wrong signature.*from 127.0.0.1/", within=card))
    want("0" * 64 not in tab.text(it(".refused", within=card)), "nothing of it could be used again")

    # What is not typed stays: another name keeps type and secret. Another way takes its own fields.
    tab.open("/sources")
    tab.shows(it("p", "/Verified: Stripe, 1 secret/", within=card))
    tab.click(it("summary", "Edit", within=card))
    tab.shows(it("[data-kept]", "One is kept", within=card))
    tab.fill(it("[name=name]", within=card), name + "-2")
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=card)))
    want((at()["name"], at()["verification"]["secret_count"]) == (name + "-2", 1), f"only the name has changed: {at()}")
    tab.click(it("summary", "Edit", within=card))
    tab.fill(it("[name='verification.type']", within=card), "hmac")
    tab.fill(it("[data-for=hmac] [name='verification.secrets']", within=card), "one secret\nanother secret")
    tab.fill(it("[name='verification.header']", within=card), "X-Own")
    tab.fill(it("[name='verification.algorithm']", within=card), "sha512")
    tab.fill(it("[name='verification.allowed_addresses']", within=card), "127.0.0.0/8")
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=card)))
    said = at()["verification"]
    want((said["type"], said["secret_count"], said["header"], said["algorithm"], said["allowed_addresses"]) == ("hmac", 2, "x-own", "sha512", ["127.0.0.0/8"]), f"the API has the other way: {said}")
    tab.click(it("summary", "Edit", within=card))
    header = it("[name='verification.header']", within=card)
    tab.shows(header)
    want(tab.ask(f"return find({json.dumps(header)}).value") == "x-own", "the form has it again")
    tab.fill(it("[name='verification.type']", within=card), "none")
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=card)))
    want(at()["verification"]["type"] == "none", f"nobody is verified any more: {at()}")


def status_of(asked):
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


@trial(short=True)
def a_route_is_made_tried_changed_switched_and_deleted(world):
    tab, kind = world.page("/routes"), world.name("invoice")
    tab.click(it("summary", "New route"))
    form = "form[data-form='/v1/routes']"
    tab.fill(it(f"{form} [name=event_types]"), f"{kind}.*")
    tab.fill(it(f"{form} [name=destination_id]"), world.well)
    with tab.allowing("422"):
        tab.fill(it(f"{form} [name=filter]"), '{"data": {"amount": {"$atleast": 100}}}')
        tab.click(it(f"{form} button[type=submit]"))
        tab.shows(it(f"{form} .field-problem"))
    tab.fill(it(f"{form} [name=filter]"), '{"data": {"amount": {"$gte": 100}}}')
    tab.leaves(lambda: tab.click(it(f"{form} button[type=submit]")))
    mine = lambda: next((each for each in world.api.all("/v1/routes", limit=200) if any(kind in types for types in each["event_types"])), None)
    route = mine()
    want(route and route["filter"] == {"data": {"amount": {"$gte": 100}}}, f"the API has it: {route}")

    # What an event would do, by its members; and one that came, with the reason of the mismatch.
    small = world.api.publish(f"{kind}.paid", {"amount": 90})
    tab.open("/routes")
    tab.click(it("summary", "Try an event"))
    form = "form[data-form='/v1/routes/preview']:has([name=event_id])"
    tab.fill(it(f"{form} [name=event_id]"), small)
    tab.click(it(f"{form} button[type=submit]"))
    tab.shows(it(f"{form} [data-form-result]", "/data.amount is 90, wanted/"))
    form = "form[data-form='/v1/routes/preview']:has([name=type])"
    tab.fill(it(f"{form} [name=type]"), f"{kind}.paid")
    tab.fill(it(f"{form} [name=data]"), '{"amount": 100}')
    tab.click(it(f"{form} button[type=submit]"))
    tab.shows(it(f"{form} [data-form-result]", "/delivers/"))
    # And what a filter would say that nobody has saved: of both, and from the form of a route on the last events that came.
    tab.click(it(f"{form} summary"))
    tab.fill(it(f"{form} [name='draft.filter']"), '{"data": {"amount": {"$gt": 100}}}')
    tab.click(it(f"{form} button[type=submit]"))
    tab.shows(it(f"{form} [data-form-result]", "/does not take it data.amount is 100, wanted > 100/"))
    with tab.allowing("422"):
        tab.fill(it(f"{form} [name='draft.filter']"), '{"data": {"amount": {"$above": 100}}}')
        tab.click(it(f"{form} button[type=submit]"))
        tab.shows(it(f"{form} .field-problem", "/is not an operator/"))
    tab.click(it("summary", "New route"))
    form = "form[data-form='/v1/routes']"
    tab.fill(it(f"{form} [name=event_types]"), f"{kind}.*")
    tab.fill(it(f"{form} [name=filter]"), '{"data": {"amount": {"$gte": 91}}}')
    tab.click(it(f"{form} [data-try-draft]"))
    tab.shows(it(f"{form} [data-tried-draft] tr", f"/{kind}.paid.*not taken: data.amount is 90, wanted ≥ 91/"))
    tab.fill(it(f"{form} [name=filter]"), '{"data": {"amount": {"$gte": 90}}}')
    tab.hides(it(f"{form} [data-tried-draft] tr"))
    tab.click(it(f"{form} [data-try-draft]"))
    tab.shows(it(f"{form} [data-tried-draft] tr", f"/{kind}.paid.*✓ taken/"))
    with tab.allowing("422"):
        tab.fill(it(f"{form} [name=filter]"), '{"data": {"amount": {"$above": 90}}}')
        tab.click(it(f"{form} [data-try-draft]"))
        tab.shows(it(f"{form} .field-problem", "/is not an operator/"))
    want(mine()["id"] == route["id"], "nothing was saved by it")

    row = it(f"tr[data-key='{route['id']}']")
    tab.click(it("summary", "Edit", within=row))
    tab.fill(it("[name=name]", within=row), kind)
    tab.leaves(lambda: tab.click(it("button[type=submit]", within=row)))
    want(mine()["name"] == kind, "the API has the new name")
    tab.click(it("summary", "Edit", within=row))
    tab.click(it("button[data-action]", "Disable", within=row))
    wait_for(lambda: not mine()["enabled"], "it is disabled")
    tab.until(f"!!find({json.dumps(it('.status', 'disabled', within=row))})", "and shown so")
    if not tab.count(it("button[data-action]", "Enable", within=row)):
        tab.click(it("summary", "Edit", within=row))
    tab.click(it("button[data-action]", "Enable", within=row))
    wait_for(lambda: mine()["enabled"], "it is enabled")
    if not tab.count(it("button[data-method=DELETE]", within=row)):
        tab.click(it("summary", "Edit", within=row))
    tab.click(it("button[data-method=DELETE]", within=row))
    tab.confirms("Delete this route")
    tab.hides(row)
    want(mine() is None, "the API has it no more")


@trial()
def the_account_is_changed_by_its_form(world):
    tab = world.page("/settings")
    before, name = world.api.get("/v1/account"), world.name("Acme")
    tab.fill(it("#account [name=name]"), name)
    tab.fill(it("#account [name=retention_days]"), "8")
    tab.leaves(lambda: tab.click(it("#account button[type=submit]")))
    tab.toast("Saved")
    kept = world.api.get("/v1/account")
    want((kept["name"], kept["retention_days"]) == (name, 8), f"the API has it: {kept}")
    world.api.patch("/v1/account", {"name": before["name"], "retention_days": before["retention_days"]})


@trial()
def the_reference_tries_an_operation_by_the_session(world):
    tab = world.page("/docs?op=list_destinations")
    tab.click(it("form[data-try] button[type=submit]"))
    tab.shows(it("[data-form-result]", f"/HTTP 200.*{world.well}/"))
    tab.leaves(lambda: tab.click(it("a[href='/docs?op=get_event'], a[href='/docs?op=get_event']")))
    tab.fill(it("form[data-try] [name=id]"), world.lost[0])
    tab.click(it("form[data-try] button[type=submit]"))
    tab.shows(it("[data-form-result]", f"/HTTP 200.*{world.lost[0]}/"))
    want(tab.count(it(".docs-list a")) >= 60, "every operation is there")
