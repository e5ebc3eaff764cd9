//! Which layer wins, and what is said when a value does not fit.

use super::*;
use std::{collections::HashMap, io::Write};

/// Settings from a file's text, the environment and flags.
fn layers(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Layers, ConfigError> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let environment: HashMap<_, _> = environment.iter().copied().collect();
    let flags: Vec<_> = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    let said = Sayings { dev: Dev::No, file: Some(written.path()), flags: &flags };
    Layers::stack(said, |name| environment.get(name).map(|text| (*text).to_owned()))
}

fn config(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Config, String> {
    layers(file, environment, flags)
        .and_then(|layers| Config::from_layers(&layers))
        .map_err(|error| error.to_string())
}

#[test]
fn without_a_word_every_setting_has_the_products_default() {
    let config = config("", &[], &[]).unwrap();
    assert_eq!(config.listen, ([127, 0, 0, 1], 8080).into());
    assert_eq!(config.public_url, "http://127.0.0.1:8080");
    assert_eq!(config.database, "sqlite:./posthaste-data/posthaste.db");
    assert_eq!(config.pool, 10);
    assert_eq!(config.lease, limits::LEASE);
    assert_eq!(config.rescan, limits::RESCAN);
    assert_eq!(config.grace, limits::SHUTDOWN_GRACE);
    assert_eq!(config.max_in_flight, limits::IN_FLIGHT);
    assert_eq!(config.lanes_kept, limits::LANES_KEPT);
    assert_eq!(config.connect_timeout, limits::CONNECT_TIMEOUT);
    assert_eq!(config.gate, GateSettings::default());
    assert_eq!(config.defaults, DeliverySettings::default());
    assert_eq!(config.body_bytes, limits::BODY_BYTES_DEFAULT);
    assert_eq!(config.idempotency_window, limits::IDEMPOTENCY_WINDOW);
    assert_eq!(config.addresses, AddressPolicy::default());
    assert!(config.master_keys.is_none());
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let file = "listen = '127.0.0.1:1'";
    let environment = [("POSTHASTE_LISTEN", "127.0.0.1:2")];
    let port = |file, environment: &[_], flags: &[_]| config(file, environment, flags).unwrap().listen.port();
    assert_eq!(port(file, &[], &[]), 1);
    assert_eq!(port(file, &environment, &[]), 2);
    assert_eq!(port(file, &environment, &[("listen", "127.0.0.1:3")]), 3);
}

#[test]
fn trusted_proxies_are_addresses_and_networks() {
    let proxies = |text: &str| {
        config("", &[("POSTHASTE_TRUSTED_PROXIES", text)], &[]).map(|config| config.trusted_proxies)
    };
    assert_eq!(proxies("").unwrap(), []);
    let both = ["10.0.0.0/8", "192.0.2.1/32"].map(|network| network.parse().unwrap());
    assert_eq!(proxies("10.0.0.0/8, 192.0.2.1").unwrap(), both);
    assert!(proxies("everybody").unwrap_err().contains("trusted_proxies"));
}

#[test]
fn the_database_is_a_text_or_a_table_and_its_variables_have_an_order() {
    let database = |file, environment: &[_]| config(file, environment, &[]).unwrap().database;
    assert_eq!(database("database = 'sqlite:a'", &[]), "sqlite:a");
    assert_eq!(database("[database]\nurl = 'sqlite:b'\npool = 3", &[]), "sqlite:b");
    let url = ("DATABASE_URL", "postgres://heroku");
    assert_eq!(database("database = 'sqlite:a'", &[url]), "postgres://heroku");
    assert_eq!(database("", &[url, ("POSTHASTE_DATABASE", "sqlite:c")]), "sqlite:c");
    assert_eq!(database("data_dir = '/var/lib/posthaste'", &[]), "sqlite:/var/lib/posthaste/posthaste.db");
}

#[test]
fn a_value_can_come_from_a_file_named_by_the_environment() {
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    writeln!(secret, "k1:abc").unwrap();
    let path = secret.path().to_str().unwrap();
    let read = |name| config("", &[(name, path)], &[]).unwrap().master_keys.unwrap();
    assert_eq!(read("POSTHASTE_MASTER_KEYS_FILE").expose(), "k1:abc");
    assert_eq!(read("POSTHASTE_MASTER_KEY_FILE").expose(), "k1:abc");
    let both = [("POSTHASTE_MASTER_KEYS_FILE", path), ("POSTHASTE_MASTER_KEYS", "k1:abc")];
    assert!(config("", &both, &[]).unwrap_err().contains("are both set"));
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest() {
    let error = config("[node]\nlaese = '10s'", &[], &[]).unwrap_err();
    assert!(error.contains("no setting \"node.laese\"; the nearest is \"node.lease\""), "{error}");
}

#[test]
fn a_value_that_does_not_fit_is_reported_with_its_source() {
    let error = config("", &[("POSTHASTE_NODE_LEASE", "soon")], &[]).unwrap_err();
    assert_eq!(
        error,
        "node.lease = \"soon\" (from POSTHASTE_NODE_LEASE): expected a duration such as 500ms, 10s, 5m or 24h"
    );
    assert!(config("role = 'boss'", &[], &[]).unwrap_err().contains("expected all, api or worker"));
    assert!(config("listen = ", &[], &[]).unwrap_err().contains("is not TOML"));
}

#[test]
fn an_embedded_store_has_one_process_that_does_everything() {
    let database = ("DATABASE_URL", "postgres://me@db/posthaste");
    for role in ["api", "worker"] {
        let flag = [("role", role)];
        let error = config("", &[], &flag).unwrap_err();
        assert!(error.contains("needs a PostgreSQL database"), "{error}");
        assert_eq!(config("", &[database], &flag).unwrap().role.as_str(), role);
    }
    assert_eq!(config("", &[], &[]).unwrap().role.as_str(), "all");
}

#[test]
fn lists_are_lists_in_the_file_and_have_commas_elsewhere() {
    let allow = |file, environment: &[_]| config(file, environment, &[]).unwrap().addresses.allow;
    let expected: Vec<IpNet> = vec!["127.0.0.0/8".parse().unwrap(), "10.1.2.3/32".parse().unwrap()];
    assert_eq!(allow("egress.allow = ['127.0.0.0/8', '10.1.2.3']", &[]), expected);
    assert_eq!(allow("", &[("POSTHASTE_EGRESS_ALLOW", "127.0.0.0/8,10.1.2.3")]), expected);
    let ladder = config("", &[("POSTHASTE_THROTTLE_LADDER", "2,4,8")], &[]).unwrap().gate.ladder;
    assert_eq!(ladder, [2, 4, 8].map(Duration::from_secs));
}

#[test]
fn hosts_are_denied_by_name_and_a_pattern_that_fits_none_is_an_error() {
    let file = "egress.deny_hosts = ['*.Example.com', 'a.example.org']\negress.nat64 = true";
    let addresses = config(file, &[], &[]).unwrap().addresses;
    assert!(addresses.nat64);
    assert!(addresses.check_url("https://hooks.example.com/").is_err());
    assert!(addresses.check_url("https://a.example.org/").is_err());
    assert!(addresses.check_url("https://example.com/").is_ok());
    let error = config("egress.deny_hosts = ['*']", &[], &[]).unwrap_err();
    assert!(error.contains("egress.deny_hosts = \"*\"") && error.contains("*.example.com"), "{error}");
}

#[test]
fn what_is_shown_names_its_source_and_no_secret() {
    let environment = [
        ("POSTHASTE_MASTER_KEYS", "k1:sesame"),
        ("DATABASE_URL", "postgres://me:sesame@db/posthaste"),
        ("POSTHASTE_DATABASE_LISTEN_URL", "postgres://me:sesame@db:5433/posthaste"),
        ("POSTHASTE_EGRESS_PROXY", "socks5://sesame@proxy:1080"),
    ];
    let shown = layers("", &environment, &[("listen", "[::1]:80")]).unwrap().show();
    let of = |key| shown.iter().find(|line| line.key == key).unwrap();
    assert!(!format!("{shown:?}").contains("sesame"));
    assert_eq!(of("database").value.as_deref(), Some("postgres://me:***@db/posthaste"));
    assert_eq!(of("database").source, "DATABASE_URL");
    assert_eq!(of("listen").source, "--listen");
    assert_eq!(of("rescan").source, "default");
    assert_eq!(of("node.name").value, None);
    assert_eq!(of("egress.proxy").value.as_deref(), Some("socks5://***@proxy:1080"));
    for no_url in ["me:sesame@proxy:3128", "//me:sesame@proxy", "sesame@proxy"] {
        let shown = layers("", &[("POSTHASTE_EGRESS_PROXY", no_url)], &[]).unwrap().show();
        assert!(!format!("{shown:?}").contains("sesame"), "{no_url}");
        let error = config("", &[("POSTHASTE_EGRESS_PROXY", no_url)], &[]).unwrap_err();
        assert!(!error.contains("sesame") && error.contains("socks5://"), "{error}");
    }
}

#[test]
fn a_proxy_may_resolve_names_and_is_not_printed_with_its_password() {
    let proxy = |more| {
        config(&format!("egress.proxy = 'http://me:sesame@proxy:3128'\n{more}"), &[], &[]).unwrap().proxy
    };
    assert_eq!(format!("{:?}", proxy("").unwrap()), "http://***@proxy:3128");
    assert_ne!(proxy("egress.proxy_resolves = true"), proxy(""));
    assert!(config("", &[], &[]).unwrap().proxy.is_none());
}

#[test]
fn dev_stays_on_loopback_and_may_call_private_networks() {
    let said = Sayings { dev: Dev::Yes, file: None, flags: &[] };
    let config = Config::from_layers(&Layers::stack(said, |_| None).unwrap()).unwrap().for_dev().unwrap();
    assert!(config.addresses.check_url("http://127.0.0.1:9000/hook").is_ok());
    assert!(config.addresses.check_url("http://localhost:9000/hook").is_ok());
    assert!(config.addresses.check_url("http://169.254.169.254/").is_err());

    let flags = [("listen", "0.0.0.0:8080".to_owned())];
    let open = Layers::stack(Sayings { flags: &flags, ..said }, |_| None).unwrap();
    assert!(Config::from_layers(&open).unwrap().for_dev().unwrap_err().to_string().contains("loopback only"));
}

#[test]
fn a_folder_without_a_name_and_a_foreign_database_are_refused() {
    assert!(config("", &[], &[("data_dir", "")]).unwrap_err().contains("the path of a folder"));
    let foreign = config("", &[("POSTHASTE_DATABASE", "mysql://u:hidden@h/x")], &[]).unwrap_err();
    assert!(foreign.contains("sqlite:PATH") && !foreign.contains("hidden"), "{foreign}");
}

#[test]
fn where_secrets_were_read_from_is_known_and_a_password_among_the_arguments() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let path = secret.path().to_str().unwrap();
    let read = config("", &[("POSTHASTE_BOOTSTRAP_API_KEY_FILE", path)], &[]).unwrap();
    assert_eq!(read.secret_files, [secret.path()]);
    assert_eq!(
        config("", &[("POSTHASTE_MASTER_KEYS", "k1:abc")], &[]).unwrap().secret_files,
        Vec::<PathBuf>::new()
    );
    assert_eq!(
        config("master_keys = 'k1:abc'", &[], &[]).unwrap().secret_files.len(),
        1,
        "the file of settings"
    );

    let url = "postgres://me:sesame@db/posthaste";
    for (flag, shown) in
        [(url, true), ("postgres://me@db/x?password=sesame", true), ("postgres://me@db/x", false)]
    {
        assert_eq!(config("", &[], &[("database", flag)]).unwrap().password_in_arguments, shown, "{flag}");
    }
    assert!(!config("", &[("DATABASE_URL", url)], &[]).unwrap().password_in_arguments);
}

#[test]
fn defaults_of_destinations_are_said_one_by_one() {
    let file = "[defaults]\nmax_concurrency = 3\n[defaults.retry_policy]\nschedule = ['5s', '1m']\njitter = 0\n\
                expire_after = '2d'\nretry_statuses = [404, '3xx']";
    let defaults = config(file, &[], &[]).unwrap().defaults;
    let expected = serde_json::json!({
        "max_concurrency": 3,
        "retry_policy": {
            "schedule_seconds": [5, 60], "jitter": 0.0, "expire_after_seconds": 172_800, "retry_statuses": [404, "3xx"],
        },
    });
    assert_eq!(serde_json::to_value(&defaults).unwrap(), expected);
    let said = [
        ("POSTHASTE_DEFAULTS_TIMEOUT", "7s"),
        ("POSTHASTE_DEFAULTS_RETRY_POLICY_RETRY_STATUSES", "4xx, 302"),
    ];
    let defaults = config("", &said, &[]).unwrap().defaults;
    let expected =
        serde_json::json!({ "timeout_seconds": 7, "retry_policy": { "retry_statuses": ["4xx", 302] } });
    assert_eq!(serde_json::to_value(&defaults).unwrap(), expected);
}

#[test]
fn an_empty_schedule_is_one_attempt_and_not_a_setting_left_out() {
    let file = "[defaults.retry_policy]\nschedule = []";
    let schedule = |config: Config| config.defaults.retry_policy.schedule;
    assert_eq!(schedule(config(file, &[], &[]).unwrap()), Some(Vec::new()));
    let said = |text| config("", &[("POSTHASTE_DEFAULTS_RETRY_POLICY_SCHEDULE", text)], &[]);
    assert_eq!(schedule(said("[]").unwrap()), Some(Vec::new()));
    assert_eq!(schedule(said("").unwrap()), None);
    assert!(said(",").unwrap_err().contains("[] for one attempt"));
    // Where a list may be empty it still may.
    assert!(config("egress.allow = []", &[], &[]).is_ok());
}

#[test]
fn a_default_that_no_destination_could_have_is_refused_with_the_reason() {
    let cases = [
        ("MAX_CONCURRENCY", "1001", "from 1 to 1000"),
        ("TIMEOUT", "31s", "from 1s to 30s"),
        ("TIMEOUT", "1500ms", "whole seconds"),
        ("RETRY_POLICY_SCHEDULE", "500ms", "from 1s"),
        ("RETRY_POLICY_SCHEDULE", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "at most 20 pauses"),
        ("RETRY_POLICY_JITTER", "2", "from 0 to 1"),
        ("RETRY_POLICY_EXPIRE_AFTER", "91d", "a duration from"),
        ("RETRY_POLICY_RETRY_STATUSES", "429", "holds the destination"),
        ("RETRY_POLICY_RETRY_STATUSES", "5xx", "retried anyway"),
        ("RETRY_POLICY_RETRY_STATUSES", "all", "a status such as 404, or a class such as 4xx"),
    ];
    for (name, text, reason) in cases {
        let error = config("", &[(&format!("POSTHASTE_DEFAULTS_{name}"), text)], &[]).unwrap_err();
        assert!(error.contains(reason), "{name}: {error}");
    }
}
