//! Who may sign in with a name and a password: for operators, who make and remove them.

use crate::{command_line, moment, name, page_error::PageError, reads::together, visit::Visit};
use api::read;
use contract::UserView;
use domain::{id::AccountId, limits, session::UserRole};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::collections::{BTreeSet, HashMap};

/// Accounts whose names are shown beside users: each costs a read.
const NAMED: usize = 50;

pub(super) async fn panel(visit: &Visit) -> Result<Markup, PageError> {
    if !visit.visitor.is_operator() {
        return Ok(Markup::default());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let found = read::users(&visit.app, page).await?;
    let names = names(visit, &found.data).await;
    Ok(html! {
        section.panel #users data-region {
            div.panel-head { h2 { "Users" } (name::copy_commands(&command_line::curl_installation(visit, "/v1/users"), None)) }
            details {
                summary { "New user" }
                form.sheet data-form="/v1/users" data-method="POST" data-done="Made" {
                    div.fields {
                        label { "Name" input name="name" required maxlength=(limits::USER_NAME_MAX) autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="ada"; }
                        label { "First password" input type="password" name="password" required minlength="12" autocomplete="new-password"; }
                        label { "Role" select name="role" { @for role in [UserRole::Editor, UserRole::Viewer, UserRole::Operator] { option value=(role.as_str()) { (role.as_str()) ": " (may(role)) } } } }
                    }
                    label { "Accounts, by id (none for an operator, who sees all)"
                        input name="accounts" data-type="list" spellcheck="false" placeholder="acc_…" value=[visit.visitor.account_id()];
                    }
                    div data-form-problems role="alert" {}
                    button.button.primary type="submit" { "Make the user" }
                    p.hint { "Tell them the password once; they change it here, under Password." }
                }
            }
            @if found.data.is_empty() { p.quiet { "There is none: everybody signs in with a key." } } @else {
                table.list {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Role" } th scope="col" { "Accounts" } th.num scope="col" { "Made" } th scope="col" {} } }
                    tbody { @for user in &found.data { (row(visit, user, &names)) } }
                }
                @if found.next.is_some() { p.quiet { "These are the newest " (limits::PAGE_MAX) "." } }
            }
        }
    })
}

fn may(role: UserRole) -> &'static str {
    match role {
        UserRole::Operator => "everything, everywhere",
        UserRole::Editor => "works in its accounts",
        UserRole::Viewer => "looks at its accounts",
    }
}

async fn names(visit: &Visit, users: &[UserView]) -> HashMap<AccountId, String> {
    let ids: BTreeSet<AccountId> = users.iter().flat_map(|user| &user.accounts).copied().collect();
    let each = ids.into_iter().take(NAMED).map(|id| read::account(&visit.app, id).boxed());
    let found = together(each.collect()).await;
    found.into_iter().flatten().map(|found| (found.view.id, found.view.name)).collect()
}

fn row(visit: &Visit, user: &UserView, names: &HashMap<AccountId, String>) -> Markup {
    html! {
        tr data-key=(user.id) tabindex="-1" {
            td { strong { (user.name) } }
            td { (user.role.as_str()) }
            td.wide { @if user.role == UserRole::Operator { span.quiet { "all" } } @else { @for id in &user.accounts {
                @match names.get(id) { Some(name) => span.tag title=(id) { (name) }, None => (name::id(id)) } " "
            } } }
            td.num { (moment::ago(visit.now(), user.created_at)) }
            td.act { button.button.small.danger type="button" data-action={ "/v1/users/" (user.id) } data-method="DELETE"
                data-confirm={ "Remove " (user.name) "?" } data-confirm-text="Whoever it is, is signed out within a second. It can be made again, with another password." data-done="Removed" { "Remove" } }
        }
    }
}
