//! Sources: where events of others come in.

pub(crate) mod verification;

use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    error::ApiError,
    json::{self, Body},
    page::List,
    page_params::PageParams,
    patch::patch_schema,
    path::Id,
    problems,
    read::{self, Revision, Wanted},
    validate::Checks,
    views,
};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use contract::{
    IngestUrlView, ListBody, NameQuery, NewSource, RefusedRequestView, SourceTag, SourceView, schema,
};
use domain::{
    account::Scope,
    audit::Told,
    id::SourceId,
    limits,
    seal::DataKey,
    source::Source,
    tag::{TagPlace, TagRule, is_tag},
};
use http::{StatusCode, header};
use serde_json::{Value, json};
use verification::Sealer;
use zeroize::Zeroizing;

/// 192 bits, 32 characters: not to be guessed.
const TOKEN_BYTES: usize = 24;

patch_schema!(SourcePatch as "SourcePatch" of NewSource);

/// `kept` secrets are there already, if the type of verification stays.
fn parse(mut form: Value, body: Value, kept: usize) -> Result<NewSource, ApiError> {
    let kind = form.pointer("/verification/type").cloned();
    verification::forget_other_type(&mut form, &body);
    let kept = if form.pointer("/verification/type") == kind.as_ref() { kept } else { 0 };
    let current = form["uid"].as_str().map(str::to_owned);
    let input: NewSource = json::patched(form, body)?;
    let mut checks = Checks::default();
    checks.uid(input.uid.as_deref(), current.as_deref());
    checks.name("/name", &input.name);
    checks.rate_limit(input.rate_limit);
    check_tags(&mut checks, &input.tags);
    verification::check(&mut checks, &input.verification, input.enabled, kept);
    checks.done().map(|()| input)
}

/// What would make it as it is.
fn form(source: &Source) -> Value {
    let input = NewSource {
        uid: source.uid.clone(),
        name: source.name.clone(),
        enabled: source.enabled,
        verification: verification::form(&source.verification),
        rate_limit: source.rate_limit,
        tags: source.tags.iter().map(views::source_tag).collect(),
        keep_refused: source.keep_refused,
    };
    serde_json::to_value(input).expect("an input is plain data")
}

/// What the audit log tells of it.
fn told(source: &Source) -> Told {
    let secrets: Vec<u8> = source.verification.secrets.iter().flat_map(|secret| secret.0.clone()).collect();
    let told = Told::of(form(source)).with_secret("token", source.token_hash.as_slice());
    if secrets.is_empty() { told } else { told.with_secret("verification_secrets", secrets) }
}

fn write(input: NewSource, source: &mut Source, sealer: &Sealer<'_>) {
    source.uid = input.uid;
    source.name = input.name;
    source.enabled = input.enabled;
    source.verification = verification::read(input.verification, &source.verification, source.id, sealer);
    source.rate_limit = input.rate_limit;
    source.tags = input.tags.into_iter().filter_map(tag_rule).collect();
    source.keep_refused = input.keep_refused;
}

fn check_tags(checks: &mut Checks, tags: &[SourceTag]) {
    if tags.len() > limits::TAG_RULES {
        checks.refuse("/tags", "too_many", format!("at most {}", limits::TAG_RULES));
        return;
    }
    for (place, tag) in tags.iter().enumerate() {
        let pointer = format!("/tags/{place}");
        match (&tag.path, &tag.header) {
            (Some(path), None) => {
                let fits =
                    path.len() <= limits::TAG_PATH_BYTES && path.split('.').all(|name| !name.is_empty());
                if !fits || path.chars().any(char::is_control) {
                    let detail = format!(
                        "names with dots between them, {} bytes at most, such as `order.id`",
                        limits::TAG_PATH_BYTES
                    );
                    checks.refuse(format!("{pointer}/path"), "invalid_value", detail);
                }
            }
            (None, Some(header)) => {
                let fits = header.len() <= limits::CUSTOM_HEADER_NAME_BYTES
                    && http::HeaderName::try_from(header.as_str()).is_ok();
                if !fits {
                    checks.refuse(
                        format!("{pointer}/header"),
                        "invalid_header_name",
                        "not the name of a header",
                    );
                }
            }
            _ => checks.refuse(pointer.clone(), "invalid_value", "needs `path` or `header`, one of them"),
        }
        if tag.prefix.as_deref().is_some_and(|prefix| !prefix.is_empty() && !is_tag(prefix)) {
            let detail = format!("at most {} characters without control characters", limits::TAG_CHARS);
            checks.refuse(format!("{pointer}/prefix"), "invalid_value", detail);
        }
    }
}

/// None of one that was refused.
fn tag_rule(tag: SourceTag) -> Option<TagRule> {
    let place = match (tag.path, tag.header) {
        (Some(path), _) => TagPlace::Path(path),
        (None, header) => TagPlace::Header(header?.to_ascii_lowercase()),
    };
    Some(TagRule { place, prefix: tag.prefix.unwrap_or_default() })
}

/// Make a source. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/sources", operation_id = "create_source", tag = "sources",
    request_body = NewSource,
    responses((status = 201, description = "Made, with its `ingest_url`.", body = SourceView), problems::Creating),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: AccountCtx,
    Body(body): Body<Value>,
) -> Result<Versioned<SourceView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let input = parse(json!({}), body, 0)?;
    let key = app.data_key(account).await?;
    let now = app.now();
    let mut source = Source::new(SourceId::at(now, app.dice.bits()), account, &input.name, now);
    write(input, &mut source, &Sealer { key: &key, dice: &*app.dice });
    give_token(&app, &mut source, &key);
    let entry = ctx.entry(&app, source.id, told(&source).made());
    let created = app.store.create_source(&source, &entry).await;
    let source = app.config_written(account, &[], created).await?;
    Ok(Versioned::created(shown_with_url(&app, &source, &key)?))
}

/// List sources, newest first. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/sources", operation_id = "list_sources", tag = "sources",
    params(PageParams, NameQuery),
    responses((status = 200, description = "A page.", body = ListBody<SourceView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<NameQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    let wanted = Wanted::try_from(&list.filter)?;
    let found = read::sources(&app, account, &wanted, list.page(&app, account)?).await?;
    let searched_until = found.next.filter(|_| wanted.looks_through()).map(SourceId::made_at);
    room.json(&ListBody { searched_until, ..list.body(&app, account, found) })
}

/// Read a source. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/sources/{id}", operation_id = "get_source", tag = "sources",
    params(("id" = schema::SourceRef, Path)),
    responses((status = 200, description = "The source.", body = SourceView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
) -> Result<Versioned<SourceView>, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    read::source(&app, account, id).await.map(Versioned::ok)
}

/// Show a source's ingest URL. Scope `secrets:reveal`.
#[utoipa::path(
    get, path = "/v1/sources/{id}/ingest-url", operation_id = "get_source_ingest_url", tag = "sources",
    params(("id" = schema::SourceRef, Path)),
    responses((status = 200, description = "The URL.", body = IngestUrlView), problems::Revealing),
)]
pub(crate) async fn reveal_url(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
) -> Result<impl IntoResponse, ApiError> {
    let account = ctx.require(Scope::SecretsReveal)?;
    app.may_reveal()?;
    let view = read::source_ingest_url(&app, account, id).await?;
    // Written down before it is told: what cannot be is not shown.
    app.store.write_audit(Some(account), &ctx.entry(&app, id, None)).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(view)))
}

/// List the last requests that a source did not believe, newest first, and why. There are ten at most, and only of a source
/// that has `keep_refused`. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/sources/{id}/refused", operation_id = "list_refused_requests", tag = "sources",
    params(("id" = schema::SourceRef, Path)),
    responses((status = 200, description = "All of them.", body = ListBody<RefusedRequestView>), problems::Reading),
)]
pub(crate) async fn refused(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    let data = read::refused_requests(&app, account, id).await?;
    room.json(&ListBody { data, next_cursor: None, searched_until: None })
}

/// Change a source. Scope `destinations:write`.
#[utoipa::path(
    patch, path = "/v1/sources/{id}", operation_id = "update_source", tag = "sources",
    params(("id" = schema::SourceRef, Path), IfMatchParam), request_body = SourcePatch,
    responses((status = 200, description = "As it is now.", body = SourceView), problems::Changing),
)]
pub(crate) async fn update(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<SourceView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let key = app.data_key(account).await?;
    let source = change(&app, &ctx, id, &if_match, |source| {
        let input = parse(form(source), patch.clone(), source.verification.secrets.len())?;
        write(input, source, &Sealer { key: &key, dice: &*app.dice });
        Ok(())
    })
    .await?;
    Ok(Versioned::ok(shown(&source)))
}

/// Give a source a new ingest URL; the old one stops working. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/sources/{id}/rotate-token", operation_id = "rotate_source_token", tag = "sources",
    params(("id" = schema::SourceRef, Path), IfMatchParam),
    responses((status = 200, description = "With its new URL.", body = SourceView), problems::Switching),
)]
pub(crate) async fn rotate_token(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
    if_match: IfMatch,
) -> Result<Versioned<SourceView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let key = app.data_key(account).await?;
    let source = change(&app, &ctx, id, &if_match, |source| {
        give_token(&app, source, &key);
        Ok(())
    })
    .await?;
    Ok(Versioned::ok(shown_with_url(&app, &source, &key)?))
}

/// Remove a source and its routes. Events that came by it stay. Scope `destinations:write`.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", operation_id = "delete_source", tag = "sources",
    params(("id" = schema::SourceRef, Path), IfMatchParam),
    responses((status = 204, description = "Removed."), problems::Switching),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<SourceId>,
    if_match: IfMatch,
) -> Result<StatusCode, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    if_match.check(app.store.source(account, id).await?.version)?;
    let entry = ctx.entry(&app, id, None);
    let deleted = app.store.delete_source(account, id, app.now(), &entry).await;
    app.config_written(account, &[], deleted).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(
    app: &App,
    ctx: &AccountCtx,
    id: SourceId,
    if_match: &IfMatch,
    decide: impl Fn(&mut Source) -> Result<(), ApiError>,
) -> Result<Source, ApiError> {
    let (decide, account) = (&decide, ctx.account_id());
    until_unchanged(&*app.dice, if_match, || async move {
        let before = app.store.source(account, id).await?;
        if_match.check(before.version)?;
        let mut source = before.clone();
        decide(&mut source)?;
        source.updated_at = app.now();
        let entry = ctx.entry(app, id, told(&source).since(&told(&before)));
        let updated = app.store.update_source(&source, &entry).await;
        Ok(app.config_written(account, &[], updated).await?)
    })
    .await
}

fn give_token(app: &App, source: &mut Source, key: &DataKey) {
    let mut bytes = Zeroizing::new([0u8; TOKEN_BYTES]);
    app.dice.fill(bytes.as_mut());
    let token = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_ref()));
    source.token = key.seal(&Source::token_place(source.id), token.as_bytes(), &*app.dice);
    source.token_hash = app.secrets.hash(token.as_bytes()).to_vec();
}

fn shown(source: &Source) -> Revision<SourceView> {
    Revision { version: source.version, view: views::source(source) }
}

/// To the one whose request has just made its token.
fn shown_with_url(app: &App, source: &Source, key: &DataKey) -> Result<Revision<SourceView>, ApiError> {
    let ingest_url = Some(read::ingest_url(app, source, key)?);
    Ok(Revision { version: source.version, view: SourceView { ingest_url, ..views::source(source) } })
}
