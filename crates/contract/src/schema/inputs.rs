//! What is sent in one of several shapes, as OpenAPI says it: a type for each shape. The types that are read have every
//! member of every shape, and the checks of the API tell which belong together.

use super::DestinationRef;
use super::{
    AccountKeyKind, AccountRef, AccountScope, Anything, AuthHeaders, AuthUsername, AuthValue, AwsKeyId,
    AwsName, AwsSigv4AuthType, Base64, BasicAuthType, BearerAuthType, CertificateChain, ClientAuth,
    ContentType, DeliveryId, DismissalNote, EventId, EventType, HeaderName, HeadersAuthType, IdempotencyKey,
    IngestKeyKind, IngestScope, Metadata, MtlsAuthType, Name, Network, NoAuthType, OAuth2AuthType,
    OperatorKeyKind, OrderingKey, PlatformKeyKind, PreviewHeaders, PrivateKey, SchemeSecret, Scope,
    SigningScheme, SourceRef, Tag, Timestamp, TokenParams, TokenScope, TokenUrl,
};
use crate::{BackfillEvents, BackfillMatch, DraftRoute};
use crate::{DeliveryQuery, ResolvedFilter};
use utoipa::ToSchema;

/// An event to publish: its payload as JSON, or as bytes in base64.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Publish {
    Json(PublishJson),
    Bytes(PublishBytes),
}

/// An event whose payload is JSON.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::Publish")]
pub struct PublishJson {
    #[serde(rename = "type")]
    event_type: EventType,
    /// The payload, byte for byte as written here; `null` is one too. At most 64 levels deep.
    data: Anything,
    /// Repeats with the same key within 24 hours give the first event; the header `idempotency-key` is the same. If both
    /// are given, they are equal. Another event with the same key is refused with 409.
    idempotency_key: Option<IdempotencyKey>,
    /// Deliveries with the same key keep their order at destinations that ask for it.
    ordering_key: Option<OrderingKey>,
    /// Not before this time, which is at most 90 days ahead.
    deliver_at: Option<Timestamp>,
    /// For filters and people; not sent.
    metadata: Option<Metadata>,
    /// What the event is found by; not sent. A tag that comes twice counts once.
    #[schema(max_items = 8)]
    tags: Option<Vec<Tag>>,
}

/// An event whose payload is anything else.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::Publish")]
pub struct PublishBytes {
    #[serde(rename = "type")]
    event_type: EventType,
    /// The payload.
    data_base64: Base64,
    /// What the payload is.
    content_type: ContentType,
    /// Repeats with the same key within 24 hours give the first event; the header `idempotency-key` is the same. If both
    /// are given, they are equal. Another event with the same key is refused with 409.
    idempotency_key: Option<IdempotencyKey>,
    /// Deliveries with the same key keep their order at destinations that ask for it.
    ordering_key: Option<OrderingKey>,
    /// Not before this time, which is at most 90 days ahead.
    deliver_at: Option<Timestamp>,
    /// For filters and people; not sent.
    metadata: Option<Metadata>,
    /// What the event is found by; not sent. A tag that comes twice counts once.
    #[schema(max_items = 8)]
    tags: Option<Vec<Tag>>,
}

/// The credentials to send. The values are write-only.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum AuthInput {
    None(NoAuth),
    Bearer(BearerAuth),
    Basic(BasicAuth),
    Headers(HeadersAuth),
    OAuth2(OAuth2Auth),
    Mtls(MtlsAuth),
    AwsSigv4(AwsSigv4Auth),
}

/// No credentials.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct NoAuth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: Option<NoAuthType>,
}

/// `Authorization: Bearer`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct BearerAuth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: BearerAuthType,
    #[schema(write_only)]
    token: AuthValue,
}

/// `Authorization: Basic`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct BasicAuth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: BasicAuthType,
    username: AuthUsername,
    #[schema(write_only)]
    password: AuthValue,
}

/// Headers of your own.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct HeadersAuth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: HeadersAuthType,
    #[schema(write_only)]
    headers: AuthHeaders,
}

/// A token of OAuth 2.0, by client credentials: it is asked for at `token_url`, kept for as long as it is good, and sent as
/// `Authorization: Bearer`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct OAuth2Auth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: OAuth2AuthType,
    token_url: TokenUrl,
    client_id: AuthValue,
    #[schema(write_only)]
    client_secret: AuthValue,
    /// `client_secret_basic` if it is left out.
    client_auth: Option<ClientAuth>,
    scope: Option<TokenScope>,
    audience: Option<TokenScope>,
    #[schema(write_only)]
    params: Option<TokenParams>,
}

/// A client certificate, shown when TLS is agreed on. The URL is then one of https. It is checked when it is written: the key belongs to the first
/// certificate, each certificate is followed by its issuer, and none of them has ended. Both are given together.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct MtlsAuth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: MtlsAuthType,
    #[schema(write_only)]
    certificate: CertificateChain,
    #[schema(write_only)]
    private_key: PrivateKey,
}

/// A signature of AWS, version 4, over the headers and the payload.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct AwsSigv4Auth {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: AwsSigv4AuthType,
    access_key_id: AwsKeyId,
    #[schema(write_only)]
    secret_access_key: AuthValue,
    /// Of credentials that are good for a while. It goes with its secret: one that is changed without it has none.
    #[schema(write_only)]
    session_token: Option<AuthValue>,
    region: AwsName,
    service: AwsName,
}

/// `token` belongs to `bearer`, `username` and `password` to `basic`, `headers` to `headers`; `token_url`, `client_id`,
/// `client_secret`, `client_auth`, `scope`, `audience` and `params` to `oauth2`; `certificate` and `private_key` to `mtls`, and
/// come together; `access_key_id`, `secret_access_key`, `session_token`, `region` and `service` to `aws_sigv4`. Others are
/// refused. What is left out stays as it is, unless the type is another: then everything that belongs to it is needed. A
/// URL, or a `token_url`, of another origin needs the values again, unless the key has the scope `secrets:reveal`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::AuthInput")]
pub struct AuthPatch {
    #[serde(rename = "type")]
    kind: Option<crate::AuthKind>,
    #[schema(write_only)]
    token: Option<AuthValue>,
    username: Option<AuthUsername>,
    #[schema(write_only)]
    password: Option<AuthValue>,
    #[schema(write_only)]
    headers: Option<AuthHeaders>,
    token_url: Option<TokenUrl>,
    client_id: Option<AuthValue>,
    #[schema(write_only)]
    client_secret: Option<AuthValue>,
    client_auth: Option<ClientAuth>,
    scope: Option<TokenScope>,
    audience: Option<TokenScope>,
    #[schema(write_only)]
    params: Option<TokenParams>,
    #[schema(write_only)]
    certificate: Option<CertificateChain>,
    #[schema(write_only)]
    private_key: Option<PrivateKey>,
    access_key_id: Option<AwsKeyId>,
    #[schema(write_only)]
    secret_access_key: Option<AuthValue>,
    #[schema(write_only)]
    session_token: Option<AuthValue>,
    region: Option<AwsName>,
    service: Option<AwsName>,
}

/// How requests are to be signed.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::SigningInput")]
pub struct SigningInput {
    scheme: Option<SigningScheme>,
    /// Add an Ed25519 signature, `v1a`, to `webhook-signature`; with the scheme `none` it stands there alone.
    #[schema(default = false)]
    ed25519: Option<bool>,
    /// Send the headers of Standard Webhooks a second time, as `svix-…`. Needs the scheme `standard`, or `ed25519`.
    #[schema(default = false)]
    svix_headers: Option<bool>,
    /// Where the signature is: of the schemes `stripe` (`stripe-signature` if left out) and `github` (`x-hub-signature-256`)
    /// only.
    header: Option<HeaderName>,
    /// Your own; one is made otherwise.
    #[schema(write_only)]
    secret: Option<SchemeSecret>,
}

/// How requests are to be signed. The secret is the destination's, and changed by `POST …/rotate-secret`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::SigningInput")]
pub struct SigningChoice {
    /// Another scheme than before must be one that the secret is fit for.
    scheme: Option<SigningScheme>,
    /// Add an Ed25519 signature, `v1a`, to `webhook-signature`; with the scheme `none` it stands there alone. A route needs a
    /// destination that has a key pair.
    ed25519: Option<bool>,
    /// Send the headers of Standard Webhooks a second time, as `svix-…`. Needs the scheme `standard`, or `ed25519`.
    svix_headers: Option<bool>,
    /// Where the signature is: of the schemes `stripe` (`stripe-signature` if left out) and `github` (`x-hub-signature-256`)
    /// only.
    header: Option<HeaderName>,
}

/// So many requests in so many seconds.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes domain::destination::RateLimit")]
pub struct RateLimitInput {
    #[schema(minimum = 1, maximum = 100_000)]
    requests: u32,
    #[schema(minimum = 1, maximum = 3600)]
    per_seconds: u32,
}

/// A key to be made: of an account, of a source of it, the operator's, or a platform's.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ApiKeyInput {
    Account(AccountKeyInput),
    Ingest(IngestKeyInput),
    Operator(OperatorKeyInput),
    Platform(PlatformKeyInput),
}

/// A key of an account.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ApiKeyInput")]
pub struct AccountKeyInput {
    name: Name,
    /// If left out: a key of the account that asks, or of `account_id`, or an operator's if an operator names none.
    #[schema(inline)]
    kind: Option<AccountKeyKind>,
    /// Every scope if left out. None that the key which asks does not have itself.
    #[schema(min_items = 1)]
    scopes: Option<Vec<AccountScope>>,
    /// The account it is for, if an operator asks; nobody else may name one.
    account_id: Option<AccountRef>,
    /// Events a second it may bring in, on each node; a second's worth may come at once. Null: no limit.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_limit: Option<u32>,
    /// Lies in the future, and not behind the end of the key that asks.
    expires_at: Option<Timestamp>,
    /// Addresses and networks that it is taken from; empty: all. None that the key which asks is not taken from itself.
    #[schema(max_items = 64)]
    allowed_addresses: Option<Vec<Network>>,
}

/// A key that only brings in events of one source.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ApiKeyInput")]
pub struct IngestKeyInput {
    name: Name,
    #[schema(inline)]
    kind: IngestKeyKind,
    /// Must be there.
    source_id: SourceRef,
    #[schema(inline, min_items = 1, max_items = 1)]
    scopes: Option<Vec<IngestScope>>,
    /// The account it is for, if an operator asks; nobody else may name one.
    account_id: Option<AccountRef>,
    /// Events a second it may bring in, on each node; a second's worth may come at once. Null: no limit.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_limit: Option<u32>,
    /// Lies in the future, and not behind the end of the key that asks.
    expires_at: Option<Timestamp>,
    /// Addresses and networks that it is taken from; empty: all. None that the key which asks is not taken from itself.
    #[schema(max_items = 64)]
    allowed_addresses: Option<Vec<Network>>,
}

/// A key of the operator. Only an operator makes one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ApiKeyInput")]
pub struct OperatorKeyInput {
    name: Name,
    #[schema(inline)]
    kind: OperatorKeyKind,
    /// Lies in the future, and not behind the end of the key that asks.
    expires_at: Option<Timestamp>,
    /// Addresses and networks that it is taken from; empty: all. None that the key which asks is not taken from itself.
    #[schema(max_items = 64)]
    allowed_addresses: Option<Vec<Network>>,
}

/// A key of a platform, which acts for any account that it names in `Posthaste-Account`. Only an operator makes one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ApiKeyInput")]
pub struct PlatformKeyInput {
    name: Name,
    #[schema(inline)]
    kind: PlatformKeyKind,
    /// Every scope if left out.
    #[schema(min_items = 1)]
    scopes: Option<Vec<Scope>>,
    /// Events a second it may bring in, on each node, for all accounts together; a second's worth may come at once. Null: no
    /// limit.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_limit: Option<u32>,
    /// Lies in the future, and not behind the end of the key that asks.
    expires_at: Option<Timestamp>,
    /// Addresses and networks that it is taken from; empty: all. None that the key which asks is not taken from itself.
    #[schema(max_items = 64)]
    allowed_addresses: Option<Vec<Network>>,
}

/// What to replay: whatever a filter matches, deliveries by their ids, or events by the routes of now.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ReplayInput {
    Filter(Box<ReplayByFilter>),
    Ids(ReplayByIds),
    Events(ReplayOfEvents),
}

/// A replay of what a filter matches.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ReplayInput")]
pub struct ReplayByFilter {
    /// The filters of the list of deliveries, as lists; without `status`, dead letters.
    filter: DeliveryQuery,
    /// Deliveries to make a second.
    #[schema(minimum = 1, maximum = 10_000, default = 100)]
    rate: Option<u32>,
    /// Only say how much there is.
    #[schema(required = false)]
    dry_run: bool,
}

/// A replay of deliveries by their ids.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ReplayInput")]
pub struct ReplayByIds {
    /// Each must be there: 404 if one is not, 410 if all of those are older than what is kept.
    #[schema(min_items = 1, max_items = 10_000)]
    delivery_ids: Vec<DeliveryId>,
    /// Whether dead letters that are settled are replayed: left out, they are skipped.
    #[schema(inline)]
    resolved: Option<ResolvedFilter>,
    /// Deliveries to make a second.
    #[schema(minimum = 1, maximum = 10_000, default = 100)]
    rate: Option<u32>,
    /// Only say how much there is.
    #[schema(required = false)]
    dry_run: bool,
}

/// A backfill: stored events go through the routes of now, oldest first, and get the deliveries that they never had.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::ReplayInput")]
pub struct ReplayOfEvents {
    events: BackfillEvents,
    #[serde(rename = "match")]
    matching: BackfillMatch,
    /// To these alone; wherever the routes lead, if left out.
    #[schema(min_items = 1, max_items = 50)]
    destination_ids: Option<Vec<DestinationRef>>,
    /// Deliveries to make a second.
    #[schema(minimum = 1, maximum = 10_000, default = 100)]
    rate: Option<u32>,
    /// Only say how much there is.
    #[schema(required = false)]
    dry_run: bool,
}

/// Which dead letters to settle by hand: whatever a filter matches, or by their ids.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum DismissInput {
    Filter(Box<DismissByFilter>),
    Ids(DismissByIds),
}

/// A dismissal of what a filter matches.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::DismissInput")]
pub struct DismissByFilter {
    /// The filters of the list of deliveries, as lists. Only dead letters that are not settled: `status` is `dead_letter` and
    /// `resolved` is `false`, or they are left out.
    filter: DeliveryQuery,
    note: Option<DismissalNote>,
}

/// A dismissal of dead letters by their ids.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::DismissInput")]
pub struct DismissByIds {
    /// Each must be there: 404 if one is not, 410 if all of those are older than what is kept.
    #[schema(min_items = 1, max_items = 10_000)]
    delivery_ids: Vec<DeliveryId>,
    note: Option<DismissalNote>,
}

/// An event that is there, or one as it might come.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum PreviewInput {
    Known(PreviewOfEvent),
    Imagined(PreviewOfMembers),
}

/// An event that is there.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::PreviewInput")]
pub struct PreviewOfEvent {
    event_id: EventId,
    draft: Option<DraftRoute>,
}

/// An event as it might come.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes crate::PreviewInput")]
pub struct PreviewOfMembers {
    /// Null: published by API. Must be there.
    source_id: Option<SourceRef>,
    #[serde(rename = "type")]
    event_type: EventType,
    /// The payload as JSON; leave it out for one that is not JSON.
    #[schema(required = false)]
    data: Anything,
    headers: Option<PreviewHeaders>,
    metadata: Option<Metadata>,
    draft: Option<DraftRoute>,
}
