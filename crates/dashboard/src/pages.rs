//! The screens, one file each.

pub(crate) mod accounts;
pub(crate) mod dead_letters;
pub(crate) mod destination;
pub(crate) mod destination_auth;
pub(crate) mod destination_form;
pub(crate) mod destination_signing;
pub(crate) mod destinations;
pub(crate) mod docs;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod quick_start;
pub(crate) mod replays;
pub(crate) mod routes;
pub(crate) mod settings;
pub(crate) mod sources;
pub(crate) mod verification_form;
