//! Dead letters: in groups, which say what went wrong, where, and how often; and settled by hand. One by one they are
//! deliveries.

use crate::{
    app::App,
    auth::AccountCtx,
    deliveries::filter,
    error::ApiError,
    json::{self, BodyUpTo},
    named,
    page::{CursorKey, List},
    page_params::PageParams,
    problems, read, replays,
    validate::Checks,
};
use axum::{Json, extract::State, response::Response};
use contract::{
    DeadLetterGroupQuery, DeadLetterGroupView, DeliveryQuery, DismissInput, DismissedView, ListBody,
    ResolvedFilter, schema,
};
use domain::{
    account::Scope,
    audit::Told,
    delivery::Status,
    id::{DeliveryId, DestinationId},
    limits,
    outcome::{DeadReason, Outcome},
};
use serde_json::Value;
use std::{fmt::Display, time::Duration};
use store::{DeliveryFilter, Dismissal, GroupFilter, GroupKey, Page, Selection, StoreError};

/// List dead letters that are not settled, by destination, reason, HTTP status and outcome. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/dead-letters/groups", operation_id = "list_dead_letter_groups", tag = "dead letters",
    params(PageParams, DeadLetterGroupQuery),
    responses(
        (status = 200, description = "A page.", body = ListBody<DeadLetterGroupView>),
        problems::Listing,
    ),
)]
pub(crate) async fn groups(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<DeadLetterGroupQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let DeadLetterGroupQuery { destination_id, since, resolved } = list.filter;
    if resolved.is_some_and(|resolved| resolved != ResolvedFilter::False) {
        let detail = "groups are of what is not settled: `GET /v1/deliveries` lists the others";
        return Err(ApiError::invalid_field("/resolved", "not_allowed", detail));
    }
    let room = app.answers.page(account).await?;
    let filter = GroupFilter { destination_id, since };
    let found = read::dead_letter_groups(&app, account, filter, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

/// Settle dead letters by hand, by a filter or by ids: there is nothing more to be done about them. They stay what they are,
/// count as `dismissed`, and can still be replayed by their ids. At most 10,000 are settled by one request. Scope
/// `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/dead-letters/dismiss", operation_id = "dismiss_dead_letters", tag = "dead letters",
    request_body = schema::DismissInput,
    responses(
        (status = 200, description = "How many are settled by it.", body = DismissedView),
        problems::Dismissing,
    ),
)]
pub(crate) async fn dismiss(
    State(app): State<App>,
    ctx: AccountCtx,
    BodyUpTo(mut body): BodyUpTo<{ limits::REPLAY_BODY_BYTES }, Value>,
) -> Result<Json<DismissedView>, ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    named::resolve_filter(&app, Some(account), &mut body).await?;
    let input: DismissInput = json::from_value(body)?;
    check(&input)?;
    let told = Told::default();
    let told = match &input.note {
        Some(note) => told.with("note", note.clone()),
        None => told,
    };
    let DismissInput { filter, delivery_ids, note } = input;
    let dismissed = match (filter, delivery_ids) {
        (_, Some(ids)) => by_ids(&app, &ctx, ids, note, told).await?,
        (query, None) => by_filter(&app, &ctx, query.unwrap_or_default(), note, told).await?,
    };
    let account_id = ctx.account_id();
    tracing::info!(%account_id, count = dismissed.dismissed, "dead_letters.dismissed");
    Ok(Json(dismissed))
}

fn check(input: &DismissInput) -> Result<(), ApiError> {
    let mut checks = Checks::default();
    match (&input.filter, &input.delivery_ids) {
        (Some(query), None) => check_filter(query, &mut checks),
        (None, Some(ids)) if ids.is_empty() => {
            checks.refuse("/delivery_ids", "missing_value", "name a dead letter, or give a filter");
        }
        (None, Some(ids)) if ids.len() > limits::DISMISS_IDS => {
            checks.refuse("/delivery_ids", "too_many", format!("at most {} ids", limits::DISMISS_IDS));
        }
        (None, Some(_)) => {}
        (Some(_), Some(_)) => {
            checks.refuse("/delivery_ids", "not_allowed", "give a filter or ids, not both");
        }
        (None, None) => checks.refuse("/filter", "missing_field", "give a filter or `delivery_ids`"),
    }
    if let Some(note) = &input.note
        && (!(1..=limits::DISMISS_NOTE_CHARS).contains(&note.chars().count())
            || note.chars().any(char::is_control))
    {
        let most = limits::DISMISS_NOTE_CHARS;
        let detail = format!("a note has 1 to {most} characters and no control characters");
        checks.refuse("/note", "invalid_value", detail);
    }
    checks.done()
}

fn check_filter(query: &DeliveryQuery, checks: &mut Checks) {
    filter::check(query, "/filter", checks);
    for (index, status) in query.status.iter().enumerate() {
        if *status != Status::DeadLetter {
            let detail = "only dead letters can be dismissed";
            checks.refuse(format!("/filter/status/{index}"), "not_allowed", detail);
        }
    }
    if query.resolved.is_some_and(|resolved| resolved != ResolvedFilter::False) {
        let detail = "only what is not settled can be dismissed";
        checks.refuse("/filter/resolved", "not_allowed", detail);
    }
}

async fn by_ids(
    app: &App,
    ctx: &AccountCtx,
    given: Vec<DeliveryId>,
    note: Option<String>,
    told: Told,
) -> Result<DismissedView, ApiError> {
    let mut ids = given.clone();
    ids.sort_unstable();
    ids.dedup();
    // One that is not there is an error: then nothing is settled.
    replays::survey(app, ctx, &Selection::Deliveries(ids.clone().into()), &given).await?;
    let mut dismissed = 0;
    for chunk in ids.chunks(limits::DISMISS_CHUNK) {
        // Of one it is said which; of many it is the account that they are of.
        dismissed += match ids.as_slice() {
            [one] => settle(app, ctx, one, chunk.to_vec(), note.clone(), &told).await?,
            _ => settle(app, ctx, ctx.account_id(), chunk.to_vec(), note.clone(), &told).await?,
        };
    }
    let skipped = ids.len() as u64 - dismissed;
    Ok(DismissedView { dismissed, skipped, more: false, next_until: None })
}

/// Newest first: what dies meanwhile is not looked at.
async fn by_filter(
    app: &App,
    ctx: &AccountCtx,
    query: DeliveryQuery,
    note: Option<String>,
    told: Told,
) -> Result<DismissedView, ApiError> {
    let filter = DeliveryFilter {
        statuses: vec![Status::DeadLetter],
        resolved: Some(false),
        ..filter::filter(&query)
    };
    let told = told.with("filter", serde_json::to_value(&query).map_err(ApiError::from_bug)?);
    let account = ctx.account_id();
    let mut page = Page { before: None, limit: limits::DISMISS_CHUNK };
    let mut dismissed = 0;
    for _ in 0..limits::DISMISS_PAGES {
        let found = app.store.deliveries(account, &filter, page).await?;
        let ids: Vec<DeliveryId> = found.rows.iter().map(|record| record.id).collect();
        if !ids.is_empty() {
            dismissed += settle(app, ctx, account, ids, note.clone(), &told).await?;
        }
        page.before = found.next;
        if page.before.is_none() || dismissed >= limits::DISMISS_IDS as u64 {
            break;
        }
    }
    // The moment after: of what was made within the same one some may be left.
    let next_until = page.before.map(|id| id.made_at().plus(Duration::from_micros(1)));
    Ok(DismissedView { dismissed, skipped: 0, more: next_until.is_some(), next_until })
}

/// One transaction with its entry. Settlements and other dismissals change the same counts: one of two that wait for each
/// other is refused by the database, and is tried again.
async fn settle(
    app: &App,
    ctx: &AccountCtx,
    object: impl Display,
    delivery_ids: Vec<DeliveryId>,
    note: Option<String>,
    told: &Told,
) -> Result<u64, ApiError> {
    let (account_id, dismissed_by, at) = (ctx.account_id(), ctx.holder(), app.now());
    let dismissal = Dismissal { account_id, delivery_ids, dismissed_by, note, at };
    let entry = ctx.entry(app, object, told.made());
    let mut tries = 0;
    loop {
        match app.store.dismiss(&dismissal, &entry).await {
            Err(StoreError::Unavailable(_)) if tries < limits::DISMISS_TRIES => tries += 1,
            settled => return Ok(settled?.into()),
        }
    }
}

impl CursorKey for GroupKey {
    const BYTES: usize = DestinationId::BYTES + 4;

    fn write(&self, bytes: &mut Vec<u8>) {
        self.destination_id.write(bytes);
        let place = DeadReason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or_default();
        bytes.push(place as u8);
        bytes.extend_from_slice(&self.http_status.unwrap_or_default().to_be_bytes());
        // From one: zero is none.
        let place = Outcome::ALL.iter().position(|outcome| Some(*outcome) == self.outcome);
        bytes.push(place.map_or(0, |place| place as u8 + 1));
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (destination, rest) = bytes.split_at_checked(DestinationId::BYTES)?;
        let [place, high, low, outcome] = rest.try_into().ok()?;
        Some(Self {
            destination_id: DestinationId::read(destination)?,
            reason: *DeadReason::ALL.get(usize::from(place))?,
            http_status: Some(u16::from_be_bytes([high, low])).filter(|status| *status > 0),
            outcome: match outcome.checked_sub(1) {
                Some(place) => Some(*Outcome::ALL.get(usize::from(place))?),
                None => None,
            },
        })
    }
}
