//! Credentials for destinations that are more than a value: OAuth 2.0, client certificates, signatures of AWS.

use crate::{
    on_every_store,
    world::{World, text},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{account::Scope, limits};
use http::Method;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

const CREATED: &str = "/v1/destinations";

async fn made(world: &World, auth: Value) -> (String, Value) {
    let body = json!({ "name": "Orders", "url": "https://example.com/hooks", "auth": auth });
    let made = world.post(CREATED, body).await.expect(201);
    (format!("/v1/destinations/{}", text(&made["id"])), made["auth"].clone())
}

fn with(mut auth: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        auth[name] = value.clone();
    }
    auth
}

fn oauth2(more: Value) -> Value {
    let auth = json!({
        "type": "oauth2", "token_url": "https://auth.example.com/token", "client_id": "me", "client_secret": "hunter2",
    });
    with(auth, more)
}

fn aws(more: Value) -> Value {
    let auth = json!({
        "type": "aws_sigv4", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "hunter2", "region": "eu-central-1",
        "service": "execute-api",
    });
    with(auth, more)
}

/// A certificate for this name, and its key, as PEM.
fn pair(name: &str, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    change(&mut params);
    let certificate = params.self_signed(&key).unwrap();
    (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn mtls((certificate, key): &(String, String)) -> Value {
    json!({ "type": "mtls", "certificate": certificate, "private_key": key })
}

fn refused_oauth2() -> Vec<(Value, &'static str, &'static str)> {
    let params: Value = (0..=limits::TOKEN_PARAMS).map(|n| (format!("p{n}"), json!("v"))).collect();
    vec![
        (json!({ "token_url": null }), "/auth/token_url", "missing_field"),
        (json!({ "token_url": "https://127.0.0.1/token" }), "/auth/token_url", "blocked_target"),
        (json!({ "token_url": "http://auth.example.com/token" }), "/auth/token_url", "invalid_url"),
        (json!({ "token_url": "https://me:hunter2@auth.example.com/" }), "/auth/token_url", "invalid_url"),
        (json!({ "token_url": "no url" }), "/auth/token_url", "invalid_url"),
        (json!({ "client_id": null }), "/auth/client_id", "missing_field"),
        (json!({ "client_secret": null }), "/auth/client_secret", "missing_field"),
        (json!({ "client_secret": "a\nb" }), "/auth/client_secret", "invalid_value"),
        (json!({ "client_auth": "private_key_jwt" }), "/auth/client_auth", "unknown_value"),
        (json!({ "scope": "" }), "/auth/scope", "invalid_value"),
        (json!({ "audience": "x".repeat(limits::TOKEN_SCOPE_BYTES + 1) }), "/auth/audience", "invalid_value"),
        (json!({ "params": { "scope": "a" } }), "/auth/params/scope", "not_allowed"),
        (json!({ "params": { "a b": "c" } }), "/auth/params/a b", "invalid_value"),
        (json!({ "params": params }), "/auth/params", "too_many"),
        (json!({ "token": "x" }), "/auth/token", "not_allowed"),
        (json!({ "region": "x" }), "/auth/region", "not_allowed"),
    ]
}

fn refused_aws() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({ "access_key_id": "a b" }), "/auth/access_key_id", "invalid_value"),
        (json!({ "secret_access_key": null }), "/auth/secret_access_key", "missing_field"),
        (json!({ "region": "EU" }), "/auth/region", "invalid_value"),
        (json!({ "region": null }), "/auth/region", "missing_field"),
        (json!({ "service": "a/b" }), "/auth/service", "invalid_value"),
        (json!({ "session_token": "a\u{e4}" }), "/auth/session_token", "invalid_value"),
        (json!({ "client_id": "me" }), "/auth/client_id", "not_allowed"),
    ]
}

on_every_store! {
    async fn a_client_is_shown_without_its_secret_and_keeps_it_through_changes(world) {
        let given = oauth2(json!({ "scope": "hooks:write", "audience": null, "params": { "resource": "hunter2-urn" } }));
        let (path, auth) = made(&world, given).await;
        let shown = json!({
            "type": "oauth2", "token_url": "https://auth.example.com/token", "client_id": "me",
            "client_auth": "client_secret_basic", "scope": "hooks:write", "param_names": ["resource"],
        });
        assert_eq!(auth, shown);
        let change = json!({ "auth": { "scope": null, "audience": "api", "client_auth": "client_secret_post" } });
        let changed = world.patch(&path, change).await.expect(200);
        let shown = json!({
            "type": "oauth2", "token_url": "https://auth.example.com/token", "client_id": "me",
            "client_auth": "client_secret_post", "audience": "api", "param_names": ["resource"],
        });
        assert_eq!(changed["auth"], shown);
        let elsewhere = json!({ "auth": { "token_url": "HTTPS://Auth.example.com:443/other" } });
        let changed = world.patch(&path, elsewhere).await.expect(200);
        assert_eq!(changed["auth"]["token_url"], "https://auth.example.com/other", "as it is called");
        world.patch(&path, json!({ "auth": { "params": null } })).await.expect(200);
        for shown in [&path, CREATED, "/v1/audit"] {
            let shown = world.get(shown).await;
            let shown = String::from_utf8_lossy(&shown.bytes);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    async fn what_is_wrong_with_a_client_is_said_with_its_place(world) {
        for (more, pointer, code) in refused_oauth2() {
            let body = json!({ "name": "Orders", "url": "https://example.com/", "auth": oauth2(more) });
            world.post(CREATED, body).await.expect_invalid(pointer, code);
        }
    }

    async fn another_token_url_is_not_given_the_secret_that_is_kept(world) {
        let (path, _) = made(&world, oauth2(json!({ "params": { "resource": "a" } }))).await;
        let key = world.key_with(&[Scope::DestinationsWrite]).await;
        let change = async |key: &str, auth: Value| {
            world.ask_as(key, Method::PATCH, &path, Some(json!({ "auth": auth }))).await
        };
        let moved = json!({ "token_url": "https://evil.example/token" });
        change(&key, moved.clone()).await.expect_invalid("/auth", "credentials_needed");
        let half = with(moved.clone(), json!({ "client_secret": "mine" }));
        change(&key, half.clone()).await.expect_invalid("/auth", "credentials_needed");
        change(&key, json!({ "token_url": "https://auth.example.com/elsewhere" })).await.expect(200);
        change(&key, with(half, json!({ "params": { "resource": "b" } }))).await.expect(200);
        let revealing = world.key_with(&[Scope::DestinationsWrite, Scope::SecretsReveal]).await;
        change(&revealing, json!({ "token_url": "https://auth.example.com/token" })).await.expect(200);
    }

    async fn a_certificate_is_checked_when_it_is_written_and_shown_by_its_subject_and_end(world) {
        let billing = pair("billing", |_| {});
        let (path, auth) = made(&world, mtls(&billing)).await;
        let shown = json!({ "type": "mtls", "subject": "CN=billing", "expires_at": "2040-01-01T00:00:00.000000Z" });
        assert_eq!(auth, shown);
        let renamed = world.patch(&path, json!({ "name": "Renamed" })).await.expect(200);
        assert_eq!(renamed["auth"], shown);
        let orders = pair("orders", |_| {});
        let changed = world.patch(&path, json!({ "auth": mtls(&orders) })).await.expect(200);
        assert_eq!(changed["auth"]["subject"], "CN=orders");

        let change = async |auth: Value| world.patch(&path, json!({ "auth": auth })).await;
        let over = pair("over", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        change(mtls(&over)).await.expect_invalid("/auth/certificate", "invalid_value");
        change(mtls(&(billing.0.clone(), orders.1.clone()))).await.expect_invalid("/auth/private_key", "invalid_value");
        change(mtls(&("hunter2".into(), orders.1.clone()))).await.expect_invalid("/auth/certificate", "invalid_value");
        let large = "x".repeat(limits::CERTIFICATE_BYTES + 1);
        change(mtls(&(large, orders.1.clone()))).await.expect_invalid("/auth/certificate", "invalid_value");
        change(json!({ "certificate": billing.0 })).await.expect_invalid("/auth/private_key", "missing_field");
        change(json!({ "private_key": billing.1 })).await.expect_invalid("/auth/certificate", "missing_field");
        change(json!({ "type": "oauth2" })).await.expect_invalid("/auth/client_secret", "missing_field");
        let moved = json!({ "url": "https://other.example/" });
        let key = world.key_with(&[Scope::DestinationsWrite]).await;
        world.ask_as(&key, Method::PATCH, &path, Some(moved)).await.expect_invalid("/auth", "credentials_needed");
        assert_eq!(world.get(&path).await.expect(200)["auth"]["subject"], "CN=orders", "nothing of it was kept");
        for shown in [&path, CREATED, "/v1/audit"] {
            let shown = world.get(shown).await;
            let shown = String::from_utf8_lossy(&shown.bytes);
            assert!(!shown.contains("PRIVATE KEY") && !shown.contains("BEGIN CERTIFICATE"), "{shown}");
        }
    }

    async fn a_chain_may_come_in_one_file_with_its_key(world) {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "billing");
        let own = params.signed_by(&key, &authority).unwrap();
        let own = pem("CERTIFICATE", own.der()) + &pem("CERTIFICATE", authority.der());
        let file = own.clone() + &pem("PRIVATE KEY", &key.serialize_der());
        let (_, auth) = made(&world, mtls(&(file.clone(), file))).await;
        assert_eq!(auth["subject"], "CN=billing");
    }

    async fn credentials_of_aws_are_shown_without_their_secrets(world) {
        let (path, auth) = made(&world, aws(json!({ "session_token": "hunter2-for-a-while" }))).await;
        let shown = json!({
            "type": "aws_sigv4", "access_key_id": "AKIDEXAMPLE", "region": "eu-central-1", "service": "execute-api",
        });
        assert_eq!(auth, shown);
        let moved = world.patch(&path, json!({ "auth": { "region": "us-east-1" } })).await.expect(200);
        assert_eq!(moved["auth"]["region"], "us-east-1");
        let alone = json!({ "auth": { "session_token": "hunter2" } });
        world.patch(&path, alone).await.expect_invalid("/auth/secret_access_key", "missing_field");
        world.patch(&path, json!({ "auth": { "secret_access_key": "hunter2" } })).await.expect(200);
        for (more, pointer, code) in refused_aws() {
            let body = json!({ "name": "Orders", "url": "https://example.com/", "auth": aws(more) });
            world.post(CREATED, body).await.expect_invalid(pointer, code);
        }
        let twice = json!({
            "name": "Orders", "url": "https://example.com/", "auth": aws(json!({})), "headers": { "X-Amz-Date": "1" },
        });
        world.post(CREATED, twice).await.expect_invalid("/headers/x-amz-date", "duplicate");
        for shown in [&path, CREATED, "/v1/audit"] {
            let shown = world.get(shown).await;
            let shown = String::from_utf8_lossy(&shown.bytes);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    async fn the_audit_log_says_that_a_secret_was_changed_and_not_to_what(world) {
        let (path, _) = made(&world, oauth2(json!({}))).await;
        world.patch(&path, json!({ "auth": { "client_secret": "hunter3" } })).await.expect(200);
        let log = world.get("/v1/audit?action=update_destination").await.expect(200);
        assert_eq!(log["data"][0]["difference"], json!({ "auth": "changed" }), "{log}");
        let moved = json!({ "auth": { "token_url": "https://auth.example.com/hunter2?key=hunter2", "scope": "a" } });
        world.patch(&path, moved).await.expect(200);
        let log = world.get("/v1/audit?action=update_destination").await.expect(200);
        let difference = &log["data"][0]["difference"]["auth"];
        assert_eq!(difference["to"]["scope"], "a", "{log}");
        assert_eq!(difference["to"]["token_url"], "https://auth.example.com/…");
    }
}

#[tokio::test]
async fn a_certificate_is_not_shown_without_tls() {
    let world = World::memory().await;
    let body =
        json!({ "name": "Orders", "url": "http://example.com/", "auth": mtls(&pair("billing", |_| {})) });
    world.post(CREATED, body).await.expect_invalid("/url", "not_allowed");
}
