//! Which connections are used again: names that move, a resolver and servers in memory, and a clock that stands still.

use super::*;
use crate::{
    membership::Membership,
    sink::Permit,
    transport::{AnswerRoom, HttpAnswer, HttpRequest, HttpTransport, Transport},
};
use async_trait::async_trait;
use domain::{address::parse_allow_list, id::NodeId, limits};
use futures_util::future::join_all;
use std::sync::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::Notify,
    time::{advance, sleep},
};

const HOST: &str = "hooks.example.com";

/// Answers as it was last told, and remembers when it said what.
#[derive(Default)]
struct ScriptedResolver {
    answer: Mutex<Option<Vec<IpAddr>>>,
    asked: Mutex<Vec<(Instant, Vec<IpAddr>)>>,
    takes: Mutex<Duration>,
}

impl ScriptedResolver {
    fn names(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        *self.answer.lock().unwrap() = Some(addresses);
    }

    fn fails(&self) {
        *self.answer.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for ScriptedResolver {
    async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, EgressError> {
        let answer = self.answer.lock().unwrap().clone();
        self.asked.lock().unwrap().push((Instant::now(), answer.clone().unwrap_or_default()));
        let takes = *self.takes.lock().unwrap();
        sleep(takes).await;
        answer.ok_or(EgressError::Dns)
    }
}

/// Servers in memory: whichever address is called, somebody answers there.
#[derive(Default)]
struct MemoryDialer {
    calls: Mutex<Vec<Call>>,
    served: Arc<Mutex<Vec<Served>>>,
    /// Nobody is there, and this is how one learns of it.
    deserted: Mutex<Option<io::ErrorKind>>,
    /// How long an answer takes, and how long a call.
    pause: Arc<Mutex<Duration>>,
    ringing: Mutex<Duration>,
    reached: Arc<Notify>,
    /// Has the servers close what rests.
    hang_up: Arc<Notify>,
}

#[derive(Clone, Copy)]
struct Call {
    address: SocketAddr,
    at: Instant,
}

/// A request, and the connection it came by.
#[derive(Clone, Copy)]
struct Served {
    call: Call,
    at: Instant,
}

#[async_trait]
impl Dial for MemoryDialer {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Duplex>> {
        let call = Call { address, at: Instant::now() };
        self.calls.lock().unwrap().push(call);
        if let Some(kind) = *self.deserted.lock().unwrap() {
            return Err(kind.into());
        }
        let (ours, theirs) = duplex(64 * 1024);
        let (served, pause) = (Arc::clone(&self.served), Arc::clone(&self.pause));
        let (reached, hang_up) = (Arc::clone(&self.reached), Arc::clone(&self.hang_up));
        tokio::spawn(async move {
            tokio::select! {
                _ = serve(theirs, call, served, pause, reached) => {}
                () = hang_up.notified() => {}
            }
        });
        let ringing = *self.ringing.lock().unwrap();
        sleep(ringing).await;
        Ok(Box::new(ours))
    }
}

async fn serve(
    mut stream: DuplexStream,
    call: Call,
    served: Arc<Mutex<Vec<Served>>>,
    pause: Arc<Mutex<Duration>>,
    reached: Arc<Notify>,
) -> io::Result<()> {
    loop {
        let mut request = Vec::new();
        // A body of two bytes ends it.
        while !request.ends_with(b"\r\n\r\n{}") {
            request.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&request).to_lowercase();
        assert!(head.starts_with("post /hook http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nhost: hooks.example.com:8080\r\n"), "{head}");
        served.lock().unwrap().push(Served { call, at: Instant::now() });
        reached.notify_one();
        let pause = *pause.lock().unwrap();
        sleep(pause).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

struct World {
    resolver: Arc<ScriptedResolver>,
    dialer: Arc<MemoryDialer>,
    egress: Egress,
    transport: Arc<HttpTransport>,
}

impl World {
    fn new() -> Self {
        Self::keeping(limits::KEPT_CONNECTIONS)
    }

    fn keeping(kept: usize) -> Self {
        let resolver = Arc::new(ScriptedResolver::default());
        let dialer = Arc::new(MemoryDialer::default());
        let policy = AddressPolicy {
            deny: parse_allow_list("9.9.9.9").unwrap(),
            allow_http: true,
            ..AddressPolicy::default()
        };
        let egress = Egress::new(
            Arc::new(policy),
            Arc::clone(&resolver) as Arc<dyn Resolve>,
            Arc::clone(&dialer) as Arc<dyn Dial>,
            limits::CONNECT_TIMEOUT,
            None,
        );
        let egress = egress.unwrap();
        let transport = Arc::new(HttpTransport::keeping(egress.clone(), kept));
        let world = Self { resolver, dialer, egress, transport };
        world.resolver.names(&["1.1.1.1"]);
        world
    }

    async fn send(&self) -> HttpAnswer {
        send(&self.transport).await
    }

    /// The status, or the code of the error.
    async fn sent(&self) -> Result<u16, &'static str> {
        match self.send().await.result {
            Ok(response) => Ok(response.status),
            Err(failure) => Err(failure.fault.error_code()),
        }
    }

    /// So many requests at once.
    async fn burst(&self, count: usize) {
        let answers = join_all((0..count).map(|_| self.sent())).await;
        assert!(answers.iter().all(|answer| *answer == Ok(200)), "{answers:?}");
    }

    fn called(&self) -> Vec<String> {
        self.dialer.calls.lock().unwrap().iter().map(|call| call.address.ip().to_string()).collect()
    }

    fn served(&self) -> Vec<Served> {
        self.dialer.served.lock().unwrap().clone()
    }
}

async fn send(transport: &HttpTransport) -> HttpAnswer {
    let membership = Membership::new(NodeId::MIN, Lease::new());
    let request = HttpRequest {
        uri: format!("http://{HOST}:8080/hook").parse().unwrap(),
        headers: http::HeaderMap::new(),
        body: "{}".into(),
        deadline: Instant::now() + limits::TIMEOUT_MAX,
        timeout: limits::TIMEOUT_MAX,
        permit: Permit::of(&membership),
        identity: None,
        room: AnswerRoom::DESTINATION,
    };
    transport.send(request).await
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_kept_connection_is_used_again_while_its_name_leads_there() {
    let world = World::new();
    for _ in 0..12 {
        assert_eq!(world.sent().await, Ok(200));
        sleep(10 * SECOND).await;
    }
    assert_eq!(world.called(), ["1.1.1.1"]);
    assert!((4..=9).contains(&world.resolver.asked()), "{} times in two minutes", world.resolver.asked());
}

#[tokio::test(start_paused = true)]
async fn a_host_keeps_as_many_connections_as_it_had_requests_open_at_once() {
    let world = World::new();
    *world.dialer.pause.lock().unwrap() = SECOND;
    for _ in 0..3 {
        world.burst(600).await;
        sleep(SECOND).await;
    }
    assert_eq!(world.called().len(), 600);
    assert_eq!(world.egress.links(), 600);
    sleep(3 * limits::IDLE_TIMEOUT).await;
    assert_eq!(world.egress.links(), 0, "and no longer than any other");
}

#[tokio::test(start_paused = true)]
async fn more_connections_than_are_kept_in_all_are_closed_after_their_requests() {
    let world = World::keeping(8);
    *world.dialer.pause.lock().unwrap() = SECOND;
    world.burst(20).await;
    assert_eq!((world.called().len(), world.egress.links()), (20, 8));
    sleep(SECOND).await;
    world.burst(20).await;
    assert_eq!((world.called().len(), world.egress.links()), (32, 8), "eight were used again");
    sleep(SECOND).await;
    for _ in 0..20 {
        world.burst(8).await;
    }
    assert_eq!(world.called().len(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_other_side_has_closed_is_not_used_again_and_goes_within_seconds() {
    let world = World::new();
    assert_eq!(world.sent().await, Ok(200));
    world.dialer.hang_up.notify_waiters();
    tokio::task::yield_now().await;
    assert_eq!(world.sent().await, Ok(200), "by another");
    assert_eq!((world.called().len(), world.served().len(), world.egress.links()), (2, 2, 1));
    world.dialer.hang_up.notify_waiters();
    sleep(2 * limits::IDLE_LOOK).await;
    assert_eq!(world.egress.links(), 0, "whether there are requests or not");
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_by_the_connection_that_comes_back_before_its_own_is_made() {
    let world = World::new();
    *world.dialer.pause.lock().unwrap() = SECOND;
    let first = world.sent();
    let second = async {
        world.dialer.reached.notified().await;
        *world.dialer.ringing.lock().unwrap() = 5 * SECOND;
        world.sent().await
    };
    let began = Instant::now();
    assert_eq!(tokio::join!(first, second), (Ok(200), Ok(200)));
    assert_eq!(began.elapsed(), 2 * SECOND, "one after the other");
    sleep(4 * SECOND).await;
    assert_eq!(world.egress.links(), 2, "and what was begun is kept");
    world.burst(2).await;
    assert_eq!(world.called().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_takes_its_connection_along_at_once() {
    let world = World::new();
    *world.dialer.pause.lock().unwrap() = 10 * SECOND;
    assert!(timeout(SECOND, world.sent()).await.is_err());
    assert_eq!(world.egress.links(), 0);
}

#[tokio::test(start_paused = true)]
async fn more_addresses_keep_the_connections_and_other_addresses_do_not() {
    let world = World::new();
    assert_eq!(world.sent().await, Ok(200));
    world.resolver.names(&["2.2.2.2", "1.1.1.1"]);
    sleep(40 * SECOND).await;
    assert_eq!(world.sent().await, Ok(200));
    assert_eq!(world.called(), ["1.1.1.1"]);
    world.resolver.names(&["2.2.2.2"]);
    sleep(40 * SECOND).await;
    assert_eq!(world.sent().await, Ok(200));
    assert_eq!(world.called(), ["1.1.1.1", "2.2.2.2"]);
    world.resolver.names(&["1.1.1.1"]);
    sleep(40 * SECOND).await;
    assert_eq!(world.sent().await, Ok(200));
    assert_eq!(world.called(), ["1.1.1.1", "2.2.2.2", "1.1.1.1"], "what was left is not come back to");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_to_a_forbidden_address_is_blocked_although_a_connection_is_kept() {
    for answer in [&["9.9.9.9"][..], &["127.0.0.1"], &["1.1.1.1", "10.0.0.1"], &["1.1.1.1", "::1"]] {
        let world = World::new();
        assert_eq!(world.sent().await, Ok(200));
        world.resolver.names(answer);
        sleep(40 * SECOND).await;
        assert_eq!(world.sent().await, Err("blocked_target"), "{answer:?}");
        assert_eq!(world.called(), ["1.1.1.1"], "nobody was called");
        world.resolver.names(&["1.1.1.1"]);
        assert_eq!(world.sent().await, Ok(200));
        assert_eq!(world.called(), ["1.1.1.1", "1.1.1.1"], "by a connection of its own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_address_behind_more_than_are_ever_tried_blocks_the_name_too() {
    let world = World::new();
    let public: Vec<String> = (0..limits::DNS_ADDRESSES).map(|last| format!("8.8.4.{last}")).collect();
    let mut addresses: Vec<&str> = public.iter().map(String::as_str).collect();
    addresses.push("10.0.0.1");
    world.resolver.names(&addresses);
    assert_eq!(world.sent().await, Err("blocked_target"));
    assert!(world.called().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_gone_is_not_called_by_the_connection_that_is_left() {
    let world = World::new();
    assert_eq!(world.sent().await, Ok(200));
    world.resolver.fails();
    sleep(40 * SECOND).await;
    assert_eq!(world.sent().await, Err("dns_error"));
}

#[tokio::test(start_paused = true)]
async fn a_busy_name_is_asked_for_ahead_and_a_resolver_that_is_away_for_a_moment_is_not_missed() {
    let world = World::new();
    for second in 0..60 {
        if second == 20 {
            world.resolver.fails();
        }
        if second == 38 {
            world.resolver.names(&["1.1.1.1"]);
        }
        assert_eq!(world.sent().await, Ok(200), "in second {second}");
        sleep(SECOND).await;
    }
    assert_eq!(world.called(), ["1.1.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_for_ten_minutes_in_all() {
    let world = World::new();
    // Every pause that the pool lets a connection idle.
    for pause in [1, 20, 59] {
        for _ in 0..1_500 / pause {
            assert_eq!(world.sent().await, Ok(200));
            sleep(pause * SECOND).await;
        }
    }
    let oldest = world.served().iter().map(|served| served.at - served.call.at).max().unwrap();
    assert!(oldest <= limits::CONNECTION_AGE_MAX, "{oldest:?}");
    assert!(oldest > limits::CONNECTION_AGE_MAX - 2 * limits::IDLE_TIMEOUT, "{oldest:?}");
    assert!((8..=12).contains(&world.called().len()), "{} connections in 75 minutes", world.called().len());
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut_when_its_name_moves() {
    let world = World::new();
    *world.dialer.pause.lock().unwrap() = 25 * SECOND;
    let transport = Arc::clone(&world.transport);
    let slow = tokio::spawn(async move { send(&transport).await });
    world.dialer.reached.notified().await;
    world.resolver.names(&["10.0.0.1"]);
    sleep(16 * SECOND).await;
    *world.dialer.pause.lock().unwrap() = Duration::ZERO;
    // This one has it asked for again, and the next one hears of it.
    let _ = world.send().await;
    sleep(SECOND).await;
    assert_eq!(world.sent().await, Err("blocked_target"));
    assert_eq!(slow.await.unwrap().result.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn many_requests_ask_for_a_name_once_and_fail_together() {
    let world = World::new();
    *world.resolver.takes.lock().unwrap() = SECOND;
    let answers = join_all((0..100).map(|_| world.sent())).await;
    assert!(answers.iter().all(|answer| *answer == Ok(200)));
    assert_eq!(world.resolver.asked(), 1);

    let world = World::new();
    world.resolver.fails();
    *world.resolver.takes.lock().unwrap() = SECOND;
    let began = Instant::now();
    let answers = join_all((0..100).map(|_| world.sent())).await;
    assert!(answers.iter().all(|answer| *answer == Err("dns_error")));
    assert_eq!((world.resolver.asked(), began.elapsed()), (1, SECOND));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_while_it_asks_leaves_the_asking_to_the_next() {
    let world = World::new();
    *world.resolver.takes.lock().unwrap() = SECOND;
    let (first, second) = (timeout(SECOND / 2, world.sent()), world.sent());
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err());
    assert_eq!(second, Ok(200));
    assert_eq!(world.resolver.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_is_asked_for_again_by_the_next_request() {
    let world = World::new();
    *world.dialer.deserted.lock().unwrap() = Some(io::ErrorKind::ConnectionRefused);
    assert_eq!(world.sent().await, Err("connect_error"));
    *world.dialer.deserted.lock().unwrap() = None;
    world.resolver.names(&["2.2.2.2"]);
    assert_eq!(world.sent().await, Ok(200));
    assert_eq!(world.called(), ["1.1.1.1", "2.2.2.2"]);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_name_took_is_told_by_the_request_that_waited_for_it() {
    let world = World::new();
    *world.resolver.takes.lock().unwrap() = SECOND;
    let facts = world.send().await.connection.unwrap();
    assert_eq!((facts.reused, facts.dns), (false, Some(SECOND)));
    let facts = world.send().await.connection.unwrap();
    assert_eq!((facts.reused, facts.dns), (true, None));
}

#[tokio::test(start_paused = true)]
async fn hosts_that_nobody_calls_any_more_are_forgotten() {
    let resolutions = Resolutions::new(None, Arc::new(ScriptedResolver::default()), true);
    let key = |n: usize| HostKey {
        security: Security::Tls,
        authority: format!("h{n}.example.com").parse().unwrap(),
    };
    for n in 0..5_000 {
        resolutions.of(&key(n)).await.unwrap();
        advance(SECOND).await;
    }
    assert!(resolutions.known_count() <= 2_048, "{}", resolutions.known_count());
    for n in 0..limits::RESOLUTIONS_MAX + 10 {
        resolutions.of(&key(n)).await.unwrap();
    }
    assert!(resolutions.known_count() <= limits::RESOLUTIONS_MAX, "{}", resolutions.known_count());
}

/// A name that moves about, requests of all lengths, pauses of all lengths: whatever happens, no request begins on a
/// connection to an address that no answer of the last minute has named.
#[tokio::test(start_paused = true)]
async fn no_request_goes_to_an_address_that_was_not_named_within_the_last_minute() {
    let world = World::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut dice = move |sides: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % sides
    };
    let answers: [&[&str]; 6] = [
        &["1.1.1.1"],
        &["2.2.2.2"],
        &["1.1.1.1", "2.2.2.2"],
        &["3.3.3.3", "2.2.2.2"],
        &["10.0.0.1"],
        &["1.1.1.1", "9.9.9.9"],
    ];
    let mut open = Vec::new();
    for _ in 0..3_000 {
        match dice(10) {
            0 => world.resolver.names(answers[dice(6) as usize]),
            1 if dice(3) == 0 => world.resolver.fails(),
            2 => *world.dialer.pause.lock().unwrap() = Duration::from_millis(dice(40_000)),
            3 => *world.resolver.takes.lock().unwrap() = Duration::from_millis(dice(3_000)),
            4 => sleep(Duration::from_millis(dice(70_000))).await,
            _ => sleep(Duration::from_millis(dice(3_000))).await,
        }
        let transport = Arc::clone(&world.transport);
        open.push(tokio::spawn(async move { send(&transport).await.result.is_ok() }));
    }
    let mut answered = 0;
    for request in open {
        answered += usize::from(request.await.unwrap());
    }
    let asked = world.resolver.asked.lock().unwrap();
    for Served { call, at } in world.served() {
        let named = asked.iter().any(|(asked_at, addresses)| {
            *asked_at <= at
                && at - *asked_at <= limits::RESOLUTION_AGE_MAX
                && addresses.contains(&call.address.ip())
        });
        assert!(named, "{} was called, which nobody had named", call.address);
        assert!(!["10.0.0.1", "9.9.9.9"].contains(&&*call.address.ip().to_string()));
    }
    let reused = world.served().len() - world.called().len();
    assert!(answered > 500 && reused > 300, "{answered} answered, {reused} by a kept connection");
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_refuses_is_told_from_one_that_cannot_be_reached() {
    let world = World::new();
    for (kind, expected, message) in [
        (io::ErrorKind::ConnectionRefused, FailureKind::Refused, "the destination refused the connection"),
        (io::ErrorKind::HostUnreachable, FailureKind::Unreachable, "the destination could not be reached"),
        (io::ErrorKind::NetworkUnreachable, FailureKind::Unreachable, "the destination could not be reached"),
    ] {
        *world.dialer.deserted.lock().unwrap() = Some(kind);
        let failure = world.send().await.result.expect_err("nobody is there");
        assert_eq!((failure.kind, failure.message.as_str()), (Some(expected), message), "{kind:?}");
        assert_eq!(failure.fault.error_code(), "connect_error");
    }
}
