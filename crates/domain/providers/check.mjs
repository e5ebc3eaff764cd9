// What the providers' own packages on npm say to the requests that our rules are tried against: each is believed as it is, and
// none with another body.
import { readFileSync } from "node:fs";
import { verify as octokitVerify } from "@octokit/webhooks-methods";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import "@shopify/shopify-api/adapters/node";
import { shopifyApi, ApiVersion } from "@shopify/shopify-api";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import Stripe from "stripe";

const vectors = JSON.parse(readFileSync(process.argv[2], "utf8"));
const stripe = new Stripe("sk_test_of_nobody");

function tried(check) {
  try {
    return check() !== false;
  } catch {
    return false;
  }
}

function byVerifying(Webhook) {
  return (it, headers) => {
    if (!it.secret.startsWith("whsec_")) return null;
    // Svix's other names of the same headers.
    const named = Object.entries(headers).map(([name, value]) => [name.replace(/^svix-/, "webhook-"), value]);
    return tried(() => void new Webhook(it.secret).verify(it.body, Object.fromEntries(named)));
  };
}

const checks = [
  ["@octokit/webhooks-methods", "github", (it, headers) => octokitVerify(it.secret, it.body, headers["x-hub-signature-256"])],
  ["@linear/sdk", "linear", (it, headers) => tried(() => new LinearWebhookClient(it.secret).verify(Buffer.from(it.body), headers["linear-signature"]))],
  ["@shopify/shopify-api", "shopify", async (it, headers) => {
    const shopify = shopifyApi({
      apiKey: "of-nobody", apiSecretKey: it.secret, hostName: "localhost", apiVersion: Object.values(ApiVersion)[0],
      isEmbeddedApp: false, logger: { log: () => {} },
    });
    const rawRequest = { method: "POST", url: "/", headers: { ...headers, "x-shopify-api-version": "2026-01", "x-shopify-shop-domain": "x.myshopify.com" } };
    return (await shopify.webhooks.validate({ rawBody: it.body, rawRequest })).valid;
  }],
  ["stripe", "stripe", (it, headers) => tried(() => stripe.webhooks.signature.verifyHeader(it.body, headers["stripe-signature"], it.secret))],
  ["standardwebhooks", "standard", byVerifying(StandardWebhook)],
  ["svix", "standard", byVerifying(SvixWebhook)],
];

let failed = false;
for (const [name, kind, check] of checks) {
  let good = 0, bad = 0;
  for (const it of vectors.filter((it) => it.type === kind)) {
    const headers = Object.fromEntries(it.headers);
    Date.now = () => it.at * 1000; // the moment it was signed at
    const found = await check(it, headers);
    if (found === null) continue;
    const altered = await check({ ...it, body: it.body + " " }, headers);
    good += found ? 1 : 0;
    bad += altered ? 0 : 1;
    failed ||= !found || altered;
  }
  failed ||= good === 0;
  console.log(`npm  ${name.padEnd(24)} ${kind.padEnd(10)} ${good} believed, ${bad} altered ones not`);
}
process.exit(failed ? 1 : 0);
