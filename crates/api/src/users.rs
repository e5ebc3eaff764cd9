//! Users of the dashboard: made, listed and removed by operators. A user changes its own password by its session.

use crate::{
    app::App,
    auth::OperatorCtx,
    error::ApiError,
    json::{self, Body},
    page::{List, NoFilter},
    page_params::PageParams,
    passwords,
    path::Id,
    problems, read,
    validate::Checks,
    views,
};
use axum::{Json, extract::State, response::Response};
use contract::{ListBody, UserInput, UserView, schema};
use domain::{
    audit::Told,
    id::UserId,
    limits,
    session::{Holder, User, UserRole},
};
use http::StatusCode;
use serde_json::{Value, json};
use store::StoreError;
use zeroize::Zeroizing;

/// Make a user of the dashboard. Operators only. An operator sees all accounts and runs the installation; an editor works in
/// its accounts, but for their keys and settings; a viewer sees what is in them, and no secret.
#[utoipa::path(
    post, path = "/v1/users", operation_id = "create_user", tag = "operations",
    request_body = UserInput,
    responses((status = 201, description = "Made.", body = UserView), problems::Creating),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: OperatorCtx,
    Body(body): Body<Value>,
) -> Result<(StatusCode, Json<UserView>), ApiError> {
    let input: UserInput = json::from_value(body)?;
    let mut checks = Checks::default();
    let name = check_name(&mut checks, "/name", &input.name);
    let password = Zeroizing::new(input.password);
    passwords::check(&mut checks, "/password", &password);
    let mut accounts = input.accounts;
    accounts.sort_unstable();
    accounts.dedup();
    match (input.role, accounts.len()) {
        (UserRole::Operator, 1..) => {
            checks.refuse("/accounts", "not_allowed", "an operator sees all accounts: leave them out");
        }
        (UserRole::Editor | UserRole::Viewer, 0) => {
            checks.refuse("/accounts", "too_few", "an editor or a viewer has at least one account");
        }
        (_, count) if count > limits::USER_ACCOUNTS_MAX => {
            let detail = format!("at most {} accounts", limits::USER_ACCOUNTS_MAX);
            checks.refuse("/accounts", "too_many", detail);
        }
        _ => {}
    }
    checks.done()?;
    for (place, account) in accounts.iter().enumerate() {
        app.store.account(*account).await.map_err(|error| match error {
            StoreError::NotFound { what } => {
                ApiError::invalid_field(format!("/accounts/{place}"), "not_found", format!("no such {what}"))
            }
            other => other.into(),
        })?;
    }
    let now = app.now();
    let user = User {
        id: UserId::at(now, app.dice.bits()),
        name,
        password: app.passwords.hash(password, &*app.dice).await?,
        role: input.role,
        accounts,
        created_at: now,
        updated_at: now,
    };
    let entry = ctx.entry(&app, user.id, told(&user).made());
    app.store.create_user(&user, &entry).await.map_err(|error| match error {
        StoreError::Full { .. } => {
            ApiError::quota_exceeded(format!("there are {} users, and no room for more", limits::USERS))
        }
        other => other.into(),
    })?;
    Ok((StatusCode::CREATED, Json(views::user(&user))))
}

/// List the users of the dashboard, newest first. Operators only.
#[utoipa::path(
    get, path = "/v1/users", operation_id = "list_users", tag = "operations",
    params(PageParams),
    responses((status = 200, description = "A page.", body = ListBody<UserView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: OperatorCtx,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let room = app.answers.page(None).await?;
    let found = read::users(&app, list.page(&app, None)?).await?;
    room.json(&list.body(&app, None, found))
}

/// Remove a user. Its sessions end at once on this node and within a second on all. Operators only.
#[utoipa::path(
    delete, path = "/v1/users/{id}", operation_id = "delete_user", tag = "operations",
    params(("id" = schema::UserId, Path)),
    responses((status = 204, description = "Removed."), problems::Acting),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: OperatorCtx,
    Id(id): Id<UserId>,
) -> Result<StatusCode, ApiError> {
    let user = app.store.user(id).await?;
    let entry = ctx.entry(&app, id, Told::default().since(&told(&user)));
    app.store.delete_user(id, &entry).await?;
    app.sessions.forget_of(Holder::User(id));
    Ok(StatusCode::NO_CONTENT)
}

/// What the audit log tells of one.
pub(crate) fn told(user: &User) -> Told {
    Told::of(json!({ "name": user.name, "role": user.role, "accounts": user.accounts }))
}

/// A name as it is kept and looked for.
pub(crate) fn folded(name: &str) -> String {
    name.trim().to_lowercase()
}

/// The name as it is kept.
pub(crate) fn check_name(checks: &mut Checks, pointer: &str, name: &str) -> String {
    let name = folded(name);
    let fits = (1..=limits::USER_NAME_MAX).contains(&name.chars().count());
    if !fits || name.chars().any(|char| char.is_control() || char.is_whitespace()) {
        let detail = format!("1 to {} characters without spaces", limits::USER_NAME_MAX);
        checks.refuse(pointer, "invalid_value", detail);
    }
    name
}
