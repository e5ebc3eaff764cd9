// The client of @hey-api/openapi-ts, in daily use: no cast, no `any`.
import { createClient, createConfig } from "./hey/client/index.js";
import {
  createDestination, createReplay, createRoute, getEvent, listEvents, publish, publishBatch, replayEvent,
  rotateDestinationSecret, testDestination, updateDestination,
} from "./hey/index.js";

const { POSTHASTE_URL: baseUrl = "", POSTHASTE_KEY: auth = "", RECEIVER_URL: url = "" } = process.env;
const client = createClient(createConfig({ baseUrl, auth }));
const sure: { client: typeof client; throwOnError: true } = { client, throwOnError: true };

const { data: destination } = await createDestination({
  ...sure,
  body: { name: "Orders", url, auth: { type: "basic", username: "orders", password: "secret" } },
});
const path = { id: destination.id };
await createRoute({ ...sure, body: { destination_id: destination.id, event_types: ["order.*"] } });

const { data: accepted } = await publish({
  ...sure,
  headers: { "idempotency-key": "order-1" },
  body: { type: "order.paid", data: { nested: [1, null] }, ordering_key: "customer-7" },
});
await publish({ ...sure, body: { type: "order.csv", data_base64: "YSxi", content_type: "text/csv" } });
const { data: batch } = await publishBatch({ ...sure, body: { events: [{ type: "order.text", data: "seven" }] } });
for (const result of batch.results) if (result.status === "refused") throw new Error(result.error.detail);

const read = async () => (await getEvent({ ...sure, path: { id: accepted.id } })).data;
let event = await read();
while (event.fanout.completed_at === null) {
  await new Promise((later) => setTimeout(later, 50));
  event = await read();
}
const { data: page } = await listEvents({ ...sure, query: { type: ["order.*"], limit: 2 } });
if (page.data.length !== 2 || page.next_cursor === null) throw new Error("two of three are on the first page");
const { data: rest } = await listEvents({ ...sure, query: { type: ["order.*"], limit: 2, cursor: page.next_cursor } });
if (rest.data[0]?.type !== "order.paid" || rest.next_cursor !== null) throw new Error("the oldest is the last");

const { data: again } = await replayEvent({ ...sure, path: { id: event.id } });
const { data: dry } = await createReplay({ ...sure, body: { filter: { status: ["delivered"] }, dry_run: true } });
if ("id" in dry || again.matched !== 1) throw new Error("a dry run makes nothing, a replay of one event one delivery");
const { data: tested } = await testDestination({ ...sure, path });
const { data: forced } = await testDestination({ ...sure, path, body: { data: [true], force: true } });
if (tested.outcome !== "success" || forced.http_status !== 200) throw new Error("the receiver takes everything");
const { data: rotated } = await rotateDestinationSecret({ ...sure, path });
if (rotated.signing.secret === destination.signing.secret) throw new Error("the secret is another");
await updateDestination({ ...sure, path, body: { max_concurrency: null, name: "Orders, renamed" } });
const { error } = await createRoute({ client, body: { destination_id: "dst_01h455vb4pex5vsknk084sn02q" } });
if (error?.errors[0]?.pointer !== "/destination_id") throw new Error("a problem names its place");
