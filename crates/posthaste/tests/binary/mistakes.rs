//! What a hurried person does: typos, wrong files, keys revoked by accident.

use crate::node::{Place, output, text};
use std::{fs, os::unix::fs::PermissionsExt};

#[tokio::test]
async fn checking_the_settings_finds_what_serving_would_refuse() {
    let place = Place::new();
    let key = place.line(&["keys", "master"]).await;
    let other = place.line(&["keys", "master"]).await;
    for (variable, value, said) in [
        ("POSTHASTE_MASTER_KEYS", "k1:short", "name:base64"),
        ("POSTHASTE_MASTER_KEYS", &*format!("{key},{other}"), "two different keys are called k1"),
        ("POSTHASTE_BOOTSTRAP_API_KEY", "phk_nonsense", "well-formed"),
        ("POSTHASTE_DATABASE", "mysql://u:hidden@h/x", "sqlite:PATH"),
        ("POSTHASTE_LOG", "a=b=c", "POSTHASTE_LOG"),
        ("POSTHASTE_TEST_RETENTION_DAY_SECONDS", "1", "set POSTHASTE_TEST=1 as well"),
        ("POSTHASTE_LISEN", "127.0.0.1:1", "the nearest is POSTHASTE_LISTEN "),
    ] {
        let mut command = place.command(&["config", "check"]);
        command.env(variable, value);
        let refused = output(command).await;
        assert_eq!(refused.status.code(), Some(2), "{variable}={value}: {refused:?}");
        let told = text(&refused.stderr);
        assert!(told.contains(said) && !told.contains("hidden"), "{told}");
    }
    let mut command = place.command(&["config", "check"]);
    command.env("POSTHASTE_PORT", "tcp://10.0.0.1:80").env("POSTHASTE_ADMIN_SERVICE_HOST", "10.0.0.1");
    assert!(output(command).await.status.success(), "what Kubernetes sets is no mistake");
}

#[tokio::test]
async fn looking_at_keys_makes_no_store() {
    let place = Place::new();
    for arguments in [&["keys", "list"][..], &["keys", "revoke", "key_01h455vb4pex5vsknk084sn02q"]] {
        let refused = place.run(arguments).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("there is no store at"), "{refused:?}");
    }
    assert!(!place.data_dir().exists());
}

#[tokio::test]
async fn payloads_are_for_the_owner_alone_even_in_an_open_folder() {
    let place = Place::new();
    fs::create_dir_all(place.data_dir()).unwrap();
    fs::set_permissions(place.data_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let _node = place.dev().await;
    for name in ["posthaste.db", "posthaste.db-wal", "posthaste.db-shm"] {
        let mode = fs::metadata(place.data_dir().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[tokio::test]
async fn development_goes_on_with_another_key_when_its_own_was_revoked() {
    let place = Place::new();
    let mut node = place.dev().await;
    let first = node.key();
    assert!(node.signal("TERM").await.success());
    let listed: serde_json::Value =
        serde_json::from_str(&place.line(&["keys", "list", "--json"]).await).unwrap();
    place.line(&["keys", "revoke", listed["id"].as_str().unwrap()]).await;

    let mut node = place.dev().await;
    let second = node.key();
    assert_ne!(first, second);
    node.client().own_account().await.expect("the new key works");
    assert!(node.signal("TERM").await.success());
    assert_eq!(place.dev().await.key(), second, "and is kept");
}

#[tokio::test]
async fn what_is_sent_has_an_end() {
    let place = Place::new();
    let refused = place
        .run(&["send", "--type", "a", "--data", "@/dev/zero", "--key", "k", "--url", "http://127.0.0.1:1"])
        .await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("has more than"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_in_one_sentence() {
    let place = Place::new();
    let missed = place.run(&["health", "--url", "http://127.0.0.1:1"]).await;
    assert_eq!(missed.status.code(), Some(6));
    assert_eq!(text(&missed.stderr).matches("Connection refused").count(), 1, "{missed:?}");
}

#[tokio::test]
async fn what_is_careless_is_told_at_the_start_and_by_the_doctor() {
    let place = Place::new();
    let key = place.line(&["keys", "master"]).await;
    fs::create_dir_all(place.data_dir()).unwrap();
    let file = place.data_dir().join("master.key");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(place.data_dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let careless = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("POSTHASTE_MASTER_KEYS_FILE", &file).env("POSTHASTE_EGRESS_ALLOW", "0.0.0.0/0");
        command
    };
    let told = output(careless(&["doctor", "--json"])).await;
    for check in ["secret_files", "folder_modes", "egress", "database_file"] {
        assert!(
            text(&told.stdout).contains(&format!("\"check\":\"{check}\",\"level\":\"warning\"")),
            "{told:?}"
        );
    }
    // It ends at once, after it has looked around.
    let said =
        output(careless(&["serve", "--listen", "127.0.0.1:0", "--database", "sqlite:/dev/null/none"])).await;
    assert!(!said.status.success());
    for words in ["can read the secrets in it", "can replace what is in it", "egress.allow covers 0.0.0.0/0"]
    {
        assert!(text(&said.stderr).contains(words), "{words}: {said:?}");
    }
    let url = "postgres://me:sesame@127.0.0.1:1/none";
    let told = output(careless(&["doctor", "--json", "--database", url])).await;
    assert!(text(&told.stdout).contains("\"arguments\""), "{told:?}");
    assert!(!text(&told.stdout).contains("sesame"), "{told:?}");
}
