//! Signing in, the first user, and whoever comes by a portal link.

use crate::{assets, frame};
use maud::{DOCTYPE, Markup, html};

pub(crate) fn page(next: &str, problem: Option<&str>) -> Markup {
    let ways = html! {
        form #login-key data-sign-in data-next=(next) {
            label for="key" { "API key" }
            input #key name="key" type="password" autocomplete="current-password" spellcheck="false" required autofocus placeholder="phk_…";
            p.hint { "You see and do what the key may see and do. It is sent once, and kept by nobody." }
            button.button.primary type="submit" { "Sign in" }
        }
        details {
            summary { "With a user name and a password" }
            form #login-user data-sign-in data-next=(next) {
                (name_and_password("current-password", false))
                button.button type="submit" { "Sign in" }
            }
        }
        p.hint { "Came by a link? What it opened has ended: go back to where you found it, and ask for another one." }
        p.hint { "Started with " code { "serve --dev" } "? The line " code { "Dashboard" } " it printed has a link that signs you in." }
    };
    door("Sign in", "Sign in", problem, &ways)
}

/// For whoever has the link that a fresh installation prints.
pub(crate) fn set_up(token: &str, problem: Option<&str>) -> Markup {
    let way = html! {
        @if problem.is_none() {
            p.hint { "An operator, who sees every account and can do everything. More users can be made later." }
            form data-sign-in="/ui/set-up" data-next="/" {
                input type="hidden" name="token" value=(token);
                (name_and_password("new-password", true))
                button.button.primary type="submit" { "Make the user and sign in" }
            }
        } @else { p { a.button href="/login" { "Sign in" } } }
    };
    door("Set up", "The first user", problem, &way)
}

/// For whoever was sent here with a link: nothing is opened before the button is pressed.
pub(crate) fn portal(token: &str, problem: Option<&str>) -> Markup {
    let way = html! { @if problem.is_none() {
        p.hint { "Where your events are delivered, and what became of them. This link opens once, in this browser." }
        form data-sign-in="/ui/portal" data-next="/" {
            input type="hidden" name="token" value=(token);
            button.button.primary type="submit" autofocus { "Open" }
        }
    } };
    door("Your webhooks", "Your webhooks", problem, &way)
}

/// Where there is nothing, for whoever it is.
pub(crate) fn missing() -> Markup {
    let way = html! {
        p.hint { "The address may have been mistyped, or shortened on its way here." }
        p { a.button href="/" { "Overview" } }
    };
    door("Not found", "There is no such page", None, &way)
}

/// The page of somebody who is not in yet, with the ways in and what was wrong with the one that was taken.
fn door(title: &str, heading: &str, problem: Option<&str>, ways: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (frame::head(title))
            body.plain-page {
                main.login #main {
                    (frame::brand())
                    h1 { (heading) }
                    p #login-problem.problem role="alert" hidden[problem.is_none()] { (problem.unwrap_or_default()) }
                    (ways)
                    noscript { p.problem { "This needs JavaScript. Nothing is loaded from anywhere but this server." } }
                }
                script type="module" src=(assets::url("login.js")) {}
            }
        }
    }
}

/// `password`: what a browser's own store of passwords takes it for.
fn name_and_password(password: &str, focused: bool) -> Markup {
    html! {
        label for="user" { "User" }
        input #user name="user" autocomplete="username" spellcheck="false" autocapitalize="off" required autofocus[focused];
        label for="password" { "Password" }
        input #password name="password" type="password" autocomplete=(password) required;
    }
}
