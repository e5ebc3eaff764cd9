//! What stands around every page: the screens, the search box, the account, the dialogs.

use crate::{
    assets, format, icon,
    search::WORDS,
    visit::{Page, Visit},
};
use domain::account::Scope;
use maud::{DOCTYPE, Markup, html};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Overview,
    Events,
    Destinations,
    DeadLetters,
    Replays,
    Sources,
    Routes,
    Settings,
    Docs,
}

impl Screen {
    const ALL: [Self; 9] = [
        Self::Overview,
        Self::Events,
        Self::Destinations,
        Self::DeadLetters,
        Self::Replays,
        Self::Sources,
        Self::Routes,
        Self::Settings,
        Self::Docs,
    ];

    /// Whether whoever came by a portal link sees it.
    const fn is_of_portal(self) -> bool {
        !matches!(self, Self::Sources | Self::Docs)
    }

    fn shown_to(visit: &Visit) -> impl Iterator<Item = Self> {
        let is_portal = visit.visitor.is_portal();
        Self::ALL.into_iter().filter(move |screen| !is_portal || screen.is_of_portal())
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Events => "/events",
            Self::Destinations => "/destinations",
            Self::DeadLetters => "/dead-letters",
            Self::Replays => "/replays",
            Self::Sources => "/sources",
            Self::Routes => "/routes",
            Self::Settings => "/settings",
            Self::Docs => "/docs",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Events => "Events",
            Self::Destinations => "Destinations",
            Self::DeadLetters => "Dead letters",
            Self::Replays => "Replays",
            Self::Sources => "Sources",
            Self::Routes => "Routes",
            Self::Settings => "Settings",
            Self::Docs => "API",
        }
    }

    /// Pressed after `g`.
    const fn key(self) -> &'static str {
        match self {
            Self::Overview => "o",
            Self::Events => "e",
            Self::Destinations => "d",
            Self::DeadLetters => "l",
            Self::Replays => "r",
            Self::Sources => "s",
            Self::Routes => "u",
            Self::Settings => "t",
            Self::Docs => "a",
        }
    }
}

/// The page, whole.
pub(crate) fn around(visit: &Visit, screen: Screen, page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-now=(visit.now().micros() / 1_000) data-csrf=(visit.visitor.csrf_token()) {
            (head(&page.title))
            body data-live=[live(visit, page)] {
                a.skip href="#main" { "To the page" }
                div.layout {
                    (side(visit, screen))
                    div.column {
                        (top(visit, page))
                        main #main tabindex="-1" { (page.body) }
                    }
                }
                (dialogs(visit))
                div #toasts role="status" aria-live="polite" {}
            }
        }
    }
}

/// What the page follows, if the visitor may follow anything.
fn live<'a>(visit: &Visit, page: &'a Page) -> Option<&'a str> {
    page.live.as_deref().filter(|_| visit.may(Scope::DeliveriesRead))
}

/// The theme is set before anything is painted; all else may come later.
pub(crate) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (title) " · Posthaste" }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            link rel="icon" href=(assets::url("icon.svg")) type="image/svg+xml";
            script src=(assets::url("theme.js")) {}
            link rel="stylesheet" href=(assets::url("app.css"));
            script type="module" src=(assets::url("app.js")) {}
        }
    }
}

pub(crate) fn brand() -> Markup {
    html! { span.brand { svg.logo viewBox="0 0 16 16" aria-hidden="true" { path d="M8 1l7 7l-7 7l-7-7z" {} } "Posthaste" } }
}

fn side(visit: &Visit, screen: Screen) -> Markup {
    html! {
        aside.side #side aria-label="Posthaste" {
            a.home href="/" { (brand()) }
            nav aria-label="Screens" {
                @for each in Screen::shown_to(visit) {
                    a.nav href=(each.path()) aria-current=[(each == screen).then_some("page")] data-key=(each.key()) {
                        span { (each.name()) }
                        (count(visit, each))
                    }
                }
            }
            div.side-end { (account(visit)) }
        }
    }
}

fn count(visit: &Visit, screen: Screen) -> Markup {
    let counts = &visit.counts;
    html! { @match screen {
        Screen::Events => span.count data-event-rate {},
        Screen::DeadLetters if counts.dead_letters > 0 => {
            span.count.bad { (format::compact(counts.dead_letters as f64)) @if counts.more_dead_letters { "+" } }
        },
        Screen::Replays if counts.running_replays > 0 => span.count { (counts.running_replays) },
        _ => (Markup::default()),
    } }
}

/// Whose things are shown, and by which key.
fn account(visit: &Visit) -> Markup {
    let counts = &visit.counts;
    html! {
        div.account {
            @if visit.visitor.account_id().is_some() {
                span.account-name title=(counts.account_uid.as_deref().unwrap_or_default()) { (counts.account_name) }
            } @else { span.account-name { "All accounts" } }
            span.quiet { (visit.visitor.key_name()) @if visit.visitor.is_operator() { " · operator" } }
            div.account-acts {
                @if visit.visitor.may_choose_account() {
                    a.link href="/?accounts" data-accounts { "Switch account" }
                }
                button.link type="button" data-sign-out { "Sign out" }
            }
        }
    }
}

fn top(visit: &Visit, page: &Page) -> Markup {
    html! {
        header.top {
            button.icon-button.menu-button type="button" data-menu aria-controls="side" aria-expanded="false" aria-label="Screens" { (icon::menu()) }
            h1 { (page.title) }
            @if live(visit, page).is_some() {
                button.live #live data-state="connecting" type="button" data-pause-live title="Pause what is live (p)" { span.dot {} span #live-word role="status" { "Connecting" } }
            }
            form.search action="/events" method="get" role="search" {
                (icon::search())
                input #search type="search" name="q" value=(search_text(visit)) autocomplete="off" spellcheck="false" autocapitalize="off"
                    placeholder="type:invoice.* status:dead_letter destination:billing" aria-label="Search events and deliveries"
                    aria-describedby="search-help" aria-controls="completions" maxlength="2000";
                kbd { "/" }
                div #completions.completions role="listbox" aria-label="Words" hidden {}
            }
            div.top-acts {
                (page.actions)
                button.icon-button type="button" data-theme-switch aria-label="Theme: system" title="Theme (d)" { (icon::sun()) }
                button.icon-button type="button" data-help aria-label="Keys and words" title="Keys and words (?)" { (icon::help()) }
            }
        }
    }
}

fn search_text(visit: &Visit) -> &str {
    if visit.here.starts_with("/events") { visit.params.get("q").unwrap_or_default() } else { "" }
}

const KEYS: &[(&str, &str)] = &[
    ("/", "search"),
    ("Ctrl K", "go anywhere, do anything"),
    ("j k", "next, previous row"),
    ("Enter", "open the row"),
    ("Esc", "close, leave"),
    ("x", "select the row; with Shift, all up to it"),
    ("r", "replay"),
    ("p", "pause and resume what is live"),
    ("t", "send a test event"),
    ("d", "theme"),
    ("?", "this"),
];

fn dialogs(visit: &Visit) -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            div.dialog-head { h2 #help-title { "Keys and words" } button.icon-button type="button" data-close aria-label="Close" { (icon::cross()) } }
            div.two {
                section {
                    h3 { "Keys" }
                    dl.keys {
                        @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
                        @for screen in Screen::shown_to(visit) { dt { kbd { "g " (screen.key()) } } dd { (screen.name()) } }
                    }
                    label.check { input type="checkbox" data-single-keys; " Single keys on" }
                }
                section #search-help {
                    h3 { "Words of the search box" }
                    dl.words { @for (word, what) in WORDS { dt { code { (word) @if !word.ends_with('.') { ":" } } } dd { (what) } } }
                    p.quiet { "Values of one word widen: " code { "status:queued,dead_letter" } ". Words narrow. Spaces go in quotes. An id alone opens it." }
                }
            }
        }
        dialog #palette aria-label="Go to" {
            input #palette-input type="text" placeholder="Go to a screen, paste an id, search…" aria-label="Go to" autocomplete="off" spellcheck="false" aria-controls="palette-list";
            ul #palette-list role="listbox" aria-label="Where to" {}
        }
        dialog #confirm aria-labelledby="confirm-title" {
            h2 #confirm-title {}
            p #confirm-text {}
            div #confirm-more {}
            div.dialog-acts { button.button type="button" data-close { "Cancel" } button.button.primary type="button" #confirm-yes { "Yes" } }
        }
    }
}
