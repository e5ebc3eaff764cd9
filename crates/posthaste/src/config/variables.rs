//! Variables of the environment that look like settings and are none: a typo there would start a server on a default that
//! nobody meant, so it is an error, as it is in the file.

use super::{
    ConfigError,
    layers::{distance, variables},
    template::SETTINGS,
};

const OURS: &str = "POSTHASTE_";

/// Of the commands, beside the settings.
const OTHERS: [&str; 10] = [
    "POSTHASTE_CONFIG",
    "POSTHASTE_LOG",
    "POSTHASTE_URL",
    "POSTHASTE_API_KEY",
    "POSTHASTE_OPERATOR_KEY",
    "POSTHASTE_LISTEN_SECRET",
    "POSTHASTE_SIGN_PRIVATE_KEY",
    "POSTHASTE_SIGN_SECRET",
    "POSTHASTE_VERIFY_SECRET",
    "POSTHASTE_FAIL",
];

/// Of tests and of whoever works on the code: these may be in the environment of a shell from which a server is started.
const DEVELOPMENT: [&str; 6] = [
    "POSTHASTE_TEST",
    "POSTHASTE_UPDATE",
    "POSTHASTE_SEED",
    "POSTHASTE_SAMPLES",
    "POSTHASTE_WORLDS",
    "POSTHASTE_SEQUENCES",
];
const TESTS: &str = "POSTHASTE_TEST_";

/// Says which variable is unknown, and which one was probably meant.
pub(super) fn check(all: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
    let known: Vec<String> = SETTINGS.iter().flat_map(variables).chain(OTHERS.map(String::from)).collect();
    let is_known = |name: &str| {
        let plain = name.strip_suffix("_FILE").unwrap_or(name);
        known.iter().any(|known| known == name || known == plain)
            || DEVELOPMENT.contains(&name)
            || name.starts_with(TESTS)
    };
    let mut unknown: Vec<String> = all
        .filter(|(name, value)| name.starts_with(OURS) && !is_known(name) && !of_kubernetes(name, value))
        .map(|(name, _)| name)
        .collect();
    unknown.sort();
    let Some(name) = unknown.first() else { return Ok(()) };
    let nearest = known.iter().min_by_key(|known| distance(name, known)).expect("there are settings");
    Err(ConfigError(format!(
        "{name} is in the environment, and there is no such setting; the nearest is {nearest} (posthaste config template \
         lists all)"
    )))
}

/// What Kubernetes puts into every container of a namespace in which there is a Service called posthaste, or
/// posthaste-something: `…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_SERVICE_PORT_<NAME>`, `…_PORT` and `…_PORT_<number>_…`.
fn of_kubernetes(name: &str, value: &str) -> bool {
    let Some(rest) = name.strip_prefix("POSTHASTE") else { return false };
    let numbered = |rest: &str| {
        rest.split_once('_')
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let a_url = || ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_SERVICE_PORT")
        || rest.contains("_SERVICE_PORT_")
        || rest == "_PORT"
        // One that was meant for us (`POSTHASTE_LISTEN_PORT=8080`) is a number.
        || (rest.ends_with("_PORT") && a_url())
        || rest.match_indices("_PORT_").any(|(at, found)| numbered(&rest[at + found.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(variables: &[(&str, &str)]) -> Result<(), String> {
        let all = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        check(all).map_err(|error| error.to_string())
    }

    #[test]
    fn a_variable_that_is_no_setting_is_an_error_that_names_the_nearest() {
        let error = checked(&[("PATH", "/bin"), ("POSTHASTE_LISEN", "127.0.0.1:1")]).unwrap_err();
        assert!(
            error.contains("POSTHASTE_LISEN") && error.contains("nearest is POSTHASTE_LISTEN "),
            "{error}"
        );
        for name in ["POSTHASTE_EGRESS_ALOW", "POSTHASTE_LISTEN_PORT", "POSTHASTE_", "POSTHASTE_PORT_NAME"] {
            assert!(checked(&[(name, "8080")]).unwrap_err().contains(name));
        }
    }

    #[test]
    fn settings_their_files_and_what_tests_use_are_known() {
        for name in [
            "POSTHASTE_LISTEN",
            "POSTHASTE_MASTER_KEYS_FILE",
            "POSTHASTE_MASTER_KEY",
            "POSTHASTE_DATABASE_URL",
            "POSTHASTE_LOG",
            "POSTHASTE_FAIL",
            "POSTHASTE_UPDATE",
            "POSTHASTE_TEST",
            "POSTHASTE_TEST_POSTGRES",
            "POSTHASTE_TEST_RETENTION_DAY_SECONDS",
        ] {
            assert_eq!(checked(&[(name, "1")]), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_kubernetes_says_of_a_service_is_no_mistake() {
        for service in ["POSTHASTE", "POSTHASTE_ADMIN", "POSTHASTE_EU_WEST_1"] {
            for (ending, value) in [
                ("SERVICE_HOST", "10.96.0.12"),
                ("SERVICE_PORT", "80"),
                ("SERVICE_PORT_HTTP", "80"),
                ("PORT", "tcp://10.96.0.12:80"),
                ("PORT_80_TCP", "tcp://10.96.0.12:80"),
                ("PORT_80_TCP_PROTO", "tcp"),
                ("PORT_80_TCP_ADDR", "10.96.0.12"),
            ] {
                assert_eq!(checked(&[(&format!("{service}_{ending}"), value)]), Ok(()), "{service} {ending}");
            }
        }
    }
}
