//! What the audit log tells of a destination. A URL may be a credential itself, as may the value of any header: of the
//! one its origin is told, of the others their names.

use super::input;
use domain::{
    audit::Told,
    destination::{Auth, Destination},
};
use serde_json::Value;
use url::Url;

pub(super) fn told(destination: &Destination) -> Told {
    let mut form = serde_json::to_value(input::form(destination)).expect("an input is plain data");
    let names = destination.headers.iter().map(|(name, _)| Value::from(name.as_str())).collect();
    form["headers"] = Value::Array(names);
    form["url"] = origin(&destination.url).into();
    if let Auth::OAuth2(client) = &destination.auth {
        form["auth"]["token_url"] = origin(&client.token_url).into();
    }
    let secret = &destination.secret;
    Told::of(form)
        .with("paused", destination.switch.paused_at.is_some())
        .with("disabled", destination.switch.disabled.is_some())
        .with_secret("url", destination.url.as_bytes())
        .with_secret("headers", kept(&destination.headers))
        .with_secret("auth", kept(&destination.auth))
        .with_secret("signing.secret", kept(&(&secret.current, &secret.previous)))
        .with_secret("signing.key_pair", kept(&(&secret.key_pair, &secret.previous_key_pair)))
}

fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "…".into(), |url| format!("{}/…", url.origin().ascii_serialization()))
}

/// As it is kept: sealed where it is a secret, and the same only if nobody has written it.
fn kept(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is kept is plain data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{
        id::{AccountId, DestinationId},
        seal::Sealed,
        time::Timestamp,
    };
    use serde_json::json;

    fn destination() -> Destination {
        let (id, account) = (DestinationId::MIN, AccountId::MIN);
        Destination::new(
            id,
            account,
            "Orders",
            "https://hooks.example/T0/hunter2?key=hunter2",
            Timestamp::MIN,
        )
    }

    fn difference(before: &Destination, after: &Destination) -> Value {
        let text = told(after).since(&told(before)).expect("a difference");
        assert!(!text.contains("hunter"), "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn nothing_that_may_be_a_secret_is_told() {
        let before = destination();
        let mut after = before.clone();
        after.url = "https://hooks.example/T0/hunter3".into();
        after.headers = vec![("x-api-key".into(), "hunter2".into())];
        after.auth = Auth::Bearer { token: Sealed(b"hunter2".to_vec()) };
        after.secret.current = Sealed(b"hunter2".to_vec());
        let found = difference(&before, &after);
        assert_eq!(found["url"], "changed");
        assert_eq!(found["headers"], json!({ "from": [], "to": ["x-api-key"] }));
        assert_eq!(found["auth"]["to"]["type"], "bearer");
        assert_eq!(found["signing.secret"], "changed");
        assert!(told(&after).made().is_some_and(|text| !text.contains("hunter")));

        let mut again = after.clone();
        again.headers[0].1 = "hunter4".into();
        again.auth = Auth::Bearer { token: Sealed(b"hunter4".to_vec()) };
        again.url = "https://elsewhere.example/hunter4".into();
        let found = difference(&after, &again);
        assert_eq!(found["headers"], "changed");
        assert_eq!(found["auth"], "changed");
        assert_eq!(found["url"]["to"], "https://elsewhere.example/…");
    }
}
