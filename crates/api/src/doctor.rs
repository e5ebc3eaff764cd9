//! Whether everything is in order, as an operator asks a running node. What can be seen of this process is told here; the
//! machine and the store are looked at by whoever started it ([`Doctor`]).

use crate::{app::App, auth::OperatorCtx, error::ApiError, problems};
use async_trait::async_trait;
use axum::{Json, extract::State};
use contract::ExaminationView;
pub use contract::{FindingLevel, FindingView};
use domain::limits;
use tokio::{sync::Mutex, time::timeout};

/// Looks at the machine and the store that a node works with, and only looks.
#[async_trait]
pub trait Doctor: Send + Sync {
    async fn examine(&self) -> Vec<FindingView>;
}

/// Nothing but the process is looked at.
#[async_trait]
impl Doctor for () {
    async fn examine(&self) -> Vec<FindingView> {
        Vec::new()
    }
}

/// What was found a moment ago. One looks at a time: whoever comes meanwhile is told the same.
#[derive(Default)]
pub(crate) struct LastExamination(Mutex<Option<ExaminationView>>);

/// Look whether everything is in order: open files, data folder, room on disk, the store's settings, clocks, secrets, loops. It
/// is what `posthaste doctor` says, as far as a running server can say it without disturbing its work; what was found is told
/// again for ten seconds. Operators only.
#[utoipa::path(
    get, path = "/v1/doctor", operation_id = "examine", tag = "operations",
    responses((status = 200, description = "What was looked at.", body = ExaminationView), problems::Asking),
)]
pub(crate) async fn examine(
    State(app): State<App>,
    _: OperatorCtx,
) -> Result<Json<ExaminationView>, ApiError> {
    let mut last = app.examined.0.lock().await;
    let now = app.now();
    if let Some(known) = last.as_ref().filter(|known| now.since(known.at) < limits::EXAMINATION_FRESH) {
        return Ok(Json(known.clone()));
    }
    let mut findings = vec![loops(&app)];
    match timeout(limits::EXAMINATION_PATIENCE, app.doctor.examine()).await {
        Ok(found) => findings.extend(found),
        Err(_) => findings.push(FindingView {
            check: "patience".into(),
            level: FindingLevel::Problem,
            detail: format!("looking took longer than {} s", limits::EXAMINATION_PATIENCE.as_secs()),
            fix: Some("Is the store slow, or away? `posthaste doctor` takes its time".into()),
        }),
    }
    let ok = findings.iter().all(|finding| finding.level <= FindingLevel::Warning);
    let found = ExaminationView { ok, at: now, findings };
    *last = Some(found.clone());
    Ok(Json(found))
}

fn loops(app: &App) -> FindingView {
    match app.supervisor.down() {
        down if down.is_empty() => FindingView::ok("loops", "all of this node run"),
        down => FindingView {
            check: "loops".into(),
            level: FindingLevel::Problem,
            detail: format!("these do not run: {}", down.join(", ")),
            fix: Some("They are started again by themselves; the log says why they died".into()),
        },
    }
}
