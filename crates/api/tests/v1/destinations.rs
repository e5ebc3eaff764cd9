use crate::{
    on_every_store,
    world::{World, text},
};
use axum::body::Body;
use domain::{
    account::Scope,
    gate::{Hold, HoldReason},
    lane::{WaitKind, WaitingFor},
    outcome::Outcome,
    time::Timestamp,
};
use http::{Method, Request};
use serde_json::{Value, json};
use store::{Change, Consequence, LaneView};

async fn made(world: &World, more: Value) -> (String, Value) {
    let mut body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = world.post("/v1/destinations", body).await.expect(201);
    (format!("/v1/destinations/{}", text(&made["id"])), made)
}

fn refused() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({ "colour": "red" }), "/colour", "unknown_field"),
        (json!({ "name": 7 }), "/name", "invalid_type"),
        (json!({ "name": " " }), "/name", "invalid_name"),
        (json!({ "url": "example.com" }), "/url", "invalid_url"),
        (json!({ "url": "http://example.com/" }), "/url", "invalid_url"),
        (json!({ "url": "https://user:secret@example.com/" }), "/url", "invalid_url"),
        (json!({ "url": "https://127.0.0.1/" }), "/url", "blocked_target"),
        (json!({ "url": "https://localhost/" }), "/url", "blocked_target"),
        (json!({ "max_concurrency": 0 }), "/max_concurrency", "out_of_range"),
        (json!({ "max_concurrency": 1001 }), "/max_concurrency", "out_of_range"),
        (json!({ "max_concurrency": "many" }), "/max_concurrency", "invalid_type"),
        (json!({ "timeout_seconds": 31 }), "/timeout_seconds", "out_of_range"),
        (json!({ "timeout_seconds": 1.5 }), "/timeout_seconds", "invalid_type"),
        (
            json!({ "retry_policy": { "schedule_seconds": [0] } }),
            "/retry_policy/schedule_seconds/0",
            "out_of_range",
        ),
        (
            json!({ "retry_policy": { "schedule_seconds": vec![1; 21] } }),
            "/retry_policy/schedule_seconds",
            "too_many",
        ),
        (json!({ "retry_policy": { "backoff": 1 } }), "/retry_policy/backoff", "unknown_field"),
        (
            json!({ "retry_policy": { "retry_statuses": [429] } }),
            "/retry_policy/retry_statuses/0",
            "out_of_range",
        ),
        (
            json!({ "retry_policy": { "retry_statuses": ["4xx", "5xx"] } }),
            "/retry_policy/retry_statuses/1",
            "out_of_range",
        ),
        (
            json!({ "retry_policy": { "retry_statuses": ["all"] } }),
            "/retry_policy/retry_statuses/0",
            "invalid_value",
        ),
        (
            json!({ "retry_policy": { "retry_statuses": ["404"] } }),
            "/retry_policy/retry_statuses/0",
            "invalid_value",
        ),
        (json!({ "headers": { "webhook-id": "1" } }), "/headers/webhook-id", "reserved_header"),
        (json!({ "headers": { "authorization": "1" } }), "/headers/authorization", "reserved_header"),
        (json!({ "headers": { "x-a": "b\r\nc" } }), "/headers/x-a", "invalid_header_value"),
        (json!({ "forward_headers": ["x a"] }), "/forward_headers/0", "invalid_header_name"),
        (
            json!({ "forward_headers": ["x-b", "X-A"], "headers": { "x-a": "1" } }),
            "/forward_headers/1",
            "duplicate",
        ),
        (
            json!({ "forward_headers": ["x-key"], "auth": { "type": "headers", "headers": { "X-Key": "1" } } }),
            "/forward_headers/0",
            "duplicate",
        ),
        (json!({ "auth": { "type": "bearer" } }), "/auth/token", "missing_field"),
        (json!({ "auth": { "type": "none", "token": "x" } }), "/auth/token", "not_allowed"),
        (
            json!({ "auth": { "type": "basic", "username": "a:b", "password": "c" } }),
            "/auth/username",
            "invalid_value",
        ),
        (json!({ "auth": { "type": "headers" } }), "/auth/headers", "missing_field"),
        (json!({ "auth": { "type": "kerberos" } }), "/auth/type", "unknown_value"),
        (
            json!({ "rate_limit": { "requests": 0, "per_seconds": 1 } }),
            "/rate_limit/requests",
            "out_of_range",
        ),
        (
            json!({ "rate_limit": { "requests": 1, "per_seconds": 3_601 } }),
            "/rate_limit/per_seconds",
            "out_of_range",
        ),
        (json!({ "ordering": "sometimes" }), "/ordering", "unknown_value"),
        (json!({ "on_dead_letter": "pause" }), "/on_dead_letter", "not_allowed"),
        (json!({ "signing": { "scheme": "paypal" } }), "/signing/scheme", "unknown_value"),
        (json!({ "signing": { "header": "x-signature" } }), "/signing/header", "not_allowed"),
        (
            json!({ "signing": { "scheme": "stripe", "header": "webhook-id" } }),
            "/signing/header",
            "reserved_header",
        ),
        (
            json!({ "signing": { "scheme": "stripe", "header": "authorization" } }),
            "/signing/header",
            "reserved_header",
        ),
        (
            json!({ "signing": { "scheme": "stripe", "header": "x sig\r\nx-evil: 1" } }),
            "/signing/header",
            "invalid_header_name",
        ),
        (
            json!({ "signing": { "scheme": "stripe" }, "headers": { "Stripe-Signature": "1" } }),
            "/signing/header",
            "duplicate",
        ),
        (
            json!({ "signing": { "scheme": "github" }, "forward_headers": ["X-Hub-Signature-256-New"] }),
            "/signing/header",
            "duplicate",
        ),
        (
            json!({ "signing": { "scheme": "stripe", "svix_headers": true } }),
            "/signing/svix_headers",
            "not_allowed",
        ),
        (json!({ "format": "cloudevents" }), "/format", "unknown_value"),
        (json!({ "signing": { "secret": "whsec_short" } }), "/signing/secret", "invalid_secret"),
    ]
}

on_every_store! {
    async fn a_destination_has_every_member_of_the_contract(world) {
        let (path, made) = made(&world, json!({})).await;
        let secret = text(&made["signing"]["secret"]);
        assert!(secret.starts_with("whsec_"));
        let expected = json!({
            "id": made["id"], "uid": null, "name": "Orders", "url": "https://example.com/hooks", "status": "active",
            "hold": null, "throttled_until": null, "throttle_reason": null, "queued_events": 0,
            "queued_events_exact": true, "in_flight": 0, "oldest_queued_at": null, "max_concurrency": 5,
            "timeout_seconds": 10, "rate_limit": null, "ordering": "none", "sequence": false, "on_dead_letter": "continue",
            "retry_policy": {
                "schedule_seconds": [30, 120, 600, 3600, 21600], "jitter": 0.2, "expire_after_seconds": 259200,
                "retry_statuses": [],
            },
            "settings_from": {
                "max_concurrency": "built_in", "timeout_seconds": "built_in",
                "retry_policy": {
                    "schedule_seconds": "built_in", "jitter": "built_in", "expire_after_seconds": "built_in",
                    "retry_statuses": "built_in",
                },
            },
            "headers": {}, "forward_headers": [], "auth": { "type": "none" }, "format": "standard",
            "signing": { "scheme": "standard", "ed25519": false, "svix_headers": false, "header": null },
            "success_rate_1h": null, "created_at": made["created_at"], "updated_at": made["updated_at"],
        });
        assert_eq!(world.get(&path).await.expect(200), expected);
        assert_eq!(world.get("/v1/destinations").await.expect(200)["data"], json!([expected]));
    }

    async fn what_is_wrong_is_refused_and_nothing_is_stored(world) {
        for (more, pointer, code) in refused() {
            let mut body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            world.post("/v1/destinations", body).await.expect_invalid(pointer, code);
        }
        world.post("/v1/destinations", json!({ "name": "Orders" })).await.expect_invalid("/url", "missing_field");
        assert_eq!(world.get("/v1/destinations").await.expect(200)["data"], json!([]));
    }

    async fn a_patch_is_held_to_the_same_rules(world) {
        let (path, _) = made(&world, json!({})).await;
        let before = world.get(&path).await.expect(200);
        for (patch, pointer, code) in refused() {
            let code = if pointer == "/signing/secret" { "not_allowed" } else { code };
            world.patch(&path, patch).await.expect_invalid(pointer, code);
        }
        world.patch(&path, json!(7)).await.expect_invalid("", "invalid_type");
        world.patch(&path, json!({ "status": "paused" })).await.expect_invalid("/status", "unknown_field");
        assert_eq!(world.get(&path).await.expect(200), before);
    }

    async fn everything_wrong_is_said_at_once(world) {
        let body = json!({ "name": "", "url": "nowhere", "max_concurrency": 0, "on_dead_letter": "pause" });
        let problem = world.post("/v1/destinations", body).await.expect(422);
        assert_eq!(problem["errors"].as_array().unwrap().len(), 4, "{problem}");
    }

    async fn a_patch_merges_and_null_restores_the_default(world) {
        let (path, _) = made(&world, json!({
            "max_concurrency": 20, "timeout_seconds": 5, "headers": { "X-Team": "orders", "x-env": "prod" },
            "retry_policy": { "schedule_seconds": [1, 2], "retry_statuses": [404, "3xx"] },
        })).await;
        let patch = json!({ "max_concurrency": null, "headers": { "x-env": null }, "retry_policy": { "jitter": 0.5 } });
        let changed = world.patch(&path, patch).await.expect(200);
        assert_eq!((&changed["max_concurrency"], &changed["timeout_seconds"]), (&json!(5), &json!(5)));
        assert_eq!(changed["headers"], json!({ "x-team": "orders" }));
        let policy = json!({
            "schedule_seconds": [1, 2], "jitter": 0.5, "expire_after_seconds": 259200, "retry_statuses": [404, "3xx"],
        });
        assert_eq!(changed["retry_policy"], policy);
        let restored = world.patch(&path, json!({ "retry_policy": null, "headers": null })).await.expect(200);
        assert_eq!(restored["retry_policy"]["schedule_seconds"], json!([30, 120, 600, 3600, 21600]));
        assert_eq!(restored["headers"], json!({}));
        assert!(text(&restored["updated_at"]) > text(&restored["created_at"]));
    }

    async fn a_shorter_retention_does_not_keep_a_destination_from_being_changed(world) {
        let schedule = json!({ "schedule_seconds": [86400, 86400, 86400] });
        let (path, made) = made(&world, json!({ "retry_policy": schedule })).await;
        let route = json!({ "destination_id": made["id"], "retry_policy": schedule });
        let route = format!("/v1/routes/{}", text(&world.post("/v1/routes", route).await.expect(201)["id"]));
        world.patch("/v1/account", json!({ "retention_days": 2 })).await.expect(200);
        for path in [&path, &route] {
            for patch in [json!({ "name": "Renamed" }), json!({ "retry_policy": { "jitter": 0.5 } })] {
                world.patch(path, patch).await.expect(200);
            }
            let longer = json!({ "retry_policy": { "schedule_seconds": [86400, 86400, 86400, 1] } });
            world.patch(path, longer).await.expect_invalid("/retry_policy/schedule_seconds", "out_of_range");
            let shorter = json!({ "retry_policy": { "schedule_seconds": [86400] } });
            world.patch(path, shorter).await.expect(200);
        }
    }

    async fn secrets_go_in_and_do_not_come_out(world) {
        let given = json!({ "auth": { "type": "headers", "headers": { "X-Api-Key": "open-sesame", "x-other": "mellon" } } });
        let (path, made) = made(&world, given).await;
        assert_eq!(made["auth"], json!({ "type": "headers", "header_names": ["x-api-key", "x-other"] }));
        let kept = world.patch(&path, json!({ "auth": { "headers": { "x-other": null } }, "name": "New" })).await.expect(200);
        assert_eq!(kept["auth"], json!({ "type": "headers", "header_names": ["x-api-key"] }));
        let basic = json!({ "auth": { "type": "basic", "username": "me", "password": "open-sesame" } });
        let changed = world.patch(&path, basic).await.expect(200);
        assert_eq!(changed["auth"], json!({ "type": "basic", "username": "me" }));
        let renamed = world.patch(&path, json!({ "auth": { "username": "you" } })).await.expect(200);
        assert_eq!(renamed["auth"], json!({ "type": "basic", "username": "you" }), "the password was kept");
        world.patch(&path, json!({ "auth": { "type": "bearer" } })).await.expect_invalid("/auth/token", "missing_field");
        world.patch(&path, json!({ "auth": { "type": "bearer", "token": "mellon" } })).await.expect(200);
        for shown in [&path, "/v1/destinations"] {
            let shown = world.get(shown).await;
            let shown = String::from_utf8_lossy(&shown.bytes);
            assert!(!shown.contains("sesame") && !shown.contains("mellon") && !shown.contains("whsec_"), "{shown}");
        }
        assert_eq!(world.patch(&path, json!({ "auth": null })).await.expect(200)["auth"], json!({ "type": "none" }));
    }

    async fn a_url_is_kept_and_shown_as_it_is_called(world) {
        let spellings = [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://EXAMPLE.com:443/Hooks", "https://example.com/Hooks"),
            ("https://example.com/a/../b/./c", "https://example.com/b/c"),
            ("https://example.com/{id}/a^b`c?q={x}", "https://example.com/%7Bid%7D/a^b%60c?q={x}"),
            ("https://example.com/ü?ä=ö", "https://example.com/%C3%BC?%C3%A4=%C3%B6"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://example.com./hooks", "https://example.com/hooks"),
            ("https://example.com?a=b", "https://example.com/?a=b"),
            ("https://example.com/%zz%2F|;,'!$&()*+=:@~", "https://example.com/%zz%2F|;,'!$&()*+=:@~"),
        ];
        for (given, kept) in spellings {
            let (path, made) = made(&world, json!({ "url": given })).await;
            assert_eq!(made["url"], kept, "{given}");
            let shown = text(&world.get(&path).await.expect(200)["url"]);
            assert_eq!(shown.parse::<http::Uri>().unwrap().to_string(), shown, "what is shown is what is called");
        }
        for unusable in ["https://example.com/a b", "https://example.com\\a", "https://exa<mple.com/", "https://[::1/"] {
            let body = json!({ "name": "Orders", "url": unusable });
            world.post("/v1/destinations", body).await.expect_invalid("/url", "invalid_url");
        }
    }

    async fn another_origin_is_not_given_the_credentials_that_are_kept(world) {
        let auth = json!({ "auth": { "type": "bearer", "token": "mellon" } });
        let (path, _) = made(&world, auth).await;
        let key = world.key_with(&[Scope::DestinationsWrite]).await;
        let change = async |key: &str, patch: Value| world.ask_as(key, Method::PATCH, &path, Some(patch)).await;
        let moved = json!({ "url": "https://evil.example/hooks" });
        change(&key, moved.clone()).await.expect_invalid("/auth", "credentials_needed");
        change(&key, json!({ "url": "https://example.com:8443/" })).await.expect_invalid("/auth", "credentials_needed");
        change(&key, json!({ "url": "https://example.com/elsewhere" })).await.expect(200);
        let again = json!({ "url": "https://other.example/", "auth": { "token": "mellon" } });
        change(&key, again).await.expect(200);
        change(&key, json!({ "url": "https://evil.example/", "auth": null })).await.expect(200);
        world.patch(&path, json!({ "auth": { "type": "bearer", "token": "mellon" } })).await.expect(200);
        let revealing = world.key_with(&[Scope::DestinationsWrite, Scope::SecretsReveal]).await;
        change(&revealing, moved).await.expect(200);
    }

    async fn a_header_stands_in_one_place(world) {
        let body = json!({
            "name": "Orders", "url": "https://example.com/hooks", "headers": { "X-Key": "a" },
            "auth": { "type": "headers", "headers": { "x-key": "b" } },
        });
        world.post("/v1/destinations", body).await.expect_invalid("/auth/headers/x-key", "duplicate");
    }

    async fn a_signing_secret_is_revealed_and_rotated(world) {
        let own = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let (path, made) = made(&world, json!({ "signing": { "secret": own } })).await;
        assert_eq!(made["signing"]["secret"], own);
        let shown = world.get(&format!("{path}/secret")).await.expect(200);
        assert_eq!(shown, json!({ "secret": own, "previous_until": null }));

        let rotated = world.tell(&format!("{path}/rotate-secret")).await.expect(200);
        let new = text(&rotated["signing"]["secret"]);
        assert!(new.starts_with("whsec_") && new != own);
        let shown = world.get(&format!("{path}/secret")).await.expect(200);
        assert_eq!(shown["secret"], new);
        assert!(shown["previous_until"].is_string(), "{shown}");

        let body = json!({ "secret": own, "overlap_seconds": 0 });
        world.post(&format!("{path}/rotate-secret"), body).await.expect(200);
        let shown = world.get(&format!("{path}/secret")).await.expect(200);
        assert_eq!(shown, json!({ "secret": own, "previous_until": null }));
        let body = json!({ "overlap_seconds": 7 * 24 * 3600 + 1 });
        world.post(&format!("{path}/rotate-secret"), body).await.expect_invalid("/overlap_seconds", "out_of_range");

        let writer = world.key_with(&[Scope::DestinationsRead, Scope::DestinationsWrite]).await;
        let refused = world.ask_as(&writer, Method::GET, &format!("{path}/secret"), None).await;
        refused.expect_problem(403, "scope_missing");
    }

    async fn a_secret_of_old_times_signs_by_the_schemes_that_know_it(world) {
        let theirs = "the secret of old times";
        let signing = json!({ "scheme": "stripe", "header": "Acme-Signature", "secret": theirs });
        let (path, made) = made(&world, json!({ "signing": signing })).await;
        assert_eq!((&made["signing"]["secret"], &made["signing"]["header"]), (&json!(theirs), &json!("acme-signature")));
        // Its own header belongs to a scheme, and the secret is fit for some of them.
        let changed = world.patch(&path, json!({ "signing": { "scheme": "github" } })).await.expect(200);
        assert_eq!(changed["signing"]["header"], "x-hub-signature-256");
        let unfit = world.patch(&path, json!({ "signing": { "scheme": "standard" } })).await;
        unfit.expect_invalid("/signing/scheme", "secret_unfit");
        let route = json!({ "destination_id": made["id"], "signing": { "scheme": "standard" } });
        world.post("/v1/routes", route.clone()).await.expect_invalid("/signing/scheme", "secret_unfit");
        let rotate = format!("{path}/rotate-secret");
        world.post(&rotate, json!({ "secret": "short" })).await.expect_invalid("/secret", "invalid_secret");
        let new = world.tell(&rotate).await.expect(200);
        assert!(text(&new["signing"]["secret"]).starts_with("whsec_"));
        world.patch(&path, json!({ "signing": { "scheme": "standard" } })).await.expect(200);
        world.post("/v1/routes", route).await.expect(201);
        world.post(&rotate, json!({ "secret": theirs })).await.expect_invalid("/secret", "invalid_secret");
    }

    async fn a_key_pair_is_made_when_it_is_asked_for_and_rotated_by_itself(world) {
        let (path, made) = made(&world, json!({})).await;
        assert!(made["signing"].get("public_key").is_none());
        let route = json!({ "destination_id": made["id"], "signing": { "ed25519": true } });
        world.post("/v1/routes", route.clone()).await.expect_invalid("/signing/ed25519", "no_key_pair");

        let changed = world.patch(&path, json!({ "signing": { "ed25519": true } })).await.expect(200);
        let first = text(&changed["signing"]["public_key"]);
        assert!(first.starts_with("whpk_"), "{first}");
        world.post("/v1/routes", route).await.expect(201);
        let secret = world.get(&format!("{path}/secret")).await.expect(200)["secret"].clone();

        // Switched off and on it is the same.
        for on in [false, true] {
            let changed = world.patch(&path, json!({ "signing": { "ed25519": on } })).await.expect(200);
            assert_eq!((&changed["signing"]["ed25519"], &changed["signing"]["public_key"]), (&json!(on), &json!(first)));
        }
        let rotate = format!("{path}/rotate-secret");
        let rotated = world.post(&rotate, json!({ "which": "key_pair" })).await.expect(200)["signing"].clone();
        assert!(rotated.get("secret").is_none() && rotated["public_key"] != first.as_str(), "{rotated}");
        assert_eq!(rotated["previous_public_key"], first.as_str());
        assert!(rotated["previous_public_key_until"].is_string() && rotated.get("previous_until").is_none());
        assert_eq!(world.get(&format!("{path}/secret")).await.expect(200)["secret"], secret);

        let own = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
        let body = json!({ "which": "key_pair", "secret": own, "overlap_seconds": 0 });
        let rotated = world.post(&rotate, body).await.expect(200)["signing"].clone();
        assert_eq!(rotated["public_key"], "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=");
        assert!(rotated.get("previous_public_key").is_none(), "{rotated}");
        let wrong = json!({ "which": "key_pair", "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" });
        world.post(&rotate, wrong).await.expect_invalid("/secret", "invalid_secret");
        // The private part is told nowhere.
        let (_, bytes) = (world.get(&path).await.expect(200), world.get("/v1/audit").await.bytes);
        assert!(!String::from_utf8_lossy(&bytes).contains("whsk_"));
    }

    async fn switches_are_turned_and_turning_them_again_is_fine(world) {
        let (path, _) = made(&world, json!({})).await;
        for (action, status) in [
            ("pause", "paused"), ("pause", "paused"), ("disable", "disabled"), ("resume", "disabled"),
            ("enable", "active"), ("enable", "active"), ("pause", "paused"), ("resume", "active"),
        ] {
            let answer = world.tell(&format!("{path}/{action}")).await.expect(200);
            assert_eq!(answer["status"], status, "after {action}: {answer}");
            let reason = answer["hold"]["reason"].as_str();
            assert_eq!(reason, Some(status).filter(|status| *status != "active"));
        }
        let told = world.announced.changes.lock().unwrap().len();
        assert_eq!(told, 7, "created and six real changes");
    }

    async fn the_history_of_holds_has_what_goes_on_and_what_has_ended(world) {
        let (path, _) = made(&world, json!({})).await;
        let holds = format!("{path}/holds");
        assert_eq!(world.get(&holds).await.expect(200), json!({ "data": [], "next_cursor": null }));
        world.tell(&format!("{path}/pause")).await.expect(200);
        let paused = world.get(&holds).await.expect(200)["data"][0].clone();
        assert_eq!(
            (&paused["reason"], &paused["ended_at"], &paused["until"], &paused["detail"]),
            (&json!("paused"), &json!(null), &json!(null), &json!("paused by request"))
        );
        world.tell(&format!("{path}/resume")).await.expect(200);
        world.tell(&format!("{path}/disable")).await.expect(200);
        let both = world.get(&holds).await.expect(200)["data"].clone();
        assert_eq!((&both[0]["reason"], &both[0]["ended_at"]), (&json!("disabled"), &json!(null)));
        assert_eq!((&both[1]["reason"], &both[1]["since"]), (&json!("paused"), &paused["since"]));
        assert!(both[1]["ended_at"].is_string() && both[2].is_null(), "{both}");

        let first = world.get(&format!("{holds}?limit=1")).await.expect(200);
        let cursor = first["next_cursor"].as_str().expect("there is more");
        let second = world.get(&format!("{holds}?limit=1&cursor={cursor}")).await.expect(200);
        assert_eq!((&first["data"][0], &second["data"][0]), (&both[0], &both[1]));
        assert_eq!(second["next_cursor"], json!(null));
        let unknown = format!("/v1/destinations/{}/holds", domain::id::DestinationId::MAX);
        world.get(&unknown).await.expect_problem(404, "not_found");
    }

    async fn a_pause_by_a_dead_letter_is_not_said_to_be_a_request(world) {
        let (destination, _) = world.routed_destination().await;
        let path = format!("/v1/destinations/{destination}");
        world.patch(&path, json!({ "ordering": "strict", "on_dead_letter": "pause" })).await.expect(200);
        let detail = async || {
            let (shown, holds) = (world.get(&path).await.expect(200), world.get(&format!("{path}/holds")).await);
            assert_eq!(shown["hold"]["detail"], holds.expect(200)["data"][0]["detail"]);
            text(&shown["hold"]["detail"])
        };
        let delivery = world.delivery_of(&world.publish("invoice.paid", json!(1)).await).await;
        world.attempt_that(Some(Consequence::Pauses), &destination, &delivery, Outcome::Rejected, 400).await;
        assert!(detail().await.starts_with("paused by a dead letter"));
        // From now on it is not known any more.
        world.patch(&path, json!({ "name": "Renamed" })).await.expect(200);
        assert!(detail().await.starts_with("paused by request or by a dead letter"));
        world.tell(&format!("{path}/resume")).await.expect(200);
        world.tell(&format!("{path}/pause")).await.expect(200);
        assert!(detail().await.starts_with("paused by request"));
    }

    async fn a_held_lane_is_shown(world) {
        let (path, made) = made(&world, json!({})).await;
        let until: Timestamp = "2026-04-03T14:30:00Z".parse().unwrap();
        let hold = Hold {
            reason: HoldReason::Throttle, since: until, until: Some(until), detail: "429 Too Many Requests".into(),
            step: Some(1), probing: false,
        };
        let view = LaneView { in_flight: 3, hold: Some(hold) };
        world.lanes.views.lock().unwrap().insert(text(&made["id"]), view);
        let shown = world.get(&path).await.expect(200);
        assert_eq!((&shown["status"], &shown["in_flight"]), (&json!("throttled"), &json!(3)));
        assert_eq!(shown["throttled_until"], "2026-04-03T14:30:00.000000Z");
        assert_eq!(shown["throttle_reason"], "429 Too Many Requests");
        assert_eq!(shown["hold"], json!({
            "reason": "throttle", "since": "2026-04-03T14:30:00.000000Z", "until": "2026-04-03T14:30:00.000000Z",
            "detail": "429 Too Many Requests", "step": 1, "probing": false,
        }));
    }

    async fn a_probe_is_passed_on_once_in_a_while(world) {
        let (path, made) = made(&world, json!({})).await;
        world.tell(&format!("{path}/probe")).await.expect(202);
        let again = world.tell(&format!("{path}/probe")).await;
        assert_eq!(again.headers["retry-after"], "5");
        again.expect_problem(429, "rate_limited");
        // Written too: the owner may be another node.
        let id: domain::id::DestinationId = text(&made["id"]).parse().unwrap();
        let target = world.store.destination_records(&[id]).await.unwrap().remove(0).unwrap();
        assert!(target.destination.unwrap().switch.probed_at.is_some());
        let told = world.announced.changes.lock().unwrap();
        let probes = told.iter().filter(|change| matches!(change, Change::Probe(id) if id.to_string() == text(&made["id"])));
        assert_eq!(probes.count(), 1);
    }

    async fn a_test_sends_one_request_and_stores_nothing(world) {
        let (path, made) = made(&world, json!({})).await;
        let attempt = world.tell(&format!("{path}/test")).await.expect(200);
        assert_eq!((&attempt["destination_id"], &attempt["http_status"]), (&made["id"], &json!(204)));
        assert_eq!(attempt["request"]["headers"]["posthaste-event-type"], "test");
        let attempt = world.post(&format!("{path}/test"), json!({ "type": "a.b", "data": [1] })).await.expect(200);
        assert_eq!(attempt["request"]["headers"]["posthaste-event-type"], "a.b");
        world.post(&format!("{path}/test"), json!({ "type": "a b" })).await.expect_invalid("/type", "invalid_value");
        assert_eq!(world.get("/v1/events").await.expect(200)["data"], json!([]));
    }

    async fn a_test_that_finds_no_slot_says_what_it_waits_for(world) {
        let (path, _) = made(&world, json!({})).await;
        let (since, until) = (Timestamp::from_seconds(1_790_000_000), Some(Timestamp::from_seconds(1_790_000_060)));
        let detail = "the destination answered 429 Too Many Requests".to_owned();
        let waits = WaitingFor { kind: WaitKind::Throttle, since, until, behind: None, detail };
        *world.sender.0.lock().unwrap() = Some(waits);
        let refused = world.tell(&format!("{path}/test")).await;
        assert_eq!(refused.body["waiting_for"], json!({
            "kind": "throttle", "since": since, "until": until, "behind": null,
            "detail": "the destination answered 429 Too Many Requests",
        }));
        refused.expect_problem(409, "test_not_sent");
        world.post(&format!("{path}/test"), json!({ "force": true })).await.expect(200);
        world.post(&format!("{path}/test"), json!({ "force": "yes" })).await.expect_invalid("/force", "invalid_type");
    }

    async fn what_waits_is_counted(world) {
        let (destination, _) = world.routed_destination().await;
        for n in 0..3 {
            world.publish("a.b", json!({ "n": n })).await;
        }
        let shown = world.get(&format!("/v1/destinations/{destination}")).await.expect(200);
        assert_eq!((&shown["queued_events"], &shown["queued_events_exact"]), (&json!(3), &json!(true)));
        assert!(shown["oldest_queued_at"].is_string());
    }

    async fn its_attempts_are_listed_newest_first(world) {
        let (destination, _) = world.routed_destination().await;
        let mut deliveries = Vec::new();
        for n in 0..3 {
            let event = world.publish("a.b", json!({ "n": n })).await;
            deliveries.push(world.delivery_of(&event).await);
        }
        for delivery in &deliveries {
            world.attempt(&destination, delivery, Outcome::ServerError, 503).await;
            world.attempt(&destination, delivery, Outcome::Success, 200).await;
        }
        let (mut seen, mut path) = (Vec::new(), format!("/v1/destinations/{destination}/attempts?limit=4"));
        loop {
            let page = world.get(&path).await.expect(200);
            let rows = page["data"].as_array().unwrap();
            seen.extend(rows.iter().map(|row| (text(&row["delivery_id"]), row["number"].as_u64().unwrap())));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/destinations/{destination}/attempts?limit=4&cursor={cursor}");
        }
        let expected: Vec<_> = deliveries.iter().rev().flat_map(|id| [(id.clone(), 2), (id.clone(), 1)]).collect();
        assert_eq!(seen, expected);
    }

    async fn a_version_that_is_gone_is_not_overwritten(world) {
        let (path, _) = made(&world, json!({})).await;
        let read = world.get(&path).await;
        let tag = read.headers["etag"].to_str().unwrap().to_owned();
        let patch = async |tag: &str, name: &str| {
            let request = Request::patch(&path)
                .header("authorization", format!("Bearer {}", world.key))
                .header("content-type", "application/json")
                .header("if-match", tag)
                .body(Body::from(json!({ "name": name }).to_string()));
            world.ask(request.unwrap()).await
        };
        let first = patch(&tag, "First").await;
        let new_tag = first.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(first.expect(200)["name"], "First");
        assert_ne!(new_tag, tag);
        patch(&tag, "Second").await.expect_problem(412, "version_mismatch");
        patch(&format!("W/{new_tag}"), "Third").await.expect(200);
        patch("*", "Fourth").await.expect(200);
        patch("nonsense", "Fifth").await.expect_problem(400, "invalid_header");
        assert_eq!(world.get(&path).await.expect(200)["name"], "Fourth");
    }

    async fn a_removed_destination_is_gone_with_its_routes(world) {
        let (destination, route) = world.routed_destination().await;
        assert_eq!(world.delete(&format!("/v1/destinations/{destination}")).await.status, 204);
        world.get(&format!("/v1/destinations/{destination}")).await.expect_problem(404, "not_found");
        world.get(&format!("/v1/routes/{route}")).await.expect_problem(404, "not_found");
        world.tell(&format!("/v1/destinations/{destination}/pause")).await.expect_problem(404, "not_found");
    }
}
