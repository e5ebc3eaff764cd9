//! The keys of an account, or of the installation: which there are, a new one, and that one works no longer. A key is shown once,
//! by the answer to the form.

use crate::{command_line, icon, moment, name, page_error::PageError, visit::Visit};
use api::read;
use contract::{ApiKeyView, SourceView};
use domain::{
    account::{KeyKind, Scope},
    id::AccountId,
    limits,
    time::Timestamp,
};
use maud::{Markup, html};

pub(super) async fn panel(visit: &Visit) -> Result<Markup, PageError> {
    let account = visit.visitor.account_id();
    let may = account.map_or_else(|| visit.visitor.is_operator(), |_| visit.may(Scope::KeysManage));
    if !may {
        return Ok(
            html! { section.panel #keys { h2 { "Keys" } p.quiet { "Your key may not manage keys." } } },
        );
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let keys = read::api_keys(&visit.app, account, page).await?.data;
    let sources = match account {
        Some(account) => sources(visit, account).await?,
        None => Vec::new(),
    };
    let now = visit.now();
    let operator = visit.visitor.is_operator();
    // With a key: by the session it is the account that is looked at.
    let path = account.filter(|_| operator).map(|id| format!("/v1/accounts/{id}/api-keys"));
    let path = path.unwrap_or_else(|| "/v1/api-keys".into());
    let create = match account {
        Some(id) => format!("posthaste keys create --account {id} --name ci"),
        None => "posthaste keys create --operator --name ci".into(),
    };
    Ok(html! {
        section.panel #keys data-region {
            div.panel-head { h2 { "Keys" } (name::copy_commands(&command_line::curl_installation(visit, &path), Some(&create))) }
            details {
                summary { "New key" }
                (form(visit, account.is_some(), &sources))
            }
            table.list {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Kind" } th scope="col" { "Begins with" } th scope="col" { "May" } th.num scope="col" { "Last used" } th.num scope="col" { "Until" } th scope="col" {} } }
                tbody { @for key in &keys { (row(now, key, &sources)) } }
            }
        }
    })
}

/// Those a key may be bound to.
async fn sources(visit: &Visit, account: AccountId) -> Result<Vec<SourceView>, PageError> {
    if !visit.may(Scope::DestinationsRead) {
        return Ok(Vec::new());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    Ok(read::sources(&visit.app, account, &read::Wanted::default(), page).await?.data)
}

fn form(visit: &Visit, of_account: bool, sources: &[SourceView]) -> Markup {
    html! {
        form.sheet.choice data-form="/v1/api-keys" data-method="POST" data-result="key" {
            div.fields {
                label { "Name" input name="name" required maxlength="200" placeholder="ci"; }
                label { "Kind" select name="kind" data-chooses {
                    @if of_account {
                        option value="account" { "account: what is ticked below" }
                        @if !sources.is_empty() { option value="ingest" { "ingest: only brings in events of one source" } }
                    } @else {
                        option value="operator" { "operator: runs the installation" }
                        option value="platform" { "platform: acts for any account" }
                    }
                } }
                label { "Until" input name="expires_at" data-type="until" spellcheck="false" placeholder="for ever; 30d; 2027-01-01"; }
                fieldset data-for="account ingest platform" disabled[!of_account] hidden[!of_account] {
                    label { "Events a second" input type="number" name="rate_limit" data-type="number" min="1" placeholder="no limit"; }
                }
                label.grow { "Only from these addresses" input name="allowed_addresses" data-type="list" spellcheck="false" placeholder="any; or 192.0.2.0/24, 2001:db8::/32"; }
            }
            @if of_account {
                fieldset data-for="ingest" hidden disabled {
                    label { "Its source" select name="source_id" { @for source in sources { option value=(source.id) { (source.name) } } } }
                }
                (scopes("account", Scope::OF_ACCOUNT.into_iter().filter(|scope| visit.may(*scope)), true))
            } @else {
                (scopes("platform", Scope::ALL.into_iter(), false))
            }
            div data-form-problems role="alert" {}
            button.button.primary type="submit" { "Make the key" }
            div data-form-result role="status" {}
        }
    }
}

fn scopes(kind: &str, scopes: impl Iterator<Item = Scope>, is_chosen: bool) -> Markup {
    html! {
        fieldset.scopes data-for=(kind) disabled[!is_chosen] hidden[!is_chosen] {
            legend { "May" }
            @for scope in scopes { label.check { input type="checkbox" name="scopes" data-type="set" value=(scope.as_str()) checked; " " (scope.as_str()) } }
        }
    }
}

fn row(now: Timestamp, key: &ApiKeyView, sources: &[SourceView]) -> Markup {
    let all = Scope::OF_ACCOUNT.iter().all(|scope| key.scopes.contains(scope));
    html! {
        tr data-key=(key.id) tabindex="-1" {
            td { strong { (key.name) } }
            td { (key.kind.as_str()) }
            td { code { (key.prefix) } }
            td.wide { @match (key.kind, key.source_id) {
                (KeyKind::Operator, _) => "run the installation",
                (KeyKind::Platform, _) if all => "act for any account",
                (KeyKind::Ingest, Some(id)) => { "bring in events of "
                    @match sources.iter().find(|source| source.id == id) { Some(source) => (source.name), None => (name::id(id)) } },
                _ if all => "everything in the account",
                _ => { @for scope in &key.scopes { span.tag { (scope.as_str()) } " " } },
            } @if let Some(limit) = key.rate_limit { span.quiet { " · " (limit) " events a second" } }
                @if !key.allowed_addresses.is_empty() { span.quiet { " · only from " (key.allowed_addresses.join(", ")) } } }
            td.num data-label="used" { @match key.last_used_at { Some(at) => (moment::ago(now, at)), None => span.quiet { "never" } } }
            td.num data-label="until" { @match (key.revoked_at, key.expires_at) {
                (Some(_), _) => span.status.quiet { (icon::stop()) "revoked" },
                (None, Some(at)) if at <= now => span.quiet { "ended " (moment::ago(now, at)) },
                (None, Some(at)) => (moment::ago(now, at)),
                (None, None) => span.quiet { "for ever" },
            } }
            td.act { @if key.revoked_at.is_none() {
                button.button.small.danger type="button" data-action={ "/v1/api-keys/" (key.id) } data-method="DELETE" data-confirm={ "Revoke " (key.name) "?" } data-confirm-text="Whoever uses it is refused within a second, and its sessions end." data-done="Revoked" { "Revoke" }
            } }
        }
    }
}
