"""Another site in the same browser, with the session's cookie as near as a browser lets it come: what changes something is
refused, no page of ours is shown in a frame, and nothing that was known before signing in, or after signing out, is good."""

import http.client
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from node import Problem
from tab import it, want
from world import trial


class Site:
    """Serves whatever page it is given, on a port of its own: the same site as ours by its address, another by `localhost`."""

    def __init__(self):
        self.pages = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                page = outer.pages.get(self.path, "").encode()
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def asked(origin, method, path, body=None, headers=None):
    """Status, headers and body of a request as no browser of ours would make it."""
    connection = http.client.HTTPConnection(origin[7:], timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode(errors="replace")


def cookie_of(tab):
    cookies = tab.call("Network.getCookies", urls=[tab.origin])["cookies"]
    return next((f"{each['name']}={each['value']}" for each in cookies if each["name"].endswith("sid")), None)


def sign_out(tab):
    """By the button. A page that is signed out behind its back goes to sign in by itself, while a trial goes elsewhere."""
    tab.leaves(lambda: tab.click(it("[data-sign-out]")))
    want(tab.path() == "/login", f"signing out leads to the way in: {tab.path()}")


def counts(world):
    return len(world.api.all("/v1/destinations", limit=200)), len(world.api.all("/v1/api-keys", limit=200)), world.api.get("/v1/account")["name"]


@trial(short=True, looks="once")
def another_site_changes_nothing_with_the_session_of_a_visitor(world):
    victim = world.page("/")
    csrf = victim.run("document.documentElement.dataset.csrf")
    want(csrf, "a page has the token of its session")
    context, before = world.context, counts(world)
    site = Site()
    try:
        body = json.dumps({"name": "evil", "url": "https://evil.example/"})
        for host in ("127.0.0.1", "localhost"):
            # Forms: the browser sends them anywhere, with the cookie where the site is the same.
            for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
                site.pages["/form"] = (f'<form id=f method=post enctype="{kind}" action="{world.origin}/ui/v1/destinations">'
                                       "<input name='{\"name\":\"evil\",\"url\":\"https://evil.example/\",\"x\":\"' value='\"}'></form><script>f.submit()</script>")
                tab = world.tab(context, origin=f"http://{host}:{site.port}")
                with tab.allowing(".*"):
                    tab.go("/form")
                    tab.until(f"location.href.startsWith({json.dumps(world.origin)}) && document.readyState === 'complete'", "the form is sent")
                    said = tab.run("document.body.innerText")
                    want("cross_site" in said or "unauthorized" in said, f"a form of {host} as {kind} is refused: {said[:200]}")
            site.pages["/"] = "<h1>another site</h1>"
            tab = world.tab(context, origin=f"http://{host}:{site.port}")
            with tab.allowing(".*"):
                tab.open("/")
                for headers in ({"content-type": "application/json"}, {"content-type": "application/json", "x-csrf-token": csrf}, {"content-type": "text/plain"}):
                    for mode in ("cors", "no-cors"):
                        tab.run(f"""fetch('{world.origin}/ui/v1/destinations', {{ method: 'POST', mode: '{mode}', credentials: 'include', headers: {json.dumps(headers)}, body: {json.dumps(body)} }})
                            .then(answer => answer.status, () => 'refused')""")
                    read = tab.run(f"fetch('{world.origin}/ui/v1/destinations', {{ credentials: 'include' }}).then(answer => answer.text(), () => 'refused')")
                    want(read == "refused", f"{host} reads nothing: {str(read)[:100]}")
                tab.run(f"navigator.sendBeacon('{world.origin}/ui/sign-out', '')")
                # A page of ours in a frame stays empty.
                site.pages["/frame"] = f'<iframe id=f src="{world.origin}/settings" width=800 height=600></iframe>'
                tab.open("/frame")
                tree = tab.call("Page.getFrameTree")["frameTree"]
                framed = [each["frame"] for each in tree.get("childFrames", [])]
                want(all(each.get("unreachableUrl") or each["url"].startswith("chrome-error:") for each in framed), f"a page of ours is not framed: {framed}")
        want(counts(world) == before, "nothing was made, read or changed")
        victim.open("/events")
        want(victim.path() == "/events", "and the visitor is still signed in")
    finally:
        site.close()


@trial(short=True, looks="once")
def what_changes_something_needs_the_origin_and_the_token_of_its_session(world):
    tab = world.page("/")
    csrf, cookie = tab.run("document.documentElement.dataset.csrf"), cookie_of(tab)
    other = world.sign_in(world.tab(world.stranger()))
    foreign = other.run("document.documentElement.dataset.csrf")
    want(foreign != csrf, "each session has a token of its own")
    ours = {"cookie": cookie, "content-type": "application/json", "sec-fetch-site": "same-origin", "origin": world.origin, "x-csrf-token": csrf}
    act = lambda **changed: asked(world.origin, "POST", f"/ui/v1/destinations/{world.well}/probe", "{}", {name.replace("_", "-"): value for name, value in {**{n.replace("-", "_"): v for n, v in ours.items()}, **changed}.items() if value is not None})[0]
    want(act() in (200, 202, 204, 409), f"as a page of ours does it: {act()}")
    for changed in ({"x_csrf_token": None}, {"x_csrf_token": foreign}, {"x_csrf_token": ""}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"},
                    {"sec_fetch_site": "none"}, {"sec_fetch_site": None, "origin": "http://evil.example"}, {"sec_fetch_site": None, "origin": None},
                    {"sec_fetch_site": None, "origin": "null"}):
        want(act(**changed) == 403, f"{changed} is refused: {act(**changed)}")
    want(act(cookie=None) == 401, "without a session nothing is done")
    # The API itself never looks at a cookie, and the pages at no key.
    want(asked(world.origin, "GET", "/v1/destinations", None, {"cookie": cookie})[0] == 401, "a cookie is no key")
    want(asked(world.origin, "GET", "/ui/v1/destinations", None, {"authorization": f"Bearer {world.node.key}"})[0] == 401, "a key is no session")
    # Signing in is no different.
    body = json.dumps({"key": world.node.key})
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {}):
        want(asked(world.origin, "POST", "/ui/sign-in", body, {"content-type": "application/json", **headers})[0] == 403, f"signing in by another site is refused: {headers}")


@trial(looks="once")
def no_session_is_good_before_it_began_or_after_it_ended(world):
    context = world.stranger()
    tab = world.tab(context)
    tab.allowed.append("401 .*/ui/v1/stream")  # what lives on a page asks for its stream, whoever has signed out
    # Fixed by somebody else beforehand, it is not taken over.
    planted = "A" * 43
    tab.call("Network.setCookie", name="sid", value=planted, url=world.origin, path="/")
    world.sign_in(tab)
    first = cookie_of(tab)
    want(first and planted not in first, "signing in makes a new id")
    want(asked(world.origin, "GET", "/ui/v1/destinations", None, {"cookie": f"sid={planted}"})[0] == 401, "the planted one is good for nothing")
    kept = tab.call("Network.getCookies", urls=[world.origin])["cookies"][0]
    want(kept["httpOnly"] and kept["sameSite"] == "Lax" and kept["path"] == "/", f"no script sees it and no other site sends it: {kept}")
    want("sid" not in tab.run("document.cookie"), "no script sees it")
    # Signing in again ends the one before.
    body, ours = json.dumps({"key": world.node.key}), {"content-type": "application/json", "sec-fetch-site": "same-origin", "cookie": first}
    status, headers, _ = asked(world.origin, "POST", "/ui/sign-in", body, ours)
    second = headers["set-cookie"].split(";")[0]
    want(status == 200 and second != first, "each signing in makes another")
    want(asked(world.origin, "GET", "/ui/v1/destinations", None, {"cookie": first})[0] == 401, "and ends the one before")
    name, value = second.split("=", 1)
    tab.call("Network.setCookie", name=name, value=value, url=world.origin, path="/", httpOnly=True, sameSite="Lax")
    tab.open("/")
    want(tab.path() == "/", "which is good")
    sign_out(tab)
    want(asked(world.origin, "GET", "/ui/v1/destinations", None, {"cookie": second})[0] == 401, "after signing out it is not")
    tab.open("/")
    want(tab.path().startswith("/login"), "nor in the browser")
    # Where to go on to is a path of ours.
    for evil in ("//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example", "\\\\evil.example", "javascript:alert(1)"):
        tab.open("/login?next=" + urllib.parse.quote(evil, safe=""))
        tab.fill(it("#key"), world.node.key)
        with tab.allowing("404"):  # a path of ours that is not there
            tab.leaves(lambda: tab.click(it("#login-key button[type=submit]")))
            want(tab.run("location.origin") == world.origin, f"{evil} leads to {tab.run('location.href')}")
        tab.open("/")
        sign_out(tab)
