"""A portal link shows one account to somebody who has no key: nothing of another, by whatever id, and nothing of whoever made it."""

from node import Api, wait_for
from tab import it, want
from world import trial

ALLOWED = ("/", "/events", "/destinations", "/dead-letters", "/replays", "/routes")


def customer(world, word):
    """An account with a destination and an event of its own."""
    account = world.operator.post("/v1/accounts", {"name": world.name(word)})["id"]
    key = world.operator.post("/v1/api-keys", {"kind": "account", "account_id": account, "name": "its own"})["key"]
    api = Api(world.origin, key)
    destination = api.destination(f"{word}-hook", world.receiver.url("/well"))
    api.route(destination)
    event = api.publish("invoice.paid", {"of": word})
    api.ended(event)
    return account, api, destination, event


def opened(world, link):
    tab = world.tab(world.stranger())
    tab.open(link["url"])
    tab.leaves(lambda: tab.click(it("main button[type=submit], main button.primary")))
    want(tab.path() == "/", f"the button of the link leads to the first page: {tab.where()}")
    return tab


@trial(looks="once")
def a_portal_link_shows_one_account_and_is_opened_once(world):
    account, api, destination, event = customer(world, "north")
    other, _, others_destination, others_event = customer(world, "south")
    link = world.operator.post(f"/v1/accounts/{account}/portal-links", {})
    tab = opened(world, link)
    for path in ALLOWED:
        tab.open(path)
        want(tab.path() == path, f"{path} is shown: {tab.path()}")
    tab.open("/destinations")
    tab.shows(it("a.row-link", "north-hook"))
    want(tab.count(it("a.row-link", "south-hook")) == 0, "and none of another's")
    for path in (f"/events/{others_event}", f"/destinations/{others_destination}"):
        with tab.allowing("404"):
            tab.open(path)
            tab.shows(it("main", "/not_found/"))
            status = tab.run(f"fetch('/ui/v1{path}').then(answer => answer.status)")
            want(status == 404, f"/ui/v1{path} says {status}")
    with tab.allowing("40[034]"):
        for path in ("/api-keys", "/sources", "/audit", "/nodes", "/accounts", f"/accounts/{other}", "/users"):
            status = tab.run(f"fetch('/ui/v1{path}').then(answer => answer.status)")
            want(status in (403, 404), f"/ui/v1{path} says {status}")
        status = tab.run(f"fetch('/ui/account', {{ method: 'POST', headers: {{ 'content-type': 'application/json', 'x-csrf-token': document.documentElement.dataset.csrf }}, body: JSON.stringify({{ account: '{other}' }}) }}).then(answer => answer.status)")
        want(status in (403, 404), f"another account cannot be chosen: {status}")
    # It does what its customer may do.
    tab.open(f"/destinations/{destination}")
    tab.click(it("[role=tab][aria-controls=test]"))
    tab.click(it("#test-form button[type=submit]"))
    tab.shows(it("#test-form [data-form-result]", "/HTTP 200/"))
    tab.open(f"/events/{event}")
    tab.click(it("button[data-action$='/replay']", "Replay to this one"))
    wait_for(lambda: len(api.deliveries(event_id=event)) == 2, "it is replayed")
    # Once, and revoked at once.
    again = world.tab(world.stranger())
    with again.allowing("401", "403"):
        again.open(link["url"])
        want(not again.count(it("main button[type=submit]")) or again.click(it("main button[type=submit]")) is None, "it is opened once")
        again.open("/")
        want(again.path().startswith("/login"), "and lets nobody else in")
    world.operator.delete(f"/v1/accounts/{account}/portal-links/{link['id']}")
    with tab.allowing("401"):
        tab.until(tab.is_signed_out, "who came by a link that is revoked is out")


@trial(looks="once")
def a_portal_link_that_only_looks_has_nothing_to_press(world):
    account, _, destination, event = customer(world, "east")
    tab = opened(world, world.operator.post(f"/v1/accounts/{account}/portal-links", {"read_only": True}))
    for path in (*ALLOWED, f"/events/{event}", f"/destinations/{destination}"):
        tab.open(path)
        acts = tab.texts(it("main [data-action], main [data-reveal], main [data-replay-filter], main [data-dismiss-filter], main [data-bulk]"))
        want(not acts, f"{path} has nothing to press: {acts}")
