//! What the inputs of the table are made with: objects and keys of every kind.

use client::{ApiKeyInput, NewAccount, NewSource};
use domain::account::Scope;
use domain::time::Timestamp;
use serde_json::Value;

use crate::harness::prelude::*;
use crate::harness::raw_http::{json_request, request};
use crate::harness::testbed::{API_KEY, OPERATOR_KEY, add_destination};

/// Well-formed, and nobody's.
const UNKNOWN_KEY: &str = "phk_ChecksNobody_OnlyForTheChecksNeverForAnyoneEl";

pub(super) struct Setup {
    pub(super) ingest: String,
    pub(super) disabled_ingest: String,
    pub(super) destination_id: String,
    pub(super) foreign_destination: String,
    pub(super) delivery_id: String,
    /// Of the list of destinations.
    pub(super) cursor: String,
    pub(super) unknown_key: String,
    pub(super) revoked_key: String,
    pub(super) expired_key: String,
    /// May read and do nothing else.
    pub(super) narrow_key: String,
    /// One event a second.
    pub(super) limited_key: String,
    url: String,
}

impl Setup {
    pub(super) async fn make(testbed: &Testbed) -> Result<Setup> {
        let (client, plan) = (&testbed.client, testbed.destination("limits"));
        let key = |input: ApiKeyInput| async move { client.create_api_key(&input).await };
        let named = |name: &str| ApiKeyInput { name: name.into(), ..ApiKeyInput::default() };
        let expires_at = Timestamp::from_seconds(now_seconds() + 2);
        let expired = key(ApiKeyInput { expires_at: Some(expires_at), ..named("expired") }).await?;
        let revoked = key(named("revoked")).await?;
        client.revoke_api_key(revoked.api_key.id).await?;
        let narrow =
            key(ApiKeyInput { scopes: Some(vec![Scope::DestinationsRead]), ..named("narrow") }).await?;
        let limited = key(ApiKeyInput { rate_limit: Some(1), ..named("limited") }).await?;

        let destination_id = testbed.add_destination(&plan, &["lab.first"]).await?.to_string();
        testbed.add_destination(&testbed.destination("another"), &["lab.another"]).await?;
        testbed.publish_copies("lab.first", 1).await?;
        testbed.quiesce(Duration::from_secs(10)).await?;
        let source = client.create_source(&NewSource::new("limits")).await?;
        let disabled =
            client.create_source(&NewSource { enabled: false, ..NewSource::new("disabled") }).await?;
        let list =
            async |path: &str| -> Result<Value> { Ok(serde_json::from_slice(&client.raw(path).await?)?) };
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text in a list");
        let setup = Setup {
            ingest: path_of(source.ingest_url)?,
            disabled_ingest: path_of(disabled.ingest_url)?,
            destination_id,
            foreign_destination: foreign_destination(testbed).await?,
            delivery_id: text(&list("/v1/deliveries?limit=1").await?["data"][0]["id"])?,
            cursor: text(&list("/v1/destinations?limit=1").await?["next_cursor"])?,
            unknown_key: with_checksum(UNKNOWN_KEY),
            revoked_key: revoked.key,
            expired_key: expired.key,
            narrow_key: narrow.key,
            limited_key: limited.key,
            url: plan.url,
        };
        sleep(Duration::from_secs(3)).await;
        Ok(setup)
    }

    /// A request with the account's key.
    pub(super) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let bearer = format!("Bearer {API_KEY}");
        request("GET", path, &[&[("authorization", bearer.as_str())], headers].concat(), b"")
    }

    /// A destination as it is written, with these members besides.
    pub(super) fn destination(&self, members: Value) -> Value {
        let mut destination = json!({ "name": "limits", "url": self.url });
        for (name, value) in members.as_object().into_iter().flatten() {
            destination[name] = value.clone();
        }
        destination
    }

    pub(super) fn create(&self, members: Value) -> Vec<u8> {
        json_request("POST", "/v1/destinations", API_KEY, &self.destination(members).to_string())
    }
}

fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

fn path_of(ingest_url: Option<String>) -> Result<String> {
    let url = ingest_url.context("a source that was just made shows its ingest URL")?;
    let token = url.rsplit('/').next().context("an ingest URL ends in its token")?;
    Ok(format!("/ingest/{token}"))
}

async fn foreign_destination(testbed: &Testbed) -> Result<String> {
    let operator = testbed.client.with_key(OPERATOR_KEY)?;
    let account = operator.create_account(&NewAccount::new("Another")).await?;
    let key = ApiKeyInput { name: "theirs".into(), account_id: Some(account.id), ..ApiKeyInput::default() };
    let theirs = testbed.client.with_key(&operator.create_api_key(&key).await?.key)?;
    Ok(add_destination(&theirs, &testbed.destination("foreign"), &[]).await?.to_string())
}

/// The six characters that make a key whole: its CRC-32, in base 62.
fn with_checksum(text: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let crc = !text.bytes().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    let digits = (0..6).rev().map(|place| char::from(ALPHABET[crc as usize / 62usize.pow(place) % 62]));
    text.chars().chain(digits).collect()
}
