//! What stands on the first screen until the first event has come: the next command, with the address filled in.

use crate::{icon, name, visit::Visit};
use api::keys::KeyText;
use domain::account::Scope;
use maud::{Markup, html};

pub(crate) fn body(visit: &Visit, destinations: usize) -> Markup {
    if visit.visitor.is_portal() {
        return of_portal(visit, destinations);
    }
    let origin = &visit.origin;
    let key = visit.dev_key.as_ref().map_or("$POSTHASTE_KEY", KeyText::expose);
    let publish = format!(
        "curl {origin}/v1/events \\\n  -H \"authorization: Bearer {key}\" \\\n  -H \"content-type: application/json\" \\\n  -d '{{\"type\": \"hello.world\", \"data\": {{\"hello\": \"world\"}}}}'"
    );
    html! {
        section.quick {
            p.lead { "Nothing has come in yet. Three steps, and this page shows them as they happen." }
            ol.steps {
                li data-done[destinations > 0] {
                    h2 { "Somewhere to deliver to" }
                    @if destinations > 0 { p.all-well { (icon::check()) "There is a destination already." } }
                    p { @if destinations > 0 { "Or a receiver" } @else { "A receiver" } " that prints what it gets, on this machine:" }
                    (name::command("posthaste listen"))
                    @if visit.may(Scope::DestinationsWrite) {
                        p { a.button href="/destinations/new" { "Add a destination" } " with the URL it prints, or one of yours. The form makes the route to it as well." }
                    }
                }
                li {
                    h2 { "An event" }
                    @if visit.dev_key.is_some() {
                        p { "In a terminal, with the key of this development server:" }
                    } @else {
                        p { "With your key in " code { "POSTHASTE_KEY" } " (" a href="/settings#keys" { "Settings" } " makes keys):" }
                    }
                    (name::command(&publish))
                    @if visit.may(Scope::IngestWrite) {
                        p { "Or let this page send it: "
                            button.button.primary type="button" data-action="/v1/events"
                                data-body="{\"type\":\"hello.world\",\"data\":{\"hello\":\"world\"}}" data-done="The event is in" { "Send an event" } }
                    }
                }
                li {
                    h2 { "Look" }
                    p { "It appears here and under " a href="/events" { "Events" } ": every attempt, every header, and what the next one waits for." }
                }
            }
        }
    }
}

/// Whoever came by a link brings no events in.
fn of_portal(visit: &Visit, destinations: usize) -> Markup {
    html! {
        section.quick {
            p.lead { "Nothing has come in yet. This page shows events as they happen." }
            @if destinations > 0 {
                p { "They are delivered to " a href="/destinations" { "your destinations" } "." }
            } @else if visit.may(Scope::DestinationsWrite) {
                p { a.button href="/destinations/new" { "Add a destination" } " with the URL they are to be delivered to." }
            }
        }
    }
}
