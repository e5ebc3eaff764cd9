// What the libraries from npm say to the requests that a node has sent, and Node's own Ed25519.
import { createPublicKey, verify as verifyEd25519 } from "node:crypto";
import { readFileSync } from "node:fs";
import { verify as octokitVerify, verifyWithFallback } from "@octokit/webhooks-methods";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import Stripe from "stripe";

const requests = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const it of requests) it.body = Buffer.from(it.body, "base64");
const stripe = new Stripe("sk_test_of_nobody");
const realNow = Date.now;
const OTHER = "whsec_" + Buffer.alloc(32, 9).toString("base64");

async function tried(check) {
  try {
    return (await check()) !== false;
  } catch {
    return false;
  }
}

const only = (headers, family) => Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith(family)));

function ed25519(it, key, body) {
  const { headers } = it;
  // The 12 bytes that make the key one of Ed25519, as DER has it.
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(key.slice("whpk_".length), "base64")]);
  const publicKey = createPublicKey({ key: der, format: "der", type: "spki" });
  const signed = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`), body]);
  return headers["webhook-signature"].split(" ").some((entry) => entry.startsWith("v1a,") && verifyEd25519(null, signed, publicKey, Buffer.from(entry.slice(4), "base64")));
}

const V1 = ["v1", "v1 rotated", "v1 + v1a"];
const V1A = ["v1a", "v1a rotated", "v1 + v1a"];
const OTHER_KEY = "whpk_" + Buffer.from("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "hex").toString("base64");
// Name, the ways to sign it knows, the keys it is tried with, the check, whether it looks at the time (and ahead).
const checks = [
  ["standardwebhooks", V1, "secrets", (it, key, body) => void new StandardWebhook(key).verify(body.toString(), it.headers), [301, -301]],
  ["svix, webhook-*", V1, "secrets", (it, key, body) => void new SvixWebhook(key).verify(body.toString(), it.headers), [301, -301]],
  ["svix, svix-*", ["svix", "svix rotated"], "secrets", (it, key, body) => void new SvixWebhook(key).verify(body.toString(), only(it.headers, "svix-")), [301, -301]],
  ["crypto, Ed25519", V1A, "public_keys", ed25519, []],
  ["stripe", ["stripe", "stripe rotated"], "secrets", (it, key, body) => void stripe.webhooks.constructEvent(body, it.headers["stripe-signature"], key), [301]],
  ["@octokit/webhooks-methods", ["github"], "secrets", (it, key, body) => octokitVerify(key, body.toString(), it.headers["x-hub-signature-256"]), []],
  // In a rotation the header is the old secret's: a receiver who has both believes it, whichever comes first.
  ["@octokit/webhooks-methods, both", ["github rotated"], "pair", (it, [first, ...others], body) => verifyWithFallback(first, body.toString(), it.headers["x-hub-signature-256"], others), []],
];

let failed = false;
for (const [name, ways, of, check, shifts] of checks) {
  for (const way of ways) {
    let [good, wanted, bad, tries] = [0, 0, 0, 0];
    const refused = async (it, key, body) => {
      tries += 1;
      bad += (await tried(() => check(it, key, body))) ? 0 : 1;
    };
    for (const it of requests.filter((it) => it.way === way)) {
      const keys = of === "pair" ? [it.secrets, it.secrets.toReversed()] : it[of];
      for (const key of keys) {
        wanted += 1;
        good += (await tried(() => check(it, key, it.body))) ? 1 : 0;
        const altered = Buffer.from(it.body);
        altered[altered.length - 1] ^= 1;
        await refused(it, key, altered);
        for (const shift of shifts) {
          Date.now = () => (Number(it.headers["webhook-timestamp"]) + shift) * 1000;
          await refused(it, key, it.body);
          Date.now = realNow;
        }
      }
      await refused(it, of === "pair" ? [OTHER, OTHER] : of === "secrets" ? OTHER : OTHER_KEY, it.body);
    }
    failed ||= good !== wanted || bad !== tries || wanted === 0;
    console.log(`npm   ${name.padEnd(32)} ${way.padEnd(15)} believed ${good}/${wanted}, refused ${bad}/${tries}`);
  }
}
// None of them knows v1a: alone it is refused, and not taken for something else.
for (const [name, Webhook] of [["standardwebhooks", StandardWebhook], ["svix", SvixWebhook]]) {
  let [bad, tries] = [0, 0];
  for (const it of requests.filter((it) => it.way === "v1a")) {
    tries += 1;
    bad += (await tried(() => void new Webhook(it.secrets[0]).verify(it.body.toString(), it.headers))) ? 0 : 1;
  }
  failed ||= bad !== tries || tries === 0;
  console.log(`npm   ${name.padEnd(32)} ${"v1a".padEnd(15)} knows it not: refused ${bad}/${tries}`);
}
process.exit(failed ? 1 : 0);
