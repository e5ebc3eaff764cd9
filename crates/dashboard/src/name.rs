//! Ids and names as elements, and the buttons that copy.

use crate::{format, icon};
use maud::{Markup, html};
use std::fmt::Display;

/// An id in short, the whole of it as its title.
pub(crate) fn id(id: impl Display) -> Markup {
    let id = id.to_string();
    html! { span.id title=(id) { (format::short_id(&id)) } }
}

/// An id in short with a button that copies the whole.
pub(crate) fn copied_id(id: impl Display) -> Markup {
    let id = id.to_string();
    html! { span.copied { code.id title=(id) { (id) } (copy(&id, "Copy id")) } }
}

/// Copies a text.
pub(crate) fn copy(text: &str, label: &str) -> Markup {
    html! { button.icon-button type="button" data-copy=(text) aria-label=(label) title=(label) { (icon::copy()) } }
}

/// The same with words on it.
pub(crate) fn copy_as(text: &str, label: &str) -> Markup {
    html! { button.button type="button" data-copy=(text) { (label) } }
}

/// What the page shows by curl and, where `posthaste` has a command for it, by that.
pub(crate) fn copy_commands(curl: &str, posthaste: Option<&str>) -> Markup {
    html! {
        (copy_as(curl, "Copy curl"))
        @if let Some(command) = posthaste { (copy_as(command, "Copy CLI")) }
    }
}

/// A command in a box, with its button.
pub(crate) fn command(text: &str) -> Markup {
    html! { div.command { pre { code { (text) } } (copy(text, "Copy")) } }
}
