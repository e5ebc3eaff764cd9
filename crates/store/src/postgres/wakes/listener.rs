//! Listening: one task that holds the connection, makes it again when it is lost, and reads the table while there is
//! none. It never keeps the server waiting: what is not fetched in time becomes "look at everything".

use super::{
    super::{
        pool::Pools,
        statement::{Statement, params, sql},
        trouble::in_full,
    },
    chance,
    note::{self, Note},
    table::{TablePoll, ToldRounds},
};
use crate::{BoxError, News};
use domain::limits;
use futures_util::{StreamExt as _, stream};
use std::{
    convert::Infallible,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::{JoinError, JoinHandle},
    time::{sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

static NOTIFY: LazyLock<Statement> = sql!("notify": "select pg_notify(:channel, :payload)");

/// What has been heard and not yet fetched.
pub(super) struct Subscription {
    waiting: mpsc::Receiver<Vec<News>>,
    overflowed: Arc<AtomicBool>,
    task: JoinHandle<Infallible>,
}

impl Subscription {
    pub(super) fn begin(listener: Listener) -> Self {
        let (heard, waiting) = mpsc::channel(limits::NEWS_WAITING);
        let overflowed = Arc::<AtomicBool>::default();
        let heard = NewsSender { heard, overflowed: overflowed.clone() };
        Self { waiting, overflowed, task: tokio::spawn(listener.run(heard)) }
    }

    /// An error says how the task has ended, which it never does by itself.
    pub(super) async fn next(&mut self) -> Result<Vec<News>, JoinError> {
        let Some(news) = self.waiting.recv().await else {
            let Err(ended) = (&mut self.task).await;
            return Err(ended);
        };
        if self.overflowed.swap(false, Ordering::AcqRel) {
            while self.waiting.try_recv().is_ok() {}
            return Ok(vec![News::Missed]);
        }
        Ok(news)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where the listener puts what it hears.
struct NewsSender {
    heard: mpsc::Sender<Vec<News>>,
    overflowed: Arc<AtomicBool>,
}

impl NewsSender {
    fn send(&self, news: Vec<News>) {
        if !news.is_empty()
            && let Err(TrySendError::Full(_)) = self.heard.try_send(news)
        {
            self.overflowed.store(true, Ordering::Release);
        }
    }
}

#[derive(Clone)]
pub(super) struct Listener {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) pools: Arc<Pools>,
    pub(super) sender: u64,
    pub(super) channel: String,
    pub(super) rounds: Arc<ToldRounds>,
}

/// A connection on which notifications were heard.
struct ListeningConnection {
    notes: mpsc::Receiver<String>,
    /// Dropping it ends the session.
    _client: Client,
    task: JoinHandle<()>,
}

impl Drop for ListeningConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why there is no connection to listen on.
enum NotListening {
    Away(BoxError),
    /// A notification that we sent did not come back.
    Silent,
}

impl Listener {
    async fn run(self, heard: NewsSender) -> Infallible {
        let mut tries = 0;
        let mut connection = self.connect().await;
        loop {
            connection = match connection {
                Ok(connection) => {
                    if tries > 0 {
                        tracing::info!("listening to the other nodes again");
                    }
                    tries = 0;
                    heard.send(vec![News::Missed]);
                    self.listen(connection, &heard).await;
                    tracing::warn!("the connection on which we listened to the other nodes was lost");
                    sleep(pause(tries)).await;
                    self.connect().await
                }
                Err(why) => {
                    if tries == 0 {
                        warn(&why);
                    }
                    tries += 1;
                    let pause = match why {
                        NotListening::Away(_) => pause(tries),
                        NotListening::Silent => limits::LISTEN_AGAIN,
                    };
                    let again = async {
                        sleep(pause).await;
                        self.connect().await
                    };
                    tokio::select! {
                        connection = again => connection,
                        never = self.poll_table(&heard) => match never {},
                    }
                }
            };
        }
    }

    async fn connect(&self) -> Result<ListeningConnection, NotListening> {
        let away = |error: tokio_postgres::Error| NotListening::Away(in_full(&error));
        let late = |_| NotListening::Away("the database did not answer in time".into());
        let connected = timeout(limits::STORE_STATEMENT, self.config.connect(self.tls.clone())).await;
        let (client, mut driver) = connected.map_err(late)?.map_err(away)?;
        let (told, notes) = mpsc::channel(limits::NEWS_WAITING);
        let channel = self.channel.clone();
        let task = tokio::spawn(async move {
            // Notifications go to the task that drives the connection.
            let mut messages = stream::poll_fn(move |context| driver.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(note) = message
                    && note.channel() == channel
                    && told.send(note.payload().into()).await.is_err()
                {
                    return;
                }
            }
        });
        let mut connection = ListeningConnection { notes, _client: client, task };
        // The name is ours, and plain: see `WakeChannel::new`.
        let listen = format!("listen {}", self.channel);
        let listening = timeout(limits::STORE_STATEMENT, connection._client.batch_execute(&listen)).await;
        listening.map_err(late)?.map_err(away)?;
        self.prove(&mut connection).await?;
        Ok(connection)
    }

    /// Through a pooler in transaction mode `listen` succeeds, and nothing is ever heard.
    async fn prove(&self, connection: &mut ListeningConnection) -> Result<(), NotListening> {
        let text = note::proof(self.sender, chance());
        let away = |error: crate::StoreError| NotListening::Away(error.into());
        let told = self.pools.nodes().await.map_err(away)?;
        let params = params![channel: self.channel => TEXT, payload: text => TEXT];
        told.read(&NOTIFY, params).await.map_err(|trouble| away(trouble.into()))?;
        drop(told);
        let heard = async {
            while let Some(note) = connection.notes.recv().await {
                if note == text {
                    return Ok(());
                }
            }
            Err(NotListening::Away("the connection was lost".into()))
        };
        timeout(limits::LISTEN_PROOF, heard).await.unwrap_or(Err(NotListening::Silent))
    }

    /// Until the connection is lost.
    async fn listen(&self, mut connection: ListeningConnection, heard: &NewsSender) {
        while let Some(note) = connection.notes.recv().await {
            let note = note::read(&note).filter(|note| note.by != self.sender);
            heard.send(note.map(Note::news).unwrap_or_default());
        }
    }

    async fn poll_table(&self, heard: &NewsSender) -> Infallible {
        let mut poll = TablePoll::new(&self.pools, &self.rounds);
        loop {
            match poll.next().await {
                Ok(news) => heard.send(news),
                // Statements that matter more say so already.
                Err(error) => tracing::debug!(%error, "the table of wake-ups could not be read"),
            }
            sleep(limits::WAKES_POLL).await;
        }
    }
}

fn warn(why: &NotListening) {
    let seconds = limits::WAKES_POLL.as_secs_f64();
    match why {
        NotListening::Silent => tracing::warn!(
            "notifications of the database do not arrive, as behind a pooler in transaction mode: looking every \
             {seconds} s instead. Set `database.listen_url` to an address without the pooler"
        ),
        NotListening::Away(error) => tracing::warn!(
            %error,
            "cannot listen to the other nodes: looking every {seconds} s until it works"
        ),
    }
}

/// Doubling, with full jitter.
fn pause(tries: u32) -> Duration {
    let most = limits::BACKOFF_MIN.saturating_mul(1 << tries.min(10)).min(limits::BACKOFF_MAX);
    most.mul_f64(chance() as f64 / u64::MAX as f64)
}
