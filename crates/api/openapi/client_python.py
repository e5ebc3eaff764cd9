"""The client of openapi-python-client, in daily use: no cast, nothing that mypy lets through as Any but payloads."""

import os
import time
from typing import TypeVar

from posthaste_api import AuthenticatedClient
from posthaste_api.api.destinations import (
    create_destination, rotate_destination_secret, test_destination, update_destination,
)
from posthaste_api.api.events import get_event, list_events, publish, publish_batch, replay_event
from posthaste_api.api.replays import create_replay
from posthaste_api.api.routes import create_route
from posthaste_api.models import (
    BearerAuth, BearerAuthType, DeliveryFilter, DestinationPatch, EndedStatus, NewDestination, NewRoute, Outcome, Problem,
    PublishBatch, PublishBytes, PublishJson, Refused, ReplayByFilter, ReplayEstimate, TestEvent,
)

T = TypeVar("T")


def must(answer: T | Problem | None) -> T:
    if answer is None or isinstance(answer, Problem):
        raise AssertionError(answer)
    return answer


client = AuthenticatedClient(base_url=os.environ["POSTHASTE_URL"], token=os.environ["POSTHASTE_KEY"])
destination = must(
    create_destination.sync(
        client=client,
        body=NewDestination(
            name="Orders", url=os.environ["RECEIVER_URL"], auth=BearerAuth(type_=BearerAuthType.BEARER, token="secret"),
        ),
    )
)
must(create_route.sync(client=client, body=NewRoute(destination_id=destination.id, event_types=["order.*"])))

accepted = must(
    publish.sync(
        client=client, body=PublishJson(type_="order.paid", data=[1, {"two": None}]), idempotency_key="order-1",
    )
)
must(publish.sync(client=client, body=PublishBytes(type_="order.csv", data_base64="YSxi", content_type="text/csv")))
batch = must(publish_batch.sync(client=client, body=PublishBatch(events=[PublishJson(type_="order.number", data=7)])))
assert not any(isinstance(result, Refused) for result in batch.results)

event = must(get_event.sync(accepted.id, client=client))
while event.fanout.completed_at is None:
    time.sleep(0.05)
    event = must(get_event.sync(accepted.id, client=client))
page = must(list_events.sync(client=client, type_=["order.**"], limit=2))
assert len(page.data) == 2 and page.next_cursor is not None
rest = must(list_events.sync(client=client, type_=["order.**"], limit=2, cursor=page.next_cursor))
assert [listed.type_ for listed in rest.data] == ["order.paid"] and rest.next_cursor is None

again = must(replay_event.sync(event.id, client=client))
assert again.matched == 1
dry = must(
    create_replay.sync(
        client=client, body=ReplayByFilter(filter_=DeliveryFilter(status=[EndedStatus.DELIVERED]), dry_run=True),
    )
)
assert isinstance(dry, ReplayEstimate)
assert must(test_destination.sync(destination.id, client=client)).outcome == Outcome.SUCCESS
tested = must(test_destination.sync(destination.id, client=client, body=TestEvent(data="hello", force=True)))
assert tested.http_status == 200
rotated = must(rotate_destination_secret.sync(destination.id, client=client))
assert rotated.signing.secret != destination.signing.secret
renamed = must(update_destination.sync(destination.id, client=client, body=DestinationPatch(name="Orders, renamed")))
assert renamed.auth.type_ == "bearer" and renamed.name == "Orders, renamed"
refused = create_route.sync(client=client, body=NewRoute(destination_id="dst_01h455vb4pex5vsknk084sn02q"))
assert isinstance(refused, Problem) and refused.errors[0].pointer == "/destination_id"
