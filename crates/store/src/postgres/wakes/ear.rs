//! Listening: one task that holds the connection, makes it again when it is lost, and reads the table while there is
//! none. It never keeps the server waiting: what nobody hears in time becomes "look at everything".

use super::{
    super::{
        pool::Pools,
        statement::{Statement, params, sql},
    },
    chance,
    note::{self, Note},
    table::{Look, Rounds},
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
pub(super) struct Ear {
    waiting: mpsc::Receiver<Vec<News>>,
    overheard: Arc<AtomicBool>,
    task: JoinHandle<Infallible>,
}

impl Ear {
    pub(super) fn open(listener: Listener) -> Self {
        let (heard, waiting) = mpsc::channel(limits::NEWS_WAITING);
        let overheard = Arc::<AtomicBool>::default();
        let mouth = Mouth { heard, overheard: overheard.clone() };
        Self { waiting, overheard, task: tokio::spawn(listener.run(mouth)) }
    }

    /// An error says how the task has ended, which it never does by itself.
    pub(super) async fn next(&mut self) -> Result<Vec<News>, JoinError> {
        let Some(news) = self.waiting.recv().await else {
            let Err(ended) = (&mut self.task).await;
            return Err(ended);
        };
        if self.overheard.swap(false, Ordering::AcqRel) {
            while self.waiting.try_recv().is_ok() {}
            return Ok(vec![News::Missed]);
        }
        Ok(news)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where the listener puts what it hears.
struct Mouth {
    heard: mpsc::Sender<Vec<News>>,
    overheard: Arc<AtomicBool>,
}

impl Mouth {
    fn say(&self, news: Vec<News>) {
        if !news.is_empty()
            && let Err(TrySendError::Full(_)) = self.heard.try_send(news)
        {
            self.overheard.store(true, Ordering::Release);
        }
    }
}

#[derive(Clone)]
pub(super) struct Listener {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) pools: Arc<Pools>,
    pub(super) voice: u64,
    pub(super) channel: String,
    pub(super) rounds: Arc<Rounds>,
}

/// A connection on which notifications were heard.
struct Line {
    notes: mpsc::Receiver<String>,
    /// Dropping it ends the session.
    _client: Client,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why there is no line.
enum Deaf {
    Away(BoxError),
    /// A notification that we sent did not come back.
    Silent,
}

impl Listener {
    async fn run(self, mouth: Mouth) -> Infallible {
        let mut tries = 0;
        let mut line = self.connect().await;
        loop {
            line = match line {
                Ok(line) => {
                    if tries > 0 {
                        tracing::info!("listening to the other nodes again");
                    }
                    tries = 0;
                    mouth.say(vec![News::Missed]);
                    self.listen(line, &mouth).await;
                    tracing::warn!("the connection on which we listened to the other nodes was lost");
                    sleep(pause(tries)).await;
                    self.connect().await
                }
                Err(deaf) => {
                    if tries == 0 {
                        tell(&deaf);
                    }
                    tries += 1;
                    let pause = match deaf {
                        Deaf::Away(_) => pause(tries),
                        Deaf::Silent => limits::LISTEN_AGAIN,
                    };
                    let again = async {
                        sleep(pause).await;
                        self.connect().await
                    };
                    tokio::select! {
                        line = again => line,
                        never = self.look(&mouth) => match never {},
                    }
                }
            };
        }
    }

    async fn connect(&self) -> Result<Line, Deaf> {
        let away = |error: tokio_postgres::Error| Deaf::Away(error.into());
        let late = |_| Deaf::Away("the database did not answer in time".into());
        let connected = timeout(limits::STORE_STATEMENT, self.config.connect(self.tls.clone())).await;
        let (client, mut connection) = connected.map_err(late)?.map_err(away)?;
        let (told, notes) = mpsc::channel(limits::NEWS_WAITING);
        let channel = self.channel.clone();
        let task = tokio::spawn(async move {
            // Notifications go to whoever drives the connection.
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(note) = message
                    && note.channel() == channel
                    && told.send(note.payload().into()).await.is_err()
                {
                    return;
                }
            }
        });
        let mut line = Line { notes, _client: client, task };
        // The name is ours, and plain: see `Line::new` of the module above.
        let listen = format!("listen {}", self.channel);
        let listening = timeout(limits::STORE_STATEMENT, line._client.batch_execute(&listen)).await;
        listening.map_err(late)?.map_err(away)?;
        self.prove(&mut line).await?;
        Ok(line)
    }

    /// Through a pooler in transaction mode `listen` succeeds, and nothing is ever heard.
    async fn prove(&self, line: &mut Line) -> Result<(), Deaf> {
        let text = note::proof(self.voice, chance());
        let away = |error: crate::StoreError| Deaf::Away(error.into());
        let connection = self.pools.nodes().await.map_err(away)?;
        let params = params![channel: self.channel => TEXT, payload: text => TEXT];
        connection.read(&NOTIFY, params).await.map_err(|trouble| away(trouble.into()))?;
        drop(connection);
        let heard = async {
            while let Some(note) = line.notes.recv().await {
                if note == text {
                    return Ok(());
                }
            }
            Err(Deaf::Away("the connection was lost".into()))
        };
        timeout(limits::LISTEN_PROOF, heard).await.unwrap_or(Err(Deaf::Silent))
    }

    /// Until the connection is lost.
    async fn listen(&self, mut line: Line, mouth: &Mouth) {
        while let Some(note) = line.notes.recv().await {
            let note = note::read(&note).filter(|note| note.by != self.voice);
            mouth.say(note.map(Note::news).unwrap_or_default());
        }
    }

    async fn look(&self, mouth: &Mouth) -> Infallible {
        let mut look = Look::new(&self.pools, &self.rounds);
        loop {
            match look.again().await {
                Ok(news) => mouth.say(news),
                // Told by everybody who needs the database more than we do.
                Err(error) => tracing::debug!(%error, "the table of wake-ups could not be read"),
            }
            sleep(limits::WAKES_POLL).await;
        }
    }
}

fn tell(deaf: &Deaf) {
    let seconds = limits::WAKES_POLL.as_secs_f64();
    match deaf {
        Deaf::Silent => tracing::warn!(
            "notifications of the database do not arrive, as behind a pooler in transaction mode: looking every \
             {seconds} s instead. Set `database.listen_url` to an address without the pooler"
        ),
        Deaf::Away(error) => tracing::warn!(
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
