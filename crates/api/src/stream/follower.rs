//! One client: first what it missed, from the history, then what the hub hands out.

use super::{
    destinations::KnownDestinations,
    filter::StreamFilter,
    frame::{self, Reset},
    hub::{StreamPermit, Subscription, pause_after},
    item::StreamItem,
    position::{StreamPosition, switched},
};
use crate::{app::App, auth::AccountCtx};
use bytes::Bytes;
use domain::{limits, time::Timestamp};
use futures_util::{FutureExt, Stream, stream};
use std::{convert::Infallible, sync::Arc};
use store::{Followed, StoreError};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep},
};

pub(super) struct Follower {
    app: App,
    ctx: AccountCtx,
    filter: StreamFilter,
    /// Everything before it was told.
    position: StreamPosition,
    /// From when on pauses and disablings behind the mark's version are looked for.
    since: Timestamp,
    _permit: StreamPermit,
}

/// Why a stream ends.
enum StreamEnd {
    /// The client is gone.
    HungUp,
    Because(&'static str),
}

/// The client's side of the stream: text in pieces, and the signs of life between them.
struct StreamWriter {
    chunks: mpsc::Sender<Bytes>,
    heartbeat: Interval,
    text: String,
}

impl Follower {
    pub(super) fn new(
        app: App,
        ctx: AccountCtx,
        filter: StreamFilter,
        position: StreamPosition,
        permit: StreamPermit,
    ) -> Self {
        let since = position.place.at().minus(limits::FEED_LOOKBACK);
        Self { app, ctx, filter, position, since, _permit: permit }
    }

    /// The body of the answer, written by a task of its own that ends with it.
    pub(super) fn start(self, reset: Option<Reset>) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        let (chunks, body) = mpsc::channel(limits::STREAM_CHUNKS);
        let every = self.app.config.deadlines.heartbeat;
        let mut heartbeat = interval_at(Instant::now() + every, every);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut text = frame::hello(&self.position);
        if let Some(reset) = reset {
            text += &frame::reset(reset, &self.position);
        }
        // Before the history is read, which takes its time where many catch up.
        let _ = chunks.try_send(text.into());
        let out = StreamWriter { chunks, heartbeat, text: String::new() };
        tokio::spawn(self.run(out));
        stream::unfold(body, |mut body| async move { Some((Ok(body.recv().await?), body)) })
    }

    async fn run(mut self, mut out: StreamWriter) {
        let app = self.app.clone();
        let end = tokio::select! {
            end = self.follow(&mut out) => end,
            () = app.closing() => StreamEnd::Because("this node is stopping: come back with the last id"),
            () = sleep(limits::STREAM_LIFE) => StreamEnd::Because("long enough: come back with the last id"),
        };
        if let StreamEnd::Because(why) = end {
            tracing::debug!(holder = %self.ctx.holder(), why, "stream.ended");
            // Without waiting: a client that does not read will not miss it.
            let _ = out.chunks.try_send(frame::goodbye(why).into());
        }
    }

    async fn follow(&mut self, out: &mut StreamWriter) -> StreamEnd {
        let mut failures = 0;
        loop {
            let gone = match self.catch_up_and_listen(out).await {
                Ok(gone) => gone,
                Err(error) => {
                    tracing::debug!(%error, "a stream could not be read; trying again");
                    failures += 1;
                    self.wait_alive(out, sleep(pause_after(failures))).await.err()
                }
            };
            match gone {
                Some(end) => return end,
                None => failures = failures.saturating_sub(1),
            }
        }
    }

    /// Catches up and listens. None if it was too slow, and has to catch up again.
    async fn catch_up_and_listen(&mut self, out: &mut StreamWriter) -> Result<Option<StreamEnd>, StoreError> {
        if let Some(end) = self.catch_up(out).await? {
            return Ok(Some(end));
        }
        let mut subscription =
            Subscription::start(&self.app, self.ctx.account_id(), self.filter.wants_events());
        if let Err(end) = self.wait_alive(out, subscription.joined()).await {
            return Ok(Some(end));
        }
        // What happened between the two; from here on the hub tells everything.
        if let Some(end) = self.catch_up(out).await? {
            return Ok(Some(end));
        }
        Ok(self.listen(out, subscription).await)
    }

    /// Reads the history to its end.
    async fn catch_up(&mut self, out: &mut StreamWriter) -> Result<Option<StreamEnd>, StoreError> {
        let account = self.ctx.account_id();
        loop {
            let page = {
                let _turn = self.app.hub.catching_up.take(account, 1).await;
                let now = self.app.now();
                let followed = Followed { accounts: &[account], events: self.filter.wants_events() };
                self.app.store.feed(followed, &self.position.place, limits::FEED_PAGE, now).await?
            };
            let destinations = KnownDestinations::of(&self.app, &page.entries).await?;
            for entry in page.entries {
                let item = StreamItem::of(entry, self.position.version, &destinations);
                if let Err(end) = self.tell(out, &item).await {
                    return Ok(Some(end));
                }
            }
            self.position.place = page.next;
            if let Err(end) = self.flush(out).await {
                return Ok(Some(end));
            }
            if !page.more {
                break;
            }
            if out.heartbeat.tick().now_or_never().is_some()
                && let Err(end) = self.heartbeat(out, None).await
            {
                return Ok(Some(end));
            }
        }
        let (switched, version) = switched(&self.app, account, self.position.version, self.since).await?;
        let ids = switched.iter().map(|(id, _)| *id).collect();
        let destinations = KnownDestinations::read(&self.app, ids).await?;
        for switched in &switched {
            let item = StreamItem::switched(switched, &destinations, self.position.clone(), version);
            if let Err(end) = self.tell(out, &item).await {
                return Ok(Some(end));
            }
        }
        self.position.version = version;
        self.since = self.position.place.at().minus(limits::FEED_LOOKBACK);
        Ok(self.flush(out).await.err())
    }

    /// What the hub hands out, until the queue was full.
    async fn listen(&mut self, out: &mut StreamWriter, mut subscription: Subscription) -> Option<StreamEnd> {
        let joined = self.position.clone();
        loop {
            let item = tokio::select! {
                biased;
                () = out.chunks.closed() => return Some(StreamEnd::HungUp),
                _ = out.heartbeat.tick() => {
                    if let Err(end) = self.heartbeat(out, Some(&subscription)).await {
                        return Some(end);
                    }
                    continue;
                }
                item = subscription.queue.recv() => item?,
            };
            if let Err(end) = self.take_in(out, &joined, &item).await {
                return Some(end);
            }
            while let Ok(item) = subscription.queue.try_recv() {
                if let Err(end) = self.take_in(out, &joined, &item).await {
                    return Some(end);
                }
            }
            if let Err(end) = self.flush(out).await {
                return Some(end);
            }
        }
    }

    async fn take_in(
        &mut self,
        out: &mut StreamWriter,
        joined: &StreamPosition,
        item: &Arc<StreamItem>,
    ) -> Result<(), StreamEnd> {
        if item.is_covered_by(joined) {
            return Ok(());
        }
        self.tell(out, item).await?;
        self.position = item.position.clone();
        Ok(())
    }

    async fn tell(&self, out: &mut StreamWriter, item: &StreamItem) -> Result<(), StreamEnd> {
        if !self.filter.wants(item) {
            return Ok(());
        }
        out.text.push_str(std::str::from_utf8(&item.text).unwrap_or_default());
        if out.text.len() >= limits::STREAM_CHUNK_BYTES { self.flush(out).await } else { Ok(()) }
    }

    /// Hands what was written to the socket, and waits for it if that is slow.
    async fn flush(&self, out: &mut StreamWriter) -> Result<(), StreamEnd> {
        if out.text.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut out.text);
        out.chunks.send(text.into()).await.map_err(|_| StreamEnd::HungUp)
    }

    /// A sign of life, if the key still lives.
    async fn heartbeat(
        &mut self,
        out: &mut StreamWriter,
        subscription: Option<&Subscription>,
    ) -> Result<(), StreamEnd> {
        if self.ctx.is_revoked(&self.app).await {
            return Err(StreamEnd::Because("the API key, or the session, is not valid any more"));
        }
        // First how far everything was handed out, then whether all of it was handed to us, and nothing waits here.
        let heard = self.app.hub.position(self.ctx.account_id());
        if let (Some(subscription), Some(heard)) = (subscription, heard)
            && !subscription.queue.is_closed()
            && subscription.queue.is_empty()
            && heard.place.at() > self.position.place.at()
        {
            self.position = heard;
        }
        out.text += &frame::heartbeat(&self.position);
        self.flush(out).await
    }

    /// Waits for something, and goes on showing signs of life.
    async fn wait_alive(
        &mut self,
        out: &mut StreamWriter,
        wait: impl Future<Output = ()>,
    ) -> Result<(), StreamEnd> {
        let mut wait = std::pin::pin!(wait);
        self.flush(out).await?;
        loop {
            tokio::select! {
                () = &mut wait => return Ok(()),
                () = out.chunks.closed() => return Err(StreamEnd::HungUp),
                _ = out.heartbeat.tick() => self.heartbeat(out, None).await?,
            }
        }
    }
}
