//! The way out of the process: through the proxy that the settings name, and through none that the environment does.

use crate::node::{Node, Place, deliver_to, ended, output, text};
use client::Publish;
use domain::delivery::Status;
use lab::{Receiver, Script, TunnelManners, TunnelProtocol, TunnelProxy};

const SERVE: [&str; 4] = ["serve", "--dev", "--listen", "127.0.0.1:0"];

async fn delivers_one(node: &Node, receiver: &Receiver) {
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    let event = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
    let delivered = ended(&client, event.id).await;
    assert_eq!(delivered.iter().map(|delivery| delivery.status).collect::<Vec<_>>(), [Status::Delivered]);
}

#[tokio::test]
async fn a_proxy_that_only_the_environment_names_is_not_called() {
    let place = Place::new();
    let canary = TunnelProxy::local(TunnelProtocol::Connect, TunnelManners::Connects);
    let (receiver, collector) = (Receiver::local(Script::ok()), Receiver::local(Script::ok()));
    let mut command = place.command(&SERVE);
    let proxy = format!("http://{}", canary.addr());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, &proxy);
    }
    command.env("NO_PROXY", "").env("no_proxy", "").env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""));
    let mut node = Node::start(command).await;
    delivers_one(&node, &receiver).await;
    assert!(node.signal("TERM").await.success());
    assert!(collector.total() > 0, "traces were sent");
    assert_eq!(canary.heard().connections, 0);
}

#[tokio::test]
async fn a_proxy_that_the_settings_name_is_the_way_to_every_destination() {
    let place = Place::new();
    let tunnel = TunnelProxy::local(TunnelProtocol::Connect, TunnelManners::Connects);
    let (receiver, collector) = (Receiver::local(Script::ok()), Receiver::local(Script::ok()));
    let proxy = format!("http://me:sesame@{}", tunnel.addr());
    let mut command = place.command(&SERVE);
    command.env("POSTHASTE_EGRESS_PROXY", &proxy).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""));
    let mut node = Node::start(command).await;
    delivers_one(&node, &receiver).await;
    assert!(node.signal("TERM").await.success());
    let heard = tunnel.heard();
    assert_eq!(heard.targets, [receiver.addr().to_string()]);
    assert!(text(&heard.words).contains("proxy-authorization: Basic bWU6c2VzYW1l"), "{heard:?}");
    assert!(collector.total() > 0, "the collector is the operator's own, and called directly");

    let mut shown = place.command(&["config", "show", "--json"]);
    shown.env("POSTHASTE_EGRESS_PROXY", &proxy);
    let shown = output(shown).await;
    let shown = text(&shown.stdout);
    assert!(shown.contains(&format!("http://***@{}", tunnel.addr())) && !shown.contains("sesame"), "{shown}");

    let mut wrong = place.command(&["config", "check"]);
    wrong.env("POSTHASTE_EGRESS_PROXY", "https://me:sesame@proxy:1");
    let wrong = output(wrong).await;
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("socks5://") && !text(&wrong.stderr).contains("sesame"),
        "{wrong:?}"
    );
}
