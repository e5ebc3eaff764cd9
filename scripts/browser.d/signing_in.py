"""The ways in, and out again."""

import datetime
import re

from node import Api, Problem, Store, development, installation, line
from tab import it, want
from world import NARROW, WIDE, trial


def session_actions(api):
    return [entry["action"] for entry in api.all("/v1/audit", limit=50)]


@trial(short=True)
def the_link_of_a_start_signs_in_once(world):
    node = development(world.binary)
    try:
        tab = world.tab(world.stranger(), origin=node.origin)
        tab.open(node.said["dashboard"])
        want(tab.path() == "/", "the link leads to the first page")
        # Nothing has come yet: the quick start, with the address and the key that work, on a phone as well.
        line = it("pre", f"curl {node.origin}/v1/events")
        tab.shows(line)
        want(f"Bearer {node.said['api_key']}" in tab.text(line), "the line has the key")
        for width in (NARROW, WIDE):
            tab.look(world.look[0], width)
            want(tab.run("document.documentElement.scrollWidth - innerWidth") <= 0, f"the quick start is wider than {width} pixels")
        tab.look(*world.look)
        tab.click(it("button[data-action='/v1/events']"))
        tab.until("!find({css: \"button[data-action='/v1/events']\"})", "the page shows the first event by itself")
        api = Api(node.origin, node.said["api_key"])
        want(api.ended(api.all("/v1/events")[0]["id"])[0]["status"] == "delivered", "the event goes to the receiver that is built in")
        again = world.tab(world.stranger(), origin=node.origin)
        with again.allowing("401"):
            again.open(node.said["dashboard"])
            again.shows("This link has been used")
    finally:
        world.close_tabs()
        node.close()


@trial(short=True)
def a_key_signs_in_and_a_wrong_one_is_told_so(world):
    tab = world.tab(world.stranger())
    tab.open("/destinations?sort=name")
    want(tab.path().startswith("/login?next="), f"who is not signed in is sent to the way in: {tab.path()}")
    with tab.allowing("401"):
        tab.fill(it("#key"), "phk_wrong")
        tab.click(it("#login-key button[type=submit]"))
        tab.shows(it("#login-problem", "that is no whole API key"))
    tab.fill(it("#key"), world.node.key)
    tab.leaves(lambda: tab.click(it("#login-key button[type=submit]")))
    want(tab.path() == "/destinations?sort=name", f"signing in leads to where one wanted to go: {tab.path()}")
    want("sign_in" in session_actions(world.api), "signing in is written down")
    # Out again: what the cookie was good for is over.
    open_menu(world, tab)
    tab.leaves(lambda: tab.click(it("[data-sign-out]")))
    want(tab.path() == "/login", "signing out leads to the way in")
    tab.open("/events")
    want(tab.path().startswith("/login"), "who has signed out sees nothing")
    want("sign_out" in session_actions(world.api), "signing out is written down")


def open_menu(world, tab):
    if world.narrow and not tab.count(it("#side[data-open]")):
        tab.click(it("[data-menu]"))
        tab.shows(it("#side[data-open] .nav"))


@trial(looks="once")
def the_first_user_is_made_by_the_set_up_link_and_signs_in_by_password(world):
    tab = world.tab(world.stranger())
    tab.open(world.node.said["set_up"])
    tab.fill(it("#user"), "ada")
    with tab.allowing("422"):
        tab.fill(it("#password"), "short")
        tab.click(it("button[type=submit]"))
        tab.shows(it("#login-problem", "/./"))
    tab.fill(it("#password"), "correct horse battery")
    tab.leaves(lambda: tab.click(it("button[type=submit]")))
    want(tab.path() == "/", "the user is signed in at once")
    want([user["name"] for user in world.operator.all("/v1/users")] == ["ada"], "the API knows the user")

    # An operator chooses an account.
    account = world.api.get("/v1/account")["id"]
    tab.leaves(lambda: tab.click(it(f"button[data-account='{account}']")))
    tab.shows(it("h1", "Overview"))
    tab.open("/destinations")
    tab.shows(it("a.row-link", "well"))
    # Another password; the one before is no longer good.
    tab.open("/settings")
    tab.fill(it("[name=current]"), "correct horse battery")
    tab.fill(it("[name=new]"), "correct horse battery staple")
    tab.leaves(lambda: tab.click(it("#password button[type=submit]")))
    tab.toast("Changed")
    tab.leaves(lambda: tab.click(it("[data-sign-out]")))
    tab.click(it("summary", "With a user name"))
    tab.fill(it("#user"), "ada")
    with tab.allowing("401"):
        tab.fill(it("#password"), "correct horse battery")
        tab.click(it("#login-user button[type=submit]"))
        tab.shows(it("#login-problem", "the name or the password is wrong"))
    tab.fill(it("#password"), "correct horse battery staple")
    tab.leaves(lambda: tab.click(it("#login-user button[type=submit]")))
    want(tab.path() == "/", f"the new one is: {tab.path()}")
    # A set-up link that was used makes nobody else.
    other = world.tab(world.stranger())
    with other.allowing("401"):
        other.open(world.node.said["set_up"])
        other.shows("This link has been used")


@trial()
def a_session_that_is_ended_elsewhere_is_out_at_its_next_step(world):
    victim = world.sign_in(world.tab(world.stranger(), user_agent="Victim/1.0"))
    victim.open("/destinations")
    tab = world.page("/settings")
    row = it("[data-sessions] tr", "/Victim/")
    tab.shows(row)
    tab.click(it("button", "End", within=row))
    tab.hides(row)
    with victim.allowing("401"):
        victim.until(victim.is_signed_out, "the other browser is signed out")
    want("end_session" in session_actions(world.api), "ending it is written down")


@trial()
def a_key_that_is_made_here_is_shown_once_works_and_is_revoked(world):
    tab, name = world.page("/settings"), world.name("ci")
    tab.click(it("#keys summary", "New key"))
    form = it("#keys form")
    tab.fill(it("[name=name]", within=form), name)
    tab.click(it("button[type=submit]", within=form))
    key = tab.until("(/ph[a-z]_[0-9A-Za-z_]{20,}/.exec(document.querySelector('#keys [data-form-result]')?.innerText) || [])[0]", "the key is shown")
    made = Api(world.origin, key)
    want(made.get("/v1/account")["id"], "the key works")
    tab.open("/settings")
    row = it("#keys tr", name)
    tab.shows(row)
    want(key not in tab.run("document.documentElement.outerHTML"), "it is shown once")
    signed_in = world.sign_in(world.tab(world.stranger()), key)
    tab.click(it("button", "Revoke", within=row))
    tab.confirms(name)
    tab.toast("Revoked")

    def refused():
        try:
            made.get("/v1/account")
        except Problem as problem:
            return problem.status == 401
    tab.until(refused, "a revoked key is refused")
    with signed_in.allowing("401"):
        signed_in.until(signed_in.is_signed_out, "its session ends with it")
    revoked = [each for each in world.api.all("/v1/api-keys", limit=200) if each["name"] == name]
    want(not revoked or revoked[0]["revoked_at"], "the API says that it is revoked")
    want(re.match(r"ph[a-z]_", key), "it looks like a key")


@trial(looks="once")
def a_key_is_made_for_one_source_with_a_limit_and_an_end(world):
    source, name = world.api.post("/v1/sources", {"name": world.name("till")}), world.name("till-key")
    tab = world.page("/settings")
    tab.click(it("#keys summary", "New key"))
    form = "#keys form"
    tab.fill(it(f"{form} [name=name]"), name)
    tab.shows(it(f"{form} [name=scopes]"))
    tab.fill(it(f"{form} [name=kind]"), "ingest")
    tab.hides(it(f"{form} [name=scopes]"))
    tab.fill(it(f"{form} [name=source_id]"), source["id"])
    tab.fill(it(f"{form} [name=rate_limit]"), "7")
    tab.fill(it(f"{form} [name=expires_at]"), "30d")
    tab.fill(it(f"{form} [name=allowed_addresses]"), "127.0.0.0/8, ::1")
    tab.click(it(f"{form} button[type=submit]"))
    key = tab.until("(/ph[a-z]_[0-9A-Za-z_]{20,}/.exec(document.querySelector('#keys [data-form-result]')?.innerText) || [])[0]", "the key is shown")
    made = next(each for each in world.api.all("/v1/api-keys", limit=200) if each["name"] == name)
    want((made["kind"], made["source_id"], made["rate_limit"], made["allowed_addresses"]) == ("ingest", source["id"], 7, ["127.0.0.0/8", "::1/128"]), f"the API has it: {made}")
    days = (datetime.datetime.fromisoformat(made["expires_at"].replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)).days
    want(days in (29, 30), f"it ends in 30 days: {made['expires_at']}")
    want(Api(world.origin, key).publish("till.paid"), "it brings events in")
    tab.open("/settings")
    tab.shows(it("#keys tr", f"/{name}.*bring in events of {source['name']} · 7 events a second/"))


@trial(looks="once")
def an_operator_sees_what_is_sealed_by_which_key_and_seals_it_anew(world):
    store = Store("sqlite")
    node = installation(world.binary, store)
    try:
        node.api.post("/v1/sources", {"name": "sealed"})
        old = node.environment["POSTHASTE_MASTER_KEYS"]
        node.stop()
        node.environment["POSTHASTE_MASTER_KEYS"] = f"{line(world.binary, 'keys', 'master', '--name', 'k2')},{old}"
        node.start()
        tab = world.tab(world.stranger(), origin=node.origin)
        tab.open("/login")
        tab.fill(it("#key"), node.operator_key)
        tab.leaves(lambda: tab.click(it("#login-key button[type=submit]")))
        tab.open("/settings")
        tab.shows(it("#master-keys tr", "/k1.*No node starts without it/"))
        tab.shows(it("[data-sessions] tr"))
        tab.click(it("#master-keys button", "Seal everything by k2"))
        tab.confirms("Deliveries go on")
        tab.toast("Everything is sealed by k2 now")
        tab.shows(it("#master-keys tr", "/k1.*may be left out/"))
        keys = {key["name"]: key["needed"] for key in node.operator.get("/v1/master-keys")["keys"]}
        want(keys == {"k2": True, "k1": False}, f"the API says so: {keys}")
    finally:
        world.close_tabs()
        node.close()
        store.close()


@trial(looks="once")
def an_operator_makes_a_user_who_sees_what_the_role_allows_and_removes_it(world):
    tab = world.sign_in(world.tab(world.stranger()), world.node.operator_key)
    account, name = world.api.get("/v1/account")["id"], world.name("vera")
    tab.open("/")
    tab.leaves(lambda: tab.click(it(f"button[data-account='{account}']")))
    tab.open("/settings")
    tab.shows(it("[data-doctor]", "/ok/"))
    tab.click(it("#users summary", "New user"))
    form = "form[data-form='/v1/users']"
    tab.fill(it(f"{form} [name=name]"), name)
    tab.fill(it(f"{form} [name=password]"), "correct horse battery")
    tab.fill(it(f"{form} [name=role]"), "viewer")
    tab.leaves(lambda: tab.click(it(f"{form} button[type=submit]")))
    user = next(each for each in world.operator.all("/v1/users") if each["name"] == name)
    want((user["role"], user["accounts"]) == ("viewer", [account]), f"the API knows the user: {user}")
    viewer = world.tab(world.stranger())
    viewer.open("/login")
    viewer.click(it("summary", "With a user name"))
    viewer.fill(it("#user"), name)
    viewer.fill(it("#password"), "correct horse battery")
    viewer.leaves(lambda: viewer.click(it("#login-user button[type=submit]")))
    for path in ("/events", f"/events/{world.lost[0]}", "/destinations", f"/destinations/{world.well}", "/dead-letters", "/replays", "/sources", "/routes", "/settings"):
        viewer.open(path)
        acts = viewer.texts(it("main [data-action]:not([data-session]), main [data-reveal], main [data-replay-filter], main [data-dismiss-filter]"))
        want(not acts, f"a viewer changes nothing on {path}: {acts}")
    row = it("#users tr", name)
    tab.click(it("button[data-method=DELETE]", within=row))
    tab.confirms(name)
    tab.hides(row)
    want(not [each for each in world.operator.all("/v1/users") if each["name"] == name], "the API knows the user no more")
    viewer.until(viewer.is_signed_out, "who was removed is out")
