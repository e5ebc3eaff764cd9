//! Destinations of another kind than HTTP: everything that is promised holds for them too. The kind is the tests' own: a
//! line goes out, with the delivery, the attempt's number and the payload, and `ok`, `busy <seconds>` or `no` comes back.

use crate::bench::{Bench, bench_with, egress, schedule};
use async_trait::async_trait;
use domain::{
    attempt::{Detail, Response},
    delivery::{Ending, Position, Status},
    destination::{Destination, Ordering},
    gate::HoldReason,
    id::{ApiKeyId, DeliveryId, DestinationId, ReplayId, RouteId},
    outcome::{Fault, Outcome, Reply, classify_reply},
    seal::DataKey,
    testing::audit_entry,
};
use engine::{
    EngineSettings,
    egress::Security,
    sink::{AttemptFacts, Dialer, Sink, SinkAttempt, SinkConnection, SinkKind, Sinks},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{
    Announce, AttemptRecord, DeliveryState, History, Lanes, Membership, NewDelivery, NewReplay, Replayed,
    Replays, Selection,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc, watch},
    time::{Instant, timeout},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// A receiver that understands lines.
#[derive(Clone)]
struct LineReceiver {
    port: u16,
    /// What is said to the next lines; then `ok`.
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: watch::Sender<Observed>,
}

#[derive(Clone, Copy)]
enum Answer {
    Say(&'static str),
    /// Closes the connection without a word.
    Close,
    /// Says nothing until the other side closes.
    Hang,
}

#[derive(Default, Clone)]
struct Observed {
    lines: Vec<(Instant, String)>,
    connections: usize,
    open: usize,
    most_open: usize,
}

impl LineReceiver {
    async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
        let receiver = Self { port, answers, seen: watch::Sender::default() };
        let accepting = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = accepting.clone();
                receiver.seen.send_modify(|seen| {
                    seen.connections += 1;
                    seen.open += 1;
                    seen.most_open = seen.most_open.max(seen.open);
                });
                tokio::spawn(async move {
                    let _ = receiver.serve(stream).await;
                    receiver.seen.send_modify(|seen| seen.open -= 1);
                });
            }
        });
        receiver
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Answer::Say("ok"));
        self.seen.send_modify(|seen| seen.lines.push((Instant::now(), line.trim_end().to_owned())));
        match answer {
            Answer::Say(word) => stream.write_all(format!("{word}\n").as_bytes()).await?,
            Answer::Close => return Ok(()),
            Answer::Hang => {}
        }
        // Open until the other side has closed it.
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    }

    fn url(&self) -> String {
        format!("line://127.0.0.1:{}", self.port)
    }

    async fn until(&self, enough: impl FnMut(&Observed) -> bool) -> Observed {
        let mut seen = self.seen.subscribe();
        let found = timeout(PATIENCE, seen.wait_for(enough)).await.expect("it comes about in time");
        found.expect("we have the sender").clone()
    }

    /// The lines' attempt numbers and payloads.
    async fn lines(&self, count: usize) -> Vec<(String, String)> {
        let seen = self.until(|seen| seen.lines.len() >= count).await;
        let words = |(_, line): &(Instant, String)| {
            let mut words = line.splitn(3, ' ').skip(1).map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap())
        };
        seen.lines.iter().map(words).collect()
    }
}

/// The kind, and how its first attempt behaves; later ones are well-behaved.
struct LineKind {
    first: Mutex<Option<Manners>>,
    /// Rung when the first attempt has returned or has got as far as it will.
    reached: Arc<Notify>,
}

#[derive(Clone)]
enum Manners {
    Panics,
    /// Has its answer and goes on for ever.
    NeverEnds,
    /// Has its answer and leaves the connection to a task that keeps it for a while.
    LeavesItOpen(Duration),
    /// Connects, and has a task of its own write when it is told to, whatever has become of the attempt; says how that
    /// went.
    Stubborn(Arc<Notify>, mpsc::UnboundedSender<std::io::Result<()>>),
}

impl LineKind {
    fn new(first: Option<Manners>) -> Arc<Self> {
        Arc::new(Self { first: Mutex::new(first), reached: Arc::default() })
    }
}

struct LineSink {
    host: String,
    port: u16,
    kind: Arc<LineKind>,
}

/// The registered form: a sink keeps the kind it is of.
struct Lines(Arc<LineKind>);

impl SinkKind for Lines {
    fn prepare(&self, destination: &Destination, _: &DataKey) -> Result<Box<dyn Sink>, String> {
        assert!(destination.name != "unreadable", "a bug");
        let url = url::Url::parse(&destination.url).map_err(|error| error.to_string())?;
        let host = url.host_str().ok_or("no host")?.to_owned();
        let port = url.port().ok_or("no port")?;
        Ok(Box::new(LineSink { host, port, kind: Arc::clone(&self.0) }))
    }
}

#[async_trait]
impl Sink for LineSink {
    async fn attempt(&self, attempt: SinkAttempt<'_>, mut dialer: Dialer<'_>) -> AttemptFacts {
        let manners = self.kind.first.lock().unwrap().take();
        let connected = dialer.connect(&self.host, self.port, Security::Plain).await;
        let mut connection = match connected {
            Ok(connection) => BufReader::new(connection),
            Err(error) => return AttemptFacts::of_connecting(&error),
        };
        let payload = String::from_utf8_lossy(&attempt.payload);
        let line = format!("{} {} {payload}\n", attempt.delivery.id, attempt.number);
        match &manners {
            Some(Manners::Panics) => panic!("a bug"),
            Some(Manners::Stubborn(now, told)) => {
                let (now, told) = (Arc::clone(now), told.clone());
                tokio::spawn(async move {
                    now.notified().await;
                    let _ = told.send(write(&mut connection, &line).await);
                });
                self.kind.reached.notify_one();
                return std::future::pending().await;
            }
            _ => {}
        }
        let answer = async {
            write(&mut connection, &line).await?;
            let mut answer = String::new();
            connection.read_line(&mut answer).await?;
            std::io::Result::Ok(answer.trim_end().to_owned())
        };
        let answer = match answer.await {
            Ok(answer) if !answer.is_empty() => answer,
            _ => return AttemptFacts::of_fault(Fault::Reset, "no line came back".into()),
        };
        match manners {
            Some(Manners::NeverEnds) => return std::future::pending().await,
            Some(Manners::LeavesItOpen(pause)) => {
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    drop(connection);
                });
            }
            _ => {}
        }
        facts(answer)
    }
}

async fn write(connection: &mut BufReader<SinkConnection>, line: &str) -> std::io::Result<()> {
    connection.write_all(line.as_bytes()).await?;
    connection.flush().await
}

fn facts(answer: String) -> AttemptFacts {
    let asked = answer.strip_prefix("busy ").and_then(|seconds| seconds.parse().ok());
    let reply = match &*answer {
        "ok" => Reply::Accepted,
        "no" => Reply::Rejected,
        _ => Reply::Throttled { retry_after: asked.map(Duration::from_secs) },
    };
    let response = Some(Response { body: Some(answer), ..Response::default() });
    let detail = Detail { response, retry_after_seconds: asked, ..Detail::default() };
    AttemptFacts { classified: classify_reply(reply), http_status: None, detail, credential_refused: false }
}

async fn line_bench(first: Option<Manners>) -> (Bench, Arc<LineKind>) {
    let kind = LineKind::new(first);
    let sinks = Sinks::default().with("line", Arc::new(Lines(Arc::clone(&kind)))).through(egress());
    (bench_with(EngineSettings::default(), Some(sinks)).await, kind)
}

impl Bench {
    /// A destination that is called by lines.
    async fn line_destination(
        &self,
        receiver: &LineReceiver,
        change: impl FnOnce(&mut Destination),
    ) -> DestinationId {
        let url = receiver.url();
        self.destination("lines", |it| {
            it.url = url;
            it.settings.max_concurrency = Some(1);
            change(it);
        })
        .await
    }

    /// The attempts of the destination's only delivery.
    pub(crate) async fn attempts(&self, destination: DestinationId) -> Vec<AttemptRecord> {
        let delivery = self.deliveries(destination).await.remove(0);
        self.store.attempts_of_delivery(self.account, delivery.id, 10).await.unwrap()
    }

    pub(crate) async fn outcomes(&self, destination: DestinationId) -> Vec<Outcome> {
        self.attempts(destination).await.iter().map(|attempt| attempt.outcome).collect()
    }

    /// Waits until this process is another node.
    pub(crate) async fn reborn(&self) {
        self.until(|| async {
            let members = self.store.roster().await.unwrap().members;
            (members.len() == 1 && members[0].record.id != self.id).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_destination_of_another_kind_is_delivered_to() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[]).await;
    let destination = bench.line_destination(&receiver, |_| {}).await;
    bench.send(&[destination], b"{\"n\": 1.0 }").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(receiver.lines(1).await, [("1".into(), "{\"n\": 1.0 }".into())]);
    let attempt = bench.attempts(destination).await.remove(0);
    assert_eq!((attempt.outcome, attempt.http_status), (Outcome::Success, None));
    assert_eq!(attempt.detail.url, receiver.url());
    assert_eq!(attempt.detail.response.unwrap().body.as_deref(), Some("ok"));
}

#[tokio::test]
async fn busy_holds_the_lane_for_as_long_as_it_asks() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[Answer::Say("busy 1")]).await;
    let destination = bench.line_destination(&receiver, |_| {}).await;
    bench.send(&[destination], b"{}").await;
    bench
        .until(|| async {
            let hold = bench.handle.views(&[destination]).await.remove(0)?.hold?;
            (hold.reason == HoldReason::Throttle).then_some(())
        })
        .await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::Throttled, Outcome::Success]);
    let seen = receiver.until(|seen| seen.lines.len() == 2).await;
    assert!(seen.lines[1].0 - seen.lines[0].0 >= Duration::from_secs(1));
}

#[tokio::test]
async fn order_is_kept_while_the_first_is_retried() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[Answer::Close]).await;
    let destination = bench
        .line_destination(&receiver, |it| {
            it.ordering = Ordering::Strict;
            it.settings.retry_policy = schedule(&[1]);
        })
        .await;
    for payload in [b"a", b"b", b"c"] {
        bench.send(&[destination], payload).await;
    }
    let expected = [("1", "a"), ("2", "a"), ("1", "b"), ("1", "c")];
    let expected = expected.map(|(number, payload)| (number.to_owned(), payload.to_owned()));
    assert_eq!(receiver.lines(4).await, expected);
}

#[tokio::test]
async fn a_refusal_is_a_dead_letter_and_a_replay_delivers_it() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[Answer::Say("no")]).await;
    let destination = bench.line_destination(&receiver, |_| {}).await;
    let event_id = bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("rejected")));

    let origin = bench.deliveries(destination).await.remove(0).id;
    let now = bench.now();
    let id = DeliveryId::at(now, rand::random());
    let delivery = NewDelivery::unordered(id, RouteId::MIN, destination, now);
    let replay = NewReplay {
        id: ReplayId::at(now, rand::random()),
        account_id: bench.account,
        selection: Selection::Deliveries(vec![origin].into()),
        rate: 1,
        matched: 1,
        matched_exact: true,
        created_by: ApiKeyId::MIN.into(),
        created_at: now,
        key: None,
        at_once: Some(Replayed { origin, event_id, delivery }),
    };
    bench.store.create_replay(&replay, &audit_entry()).await.unwrap();
    bench.handle.look(&[(destination, id, Position::due(now, id))]).await;
    assert_eq!(receiver.lines(2).await.len(), 2);
    bench
        .until(|| async {
            let again = bench.store.delivery(bench.account, id).await.unwrap();
            let delivered = |ending: &Ending| *ending == Ending::Delivered;
            matches!(&again.state, DeliveryState::Ended { ending, .. } if delivered(ending)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn what_is_open_when_the_lease_ends_is_cut_and_made_again_by_the_next_owner() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[Answer::Hang]).await;
    let destination = bench.line_destination(&receiver, |it| it.settings.max_concurrency = Some(1)).await;
    bench.send(&[destination], b"{}").await;
    receiver.until(|seen| seen.lines.len() == 1).await;
    bench.store.leave(bench.id).await.unwrap();
    receiver.until(|seen| seen.connections == 2).await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let attempts = bench.attempts(destination).await;
    assert!(attempts.iter().all(|attempt| attempt.node != bench.id || attempt.late), "{attempts:?}");
    assert_eq!(receiver.lines(2).await.len(), 2);
}

#[tokio::test]
async fn a_connection_takes_nothing_more_once_the_lease_has_ended() {
    let (now, (told, mut went)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let (bench, kind) = line_bench(Some(Manners::Stubborn(Arc::clone(&now), told))).await;
    let receiver = LineReceiver::start(&[]).await;
    let destination = bench.line_destination(&receiver, |_| {}).await;
    bench.send(&[destination], b"{}").await;
    timeout(PATIENCE, kind.reached.notified()).await.unwrap();
    bench.store.leave(bench.id).await.unwrap();
    // The lease is another node's, in the same process, and good again.
    bench.reborn().await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    now.notify_one();
    let written = timeout(PATIENCE, went.recv()).await.unwrap().unwrap();
    assert!(written.is_err(), "it wrote for a node that is gone");
    let seen = receiver.until(|seen| seen.connections == 2 && seen.open == 0).await;
    assert_eq!(seen.lines.len(), 1, "that of the next owner");
}

#[tokio::test]
async fn a_slot_is_free_when_the_socket_is_whatever_the_sink_does_with_it() {
    let (bench, _) = line_bench(Some(Manners::LeavesItOpen(Duration::from_millis(300)))).await;
    let receiver = LineReceiver::start(&[]).await;
    let destination = bench.line_destination(&receiver, |_| {}).await;
    bench.send(&[destination], b"1").await;
    bench.send(&[destination], b"2").await;
    let seen = receiver.until(|seen| seen.lines.len() == 2).await;
    assert_eq!(seen.most_open, 1);
}

#[tokio::test]
async fn a_sink_that_never_ends_is_cut_at_its_deadline() {
    let (bench, _) = line_bench(Some(Manners::NeverEnds)).await;
    let receiver = LineReceiver::start(&[]).await;
    let change = |it: &mut Destination| {
        it.settings.timeout = Some(Duration::from_secs(1));
        it.settings.retry_policy = schedule(&[]);
    };
    let destination = bench.line_destination(&receiver, change).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
    let attempt = bench.attempts(destination).await.remove(0);
    assert_eq!(attempt.outcome, Outcome::Timeout);
    assert_eq!(attempt.detail.error.unwrap().message, "no answer within 1 s");
    receiver.until(|seen| seen.open == 0).await;
}

#[tokio::test]
async fn a_sink_that_panics_is_retried_and_leaks_neither_slot_nor_connection() {
    let (bench, _) = line_bench(Some(Manners::Panics)).await;
    let receiver = LineReceiver::start(&[]).await;
    let destination = bench.line_destination(&receiver, |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.outcomes(destination).await, [Outcome::InternalError, Outcome::Success]);
    let seen = receiver.until(|seen| seen.open == 0).await;
    assert_eq!((seen.connections, seen.most_open), (2, 1));
}

#[tokio::test]
async fn a_destination_that_cannot_be_made_ready_without_a_panic_harms_no_other() {
    let (bench, _) = line_bench(None).await;
    let receiver = LineReceiver::start(&[]).await;
    let unreadable = |it: &mut Destination| {
        it.name = "unreadable".into();
        it.settings.retry_policy = schedule(&[]);
    };
    let bad = bench.line_destination(&receiver, unreadable).await;
    let good = bench.line_destination(&receiver, |_| {}).await;
    bench.send(&[bad, good], b"{}").await;
    assert_eq!(bench.ended(good).await, (Status::Delivered, None));
    assert_eq!(bench.ended(bad).await, (Status::DeadLetter, Some("exhausted")));
    assert_eq!(bench.outcomes(bad).await, [Outcome::InternalError]);
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_not_connected_to_and_an_unknown_kind_is_not_sent_to() {
    let (bench, _) = line_bench(None).await;
    for url in ["line://10.0.0.1:9", "line://[::1]:9", "line://intranet:9", "pigeon://127.0.0.1:9"] {
        let destination = bench.destination("lines", |it| it.url = url.into()).await;
        bench.send(&[destination], b"{}").await;
        assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("blocked")), "{url}");
    }
}
