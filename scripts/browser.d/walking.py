"""Every page is opened as it is, in every look: quiet, no wider than the screen, and with nothing that somebody wrote as markup."""

from tab import Refused, it, want
from world import NARROW, WIDE, trial


def paths(world):
    """Every screen, and one of each thing on it."""
    replays = world.api.all("/v1/replays")
    sources = world.api.all("/v1/sources")
    return ["/", "/events", "/events?q=status:dead_letter", "/events?q=status:queued,retry_scheduled", "/events?q=nonsense:x",
            f"/events/{world.lost[0]}", f"/events/{world.many}", f"/events?q=type:order.*&selected={world.lost[0]}", "/destinations",
            "/destinations?sort=backlog", "/destinations/new", f"/destinations/{world.well}", f"/destinations/{world.throttling}",
            f"/destinations/{world.refusing}?over=24h", "/dead-letters", "/replays", *[f"/replays/{each['id']}" for each in replays[:1]],
            "/sources", *[f"/sources?before={each['id']}" for each in sources[:1]], "/routes", "/settings", "/docs",
            "/docs?op=create_destination"]


def looks_right(tab, path, width):
    over = tab.run("document.documentElement.scrollWidth - innerWidth")
    want(over <= 0, f"{path} is {over} pixels wider than {width}")
    want(not tab.run("!!document.querySelector('main img, main script, main iframe')"), f"{path} shows what somebody wrote as markup")


@trial(short=True, looks="once")
def every_page_is_quiet_and_no_wider_than_the_screen(world):
    tab = world.page("/")
    if not world.api.all("/v1/sources"):
        world.api.post("/v1/sources", {"name": "somebody"})
    # What can be unfolded is looked at unfolded, too.
    looks = (("light", WIDE), ("dark", NARROW), ("light", NARROW), ("dark", WIDE))
    for theme, width in looks[:2] if world.is_short else looks:
        tab.look(theme, width)
        for path in paths(world):
            tab.open(path)
            looks_right(tab, f"{path} ({theme})", width)
            tab.run("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
            looks_right(tab, f"{path} ({theme}, unfolded)", width)


@trial(looks="once")
def what_is_not_there_is_a_page_that_says_so(world):
    tab = world.page("/")
    for path in ("/events/evt_01jzzzzzzzzzzzzzzzzzzzzzzz", "/destinations/nonsense", "/replays/x"):
        with tab.allowing("404"):
            tab.open(path)
            tab.shows(it("main", "/not_found/"))
            looks_right(tab, path, world.look[1])
            tab.shows(it("main a", "Overview"))


@trial(looks="once")
def an_operator_sees_all_accounts_and_looks_at_one(world):
    context = world.stranger()
    tab = world.sign_in(world.tab(context), world.node.operator_key)
    want(tab.path() == "/", "an operator begins with all accounts")
    other = world.operator.post("/v1/accounts", {"name": world.name("Umbrella")})
    tab.open("/")
    tab.leaves(lambda: tab.click(it(f"button[data-account='{other['id']}']")))
    tab.open("/destinations")
    tab.shows("No destination yet")
    for path in ("/", "/events", "/dead-letters", "/replays", "/sources", "/routes", "/settings", "/?accounts"):
        tab.open(path)
        looks_right(tab, path, world.look[1])
    # Of another account's things there is nothing to see, also by their ids.
    for path in (f"/events/{world.lost[0]}", f"/destinations/{world.well}"):
        with tab.allowing("404"):
            tab.open(path)
            tab.shows(it("main", "/not_found/"))


@trial(looks="once")
def a_key_that_may_little_sees_little(world):
    key = world.api.post("/v1/api-keys", {"name": world.name("few"), "scopes": ["destinations:read"]})["key"]
    tab = world.tab(world.stranger())
    with tab.allowing("403"):
        world.sign_in(tab, key)
        for path in ("/", "/events", "/dead-letters", "/replays", "/destinations/new", f"/events/{world.lost[0]}"):
            tab.open(path)
            tab.shows("does not have the scope")
        tab.open("/destinations")
        tab.shows(it("a.row-link", "well"))
        want(not tab.count(it("main button[data-action]")), "and nothing to do")
