//! Which problems an operation can answer with, for the OpenAPI document: `responses((status = 200, …), Reading)`.

use crate::error::{Code, Problem};
use std::collections::BTreeMap;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        ContentBuilder, Header, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder,
        schema::Type,
    },
};

macro_rules! problems {
    ($among:expr; $($(#[$doc:meta])* $name:ident: $($code:ident)*;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                describe($among.iter().copied().flatten().chain(&[$(Code::$code),*]).copied())
            }
        }
    )*};
}

/// Whatever is asked for, and before anybody knows what that is.
const OF_THE_HEAD: &[Code] = &[
    Code::CredentialInUrl,
    Code::MalformedRequest,
    Code::RequestTimeout,
    Code::UriTooLong,
    Code::HeadersTooLarge,
];
/// Wherever there is something to be done.
const OF_THE_NODE: &[Code] = &[
    Code::Internal,
    Code::Overloaded,
    Code::Unavailable,
    Code::Draining,
    Code::OnlyDelivers,
    Code::RateLimited,
];
/// Wherever a key is needed.
const OF_THE_API: &[Code] = &[
    Code::InvalidHeader,
    Code::Unauthorized,
    Code::ScopeMissing,
    Code::NotAcceptable,
    Code::Unreadable,
    Code::NotFound,
];

problems! {
    [OF_THE_HEAD];
    /// It is asked whether the node lives.
    Probing:;
    /// It is asked whether the node is ready, and for what.
    AskingReadiness: InvalidParameter ValidationFailed;
}

problems! {
    [OF_THE_HEAD, OF_THE_NODE];
    /// It is asked whether a source's URL is there.
    LookingForDoor: SourceDisabled NotFound;
    /// An event comes in by a source's URL.
    Ingesting: InvalidJson InvalidHeader SignatureInvalid UnsupportedMediaType PayloadTooLarge ValidationFailed SourceDisabled NotFound IdempotencyConflict QuotaExceeded BacklogFull OutcomeUnknown;
}

problems! {
    [OF_THE_HEAD, OF_THE_NODE, OF_THE_API];
    /// Events are published.
    Publishing: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge ValidationFailed SourceDisabled NotFound IdempotencyConflict QuotaExceeded BacklogFull OutcomeUnknown;
    /// Something is asked that is always there.
    Asking:;
    /// Something is asked that is always there, with parameters.
    AskingAbout: ValidationFailed;
    /// The same of one object.
    AskingAboutOne: ValidationFailed NotFound;
    /// One object is read.
    Reading: NotFound;
    /// A secret is shown.
    Revealing: NotFound RevealDisabled;
    /// Keys are changed.
    RotatingKeys: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotRotated OutcomeUnknown;
    /// A list is read.
    Listing: InvalidCursor ValidationFailed;
    /// The list of something is read.
    ListingOf: InvalidCursor ValidationFailed NotFound;
    /// An object is made.
    Creating: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken OutcomeUnknown;
    /// An object is made of which an account may have so many.
    CreatingCounted: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken QuotaExceeded OutcomeUnknown;
    /// An object is changed.
    Changing: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken NotFound VersionMismatch OutcomeUnknown;
    /// An account is made.
    CreatingAccount: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken QuotaExceeded NodesBehind OutcomeUnknown;
    /// An account is changed.
    ChangingAccount: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken NodesBehind NotFound VersionMismatch OutcomeUnknown;
    /// A destination is changed, which may have to be empty for it.
    ChangingDestination: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed UidTaken DestinationBusy NotFound VersionMismatch OutcomeUnknown;
    /// An object is told to do something, if it is still as the caller knows it.
    Switching: NotFound InvalidHeader VersionMismatch OutcomeUnknown;
    /// An object is removed, or told to do something.
    Acting: NotFound OutcomeUnknown;
    /// An object is told to do something that the body describes.
    ActingWith: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound OutcomeUnknown;
    /// What routes would do is asked, perhaps of an event that is there.
    Previewing: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound PayloadErased OutcomeUnknown;
    /// The same, if it is still as the caller knows it.
    SwitchingWith: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound VersionMismatch OutcomeUnknown;
    /// A destination is tried.
    Testing: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound TestNotSent;
    /// A delivery is told to do something: it must not have ended.
    Moving: NotFound DeliveryEnded OutcomeUnknown;
    /// An account is deleted.
    DeletingAccount: NotFound AccountInUse OutcomeUnknown;
    /// The payload of an event is erased.
    ErasingPayload: NotFound PayloadInUse OutcomeUnknown;
    /// A replay is asked for.
    Replaying: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound Pruned IdempotencyConflict QuotaExceeded OutcomeUnknown;
    /// Dead letters are settled by hand.
    Dismissing: InvalidJson UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound Pruned OutcomeUnknown;
    /// An event is asked for again.
    ReplayingEvent: InvalidJson InvalidHeader UnsupportedMediaType PayloadTooLarge RequestTimeout ValidationFailed NotFound Pruned PayloadErased IdempotencyConflict QuotaExceeded OutcomeUnknown;
    /// A delivery is asked for again: it must have ended.
    ReplayingDelivery: NotFound InvalidHeader Pruned PayloadErased DeliveryWaiting IdempotencyConflict BacklogFull OutcomeUnknown;
    /// A replay is told to do something: it must not have ended.
    SwitchingReplay: NotFound ReplayEnded OutcomeUnknown;
    /// What happens is followed.
    Following: InvalidHeader InvalidCursor ValidationFailed;
    /// The bytes of an event.
    ReadingPayload: NotFound Pruned PayloadErased;
}

/// One response a status, with the codes it may carry.
fn describe(codes: impl Iterator<Item = Code>) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in codes {
        let line = format!("`{}`: {}.", code.as_str(), code.title());
        let lines = by_status.entry(code.status()).or_default();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let problem = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(problem)).build();
    let response = |status: u16, lines: Vec<String>| {
        let described = ResponseBuilder::new()
            .description(lines.join(" "))
            .content("application/problem+json", content.clone());
        match status {
            429 | 503 => described.header("retry-after", seconds()),
            _ => described,
        }
        .build()
        .into()
    };
    by_status.into_iter().map(|(status, lines)| (status.to_string(), response(status, lines))).collect()
}

fn seconds() -> Header {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
    HeaderBuilder::new().schema(Some(number)).description(Some("When to ask again, in seconds.")).build()
}
