"""What strangers write reaches every page: 200 texts that are scripts to a page that is not careful, in every field that
people, producers and receivers fill in. Nothing of it may run, be asked for or be reported."""

import base64
import http.client
import json
import re
import urllib.parse

from node import Api, Problem, wait_for
from tab import it, want
from world import trial

# Where a text may end up: as text, in an attribute of either quote, in a URL, in a script, a style, a comment, a template.
OPENINGS = ["", "\"", "'", "\">", "'>", "</title>", "</textarea>", "</script>", "</style>", "-->", "]]>", "`", "</option></select>",
            "</pre>", "</code>", "{{", "${", "</svg>", "\\\"", "&#34;&#62;"]
ACTS = [
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<a href=javascript:{}>x</a>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<style>@import'//foreign.invalid/{}'</style><link rel=stylesheet href=//foreign.invalid/x><base href=//foreign.invalid/>",
    "<math><mi xlink:href=\"javascript:{}\">x</mi></math><meta http-equiv=refresh content='0;url=javascript:{}'>",
    " onmouseover={} autofocus onfocus={} style=animation-name:x x=",
]


def payloads():
    """Each says which one it is, should it ever run."""
    return [opening + act.replace("{}", f"hurt({number * len(ACTS) + at})") for number, opening in enumerate(OPENINGS) for at, act in enumerate(ACTS)]


def ascii_header(text):
    return re.sub(r"[^\x20-\x7e]", "?", text)


def furnish(world, texts):
    """An account of its own, in which every field that can hold a text has each of them somewhere. What is refused is as good
    as text: it is counted."""
    account = world.operator.post("/v1/accounts", {"name": texts[0][:200], "uid": "hostile" + world.name("x")})
    key = world.operator.post("/v1/api-keys", {"kind": "account", "account_id": account["id"], "name": texts[1][:200]})["key"]
    api, receiver = Api(world.origin, key), world.receiver
    taken, refused = 0, 0

    def tried(method, path, body, headers=None):
        nonlocal taken, refused
        try:
            answer = api.ask(method, path, body, headers)
            taken += 1
            return answer
        except Problem as problem:
            want(problem.status in (400, 409, 413, 422), f"{path}: {problem}")
            refused += 1

    destinations = []
    retries = {"schedule_seconds": [1], "jitter": 0}
    for number, text in enumerate(texts):
        if number % 10 == 0:
            path = f"/hostile-{number}"
            # The answer of a receiver, in its body and in a header, with a status that makes a dead letter of it.
            receiver.set(path, [400, 404, 422, 500][number // 10 % 4], {"x-answer": ascii_header(text), "content-type": ascii_header(text)[:80] or "x"}, texts[number + 1].encode())
            made = tried("POST", "/v1/destinations", {"name": text[:200], "url": receiver.url(path) + "?q=" + text.replace(" ", "%20")[:500], "retry_policy": retries,
                                                      "headers": {"x-own": ascii_header(texts[number + 2])}})
            made = made or tried("POST", "/v1/destinations", {"name": text[:200], "url": receiver.url(path), "retry_policy": retries})
            if made:
                destinations.append(made["id"])
                tried("POST", "/v1/routes", {"destination_id": made["id"], "event_types": [f"h{number}.*"], "name": texts[number + 3][:200],
                                             "filter": {"$not": {"data": {"never": texts[number + 4]}}}})
        if number % 10 == 5:
            tried("POST", "/v1/sources", {"name": text[:200], "tags": [{"path": "data.x"}, {"header": "x-tag"}]})
            tried("POST", "/v1/api-keys", {"name": text[:200], "scopes": ["events:read"]})
        tried("PATCH" if destinations else "POST", f"/v1/destinations/{destinations[-1]}" if destinations else "/v1/destinations", {"uid": text[:200]})
    want(len(destinations) >= 15, f"destinations with hostile names: {len(destinations)}")
    # Errors: a port that nobody listens at, a name that does not resolve.
    for url in ("http://127.0.0.1:9/", "http://nowhere.invalid/"):
        made = api.post("/v1/destinations", {"name": texts[7][:200], "url": url, "retry_policy": retries, "timeout_seconds": 1})
        api.route(made["id"])
        destinations.append(made["id"])
    events = []
    for number, text in enumerate(texts):
        # Types have an alphabet of their own; that all of these are refused is counted as well.
        tried("POST", "/v1/events", {"type": text[:128], "data": {}})
        made = tried("POST", "/v1/events", {
            "type": f"h{number // 10 * 10}.x", "data": {"text": text, text: [text]}, "tags": [text[:100]], "metadata": {"text": text[:200]},
            "idempotency_key": ascii_header(text)[:200], "ordering_key": text[:200]})
        if not made:
            made = tried("POST", "/v1/events", {"type": f"h{number // 10 * 10}.x", "data": {"text": text, text: [text]}, "metadata": {"text": text[:200]}})
        events.append(made["id"])
    raw = [text.encode() for text in texts[:10]]
    for number, body in enumerate(raw):
        events.append(api.post("/v1/events", {"type": f"h{number * 10}.raw", "content_type": "text/html", "data_base64": base64.b64encode(body).decode()})["id"])
    # By an ingest URL: headers are a stranger's, too.
    source = api.post("/v1/sources", {"name": texts[9][:200], "tags": [{"header": "x-tag"}]})
    api.route(destinations[0], source_id=source["id"])
    url = source.get("ingest_url") or api.get(f"/v1/sources/{source['id']}/ingest-url")["ingest_url"]
    for text in texts[::10]:
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=20)
        connection.request("POST", "/" + url.split("/", 3)[3], json.dumps({"text": text}), {
            "content-type": "application/json", "x-event-type": "h0.in", "x-tag": ascii_header(text), "user-agent": ascii_header(text), "x-header": ascii_header(text)})
        want(connection.getresponse().status in (200, 202, 400, 422), "the ingest URL answers")
    return api, key, destinations, events, taken, refused


def quiet(tab, path):
    """Nothing has run, and there is nothing that could."""
    want(not tab.run("window.hurts.length"), f"{path}: ran {tab.run('window.hurts.join()')}")
    made = tab.run("""[...document.querySelectorAll('main iframe, main img, main script, main style, main base, main math, main link, main meta, main object, main embed, [onerror], [onload], [onfocus], [ontoggle], [onmouseover], [srcdoc], a[href^="javascript" i]')].map(e => e.outerHTML.slice(0, 100)).join('; ')""")
    want(not made, f"{path}: made of a text: {made}")


@trial(looks="once")
def what_strangers_write_is_shown_and_never_runs(world):
    texts = payloads()
    want(len(texts) == 200, f"there are {len(texts)}")
    api, key, destinations, events, taken, refused = furnish(world, texts)
    print(f"      {taken} texts taken, {refused} refused", flush=True)
    agent = ascii_header(texts[0])
    tab = world.tab(world.stranger(), user_agent=agent)
    # Nobody turns so many pages in so few seconds: the streams of those that are gone are still counted.
    tab.allowed.append(r"429 .*/ui/v1/stream")
    tab.call("Page.addScriptToEvaluateOnNewDocument", source="window.hurts = []; window.hurt = number => window.hurts.push(number); for (const name of ['alert', 'confirm', 'prompt', 'eval']) window[name] = () => window.hurts.push(name);")
    world.sign_in(tab, key)
    wait_for(lambda: len(api.all("/v1/dead-letters/groups", limit=200)) >= 10, "deliveries have ended as dead letters", 60)
    api.post("/v1/replays", {"filter": {"status": ["dead_letter"], "destination_id": [destinations[0]]}})
    api.post(f"/v1/destinations/{destinations[1]}/pause")
    groups = api.all("/v1/dead-letters/groups", limit=200)
    paths = ["/", "/events", "/events?q=status:dead_letter", "/events?q=status:queued,retry_scheduled", "/destinations", "/dead-letters", "/replays", "/sources", "/routes",
             "/settings", "/docs", "/destinations/new", *[f"/destinations/{each}" for each in destinations], *[f"/events/{each}" for each in events[::7]],
             *[f"/events?selected={each}" for each in events[::40]], f"/deliveries/{groups[0]['sample_delivery_id']}"]
    for path in paths:
        tab.open(path)
        tab.run("document.querySelectorAll('main details').forEach(each => { each.open = true; }); document.querySelectorAll('[role=tab]').forEach(each => each.click())")
        quiet(tab, path)
    tab.open("/settings")
    tab.shows(it("[data-sessions] tr"))
    quiet(tab, "/settings")
    tab.open("/routes")
    tab.click(it("summary", "Try an event"))
    tab.click(it("form[data-form='/v1/routes/preview']:has([name=event_id]) button[type=submit]"))
    tab.shows(it("[data-form-result]", "/routes match/"))
    quiet(tab, "a preview")
    # What a test is answered, inline.
    tab.open(f"/destinations/{destinations[0]}")
    tab.click(it("[role=tab][aria-controls=test]"))
    tab.click(it("#test-form button[type=submit]"))
    tab.shows(it("#test-form [data-form-result]", "/HTTP/"))
    quiet(tab, "the answer to a test")
    # In the address and in the search box.
    for text in texts:
        tab.open("/events?q=" + urllib.parse.quote(text))
        quiet(tab, f"a search for {text}")
    for parameter in ("next", "t"):
        with tab.allowing("401"):
            tab.open(f"/login?{parameter}=" + urllib.parse.quote(texts[23]))
            quiet(tab, "/login")
    with tab.allowing("401"):
        tab.open("/setup?t=" + urllib.parse.quote(texts[23]))
        quiet(tab, "/setup")
    with tab.allowing("404"):
        tab.open("/events/" + urllib.parse.quote(texts[23], safe=""))
        quiet(tab, "what is not there")
    # Live: what comes while one looks.
    tab.open("/events")
    tab.until("document.querySelector('#live')?.dataset.state === 'live'", "the page is live")
    last = api.post("/v1/events", {"type": "h0.live", "data": {"text": texts[3]}, "tags": [texts[3][:100]]})["id"]
    tab.shows(it(f"tr[data-key='{last}']"))
    quiet(tab, "a row that came")
    want(not tab.dialogs, f"no dialog: {tab.dialogs}")


@trial(looks="once")
def a_payload_is_handed_out_as_what_no_browser_runs(world):
    event = world.api.post("/v1/events", {"type": "raw.html", "content_type": "text/html", "data_base64": base64.b64encode(b"<script>alert(1)</script>").decode()})["id"]
    tab = world.page(f"/events/{event}")
    answer = tab.run(f"fetch('/ui/v1/events/{event}/payload').then(answer => answer.text().then(text => [text, Object.fromEntries(answer.headers)]))")
    text, headers = answer
    want(text == "<script>alert(1)</script>", f"the bytes as they came: {text}")
    want(headers["content-type"] in ("text/plain; charset=utf-8", "application/octet-stream"), f"no type that runs: {headers}")
    want(headers["x-content-type-options"] == "nosniff", f"nobody guesses: {headers}")
    want(headers["content-disposition"].startswith("attachment"), f"it is saved, not shown: {headers}")
    want("sandbox" in headers["content-security-policy"] and "default-src 'none'" in headers["content-security-policy"], f"and boxed in: {headers}")
