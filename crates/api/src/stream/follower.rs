//! One client: first what it missed, from the history, then what the hub hands out.

use super::{
    destinations::Destinations,
    filter::Filter,
    frame::{self, Reset},
    happening::Happening,
    hub::{Ear, Seat, pause_after},
    mark::{Mark, switched},
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
    filter: Filter,
    /// Everything before it was told.
    mark: Mark,
    /// From when on pauses and disablings behind the mark's version are looked for.
    since: Timestamp,
    _seat: Seat,
}

/// Why a stream ends.
enum End {
    /// Nobody is there any more.
    HungUp,
    Because(&'static str),
}

/// The client's side: text in pieces, and the signs of life between them.
struct Out {
    chunks: mpsc::Sender<Bytes>,
    beat: Interval,
    text: String,
}

impl Follower {
    pub(super) fn new(app: App, ctx: AccountCtx, filter: Filter, mark: Mark, seat: Seat) -> Self {
        let since = mark.place.at().minus(limits::FEED_LOOKBACK);
        Self { app, ctx, filter, mark, since, _seat: seat }
    }

    /// The body of the answer, written by a task of its own that ends with it.
    pub(super) fn start(self, reset: Option<Reset>) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        let (chunks, body) = mpsc::channel(limits::STREAM_CHUNKS);
        let every = self.app.config.deadlines.heartbeat;
        let mut beat = interval_at(Instant::now() + every, every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut out = Out { chunks, beat, text: frame::hello() };
        if let Some(reset) = reset {
            out.text += &frame::reset(reset, &self.mark);
        }
        tokio::spawn(self.run(out));
        stream::unfold(body, |mut body| async move { Some((Ok(body.recv().await?), body)) })
    }

    async fn run(mut self, mut out: Out) {
        let app = self.app.clone();
        let end = tokio::select! {
            end = self.follow(&mut out) => end,
            () = app.closing() => End::Because("this node is stopping: come back with the last id"),
            () = sleep(limits::STREAM_LIFE) => End::Because("long enough: come back with the last id"),
        };
        if let End::Because(why) = end {
            tracing::debug!(key_id = %self.ctx.key_id(), why, "stream.ended");
            // Without waiting: who does not read will not miss it.
            let _ = out.chunks.try_send(frame::goodbye(why).into());
        }
    }

    async fn follow(&mut self, out: &mut Out) -> End {
        let mut failures = 0;
        loop {
            let gone = match self.once(out).await {
                Ok(gone) => gone,
                Err(error) => {
                    tracing::debug!(%error, "a stream could not be read; trying again");
                    failures += 1;
                    self.meanwhile(out, sleep(pause_after(failures))).await.err()
                }
            };
            match gone {
                Some(end) => return end,
                None => failures = failures.saturating_sub(1),
            }
        }
    }

    /// Catches up and listens. None if it was too slow, and has to catch up again.
    async fn once(&mut self, out: &mut Out) -> Result<Option<End>, StoreError> {
        if let Some(end) = self.catch_up(out).await? {
            return Ok(Some(end));
        }
        let mut ear = Ear::of(&self.app, self.ctx.account_id(), self.filter.wants_events());
        if let Err(end) = self.meanwhile(out, ear.joined()).await {
            return Ok(Some(end));
        }
        // What happened between the two; from here on the hub tells everything.
        if let Some(end) = self.catch_up(out).await? {
            return Ok(Some(end));
        }
        Ok(self.listen(out, ear).await)
    }

    /// Reads the history to its end.
    async fn catch_up(&mut self, out: &mut Out) -> Result<Option<End>, StoreError> {
        let account = self.ctx.account_id();
        loop {
            let page = {
                let _turn = self.app.hub.catching_up.acquire().await;
                let now = self.app.now();
                let followed = Followed { accounts: &[account], events: self.filter.wants_events() };
                self.app.store.feed(followed, &self.mark.place, limits::FEED_PAGE, now).await?
            };
            let destinations = Destinations::of(&self.app, &page.entries).await?;
            for entry in page.entries {
                let happening = Happening::of(entry, self.mark.version, &destinations);
                if let Err(end) = self.tell(out, &happening).await {
                    return Ok(Some(end));
                }
            }
            self.mark.place = page.next;
            if let Err(end) = self.flush(out).await {
                return Ok(Some(end));
            }
            if !page.more {
                break;
            }
            if out.beat.tick().now_or_never().is_some()
                && let Err(end) = self.beat(out, None).await
            {
                return Ok(Some(end));
            }
        }
        let (switched, version) = switched(&self.app, account, self.mark.version, self.since).await?;
        let ids = switched.iter().map(|(id, _)| *id).collect();
        let destinations = Destinations::read(&self.app, ids).await?;
        for switched in &switched {
            let happening = Happening::switched(switched, &destinations, self.mark.clone(), version);
            if let Err(end) = self.tell(out, &happening).await {
                return Ok(Some(end));
            }
        }
        self.mark.version = version;
        self.since = self.mark.place.at().minus(limits::FEED_LOOKBACK);
        Ok(self.flush(out).await.err())
    }

    /// What the hub hands out, until the queue was full.
    async fn listen(&mut self, out: &mut Out, mut ear: Ear) -> Option<End> {
        let joined = self.mark.clone();
        loop {
            let happening = tokio::select! {
                biased;
                () = out.chunks.closed() => return Some(End::HungUp),
                _ = out.beat.tick() => {
                    if let Err(end) = self.beat(out, Some(&ear)).await {
                        return Some(end);
                    }
                    continue;
                }
                happening = ear.queue.recv() => happening?,
            };
            if let Err(end) = self.hear(out, &joined, &happening).await {
                return Some(end);
            }
            while let Ok(happening) = ear.queue.try_recv() {
                if let Err(end) = self.hear(out, &joined, &happening).await {
                    return Some(end);
                }
            }
            if let Err(end) = self.flush(out).await {
                return Some(end);
            }
        }
    }

    async fn hear(&mut self, out: &mut Out, joined: &Mark, happening: &Arc<Happening>) -> Result<(), End> {
        if happening.heard_by(joined) {
            return Ok(());
        }
        self.tell(out, happening).await?;
        self.mark = happening.mark.clone();
        Ok(())
    }

    async fn tell(&self, out: &mut Out, happening: &Happening) -> Result<(), End> {
        if !self.filter.wants(happening) {
            return Ok(());
        }
        out.text.push_str(std::str::from_utf8(&happening.text).unwrap_or_default());
        if out.text.len() >= limits::STREAM_CHUNK_BYTES { self.flush(out).await } else { Ok(()) }
    }

    /// Hands what was written to the socket, and waits for it if that is slow.
    async fn flush(&self, out: &mut Out) -> Result<(), End> {
        if out.text.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut out.text);
        out.chunks.send(text.into()).await.map_err(|_| End::HungUp)
    }

    /// A sign of life, if the key still lives.
    async fn beat(&mut self, out: &mut Out, ear: Option<&Ear>) -> Result<(), End> {
        if self.ctx.is_revoked(&self.app).await {
            return Err(End::Because("the API key is not valid any more"));
        }
        // First how far everything was handed out, then whether all of it was handed to us, and nothing waits here.
        let heard = self.app.hub.mark(self.ctx.account_id());
        if let (Some(ear), Some(heard)) = (ear, heard)
            && !ear.queue.is_closed()
            && ear.queue.is_empty()
            && heard.place.at() > self.mark.place.at()
        {
            self.mark = heard;
        }
        out.text += &frame::heartbeat(&self.mark);
        self.flush(out).await
    }

    /// Waits for something, and goes on showing signs of life.
    async fn meanwhile(&mut self, out: &mut Out, wait: impl Future<Output = ()>) -> Result<(), End> {
        let mut wait = std::pin::pin!(wait);
        self.flush(out).await?;
        loop {
            tokio::select! {
                () = &mut wait => return Ok(()),
                () = out.chunks.closed() => return Err(End::HungUp),
                _ = out.beat.tick() => self.beat(out, None).await?,
            }
        }
    }
}
