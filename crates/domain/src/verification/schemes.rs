//! The table of providers: where each puts its signature, what it signs, and where its events have their name and their id.
//! Each row names the page it was taken from; `scripts/vectors` signs a request for each with other libraries than ours.

use super::{Encoding, VerificationKind, keys::Algorithm};
use crate::limits;
use std::borrow::Cow;

/// A provider's rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheme<'s> {
    /// Where the signature is, in lower case.
    pub(super) header: &'s str,
    pub(super) form: Form<'s>,
    pub(super) encoding: Encoding,
    pub(super) algorithm: Algorithm,
    pub(super) signed: &'s [Part<'s>],
    pub(super) timestamp: Option<When<'s>>,
    pub(super) tolerance: u64,
    pub(super) id: Option<Place<'s>>,
    /// The first that is there counts.
    pub(super) types: &'static [Place<'static>],
    pub(super) handshake: Option<Handshake>,
}

/// How signatures stand in their header.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'s> {
    Whole {
        prefix: &'s str,
    },
    List {
        separator: char,
        prefix: &'s str,
    },
    Pairs {
        separator: char,
        timestamp: &'s str,
        signature: &'s str,
    },
    /// `v1,…` and `v1a,…` with spaces between.
    Standard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'s> {
    Text(&'s str),
    Id,
    /// One with a full stop in it could be read in two ways.
    UnambiguousId,
    Timestamp,
    Method,
    Url,
    DecodedUrl,
    Body,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum When<'s> {
    Header(&'s str, Clock),
    /// Beside the signature.
    Paired,
    /// In the body, and signed with it.
    Member(&'static str, Clock),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    Seconds,
    Millis,
    Rfc3339,
    /// Whichever of them it looks like.
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'s> {
    Header(&'s str),
    /// Members of a JSON body.
    Path(&'static str),
    /// The same, without what stands before it.
    Behind {
        path: &'static str,
        prefix: &'static str,
    },
    /// What all elements of an array have in this member.
    Shared(&'static str),
}

/// A request that wants an answer before there are events.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handshake {
    Slack,
    Twitch,
    Discord,
}

impl Scheme<'_> {
    /// What is signed is never the same twice, because the moment is part of it.
    pub(super) fn is_unique(&self) -> bool {
        self.timestamp.is_some()
    }
}

impl Clock {
    /// In milliseconds. Digits only: `parse` alone would let `+5` through, which is not what was signed.
    pub(super) fn read(self, text: &str) -> Option<i64> {
        /// Seconds have fewer digits until the year 5138, milliseconds have had more since 1973.
        const MILLIS_FROM: i64 = 100_000_000_000;
        let number = || {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<i64>().ok()).flatten()
        };
        let instant = || text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond());
        match self {
            Self::Seconds => number()?.checked_mul(1000),
            Self::Millis => number(),
            Self::Rfc3339 => instant(),
            Self::Any => match number() {
                Some(number) if number < MILLIS_FROM => number.checked_mul(1000),
                Some(number) => Some(number),
                None => instant(),
            },
        }
    }
}

/// What rows leave out: the hexadecimal HMAC-SHA-256 of the body.
const ROW: Scheme<'static> = Scheme {
    header: "",
    form: Form::Whole { prefix: "" },
    encoding: Encoding::Hex,
    algorithm: Algorithm::Sha256,
    signed: &[Part::Body],
    timestamp: None,
    tolerance: limits::VERIFICATION_TOLERANCE_SECONDS,
    id: None,
    types: &[],
    handshake: None,
};

/// standardwebhooks.com: the specification, version 1.0.0.
pub(super) const STANDARD: Scheme<'static> = Scheme {
    header: "webhook-signature",
    form: Form::Standard,
    encoding: Encoding::Base64,
    signed: &[Part::UnambiguousId, Part::Text("."), Part::Timestamp, Part::Text("."), Part::Body],
    timestamp: Some(When::Header("webhook-timestamp", Clock::Seconds)),
    id: Some(Place::Header("webhook-id")),
    types: &[Place::Path("type")],
    ..ROW
};

/// docs.svix.com/receiving/verifying-payloads/how-manual
pub(super) const SVIX: Scheme<'static> = Scheme {
    header: "svix-signature",
    timestamp: Some(When::Header("svix-timestamp", Clock::Seconds)),
    id: Some(Place::Header("svix-id")),
    ..STANDARD
};

pub(super) fn of(kind: VerificationKind) -> Option<&'static Scheme<'static>> {
    SCHEMES.iter().find(|(of, _)| *of == kind).map(|(_, scheme)| scheme)
}

static SCHEMES: [(VerificationKind, Scheme<'static>); 18] = [
    (VerificationKind::Standard, STANDARD),
    (
        // docs.stripe.com/webhooks#verify-manually
        VerificationKind::Stripe,
        Scheme {
            header: "stripe-signature",
            form: Form::Pairs { separator: ',', timestamp: "t", signature: "v1" },
            signed: &[Part::Timestamp, Part::Text("."), Part::Body],
            timestamp: Some(When::Paired),
            id: Some(Place::Path("id")),
            types: &[Place::Path("type")],
            ..ROW
        },
    ),
    (
        // docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
        VerificationKind::Github,
        Scheme {
            header: "x-hub-signature-256",
            form: Form::Whole { prefix: "sha256=" },
            id: Some(Place::Header("x-github-delivery")),
            types: &[Place::Header("x-github-event")],
            ..ROW
        },
    ),
    (
        // shopify.dev/docs/apps/build/webhooks/subscribe/https
        VerificationKind::Shopify,
        Scheme {
            header: "x-shopify-hmac-sha256",
            encoding: Encoding::Base64,
            id: Some(Place::Header("x-shopify-webhook-id")),
            types: &[Place::Header("x-shopify-topic")],
            ..ROW
        },
    ),
    (
        // api.slack.com/authentication/verifying-requests-from-slack
        VerificationKind::Slack,
        Scheme {
            header: "x-slack-signature",
            form: Form::Whole { prefix: "v0=" },
            signed: &[Part::Text("v0:"), Part::Timestamp, Part::Text(":"), Part::Body],
            timestamp: Some(When::Header("x-slack-request-timestamp", Clock::Seconds)),
            id: Some(Place::Path("event_id")),
            types: &[Place::Path("event.type"), Place::Path("type")],
            handshake: Some(Handshake::Slack),
            ..ROW
        },
    ),
    (
        // linear.app/developers/webhooks#securing-webhooks
        VerificationKind::Linear,
        Scheme {
            header: "linear-signature",
            timestamp: Some(When::Member("webhookTimestamp", Clock::Millis)),
            id: Some(Place::Header("linear-delivery")),
            types: &[Place::Header("linear-event")],
            ..ROW
        },
    ),
    (
        // developer.paddle.com/webhooks/signature-verification
        VerificationKind::Paddle,
        Scheme {
            header: "paddle-signature",
            form: Form::Pairs { separator: ';', timestamp: "ts", signature: "h1" },
            signed: &[Part::Timestamp, Part::Text(":"), Part::Body],
            timestamp: Some(When::Paired),
            id: Some(Place::Path("event_id")),
            types: &[Place::Path("event_type")],
            ..ROW
        },
    ),
    (
        // developers.hubspot.com/docs/api/webhooks/validating-requests, version 3
        VerificationKind::Hubspot,
        Scheme {
            header: "x-hubspot-signature-v3",
            encoding: Encoding::Base64,
            signed: &[Part::Method, Part::DecodedUrl, Part::Body, Part::Timestamp],
            timestamp: Some(When::Header("x-hubspot-request-timestamp", Clock::Millis)),
            types: &[Place::Shared("subscriptionType")],
            ..ROW
        },
    ),
    (
        // developers.intercom.com/docs/webhooks/webhook-notifications, "Signed notifications"
        VerificationKind::Intercom,
        Scheme {
            header: "x-hub-signature",
            form: Form::Whole { prefix: "sha1=" },
            algorithm: Algorithm::Sha1,
            id: Some(Place::Path("id")),
            types: &[Place::Path("topic")],
            ..ROW
        },
    ),
    (
        // developer.zendesk.com/documentation/webhooks/verifying
        VerificationKind::Zendesk,
        Scheme {
            header: "x-zendesk-webhook-signature",
            encoding: Encoding::Base64,
            signed: &[Part::Timestamp, Part::Body],
            timestamp: Some(When::Header("x-zendesk-webhook-signature-timestamp", Clock::Rfc3339)),
            id: Some(Place::Header("x-zendesk-webhook-invocation-id")),
            types: &[Place::Behind { path: "type", prefix: "zen:event-type:" }],
            ..ROW
        },
    ),
    (
        // dev.twitch.tv/docs/eventsub/handling-webhook-events: messages are good for ten minutes
        VerificationKind::Twitch,
        Scheme {
            header: "twitch-eventsub-message-signature",
            form: Form::Whole { prefix: "sha256=" },
            signed: &[Part::Id, Part::Timestamp, Part::Body],
            timestamp: Some(When::Header("twitch-eventsub-message-timestamp", Clock::Rfc3339)),
            tolerance: limits::TWITCH_TOLERANCE_SECONDS,
            id: Some(Place::Header("twitch-eventsub-message-id")),
            types: &[Place::Header("twitch-eventsub-subscription-type")],
            handshake: Some(Handshake::Twitch),
            ..ROW
        },
    ),
    (
        // discord.com/developers/docs/events/webhook-events, "Validating Security Request Headers"
        VerificationKind::Discord,
        Scheme {
            header: "x-signature-ed25519",
            algorithm: Algorithm::Ed25519,
            signed: &[Part::Timestamp, Part::Body],
            timestamp: Some(When::Header("x-signature-timestamp", Clock::Seconds)),
            types: &[Place::Path("event.type")],
            handshake: Some(Handshake::Discord),
            ..ROW
        },
    ),
    (
        // twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
        VerificationKind::Sendgrid,
        Scheme {
            header: "x-twilio-email-event-webhook-signature",
            encoding: Encoding::Base64,
            algorithm: Algorithm::EcdsaP256,
            signed: &[Part::Timestamp, Part::Body],
            timestamp: Some(When::Header("x-twilio-email-event-webhook-timestamp", Clock::Seconds)),
            types: &[Place::Shared("event")],
            ..ROW
        },
    ),
    (
        // developer.squareup.com/docs/webhooks/step3validate
        VerificationKind::Square,
        Scheme {
            header: "x-square-hmacsha256-signature",
            encoding: Encoding::Base64,
            signed: &[Part::Url, Part::Body],
            id: Some(Place::Path("event_id")),
            types: &[Place::Path("type")],
            ..ROW
        },
    ),
    (
        // developer.calendly.com/api-docs, "Webhook signatures"
        VerificationKind::Calendly,
        Scheme {
            header: "calendly-webhook-signature",
            form: Form::Pairs { separator: ',', timestamp: "t", signature: "v1" },
            signed: &[Part::Timestamp, Part::Text("."), Part::Body],
            timestamp: Some(When::Paired),
            types: &[Place::Path("event")],
            ..ROW
        },
    ),
    (
        // typeform.com/developers/webhooks/secure-your-webhooks
        VerificationKind::Typeform,
        Scheme {
            header: "typeform-signature",
            form: Form::Whole { prefix: "sha256=" },
            encoding: Encoding::Base64,
            id: Some(Place::Path("event_id")),
            types: &[Place::Path("event_type")],
            ..ROW
        },
    ),
    (
        // developer.pagerduty.com/docs/webhooks/webhook-signatures
        VerificationKind::Pagerduty,
        Scheme {
            header: "x-pagerduty-signature",
            form: Form::List { separator: ',', prefix: "v1=" },
            id: Some(Place::Path("event.id")),
            types: &[Place::Path("event.event_type")],
            ..ROW
        },
    ),
    (
        // vercel.com/docs/webhooks/webhooks-api, "Securing webhooks"
        VerificationKind::Vercel,
        Scheme {
            header: "x-vercel-signature",
            algorithm: Algorithm::Sha1,
            id: Some(Place::Path("id")),
            types: &[Place::Path("type")],
            ..ROW
        },
    ),
];

/// A URL as HubSpot signs it: these of its escapes are written out, and no others.
pub(super) fn decoded(url: &str) -> Cow<'_, str> {
    const ESCAPES: [(&str, char); 12] = [
        ("3A", ':'),
        ("2F", '/'),
        ("3F", '?'),
        ("40", '@'),
        ("21", '!'),
        ("24", '$'),
        ("27", '\''),
        ("28", '('),
        ("29", ')'),
        ("2A", '*'),
        ("2C", ','),
        ("3B", ';'),
    ];
    if !url.contains('%') {
        return Cow::Borrowed(url);
    }
    let mut pieces = url.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..2).unwrap_or_default();
        match ESCAPES.iter().find(|(escape, _)| code.eq_ignore_ascii_case(escape)) {
            Some((_, plain)) => {
                text.push(*plain);
                text.push_str(&piece[2..]);
            }
            None => {
                text.push('%');
                text.push_str(piece);
            }
        }
    }
    Cow::Owned(text)
}
