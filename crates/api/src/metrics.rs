//! `/metrics`: what this process counts, as Prometheus reads it.
//!
//! Nothing in here looks at more than a bounded number of rows, and what was told is told again for a second: however
//! much waits and however many ask, it costs the same. A store that is away leaves its lines out and holds up nothing.
//!
//! Destinations are named to operators only: with their key, on the admin address, or in development. Every other caller sees
//! sums.

mod fanouts;
mod unverified;

use crate::{answers::share_of_all, app::App, auth::OperatorCtx, error::ApiError, router::ListenAddress};
use axum::{
    Extension,
    extract::{FromRequestParts, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use domain::{
    limits,
    metrics::{CONTENT_TYPE, Counter, MetricKind, Text},
};
use fanouts::Fanouts;
use http::{header, request::Parts};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};
use unverified::Unverified;

/// What is counted here, and what was told last: sums only, and with names.
#[derive(Default)]
pub(crate) struct Figures {
    /// Events that have become durable.
    pub(crate) ingested: Counter,
    pub(crate) fanouts: Fanouts,
    pub(crate) unverified: Unverified,
    told: [Mutex<Option<(Instant, Bytes)>>; 2],
}

pub(crate) async fn metrics(
    State(app): State<App>,
    Extension(address): Extension<ListenAddress>,
    mut parts: Parts,
) -> Result<Response, ApiError> {
    let named = address == ListenAddress::Admin || app.config.dev || is_operator(&mut parts, &app).await?;
    // One at a time; a caller that comes meanwhile is told the same.
    let mut told = app.figures.told[usize::from(named)].lock().await;
    let text = match &*told {
        Some((at, text)) if at.elapsed() < limits::METRICS_FRESH => text.clone(),
        _ => {
            let text = Bytes::from(app.scrape(named).await.into_string());
            *told = Some((Instant::now(), text.clone()));
            text
        }
    };
    Ok(share_of_all(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()))
}

/// A caller that shows a key must show the right one, but a store that is away must not leave us without metrics.
async fn is_operator(parts: &mut Parts, app: &App) -> Result<bool, ApiError> {
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        return Ok(false);
    }
    match OperatorCtx::from_request_parts(parts, app).await {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_server_error() => Ok(false),
        Err(error) => Err(error),
    }
}

impl App {
    async fn scrape(&self, named: bool) -> Text {
        let mut text = Text::default();
        let (version, role) = (self.config.version, self.config.role);
        text.family(
            "posthaste_build_info",
            MetricKind::Gauge,
            "The version that runs, and what it does; always 1.",
        )
        .value(&[("version", version), ("role", role.as_str())], 1);
        text.single(
            "posthaste_events_ingested_total",
            MetricKind::Counter,
            "Events that were accepted: durable, with their deliveries. Repeats are not counted.",
            self.figures.ingested.get(),
        );
        if role.listens() {
            self.figures.unverified.write(named, &mut text);
        }
        let until = Instant::now() + limits::METRICS_PATIENCE;
        let backlogs = self.store.account_backlogs(limits::METRIC_ACCOUNTS);
        if let Ok(Ok(backlogs)) = timeout_at(until, backlogs).await {
            text.single(
                "posthaste_queue_depth",
                MetricKind::Gauge,
                "Deliveries that have not ended, in the whole store: every node tells the same. Estimated on PostgreSQL once \
                 there are many.",
                backlogs.iter().map(|backlog| backlog.rows).sum::<u64>(),
            );
        }
        if role.listens() {
            let _ = timeout_at(until, self.figures.fanouts.look(&*self.store, self.now())).await;
            let expansions = timeout_at(until, self.store.open_expansions(None, 1)).await;
            let oldest =
                expansions.ok().and_then(Result::ok).and_then(|found| found.first().map(|it| it.created_at));
            self.figures.fanouts.write(oldest, self.now(), &mut text);
        }
        self.answers.write(&mut text);
        self.supervisor.write(&mut text);
        for part in &self.scraped {
            let _ = timeout(limits::METRICS_PATIENCE, part.scrape(named, &mut text)).await;
        }
        text
    }
}
