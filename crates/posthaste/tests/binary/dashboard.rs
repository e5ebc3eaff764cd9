//! The ways into the dashboard that a start prints.

use crate::node::{Node, Place, text};
use serde_json::Value;
use tokio::process::Command;

/// Head and body of an answer.
async fn curl(arguments: &[&str]) -> String {
    let answer = Command::new("curl").args(["-sSi", "--max-time", "20"]).args(arguments).output().await;
    let answer = answer.expect("curl is needed for this test");
    assert!(answer.status.success(), "{answer:?}");
    text(&answer.stdout).to_owned()
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let line = answer.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")))?;
    line.split_once(": ").map(|(_, value)| value.trim())
}

#[tokio::test]
async fn the_link_of_a_development_start_signs_in_once() {
    let place = Place::new();
    let node = place.dev().await;
    let link = node.greeting.iter().find_map(|line| line.strip_prefix("Dashboard   ")).expect("a link");
    assert!(link.starts_with(&format!("{}/login?t=", node.url)), "{link}");

    let opened = curl(&[link]).await;
    assert!(opened.starts_with("HTTP/1.1 303"), "{opened}");
    assert_eq!(header(&opened, "location"), Some("/"));
    let cookie = header(&opened, "set-cookie").expect("a session");
    assert!(cookie.starts_with("sid=") && cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a cookie");

    let page = curl(&["-b", cookie, &format!("{}/", node.url)]).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(
        header(&page, "content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    let sources = curl(&["-b", cookie, &format!("{}/ui/v1/sources", node.url)]).await;
    assert!(sources.starts_with("HTTP/1.1 200"), "{sources}");

    let again = curl(&[link]).await;
    assert!(again.starts_with("HTTP/1.1 401") && header(&again, "set-cookie").is_none(), "{again}");
    let nobody = curl(&[&format!("{}/", node.url)]).await;
    assert_eq!(header(&nobody, "location"), Some("/login"), "{nobody}");
}

#[tokio::test]
async fn a_start_without_users_prints_how_the_first_one_is_made() {
    let place = Place::new();
    let master = place.line(&["keys", "master"]).await;
    let serve = || {
        let mut command = place.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.env("POSTHASTE_MASTER_KEYS", &master);
        command
    };
    let told = |node: &Node| -> Value { serde_json::from_str(node.greeting.last().unwrap()).unwrap() };
    let mut node = Node::start(serve()).await;
    let said = told(&node);
    let (url, link) = (said["url"].as_str().unwrap(), said["set_up"].as_str().expect("a link"));
    assert_eq!(said["dashboard"], Value::Null);
    let page = curl(&[link]).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let (_, token) = link.split_once("/setup?t=").expect("a token");
    let body = format!(r#"{{"token":"{token}","user":"ada","password":"correct horse battery"}}"#);
    let (sent_to, origin) = (format!("{url}/ui/set-up"), format!("origin: {url}"));
    let made = curl(&["-H", &origin, "-H", "content-type: application/json", "-d", &body, &sent_to]).await;
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    assert!(header(&made, "set-cookie").is_some_and(|cookie| cookie.starts_with("sid=")), "{made}");
    assert!(node.signal("TERM").await.success());

    let node = Node::start(serve()).await;
    assert_eq!(told(&node)["set_up"], Value::Null, "there is a user now");
}

#[tokio::test]
async fn a_proxy_that_is_trusted_says_that_there_is_tls_and_no_other_does() {
    let proxied = [
        "-H",
        "host: hooks.example",
        "-H",
        "x-forwarded-for: 198.51.100.7",
        "-H",
        "x-forwarded-proto: https",
    ];
    let link = |node: &Node| {
        let line = node.greeting.iter().find_map(|line| line.strip_prefix("Dashboard   "));
        line.expect("a link").to_owned()
    };
    let place = Place::new();
    let mut node = place.dev().await;
    let refused = curl(&[&proxied[..], &[&link(&node)]].concat()).await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("trusted_proxies"), "{refused}");
    assert!(header(&refused, "set-cookie").is_none(), "{refused}");
    assert!(node.signal("TERM").await.success());

    let arguments = ["serve", "--dev", "--listen", "127.0.0.1:0", "--trusted-proxies", "127.0.0.1"];
    let node = Node::start(place.command(&arguments)).await;
    let opened = curl(&[&proxied[..], &[&link(&node)]].concat()).await;
    let cookie = header(&opened, "set-cookie").expect("a session");
    assert!(cookie.starts_with("__Host-sid=") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(header(&opened, "strict-transport-security").is_some(), "{opened}");
}

#[tokio::test]
async fn the_dashboard_can_be_left_out() {
    let place = Place::new();
    let arguments = ["serve", "--dev", "--listen", "127.0.0.1:0", "--dashboard", "false"];
    let node = Node::start(place.command(&arguments)).await;
    assert!(!node.greeting.iter().any(|line| line.starts_with("Dashboard")), "{:?}", node.greeting);
    for path in ["/", "/login", "/ui/v1/sources"] {
        let answer = curl(&[&format!("{}{path}", node.url)]).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn without_a_browser_the_start_says_so_and_goes_on() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--dev", "--open", "--listen", "127.0.0.1:0"]);
    command.env("PATH", place.path());
    let node = Node::start(command).await;
    let ready = curl(&[&format!("{}/readyz", node.url)]).await;
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
}
