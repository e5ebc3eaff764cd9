//! Hazard: whoever gets at the database, its log, a backup or a file that was left behind reads secrets.
//!
//! Secrets that can be found again are given wherever one can be given, and those that the node makes itself are noted:
//! signing secrets (given, made and rotated), credentials of destinations of every kind, secrets and credentials of every way
//! to verify, ingest URLs, API keys, the master key, a password, portal links and a session. They are used, in requests that
//! succeed, fail and are refused. A backup is made; the node is killed, so that nothing is tidied up. Then sealed values are
//! moved to other rows, of another account and of the same one, and the node is started again.
//!
//! Holds if none of the secrets is found, as it is or in hexadecimal digits or base64, in the tables, in any file of the
//! store, its log and its backups, or in the folder for temporary files; and if what was moved opens nowhere: its deliveries
//! end as dead letters that say why, without a request, and those beside it arrive.

use client::{Client, RotateSecret};
use domain::id::DestinationId;
use domain::signature::SigningSecret;
use lab::RequestEnd;
use serde_json::Value;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::harness::at_rest::look_through;
use crate::harness::canaries::Canaries;
use crate::harness::doctor::node_command;
use crate::harness::other_account::OtherAccount;
use crate::harness::postgres_server::target_dir;
use crate::harness::prelude::*;
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const MASTER_BYTES: [u8; 32] = *b"A key that must not be found 32b";
/// In every field that takes a secret so many different ones are given, one after the other or in different objects.
const EACH: u64 = 20;
const USERS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let parent = target_dir()?.join("checks");
    std::fs::create_dir_all(&parent)?;
    let temporary = tempfile::tempdir_in(parent)?;
    let key = STANDARD.encode(MASTER_BYTES);
    let plan = TestbedPlan::new(options)?
        .env("POSTHASTE_MASTER_KEY", &key)
        .env("TMPDIR", &temporary.path().display().to_string());
    let mut testbed = plan.start().await?;
    let mut canaries = Canaries::default();
    canaries.know("the master key", MASTER_BYTES);
    canaries.know("an account's key", API_KEY.rsplit('_').next().unwrap_or_default());
    canaries.know("an operator's key", OPERATOR_KEY.rsplit('_').next().unwrap_or_default());

    let each = options.count(EACH);
    let asker = Asker { testbed: &testbed, key: API_KEY };
    let destinations = asker.destinations(each, &mut canaries).await?;
    asker.sources(each, &mut canaries).await?;
    asker.keys(each, &mut canaries).await?;
    // Some answer, some refuse, and what they are told and answer is kept.
    testbed.receiver.default_script(Script::custom(|request| match request.attempt {
        1 => Reply::status(500),
        _ => Reply::ok(),
    }));
    testbed.publish_copies("lab.secret", 10).await?;
    let events = 10 * destinations.len() as u64;
    report.must(testbed.receiver.wait_for_succeeded(events, PATIENCE).await, "not everything was delivered");
    report.must_be("left_in_queue", testbed.quiesce(PATIENCE).await?, 0);
    report.note("planted", canaries.count());
    report.note("kinds", canaries.kinds());

    if testbed.database.kind() == StoreKind::Sqlite {
        let copy = testbed.dir().join("backup.db");
        let made = node_command(&testbed, &["backup"]).arg(&copy).output().await?;
        report.must(made.status.success(), "the backup failed");
    }
    testbed.kill().await?;
    look_through(&testbed, &canaries, temporary.path(), report).await?;
    moved_secrets_do_not_open(testbed, report).await
}

struct Asker<'a> {
    testbed: &'a Testbed,
    key: &'a str,
}

impl Asker<'_> {
    /// Asks with JSON and gives what is answered, which must be a success.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let request = raw_http::json_request(method, path, self.key, &body.to_string());
        let answer = raw_http::exchange(self.testbed.addr, &request, Duration::from_secs(5)).await?;
        ensure!(answer.status.is_some_and(|status| status < 300), "{method} {path}: {}", answer.text);
        Ok(serde_json::from_str(answer.body()).unwrap_or_default())
    }

    /// With a signing secret and credentials of each kind.
    async fn destinations(&self, each: u64, canaries: &mut Canaries) -> Result<Vec<DestinationId>> {
        let mut made = Vec::new();
        for number in 0..each {
            let given = signing_secret("a signing secret that was given", canaries);
            let auth = match number % 3 {
                0 => json!({ "type": "bearer", "token": canaries.plant("a bearer token") }),
                1 => {
                    json!({ "type": "basic", "username": "checks", "password": canaries.plant("a password of a destination") })
                }
                _ => json!({ "type": "headers", "headers": {
                    "x-api-key": canaries.plant("a secret header"), "x-tenant-key": canaries.plant("a secret header"),
                } }),
            };
            let body = json!({
                "name": format!("d{number:02}"), "url": self.testbed.receiver.url(&format!("/d/d{number:02}")),
                "auth": auth, "signing": { "secret": given },
                "retry_policy": { "schedule_seconds": [1, 1] },
            });
            let view = self.ask("POST", "/v1/destinations", &body).await?;
            let id: DestinationId = view["id"].as_str().context("an id")?.parse()?;
            self.ask("POST", "/v1/routes", &json!({ "destination_id": id })).await?;
            let rotated = match number % 2 {
                0 => signing_secret("a signing secret that was rotated to", canaries),
                _ => {
                    let rotated = self.testbed.client.rotate_secret(id).await?;
                    let secret = rotated.signing.secret.context("a secret is shown when it is made")?;
                    know_signing_secret("a signing secret that was made", &secret, canaries);
                    made.push(id);
                    continue;
                }
            };
            let body =
                serde_json::to_value(RotateSecret { secret: Some(rotated), ..RotateSecret::default() })?;
            self.ask("POST", &format!("/v1/destinations/{id}/rotate-secret"), &body).await?;
            made.push(id);
        }
        Ok(made)
    }

    /// With secrets for each way to verify that takes a text of one's own, and what does not verify.
    async fn sources(&self, each: u64, canaries: &mut Canaries) -> Result<()> {
        let kinds = ["github", "stripe", "shopify", "slack", "linear", "paddle", "hmac", "basic", "bearer"];
        for number in 0..each.max(kinds.len() as u64) {
            let kind = kinds[number as usize % kinds.len()];
            let what = format!("a secret of a source ({kind})");
            let mut plant = || match kind {
                "basic" => format!("checks:{}", canaries.plant(&what)),
                _ => canaries.plant(&what),
            };
            let mut verification = json!({ "type": kind, "secrets": [plant(), plant()] });
            if kind == "hmac" {
                verification["header"] = json!("x-signature");
            }
            let body = json!({ "name": format!("{kind} {number}"), "verification": verification });
            let view = self.ask("POST", "/v1/sources", &body).await?;
            let url = view["ingest_url"].as_str().context("an ingest URL is shown when it is made")?;
            let token = url.rsplit('/').next().unwrap_or_default();
            canaries.know("an ingest URL", token);
            // What a caller shows that is not believed is nobody's to keep either.
            let wrong = canaries.plant("a credential that was refused");
            let headers = [
                ("authorization", format!("Bearer {wrong}")),
                ("x-signature", wrong.clone()),
                ("x-hub-signature-256", format!("sha256={wrong}")),
                ("content-type", "application/json".into()),
            ];
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let request = raw_http::request("POST", &format!("/ingest/{token}"), &headers, b"{}");
            let answer = raw_http::exchange(self.testbed.addr, &request, Duration::from_secs(5)).await?;
            ensure!(matches!(answer.status, Some(400 | 401)), "it was believed: {}", answer.text);
        }
        Ok(())
    }

    /// Keys of every kind, a user's password, portal links and what they begin.
    async fn keys(&self, each: u64, canaries: &mut Canaries) -> Result<()> {
        let operator = Asker { key: OPERATOR_KEY, ..*self };
        for number in 0..each {
            let asked = [
                (self, json!({ "name": format!("key {number}") }), "an API key that was made"),
                (&operator, json!({ "name": "platform", "kind": "platform" }), "a platform's key"),
            ];
            for (asker, body, what) in asked {
                let made = asker.ask("POST", "/v1/api-keys", &body).await?;
                let key = made["key"].as_str().context("a key is shown when it is made")?;
                canaries.know(what, key.rsplit('_').next().unwrap_or_default());
            }
            // Each is slow on purpose.
            if number < USERS {
                let password = canaries.plant("a password of a user");
                let user =
                    json!({ "name": format!("user-{number}"), "password": password, "role": "operator" });
                operator.ask("POST", "/v1/users", &user).await?;
            }
            let account = self.testbed.client.own_account().await?.id;
            let path = format!("/v1/accounts/{account}/portal-links");
            let link = operator.ask("POST", &path, &json!({})).await?;
            let url = link["url"].as_str().context("a link is shown when it is made")?;
            canaries.know("a portal link", url.rsplit(['/', '=', '#']).next().unwrap_or_default());
        }
        Ok(())
    }
}

fn signing_secret(what: &str, canaries: &mut Canaries) -> String {
    let mut bytes = [0u8; 32];
    bytes.fill_with(rand::random);
    let secret = format!("whsec_{}", STANDARD.encode(bytes));
    know_signing_secret(what, &secret, canaries);
    secret
}

/// As text and as the bytes that sign.
fn know_signing_secret(what: &str, secret: &str, canaries: &mut Canaries) {
    let text = secret.trim_start_matches("whsec_");
    canaries.know(what, text);
    canaries.know(what, STANDARD.decode(text).unwrap_or_else(|_| vec![0xa5; 32]));
}

/// A sealed value belongs to its row: in another one, of whatever account, it is nothing.
async fn moved_secrets_do_not_open(mut testbed: Testbed, report: &mut Report) -> Result<()> {
    testbed.start().await?;
    testbed.receiver.default_script(Reply::ok());
    let other = OtherAccount::make(&testbed).await?;
    let foreign = make(&testbed, &other.client, "foreign").await?;
    let mut rows = Vec::new();
    for name in ["of-another-account", "of-the-same-account", "token", "untouched", "donor"] {
        rows.push(make(&testbed, &testbed.client, name).await?);
    }
    let [of_another, of_the_same, token, untouched, donor] = rows[..] else { unreachable!("five names") };
    testbed.stop().await?;
    let of = |doc: &Value, pointer: &str| doc.pointer(pointer).cloned().unwrap_or_default();
    let secret = "/secret/current";
    let theirs = of(&document(&testbed, foreign).await?, secret);
    put(&testbed, of_another, secret, &theirs).await?;
    let ours = document(&testbed, donor).await?;
    put(&testbed, of_the_same, secret, &of(&ours, secret)).await?;
    put(&testbed, token, "/auth/token", &of(&ours, "/auth/token")).await?;
    testbed.start().await?;

    testbed.publish_copies("moved.secret", 5).await?;
    testbed.must_drain(PATIENCE, report).await?;
    for (name, id, delivered) in [
        ("of-another-account", of_another, 0u64),
        ("of-the-same-account", of_the_same, 0),
        ("token", token, 0),
        ("untouched", untouched, 5),
        ("donor", donor, 5),
    ] {
        let id = testbed.database.literal(id.bytes());
        let dead = format!(
            "select count(*) from attempts where destination_id = {id} and ending = 'dead_letter' and reason = 'undeliverable'"
        );
        report.must_be(&format!("{name}_dead_letters"), testbed.database.number(&dead).await?, 5 - delivered);
        let requests = testbed.receiver.snapshot().into_iter().filter(|record| &*record.destination == name);
        let requests = requests.filter(|record| record.end != RequestEnd::Aborted).count();
        report.must_be(&format!("{name}_requests"), requests, delivered);
    }
    let log = testbed.log();
    report.must(!log.contains("panicked"), "something panicked");
    testbed.tear_down().await
}

/// A destination with a token, which gets what is published.
async fn make(testbed: &Testbed, client: &Client, name: &str) -> Result<DestinationId> {
    let mut plan = testbed.destination(name);
    plan.auth = serde_json::from_value(json!({ "type": "bearer", "token": format!("token of {name}") }))?;
    let id = client.create_destination(&plan).await?.id;
    let mut route = client::NewRoute::to(id);
    route.event_types = vec!["moved.secret".into()];
    client.create_route(&route).await?;
    let secret: SigningSecret = client.destination_secret(id).await?.secret.parse()?;
    ensure!(!secret.expose().is_empty(), "a destination has a secret");
    Ok(id)
}

async fn document(testbed: &Testbed, id: DestinationId) -> Result<Value> {
    let id = testbed.database.literal(id.bytes());
    let rows = testbed.database.rows(&format!("select doc from destinations where id = {id}")).await?;
    let text = rows.first().and_then(|row| row[0].text()).context("the destination is gone")?;
    Ok(serde_json::from_str(text)?)
}

async fn put(testbed: &Testbed, id: DestinationId, pointer: &str, value: &Value) -> Result<()> {
    let mut doc = document(testbed, id).await?;
    *doc.pointer_mut(pointer).context("there is nothing sealed there")? = value.clone();
    let (text, id) = (doc.to_string().replace('\'', "''"), testbed.database.literal(id.bytes()));
    testbed.database.write(&format!("update destinations set doc = '{text}' where id = {id}")).await
}
