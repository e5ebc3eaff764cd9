// The client of openapi-typescript and openapi-fetch, in daily use: no cast, no `any`.
import createClient from "openapi-fetch";
import type { components, paths } from "./fetch/schema.js";

const { POSTHASTE_URL: baseUrl = "", POSTHASTE_KEY: key = "", RECEIVER_URL: url = "" } = process.env;
const api = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });

function must<T>(answer: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.detail ?? "no answer");
  return answer.data;
}

const destination = must(
  await api.POST("/v1/destinations", {
    body: { name: "Orders", url, auth: { type: "bearer", token: "secret" }, retry_policy: { schedule_seconds: [1] } },
  }),
);
const id = destination.id;
must(await api.POST("/v1/routes", { body: { destination_id: id, event_types: ["order.*"] } }));

const accepted = must(
  await api.POST("/v1/events", {
    params: { header: { "idempotency-key": "order-1" } },
    body: { type: "order.paid", data: [1, "two", { three: null }], metadata: { vip: true } },
  }),
);
must(await api.POST("/v1/events", { body: { type: "order.csv", data_base64: "YSxi", content_type: "text/csv" } }));
const batch = must(await api.POST("/v1/events/batch", { body: { events: [{ type: "order.number", data: 7 }] } }));
for (const result of batch.results) if (result.status === "refused") throw new Error(result.error.detail);

let event = must(await api.GET("/v1/events/{id}", { params: { path: { id: accepted.id } } }));
while (event.fanout.completed_at === null) {
  await new Promise((later) => setTimeout(later, 50));
  event = must(await api.GET("/v1/events/{id}", { params: { path: { id: accepted.id } } }));
}
const types: string[] = [];
for (let cursor: string | undefined; ; ) {
  const page = must(await api.GET("/v1/events", { params: { query: { type: ["order.**"], limit: 2, cursor } } }));
  types.push(...page.data.map((listed) => listed.type));
  if (page.next_cursor === null) break;
  cursor = page.next_cursor;
}
if (types.length !== 3) throw new Error(`three events were published, listed are ${types}`);

const again = must(await api.POST("/v1/events/{id}/replay", { params: { path: { id: event.id } } }));
const dry = must(
  await api.POST("/v1/replays", { body: { filter: { status: ["delivered"], destination_id: [id] }, dry_run: true } }),
);
if ("id" in dry || again.matched !== 1) throw new Error("a dry run makes nothing, a replay of one event one delivery");

const bare = must(await api.POST("/v1/destinations/{id}/test", { params: { path: { id } } }));
const full = must(
  await api.POST("/v1/destinations/{id}/test", { params: { path: { id } }, body: { type: "order.test", data: "hello" } }),
);
if (bare.outcome !== "success" || full.http_status !== 200) throw new Error("the receiver takes everything");

const rotated = must(await api.POST("/v1/destinations/{id}/rotate-secret", { params: { path: { id } } }));
if (rotated.signing.secret === destination.signing.secret) throw new Error("the secret is another");
must(
  await api.PATCH("/v1/destinations/{id}", {
    params: { path: { id } },
    body: { name: "Orders, renamed", auth: { type: "headers", headers: { "x-token": "t" } } },
  }),
);
const refused = await api.POST("/v1/routes", { body: { destination_id: "dst_01h455vb4pex5vsknk084sn02q" } });
if (refused.error?.errors[0]?.pointer !== "/destination_id") throw new Error("a problem names its place");
