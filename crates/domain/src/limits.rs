//! Every bound of the product, named, with its reason.

use std::{ops::RangeInclusive, time::Duration};

// --- Requests that come in ------------------------------------------------------------------------------------------

/// Largest event body unless configured otherwise.
pub const BODY_BYTES_DEFAULT: usize = 5 * 1024 * 1024;
/// Largest body of a management request: configuration is small.
pub const MANAGEMENT_BODY_BYTES: usize = 256 * 1024;
/// Request line and headers together; enough for every real client.
pub const HEAD_BYTES: usize = 32 * 1024;
pub const HEADERS: usize = 100;
pub const URI_BYTES: usize = 8 * 1024;
/// A client that has not sent its head by then is not going to.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// A whole body must have arrived by then …
pub const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// … and after a grace it must keep coming at this pace.
pub const BODY_GRACE: Duration = Duration::from_secs(5);
pub const BODY_BYTES_PER_SECOND: u64 = 1024;
/// Answers are taken, too, or given up: a client may take nothing for this long, then at least at this pace. It is the
/// pace of a poor telephone line; at a slower one, an answer of five megabytes would be held for an hour.
pub const ANSWER_GRACE: Duration = Duration::from_secs(10);
pub const ANSWER_BYTES_PER_SECOND: u64 = 16 * 1024;
/// Memory of a node for answers that are being made or sent, shared out between accounts.
pub const ANSWERS_BYTES: usize = 64 * 1024 * 1024;
/// How long an answer waits for its part of it. Somebody who reads has read by then.
pub const ANSWER_ROOM_PATIENCE: Duration = Duration::from_secs(2);
/// Answers up to this size are not counted: what every socket takes in at once is not held by us.
pub const ANSWER_SMALL_BYTES: usize = 16 * 1024;
/// What the answer to a batch says of one event, refused or not.
pub const BATCH_RESULT_BYTES: usize = 512;
/// Pieces in which a payload is read by whoever downloads it …
pub const PAYLOAD_PIECE_BYTES: usize = 64 * 1024;
/// … and what reading a packed one in pieces takes: half a mebibyte to look back in, and as much for the rest.
pub const UNPACKING_BYTES: usize = 1024 * 1024;
/// Inbound connections a node keeps open at once.
pub const CONNECTIONS: usize = 10_000;
/// Of these, what one address may have: the rest is for the others.
pub const CONNECTIONS_PER_ADDRESS_PERCENT: usize = 75;
/// How deep a JSON document may nest.
pub const JSON_DEPTH: usize = 64;
/// Between two requests a connection may rest this long; longer than most clients keep theirs.
pub const CONNECTION_IDLE: Duration = Duration::from_secs(75);
/// What is still read of a refused body, how long the next of it is waited for, and all of it, so that the client gets to
/// see the refusal.
pub const LINGER_BYTES: usize = 16 * 1024 * 1024;
pub const LINGER: Duration = Duration::from_secs(2);
pub const LINGER_MAX: Duration = Duration::from_secs(10);
/// A connection that rests when the node stops is kept open this long, for a request that is on its way.
pub const REST_AT_STOP: Duration = Duration::from_millis(500);
/// Connections that the system has let in before the door was shut, and that are answered still.
pub const LET_IN_AT_STOP: usize = 1_024;
/// Connections too many that are told so and not only closed: each is one file more than there should be.
pub const REFUSED_CONNECTIONS: usize = 256;
/// Keys in one JSON document of the management API.
pub const JSON_KEYS: usize = 10_000;
/// A store that does not say what time it is within this is not ready.
pub const READY_PATIENCE: Duration = Duration::from_secs(2);
/// Requests of all accounts under way that read or change something, events aside; more wait. One account gets two thirds
/// of them: fewer than there are connections to read with, so that another's read finds one.
pub const REQUESTS: usize = 6;
/// Reads of the store that one request has open at once.
pub const READS_AT_ONCE: usize = 8;
/// What a client is told to wait before it asks again.
pub const RETRY_AFTER_OVERLOADED_SECONDS: u32 = 1;
/// The same while its account's backlog is full: that takes a while.
pub const RETRY_AFTER_BACKLOG_SECONDS: u32 = 10;
/// A client that waits longer would not know whether we are still there.
pub const RETRY_AFTER_TOLD_MAX_SECONDS: u32 = 60;
/// What a request waits for a look into the store, and for the word that its event is durable: then it is told to come
/// back, whatever the store is doing. Less than a statement may take, so that a store that hangs is answered with 503
/// within eight seconds.
pub const LOOKUP_PATIENCE: Duration = Duration::from_secs(3);
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(4);

// --- Events on their way into the store -----------------------------------------------------------------------------

/// Events in one batch request.
pub const BATCH_EVENTS: usize = 1_000;
/// Requests that wait for the committer; beyond, ingest answers 503.
pub const INGEST_QUEUE: usize = 8_192;
/// How long an event should wait for the committer at most. While they wait longer, fewer are let in: what cannot be
/// stored soon is better refused now.
pub const INGEST_WAIT: Duration = Duration::from_millis(500);
/// So many may wait however slow the store is, so that a hiccup refuses no event.
pub const INGEST_QUEUE_MIN: usize = 256;
/// Bytes of bodies that wait for the committer.
pub const INGEST_QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// Events that must wait for a second commit to begin beside one that is under way: where few come, two would cost twice as much
/// as one.
pub const COMMIT_BESIDE_EVENTS: usize = 8;
/// Events of one flush; more wait for the next, which is milliseconds away. Larger ones save nothing worth having, and
/// answer so many at once that all others wait behind them.
pub const INGEST_BATCH: usize = 256;
/// Bytes of payload in one flush, unless one event has more. An event of another account waits for the flush under way,
/// so this is about what it waits for; larger ones save nothing worth having.
pub const INGEST_BATCH_BYTES: usize = 1024 * 1024;
/// How often events are matched again because their account's configuration changed under them.
pub const MATCH_ROUNDS: usize = 5;
/// Deliveries an event may have in the ingest transaction, one a destination; beyond, an expansion makes them.
pub const FANOUT_INLINE: usize = 1_000;
/// Deliveries an event may have at all.
pub const FANOUT: usize = 100_000;
/// Routes that an event names because they match it too, and lead to a destination that an older one delivers it to.
pub const OTHER_ROUTES: usize = 100;
/// Routes that a snapshot makes anew when one of them changes.
pub const ROUTES_PAGE: usize = 256;
/// The names an event comes with.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
pub const EVENT_TYPE_BYTES: usize = 128;
pub const ORDERING_KEY_BYTES: usize = 255;
/// How long a key keeps pointing to its first event.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Commits on PostgreSQL after one that has met a used key: as many look for used keys before they write, so that where keys are
/// repeated hardly any is made twice.
pub const WARY_COMMITS: u32 = 256;
/// Idempotency keys that the embedded store keeps out of their index, in memory: the more there are, the fewer pages
/// are written for each. About 1 MiB; as many again are on their way into the index.
pub const KEYS_UNINDEXED: usize = 32_768;
/// Secrets of a source, the new one and the old one twice over: more would only multiply the hashing a stranger can ask of us.
pub const VERIFICATION_SECRETS: usize = crate::signature::SECRETS_TRIED;
pub const VERIFICATION_SECRET_BYTES: usize = 1024;
/// How far the timestamp of a signed request may be from now where the provider says nothing else.
pub const VERIFICATION_TOLERANCE_SECONDS: u64 = 300;
/// What Twitch tells its receivers.
pub const TWITCH_TOLERANCE_SECONDS: u64 = 600;
/// Mailgun signs when something happened and may tell of it hours later; its tokens are remembered for longer than that.
pub const MAILGUN_TOLERANCE_SECONDS: u64 = 12 * 3600;
pub const VERIFICATION_TOLERANCE_MAX_SECONDS: u64 = 24 * 3600;
/// Networks that a source may name, or an API key.
pub const ALLOWED_ADDRESSES: usize = 64;
/// Signatures of callers held against a public key at once, of all accounts: some 100 µs of a core each, which anybody who
/// knows a URL can ask for. One leaves the other cores to everything else, and is ten thousand a second.
pub const PUBLIC_KEY_CHECKS: usize = 1;
/// Requests that a source did not believe, of which it keeps the last ones if it is told to.
pub const REFUSED_KEPT: usize = 10;
/// Between two that are written down, of each source on each node: a flood of them costs one write a second.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Sources of which a node remembers when that was.
pub const REFUSED_SOURCES: usize = 1_024;
/// What is kept of each: so much of its body, so many headers, so much of each.
pub const REFUSED_BODY_BYTES: usize = 4 * 1024;
pub const REFUSED_HEADERS: usize = 40;
pub const REFUSED_HEADER_BYTES: usize = 200;
/// What of a request is signed, by a rule of one's own.
pub const SIGNED_CONTENT_BYTES: usize = 256;
/// Tags of an event, and what one may have; rules by which a source takes them.
pub const TAGS: usize = 8;
pub const TAG_CHARS: usize = 128;
pub const TAG_RULES: usize = TAGS;
/// Where a rule finds its tag.
pub const TAG_PATH_BYTES: usize = 256;
/// Inbound headers kept with an event.
pub const EVENT_HEADERS_BYTES: usize = 16 * 1024;
/// Attributes of a CloudEvent. They are kept with its headers, and take of their room.
pub const CLOUD_EVENT_ATTRIBUTES: usize = 64;
pub const CLOUD_EVENT_NAME_BYTES: usize = 64;
/// Of a batch so many that are broken are told.
pub const CLOUD_EVENT_ERRORS: usize = 100;
/// What else may be said of an event.
pub const METADATA_BYTES: usize = 16 * 1024;
pub const CONTENT_TYPE_BYTES: usize = 255;
/// Deliveries in one flush: 10,000 rows take some 30 ms, and everything behind them waits that long.
pub const INGEST_BATCH_DELIVERIES: usize = 10_000;
/// Accounts whose routes are kept in memory for matching, and their routes together.
pub const SNAPSHOT_ACCOUNTS: usize = 10_000;
pub const SNAPSHOT_ROUTES: usize = 1_000_000;
/// Routes times bytes of payload that an event is matched with in the task of its request: a millisecond's work, about.
pub const MATCH_INLINE_BYTES: usize = 512 * 1024;
/// Payloads up to here are packed there too: a quarter of a millisecond's work, about.
pub const PACK_INLINE_BYTES: usize = 128 * 1024;
/// Events at a time that are matched with more, each in a thread of its own. Few: the cores are for the rest
/// of the node.
pub const LONG_MATCHES: usize = 2;
/// Events at a time that are large and quickly matched: packing one takes milliseconds, and must not wait for those that are
/// matched for seconds.
pub const LONG_PACKS: usize = 2;
/// An event waits this long for one of those threads.
pub const MATCH_PATIENCE: Duration = Duration::from_secs(5);
/// With less free than this no event is let in. More than the reserve: giving that up must not let events in.
pub const INGEST_FREE_BYTES: u64 = 8 * 1024 * 1024;
/// An event's id is made when it is received; a list by time looks this much further, should the two have differed.
pub const ID_SLACK: Duration = Duration::from_secs(24 * 3600);

// --- Rates and backlogs ---------------------------------------------------------------------------------------------

/// Events a second that a key, a source or an account can be limited to.
pub const RATE_LIMIT_MAX: u32 = 1_000_000;
/// Requests to a destination in so many seconds that it can be limited to.
pub const DESTINATION_RATE_MAX: u32 = 100_000;
pub const DESTINATION_RATE_SECONDS_MAX: u32 = 3_600;
/// Keys and sources whose pace a node remembers; those that were idle for a second need not be.
pub const BUCKETS: usize = 16_384;
/// Credentials that are none that one address may present in so many seconds before it is told to wait: a person who
/// mistypes needs a few, and 190 bits are not guessed at any pace.
pub const WRONG_CREDENTIALS: u32 = 20;
pub const WRONG_CREDENTIALS_SECONDS: u32 = 60;
/// Passwords that may be wrong for one name, wherever they come from, in so many seconds; beyond, only those who were right
/// for it lately may try.
pub const WRONG_PASSWORDS_OF_A_NAME: u32 = 100;
pub const WRONG_PASSWORDS_OF_A_NAME_SECONDS: u32 = 600;
/// Networks that were right for a name, as many as are remembered of it.
pub const RIGHT_NETWORKS: usize = 8;
/// Names of which that is remembered: about 1 MiB. Beyond, those that have been quiet for longest are forgotten.
pub const NAMES_GUESSED: usize = 4_096;
/// Lookups a second that one address may make in vain for what this node has never seen: so many cost the store nothing,
/// and a key that is new here is still found while others at its address guess.
pub const UNKNOWN_CREDENTIALS_PER_SECOND: u32 = 50;
/// Addresses of which that is remembered: about 2 MiB. Beyond, those that have been quiet for longest are forgotten.
pub const GUESSERS: usize = 16_384;
/// Deliveries of one account that may wait, and their payloads together; beyond, its events are refused.
pub const BACKLOG_ROWS: u64 = 10_000_000;
pub const BACKLOG_BYTES: u64 = 100 * 1024 * 1024 * 1024;
/// How often a node that takes events in looks how much waits, and of how many accounts: the largest.
pub const BACKLOG_LOOK: Duration = Duration::from_secs(2);
pub const BACKLOG_ACCOUNTS: usize = 1_000;
/// Accounts with a quota of their own for what waits that are looked at beside those, and how many of them are counted one by
/// one because they are not among the largest.
pub const BACKLOG_QUOTAS: usize = 1_000;
pub const BACKLOG_QUOTAS_COUNTED: usize = 100;
/// The largest quota that is counted so.
pub const BACKLOG_QUOTA_COUNTED_ROWS: u64 = 10_000;
/// The largest quotas of an account for what waits.
pub const BACKLOG_QUOTA_ROWS_MAX: u64 = 1_000_000_000_000;
pub const BACKLOG_QUOTA_BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Pages of the queue that PostgreSQL looks at to estimate it: all of a small one, a sample of a large one. They hold some
/// ten thousand rows, read in 16 to 37 ms on a busy machine; by the
/// number of pages alone, two estimates in three are within six percent.
pub const BACKLOG_SAMPLE_PAGES: i64 = 256;
/// Up to here a backlog is counted, beyond it is estimated.
pub const QUEUED_EVENTS_EXACT: i64 = 10_000;

// --- What the API remembers -----------------------------------------------------------------------------------------

/// API keys and sources are remembered this long, and a little longer while one of many requests reads them again: a
/// revocation reaches every node within a second.
pub const CREDENTIAL_FRESH: Duration = Duration::from_millis(500);
pub const CREDENTIAL_OVERLAP: Duration = Duration::from_millis(250);
pub const KEYS_CACHED: usize = 16_384;
pub const SOURCES_CACHED: usize = 16_384;
/// Accounts that operators and platforms act for, by their ids and by their uids.
pub const ACTED_FOR_CACHED: usize = 4_096;
/// Data keys, unwrapped; they change with a rotation only.
pub const DATA_KEYS_CACHED: usize = 4_096;
pub const DATA_KEY_FRESH: Duration = Duration::from_secs(60);
/// After this a node that sealed by an account's older data key has done so for good: it knows a key for
/// [`DATA_KEY_FRESH`], and a request that has it ends within its deadlines.
pub const DATA_KEY_SETTLED: Duration = Duration::from_secs(180);
/// How often it is looked whether accounts whose data keys are remembered were deleted.
pub const DELETED_LOOK: Duration = Duration::from_millis(800);
/// Data keys that an account may have, of which the older ones stay for what was encrypted in their time.
pub const DATA_KEYS_KEPT: usize = 64;
/// A data key is not changed again so soon: a rotation that was broken off and is begun again goes on where it was.
pub const DATA_KEY_YOUNG: Duration = Duration::from_secs(3600);
/// Data keys that are wrapped anew in one transaction, and rows that are sealed anew in one.
pub const RESEALED_AT_ONCE: usize = 64;
/// Accounts whose data keys are looked at in one request.
pub const DATA_KEYS_ROTATED_AT_ONCE: usize = 16;
/// The use of an API key is noted once in this time.
pub const KEY_USE_NOTED: Duration = Duration::from_secs(60);
/// Keys whose use waits to be noted.
pub const KEYS_TOUCHED: usize = 1_024;
/// Destinations whose last probe is remembered.
pub const PROBES_REMEMBERED: usize = 10_000;

// --- Sessions of the dashboard --------------------------------------------------------------------------------------

/// A session ends when it has rested for so long, and at the latest after its length.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
pub const SESSION_LENGTH: Duration = Duration::from_secs(12 * 3_600);
/// That a session was used is noted once in this time.
pub const SESSION_USE_NOTED: Duration = Duration::from_secs(60);
pub const SESSIONS_CACHED: usize = 4_096;
/// Sessions of one key or user; the oldest makes room for one more.
pub const SESSIONS_PER_HOLDER: usize = 50;
/// Sessions shown at once.
pub const SESSIONS_LISTED: usize = 200;
/// What is kept of a browser's name, in characters.
pub const USER_AGENT_KEPT: usize = 160;
/// A link to sign in with, or to make the first user with, can be opened for so long.
pub const LINK_LENGTH: Duration = Duration::from_secs(60 * 60);

/// A portal link can be opened for so long, or less if its maker says so.
pub const PORTAL_LINK_SECONDS_MAX: u32 = 60 * 60;
/// Long enough to send somebody on to it.
pub const PORTAL_LINK_SECONDS_MIN: u32 = 10;
/// The session that it begins lasts so long, or less.
pub const PORTAL_SESSION_SECONDS_MAX: u32 = 12 * 3_600;
pub const PORTAL_SESSION_SECONDS_MIN: u32 = 60;
/// Portal links of one account, opened or not; the oldest makes room for one more, and those that are over first.
pub const PORTAL_LINKS_PER_ACCOUNT: usize = 200;
pub const USERS: usize = 1_000;
pub const USER_NAME_MAX: usize = 64;
pub const USER_ACCOUNTS_MAX: usize = 100;
/// In characters, as NIST SP 800-63B has it for a password that is all there is.
pub const PASSWORD_MIN: usize = 12;
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Argon2id: 19 MiB, twice, in one lane, of which two are at work at once; a third waits for so long.
pub const PASSWORD_MEMORY_KIB: u32 = 19 * 1_024;
pub const PASSWORD_ROUNDS: u32 = 2;
pub const PASSWORDS_AT_ONCE: usize = 2;
pub const PASSWORD_PATIENCE: Duration = Duration::from_secs(5);
/// For how long a browser is to come by TLS alone, once it has.
pub const HSTS_SECONDS: u32 = 365 * 86_400;

// --- What an account may set up -------------------------------------------------------------------------------------

/// How long events are kept, and how long a day of that is.
pub const RETENTION_DAYS_DEFAULT: u32 = 90;
pub const RETENTION_DAY: Duration = Duration::from_secs(24 * 3600);
/// Ten years: beyond, it is an archive, and that is another product.
pub const RETENTION_DAYS_MAX: u32 = 3_650;
/// Names are for people.
pub const NAME_CHARS: usize = 200;
/// The caller's own id of an object.
pub const UID_BYTES: usize = 128;
/// Event-type patterns of one route.
pub const ROUTE_PATTERNS: usize = 64;
/// Accounts of an installation, unless it is set otherwise (`limits.accounts`), and at most: they are counted when one is made.
pub const ACCOUNTS: usize = 100_000;
pub const ACCOUNTS_MAX: usize = 10_000_000;
/// What an account may have.
pub const DESTINATIONS_PER_ACCOUNT: usize = 200_000;
pub const ROUTES_PER_ACCOUNT: usize = 200_000;
/// Requests open to a destination at once: unless set otherwise, and at most.
pub const MAX_CONCURRENCY_DEFAULT: u32 = 5;
pub const MAX_CONCURRENCY_MAX: u32 = 1_000;
/// How long an attempt may take: at least, unless set otherwise, and at most.
pub const TIMEOUT_MIN: Duration = Duration::from_secs(1);
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
pub const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// Where a destination is, and what is sent along.
pub const URL_BYTES: usize = 2 * 1024;
pub const CUSTOM_HEADERS: usize = 20;
pub const CUSTOM_HEADER_NAME_BYTES: usize = 64;
pub const CUSTOM_HEADER_VALUE_BYTES: usize = 1024;
/// How long an old signing secret is used beside the new one.
pub const ROTATION_OVERLAP_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Longer, and the old secret is not being rotated out.
pub const ROTATION_OVERLAP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// A signing secret whose characters are the key: fewer could be guessed. Receivers of other services bring theirs along.
pub const TEXT_SECRET_MIN_BYTES: usize = 16;
pub const TEXT_SECRET_MAX_BYTES: usize = 255;
/// A token, a password or a header's value that a destination is sent as a credential.
pub const AUTH_VALUE_BYTES: usize = 4 * 1024;
/// A chain of certificates that a destination is shown, its certificates, and the private key, as PEM. An RSA key of 8,192
/// bits is some 6.5 KB of it.
pub const CERTIFICATE_BYTES: usize = 32 * 1024;
pub const CERTIFICATE_CHAIN: usize = 8;
pub const PRIVATE_KEY_BYTES: usize = 16 * 1024;
/// A subject is for people to recognise.
pub const CERTIFICATE_SUBJECT_CHARACTERS: usize = 200;
/// From then on it is said that a client certificate ends soon: time enough to have another issued.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 24 * 3600);
/// How many the doctor looks at, and how many of those that end it tells.
pub const CERTIFICATES_LOOKED_AT: usize = 10_000;
pub const CERTIFICATES_TOLD: usize = 20;
/// Further parameters that a token endpoint is sent, beside those of its own.
pub const TOKEN_PARAMS: usize = 10;
pub const TOKEN_PARAM_NAME_BYTES: usize = 64;
pub const TOKEN_PARAM_VALUE_BYTES: usize = 1024;
/// Scopes, and an audience.
pub const TOKEN_SCOPE_BYTES: usize = 1024;
/// The answer of a token endpoint: read so far; and a token, which must fit into the head of a request.
pub const TOKEN_ANSWER_BYTES: usize = 64 * 1024;
pub const TOKEN_BYTES: usize = 16 * 1024;
pub const TOKEN_ERROR_CODE_BYTES: usize = 64;
/// How long a token is used whose endpoint does not say, and at most.
pub const TOKEN_LIFETIME_DEFAULT: Duration = Duration::from_secs(300);
pub const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long before its end it is used no more: as long as an attempt may take.
pub const TOKEN_MARGIN: Duration = TIMEOUT_MAX;
/// How long a token endpoint may take. The attempts that wait for it have deadlines of their own.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// After an answer that was no token nobody asks for so long: one that is away, one that asks for a pause, at most that long,
/// and one that refuses, as it would the next delivery too.
pub const TOKEN_AWAY_PAUSE: Duration = Duration::from_secs(1);
pub const TOKEN_AWAY_PAUSE_MAX: Duration = Duration::from_secs(60);
pub const TOKEN_REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// A token that took the place of a refused one is kept for so long, whoever refuses it: a destination that takes none must
/// not cost its token endpoint a request for every delivery.
pub const TOKEN_RENEWAL_PAUSE: Duration = Duration::from_secs(5);
/// Destinations whose tokens a node keeps when their settings change. To forget one costs a request.
pub const TOKENS_KEPT: usize = 4_096;
/// A region or a service of AWS, and who calls it: today's ids have 20.
pub const AWS_NAME_BYTES: usize = 64;
pub const AWS_KEY_ID_BYTES: usize = 128;
/// "Probe now" is for people: once in this time for each destination.
pub const PROBE_PAUSE: Duration = Duration::from_secs(5);
/// How long a test of a destination waits for a slot, for its rate or for the end of a hold; a person waits for it.
pub const TEST_SLOT_WAIT: Duration = Duration::from_secs(5);
/// Tests under way at once on a node: of an account, so that one with many connections holds few of them for long, and of
/// all accounts.
pub const TESTS_PER_ACCOUNT: usize = 4;
pub const TESTS_PER_NODE: usize = 256;
/// A test whose caller has hung up has closed its connection by then; only after that is its slot free.
pub const TEST_CLOSES: Duration = Duration::from_millis(100);
/// How often a node looks for tests of its lanes that were asked for on others, and for the answer to one of its own …
pub const TESTS_LOOK: Duration = Duration::from_millis(250);
/// … and how long whoever asked waits: for the slot, the longest timeout of a destination, and as long again as it takes to
/// notice both. What is left of nodes that died is forgotten a minute later.
pub const TEST_TAKES: Duration = Duration::from_secs(40);
pub const TESTS_KEPT: Duration = Duration::from_secs(100);
/// How often a change is decided because the row changed under it: each round another change was written, so
/// none of so many at once is turned away.
pub const UPDATE_ROUNDS: u32 = 20;
/// Before a change is decided again, times the round and with full jitter: two seconds in all at most.
pub const UPDATE_PAUSE: Duration = Duration::from_millis(10);

// --- What is shown --------------------------------------------------------------------------------------------------

/// Routes a preview answers for.
pub const PREVIEW_ROUTES: usize = 10_000;
/// What was found by looking whether everything is in order is told again for so long, and looking takes so long at most.
pub const EXAMINATION_FRESH: Duration = Duration::from_secs(10);
pub const EXAMINATION_PATIENCE: Duration = Duration::from_secs(15);
/// Routes that are judged whenever an event is looked at; beyond, when somebody asks.
pub const MATCHED_AT_SIGHT: usize = 1_000;
/// Of a `tracestate` that is passed on: as much as W3C Trace Context asks for.
pub const TRACESTATE_BYTES: usize = 512;
pub const TRACESTATE_ENTRIES: usize = 32;

/// Values of one repeated filter of a list.
pub const FILTER_VALUES: usize = 50;
/// Statuses that an answer of HTTP can have; a filter for another would find nothing.
pub const HTTP_STATUSES: RangeInclusive<u16> = 100..=999;
/// Rows of one page of a list: unless asked otherwise, and at most.
pub const PAGE_DEFAULT: usize = 50;
pub const PAGE_MAX: usize = 200;
/// Text of one page, about; memory is set aside by it. A page of large rows has fewer of them, and one row at least.
pub const PAGE_BYTES: usize = 1024 * 1024;
/// What every row of a page has besides its own: ids, times, names.
pub const PAGE_ROW_BYTES: usize = 2 * 1024;
/// Memory set aside to make a page: its rows, what is shown of them, and the text.
pub const PAGE_MADE_BYTES: usize = 4 * PAGE_BYTES;
/// Deliveries of one event that a list of events counts, of what waits and of what has ended: more than are made in the
/// ingest transaction, so that only large fan-outs are not counted to their end.
pub const FANOUT_COUNTED: usize = FANOUT_INLINE + 1;
/// Entries one page looks at when a filter has no index.
pub const PAGE_SCAN: usize = 5_000;
/// Sources, destinations, routes or accounts that are read at once while one is looked for by its name or URL.
pub const PAGE_SCAN_PART: usize = 500;
/// The text that a name or a URL is looked for by.
pub const SEARCHED_TEXT_CHARS: usize = 200;
/// Payload shown inside an event; the exact bytes have their own address.
pub const PAYLOAD_SHOWN_BYTES: usize = 64 * 1024;
/// Deliveries shown inside an event.
pub const DELIVERIES_SHOWN: usize = 200;
/// Attempts shown inside a delivery: a schedule has 21 at most, throttled ones come on top.
pub const ATTEMPTS_SHOWN: usize = 200;
/// The success rate of a destination is that of its newest attempts of this long, of deliveries not older than so many
/// days, at most so many.
pub const SUCCESS_RATE_OVER: Duration = Duration::from_secs(3_600);
pub const SUCCESS_RATE_DAYS: u64 = 7;
pub const SUCCESS_RATE_ATTEMPTS: usize = 200;
/// Facts, and events, that a request for statistics reads beyond what is summed up. Where there are more, it tells what the
/// open minutes have.
pub const STATS_TAIL: usize = 5_000;
/// The longest time statistics can be asked for.
pub const STATS_OVER_MAX: Duration = Duration::from_secs(3_650 * 86_400);
/// What is told unless the client says: of an account, and of a destination.
pub const STATS_OVER_DEFAULT: Duration = Duration::from_secs(30 * 86_400);
pub const STATS_OVER_DESTINATION: Duration = Duration::from_secs(86_400);
/// What a series tells unless the client says, by the minute, the hour and the day; and how many points it has at most.
pub const SERIES_OVER_MINUTES: Duration = Duration::from_secs(3_600);
pub const SERIES_OVER_HOURS: Duration = Duration::from_secs(86_400);
pub const SERIES_OVER_DAYS: Duration = Duration::from_secs(30 * 86_400);
pub const SERIES_POINTS: usize = 1_500;
/// Destinations whose series are read together for a list, and the rows of all of them: 24 hours, and the minutes that are
/// in no hour yet.
pub const SERIES_AT_ONCE: usize = 50;
pub const SERIES_AT_ONCE_ROWS: usize = 10_000;
/// The newest destinations of an account, looked at for those that are held.
pub const HELD_LOOKED_AT: usize = 20_000;
/// The oldest deliveries of an account that wait, looked at for the one that has been due for longest.
pub const OLDEST_DUE_LOOKED_AT: usize = 1_000;

// --- Replays --------------------------------------------------------------------------------------------------------

/// Deliveries that a replay can be given by their ids, and the body that holds them.
pub const REPLAY_IDS: usize = 10_000;
pub const REPLAY_BODY_BYTES: usize = 512 * 1024;
/// Ids that are not there, named by their places in one answer.
pub const REPLAY_UNKNOWN_NAMED: usize = 100;
/// Deliveries a second that a replay makes: unless asked otherwise, and at most.
pub const REPLAY_RATE_DEFAULT: u32 = 100;
pub const REPLAY_RATE_MAX: u32 = 10_000;
/// A replay is about what had been created when it was made, and had ended, give or take the clocks of two nodes.
pub const REPLAY_SLACK: Duration = Duration::from_secs(1);
/// Replays of one account that have not ended.
pub const REPLAYS_PER_ACCOUNT: usize = 20;
/// Entries looked at to tell how many a replay will match: beyond, it is told when it has walked them.
pub const REPLAY_SURVEY: usize = 50_000;
/// Destinations of which a dry run tells how many deliveries they would get: those with the most.
pub const REPLAY_DESTINATIONS_SHOWN: usize = 200;
/// How often replays that no node works on are looked for, and how many a node works on at a time.
pub const REPLAY_LOOK: Duration = Duration::from_secs(1);
pub const REPLAYS_HELD: usize = 1_000;
/// A node that has written nothing for a replay this long has lost it to the next node that looks.
pub const REPLAY_HOLD: Duration = Duration::from_secs(10);
/// Events that a backfill reads at a time (with payloads of [`CARRIED_BYTES`] at most: eight megabytes), how often for one
/// chunk, and routes that it looks at for one: a chunk then writes what it has, long before it loses its hold.
pub const BACKFILL_EVENTS: usize = 500;
pub const BACKFILL_READS: usize = 10;
pub const BACKFILL_ROUTES: usize = 20_000;
/// A chunk of a backfill is as large as one of an expansion, and grows to so many times that as long as writing it takes no
/// longer than this: what it has to look up may be in memory, or on a slow disk.
pub const BACKFILL_CHUNK_TIMES: usize = 4;
pub const BACKFILL_CHUNK_QUICK: Duration = Duration::from_millis(10);
/// A backfill for one destination is left so long to the node that owns its lane: there its deliveries need not be read again.
pub const BACKFILL_LEFT_TO_OWNER: Duration = Duration::from_millis(2_500);
/// Events, and their deliveries, looked at to tell how many a backfill will make: some hundred milliseconds.
pub const BACKFILL_SURVEY_EVENTS: usize = 5_000;
pub const BACKFILL_SURVEY_DELIVERIES: usize = 20_000;
/// A second's worth of a replay is made in so many steps, unless that exceeds a chunk.
pub const REPLAY_STEPS_A_SECOND: u32 = 4;

// --- Dead letters ---------------------------------------------------------------------------------------------------

/// Dead letters that one request dismisses, by their ids or by a filter; and in one transaction, which keeps others waiting
/// for some ten milliseconds where one thread writes.
pub const DISMISS_IDS: usize = 10_000;
pub const DISMISS_CHUNK: usize = 200;
/// Pages of dead letters that a dismissal by a filter looks through, each of [`PAGE_SCAN`] entries at most.
pub const DISMISS_PAGES: usize = 100;
/// How often a chunk that the database refused, because two waited for each other, is tried again.
pub const DISMISS_TRIES: u32 = 3;
/// The note of a dismissal.
pub const DISMISS_NOTE_CHARS: usize = 1_000;

// --- Attempts -------------------------------------------------------------------------------------------------------

/// Making a connection: how long that may take, how long asking for a name before it, and addresses of a name tried.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
pub const DNS_TIMEOUT: Duration = Duration::from_secs(2);
pub const DNS_ADDRESSES: usize = 16;
/// A connection that was kept is used again only if its address was named by a resolution that is at most so old: a name that
/// leads elsewhere now, or is forbidden now, is followed within a minute …
pub const RESOLUTION_AGE_MAX: Duration = Duration::from_secs(60);
/// … so it is chosen until then, by requests that have ended when that minute is over. It is asked for again at half that.
pub const RESOLUTION_GOOD: Duration = RESOLUTION_AGE_MAX.saturating_sub(TIMEOUT_MAX);
/// While a resolver fails, a resolution that is still good is asked for again so often.
pub const RESOLUTION_RENEW_PAUSE: Duration = Duration::from_secs(5);
/// Hosts whose addresses are known: more than a node can call in a minute; some 400 bytes each.
pub const RESOLUTIONS_MAX: usize = 65_536;
/// Then a connection is replaced, however busy it is: what is behind a balancer gets its share again, and nothing is kept
/// open for ever by somebody whose name is gone.
pub const CONNECTION_AGE_MAX: Duration = Duration::from_secs(600);
/// What a proxy says before a connection is made through it.
pub const PROXY_HEAD_BYTES: usize = 8 * 1024;
/// Requests a node has open at once, over all destinations.
pub const IN_FLIGHT: usize = 4_096;
/// An account may have so many times as many of them as are then free: alone it gets seven eighths, and there is always
/// something left for another.
pub const IN_FLIGHT_SHARE: usize = 7;
/// Connections a node keeps, busy and idle, over all hosts: as many as it may have requests open. A host never has more of them
/// than its destinations have had requests open at once; keeping fewer than that makes every burst pay for its connections
/// again, and a fan-out to destinations of one host is nothing but bursts.
pub const KEPT_CONNECTIONS: usize = IN_FLIGHT;
/// How long an idle one is kept.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often idle ones are looked at: whether they have rested for so long, or the other side has closed them.
pub const IDLE_LOOK: Duration = Duration::from_secs(1);
/// How long a request that was given up waits for its socket to be closed.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Enough to debug with; a destination cannot fill our disk by answering with a film.
pub const RESPONSE_BODY_KEPT_BYTES: usize = 16 * 1024;
/// What is read to be able to use the connection again.
pub const RESPONSE_BODY_READ_BYTES: usize = 64 * 1024;
/// An answer whose body trickles is settled by its status.
pub const RESPONSE_BODY_WAIT: Duration = Duration::from_secs(1);
/// The head of an answer: its bytes and its headers.
pub const RESPONSE_HEAD_BYTES: usize = 32 * 1024;
pub const RESPONSE_HEADERS: usize = 100;
/// Everything of an answer, on the wire: interim answers before it, and the frames of its chunks.
pub const ANSWER_BYTES: usize = 256 * 1024;
/// Response headers kept with an attempt.
pub const RESPONSE_HEADERS_KEPT_BYTES: usize = 4 * 1024;
/// Large payloads in memory for the requests that carry them; further ones wait in their slot.
pub const LARGE_PAYLOADS_BYTES: usize = 96 * 1024 * 1024;
/// How long a delivery whose payload could not be read keeps its slot before it is tried again.
pub const ABANDONED_PAUSE: Duration = Duration::from_millis(500);
/// Requests that are cut when the grace time ends say so within this; it takes them microseconds.
pub const CUT_REQUESTS_ANSWER: Duration = Duration::from_secs(1);
/// In-flight requests get this long at a graceful stop.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(25);

// --- Holds ----------------------------------------------------------------------------------------------------------

/// A held lane looks this often for what has expired.
pub const EXPIRY_LOOK: Duration = Duration::from_secs(60);
/// How long holds that have ended are remembered.
pub const HOLDS_KEPT: Duration = Duration::from_secs(90 * 86_400);
/// What a destination asks for counts within these bounds.
pub const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

// --- Settling results -----------------------------------------------------------------------------------------------

/// Attempts that have ended and are not yet durable, per node: beyond, nothing new starts.
pub const UNFLUSHED: usize = 10_000;
/// Deliveries of a disabled or deleted destination that are being ended at once, per lane and per node; and how many
/// of them go into one flush, after all results.
pub const ENDING_UNFLUSHED: u32 = 1_000;
pub const ENDING_UNFLUSHED_NODE: usize = 2_000;
pub const ENDING_BATCH: usize = 500;
/// A flush older than this stops new starts.
pub const FLUSH_PATIENCE: Duration = Duration::from_secs(1);
/// Settlements in one flush: an event that comes meanwhile waits for one of these where there is one writer.
pub const SETTLE_BATCH: usize = 256;
/// … and their bytes, about …
pub const SETTLE_BATCH_BYTES: usize = 1024 * 1024;
/// … and of so many destinations, where there is one writer: a batch of more takes several flushes. Rows of one
/// destination lie side by side, those of many each on a page of their own: beside 5,000 destinations, 99 of 100 events
/// were answered within 84 to 467 ms with whole batches, and within 20 to 22 with parts.
pub const SETTLE_DESTINATIONS_ONE_WRITER: usize = 32;
/// … or more, for as long as this: pages that are in memory are written much faster than those that are not.
pub const SETTLE_HURRY_ONE_WRITER: Duration = Duration::from_millis(1);
/// … unless no event has come for so long: a backlog is worked off faster by whole batches.
pub const INGEST_QUIET: Duration = Duration::from_secs(1);
/// A result waits so long for others to be written with, if nobody waits for it and they are no whole batch before. So much
/// of what was sent comes twice after a crash. At 100 events a second on SQLite an event takes 600 µs of CPU time instead of
/// 800, and is acknowledged and delivered sooner, since fewer flushes are in its way.
pub const SETTLE_WAIT: Duration = Duration::from_millis(40);
/// Under load, from one flush of endings or read of waiting deliveries to the next: so many times as long as it took, within
/// these bounds.
pub const BATCH_INTERVAL_TIMES: u32 = 4;
pub const BATCH_INTERVAL_MIN: Duration = Duration::from_millis(5);
pub const BATCH_INTERVAL_MAX: Duration = Duration::from_millis(40);
/// So many times that after a read that found everything there was, as where other nodes hand over what they have taken in:
/// the next finds more.
pub const BATCH_INTERVAL_SPARSE: u32 = 2;

// --- Tracks of ordered lanes ----------------------------------------------------------------------------------------

/// Rows read of one track of an ordered lane, scheduled deliveries that are numbered together, tracks listed at once.
pub const TRACK_ROWS: usize = 16;
pub const NUMBERED_AT_ONCE: usize = 256;
/// Scheduled deliveries of a node that wait for the batches before them; the others stay with their lanes.
pub const NUMBERING_WAITING: usize = 4_096;
pub const TRACKS_LISTED: usize = 1_000;
/// Ordered lanes whose tracks are being looked for at once, of a node.
pub const SWEEPS_AT_ONCE: usize = 2;
/// Tracks of one lane whose head waits for its time that are remembered one by one. Beyond, all tracks are looked through
/// again when the next of them is due, at most this often.
pub const TRACKS_REMEMBERED: usize = 10_000;
/// Tracks of one lane in memory, for whatever reason; others are found by looking through them.
pub const TRACKS_KNOWN: usize = 20_000;
pub const TRACKS_AGAIN: Duration = Duration::from_secs(1);

// --- Lanes in memory ------------------------------------------------------------------------------------------------

/// Messages that may wait for the dispatcher (a sender of more waits), and how many it takes in before lanes run again.
pub const DISPATCHER_INBOX: usize = 8_192;
pub const DISPATCHER_BATCH: usize = 1_024;
/// Deliveries a lane starts before the next lane may.
pub const LANE_STEPS: usize = 8;
/// Lanes that have their turn before the dispatcher takes in what has happened meanwhile: some milliseconds.
pub const LANES_A_STEP: usize = 256;
/// A row in memory is a cache of the store; after this it is read again, so that a cancel is never missed for long.
pub const LOADED_FRESH: Duration = Duration::from_secs(1);
/// Deliveries of one lane in memory: a lane starts small and grows with its pace, or shrinks when what it has read goes
/// stale before it is started: with thousands of lanes at work each may start something once or twice a second.
pub const WINDOW_MIN: usize = 16;
pub const WINDOW_LEAST: usize = 2;
pub const WINDOW_MAX: usize = 2_048;
/// Payloads up to here travel with their delivery; larger ones are read when the delivery starts.
pub const CARRIED_BYTES: usize = 16 * 1024;
/// What a delivery costs in memory besides its payload, about.
pub const DELIVERY_OVERHEAD_BYTES: usize = 512;
/// Windows, hand-overs, open requests and unflushed results of a node together.
pub const CARRIED_BUDGET_BYTES: usize = 64 * 1024 * 1024;
/// How soon a node that may start nothing looks again.
pub const HELD_BACK_LOOK: Duration = Duration::from_millis(20);
/// Lanes read by one fetch, and rows it may return.
pub const FETCH_LANES: usize = 512;
pub const FETCH_ROWS: usize = 8_192;
/// A lane with nothing to do is forgotten after this; at once if there are so many that others wait to be entered.
pub const LANE_IDLE: Duration = Duration::from_secs(60);
/// Lanes a node has in memory (some eight kilobytes each) before those that something waits in are entered one by one, unless
/// a setting says otherwise, how many are at least entered in a second, and how many may wait for it.
pub const LANES_KEPT: usize = 32_768;
/// The same while a crowd waits: its lanes have one delivery each, and are let go of again.
pub const LANES_BESIDE_CROWDS: usize = 8_192;
pub const LANES_A_SECOND: u32 = 2_000;
pub const LANES_WAITING: usize = 200_000;
/// Up to so many lanes that are named together are entered at once: an event's, not a crowd's.
pub const LANES_AT_ONCE: usize = 64;
/// Requests and reads that a node has before it when it enters no more lanes of a crowd, except at the least pace: a
/// newcomer waits for its share of the processor behind so many.
pub const CROWD_BUSY: usize = 64;
/// A crowd with so many lanes still to be entered is large; so long after the last of it was made, more is expected.
pub const CROWD_LARGE: usize = 2_000;
pub const CROWD_MADE: Duration = Duration::from_millis(500);

// --- Chores: looking for work, expanding, forgetting ----------------------------------------------------------------

/// The net under every wake-up.
pub const RESCAN: Duration = Duration::from_secs(30);
/// How often old rows are looked for, how many go at a time, and the pause in between.
pub const PRUNE_EVERY: Duration = Duration::from_secs(600);
pub const PRUNE_STEP: usize = 500;
pub const PRUNE_BREATH: Duration = Duration::from_millis(20);
/// The pause between two steps of retention, which reads and writes pages that nothing else needs: while it goes on, the
/// disk is mostly for the work that is waited for. A step is a hundred events and more, so that a hundred million go in a day.
pub const RETENTION_BREATH: Duration = Duration::from_millis(60);
/// Events that one step of retention looks at, and rows it may remove …
pub const PRUNE_EVENTS: usize = 200;
pub const PRUNE_ROWS: usize = 2_000;
/// … and the same where one thread writes everything: two or three milliseconds.
pub const PRUNE_EVENTS_ONE_WRITER: usize = 200;
pub const PRUNE_ROWS_ONE_WRITER: usize = 150;
/// Replays that have ended which one step of retention looks at; of what they made, as many as there are rows to remove.
pub const PRUNE_REPLAYS: usize = 20;
/// What was kept because something of it waited is looked at again so many times in a day.
pub const PRUNE_AGAIN: u32 = 4;
/// Accounts whose place in the walk over their events is remembered; beyond, they are walked from the beginning.
pub const PRUNE_PLACES: usize = 100_000;
/// Old events that are asked one by one whether they have something in a day that is to go.
pub const PRUNE_KEPT_ASKED: i64 = 1_000;
/// How often it is looked for accounts that were deleted, and the pause between two steps of erasing one.
pub const ERASE_EVERY: Duration = Duration::from_secs(2);
pub const ERASE_BREATH: Duration = Duration::from_millis(20);
/// Steps that one account has in a pass, before the next one has its own.
pub const ERASE_STEPS: usize = 200;
/// Accounts that are erased in one pass; the others have their turn in the next.
pub const ERASED_AT_ONCE: usize = 20;
/// What was being written when an account was deleted, or a payload erased, has landed after this: it is longer than a
/// statement may take.
pub const ERASURE_QUIET: Duration = Duration::from_secs(10);
/// Destinations that are erased together once no attempt of them is left.
pub const ERASED_DESTINATIONS: usize = 50;
/// Idempotency keys that one step of erasing looks at where they lie in the order in which they came.
pub const ERASED_KEYS_LOOKED_AT: i64 = 5_000;
/// Deliveries of an event whose kept answers are erased in one transaction; after so many of those the request that asked
/// for it is answered, and a chore goes on.
pub const ERASED_ANSWERS: usize = 100;
pub const ERASED_ANSWERS_ROUNDS: usize = 100;
/// Events whose answers are looked through once more in one pass.
pub const PAYLOAD_ERASURES: usize = 100;
/// Free pages of the embedded store that are given back to the system in one step, and how many are kept for what comes:
/// as many, or this part of the file.
pub const VACUUM_PAGES: u32 = 64;
pub const VACUUM_KEPT_PAGES: i64 = 2_048;
pub const VACUUM_KEPT_SHARE: i64 = 10;
/// Lanes one rescan statement returns.
pub const RESCAN_LANES: usize = 1_000;
/// Routes an expansion walks at a time, and so the most deliveries it writes in one transaction: an event that comes meanwhile
/// waits for two of them at most.
pub const EXPANSION_CHUNK: usize = 250;
/// The same where one thread writes everything, and all writes wait for it.
pub const EXPANSION_CHUNK_ONE_WRITER: usize = 50;
/// After a chunk the store is left to others for this part of the time it took, if that is worth a pause at all.
pub const EXPANSION_REST_PART: u32 = 4;
pub const EXPANSION_REST_MIN: Duration = Duration::from_millis(2);
/// How often expansions that do not move are looked for, among how many, and how many a node has before it at a time.
pub const EXPANSION_LOOK: Duration = Duration::from_secs(5);
pub const EXPANSIONS_LOOKED_AT: usize = 10_000;
pub const EXPANSIONS_HELD: usize = 1_000;
/// Routes kept, by the page, for the next event of the same account.
pub const EXPANSION_ROUTES_KEPT: usize = 10_000;
/// A rescan takes at most one part in so many of the time.
pub const RESCAN_SHARE: u32 = 50;

// --- Chores: sums ---------------------------------------------------------------------------------------------------

/// How often sums are looked after, and how long after its end a span is summed up: what is written by then is in it.
pub const ROLLUP_EVERY: Duration = Duration::from_secs(5);
/// Hours and days have more time.
pub const ROLLUP_HOURS_EVERY_TIMES: u32 = 3;
pub const ROLLUP_MINUTE_AFTER: Duration = Duration::from_secs(120);
pub const ROLLUP_HOUR_AFTER: Duration = Duration::from_secs(600);
pub const ROLLUP_DAY_AFTER: Duration = Duration::from_secs(3_600);
/// How long from its beginning a minute is open: what becomes durable is added to it. That is half a minute less than until
/// it may be summed up for good, so that nothing is written over the final sums: what is added up is looked at again before
/// each write, and left out where its minute is older than this and [`OPEN_LATE`].
pub const OPEN_MINUTE: Duration = Duration::from_secs(150);
/// So much later sums of an open minute may still be written; it is summed up for good later than that.
pub const OPEN_LATE: Duration = Duration::from_secs(15);
/// Events are counted by slices of this length, and counted again until one of them has been over for as long.
pub const OPEN_SLICE: Duration = Duration::from_secs(5);
/// Sums of open minutes in memory: so many of accounts, and as many of destinations. With more of them active at a time
/// statistics are as old as the last minute that is summed up.
pub const OPEN_PLACES: usize = 20_000;
/// Between two writes of them, so that they are never what the store does most of.
pub const OPEN_WRITE_PAUSE: Duration = Duration::from_millis(100);
/// How long minutes and hours are kept; days are kept for ever.
pub const ROLLUP_MINUTES_KEPT: Duration = Duration::from_secs(6 * 3600);
pub const ROLLUP_HOURS_KEPT: Duration = Duration::from_secs(8 * 86_400);
/// Hours after their end at which the fan-outs of an hour's events are looked at again, and how long that is kept.
pub const FANOUT_HOURS_AFTER: [u8; 3] = [1, 24, 72];
pub const FANOUT_HOURS_KEPT: Duration = Duration::from_secs(90 * 86_400);
/// Facts that one step reads, events whose fan-outs it looks at, and rows that it writes.
pub const ROLLUP_FACTS: usize = 5_000;
pub const ROLLUP_FANOUTS: usize = 500;
/// Fewer where they are large: so many deliveries are counted in one statement, or those of one event.
pub const ROLLUP_FANOUT_DELIVERIES: u64 = 50_000;
pub const ROLLUP_ROWS: usize = 200;
/// Destinations, and accounts, of which a node notes in a minute what their lanes were like: those it noted first. What is
/// beyond is in the account's sum, or in none.
pub const LANE_ROLLUP_PLACES: usize = 1_000;
/// Minutes that wait to be written because the store does not answer; the oldest is dropped.
pub const LANE_ROLLUP_MINUTES_HELD: usize = 5;
/// Rows that a round counts of lanes that are not in memory as a whole, and lanes that are asked for at a time. Where more
/// wait, the lanes have their turns, and a backlog that is told is as old as the last one.
pub const LANE_BACKLOG_ROWS: i64 = 50_000;
pub const LANE_BACKLOGS_AT_ONCE: usize = 20;
/// Rows of lanes that one step of summing up reads.
pub const LANE_ROLLUP_ROWS: usize = 1_000;
/// Of deliveries older than this, attempts are counted when the hour is summed up, not the minute.
pub const ROLLUP_DELIVERY_AGE: Duration = Duration::from_secs(8 * 86_400);

// --- Trouble inside the node ----------------------------------------------------------------------------------------

/// Pauses while the database is away: doubling, with full jitter, for ever. Five seconds after it is back every node has
/// tried again, and been answered.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
pub const BACKOFF_MAX: Duration = Duration::from_secs(4);
/// A start that waits for its database says so again after this: it is the last line of the log that people read.
pub const WAITING_TOLD_AGAIN: Duration = Duration::from_secs(60);
/// A loop of the node that has died (it panicked, or ended by itself) is made again after this pause, and after so many
/// times that with each further death: the cause may be what the store or the network said in that moment.
pub const LOOP_RESTART_PAUSE: Duration = Duration::from_millis(100);
pub const LOOP_RESTART_GROWTH: u32 = 4;
/// One that dies so often within so long ends the node: its work is not done, and a process that ends is noticed. The
/// pauses before add up to less than ten seconds, so a fault that stays is known within that; one that comes back every
/// few minutes is lived with.
pub const LOOP_DEATHS: usize = 5;
pub const LOOP_DEATHS_WITHIN: Duration = Duration::from_secs(600);

// --- Many nodes -----------------------------------------------------------------------------------------------------

/// A node's lease, and how often it is renewed.
pub const LEASE: Duration = Duration::from_secs(10);
pub const LEASE_RENEWAL: Duration = Duration::from_secs(3);
/// Nothing starts in the last part of a lease.
pub const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// Shards a node asks for, or takes, at a time: a newcomer grows in steps, and no node loses everything at once.
pub const SHARDS_ASKED: usize = 32;
/// A shard that has not drained by then is taken back: a request hangs, and the others of its shard wait.
pub const SHARD_DRAIN: Duration = Duration::from_secs(2);
/// What was taken back is not drained again for a while …
pub const SHARD_KEPT: Duration = Duration::from_secs(30);
/// … and not asked for again by the node that was declined.
pub const SHARD_ASKED_AGAIN: Duration = Duration::from_secs(60);
/// A shard that has been free for this long is taken by the node that sees it, above its share too.
pub const SHARD_FREE: Duration = Duration::from_secs(1);
/// How often a node that is not alone looks whether membership or ownership has changed.
pub const MEMBERSHIP_LOOK: Duration = Duration::from_secs(1);
/// … and how often it reads them although nothing seems to have changed: what was declined may be given now.
pub const MEMBERSHIP_READ: Duration = Duration::from_secs(10);
/// A renewal that failed is tried again this soon: a node that comes back late after an outage may be taken for dead.
pub const RENEWAL_RETRY: Duration = Duration::from_millis(500);
/// Hand-overs to other nodes are told at most this often, and so many destinations by name; beyond, by shard.
pub const WAKES_PAUSE: Duration = Duration::from_millis(25);
pub const WAKES_NAMED: usize = 10_000;
/// How often the versions of the accounts that have lanes here are compared, and how many in one statement.
pub const VERSIONS_LOOK: Duration = Duration::from_millis(250);
pub const VERSIONS_AT_ONCE: usize = 1_000;
/// How often changed lanes are published, and how soon an unchanged one is said again: the others ignore what is older
/// than `LANES_FRESH`.
pub const LANES_PUBLISH: Duration = Duration::from_secs(1);
pub const LANES_AGAIN: Duration = Duration::from_secs(3);
pub const LANES_FRESH: Duration = Duration::from_secs(5);
/// Open requests are published by name once they have been open for this long, and so many of a lane: what ends sooner
/// would be over before it is read.
pub const LANES_OPEN_AFTER: Duration = Duration::from_millis(500);
pub const LANES_OPEN_NAMED: usize = 32;
/// Tracks of an ordered lane of which it is published which delivery stands first.
pub const LANES_LEADERS_NAMED: usize = 100;
/// Lanes a node publishes at a time, for the API of the others.
pub const LANES_PUBLISHED: usize = 1_000;
/// What one NOTIFY carries: PostgreSQL takes less than 8,000 bytes.
pub const NOTIFY_BYTES: usize = 7_800;
/// Pieces of news that wait to be heard; beyond, a node that is late looks at everything instead.
pub const NEWS_WAITING: usize = 1_024;
/// How soon a notification that we sent to ourselves must be heard. Through a pooler in transaction mode it never is.
pub const LISTEN_PROOF: Duration = Duration::from_secs(2);
/// How soon it is tried again whether they arrive by now.
pub const LISTEN_AGAIN: Duration = Duration::from_secs(60);
/// Where notifications do not pass, the table of wake-ups is read this often …
pub const WAKES_POLL: Duration = Duration::from_millis(250);
/// … and a node that reads it says so this often, …
pub const WAKES_READER_SEEN: Duration = Duration::from_secs(3);
/// … so that the others write it only as long as it is read.
pub const WAKES_READER_GONE: Duration = Duration::from_secs(15);

// --- Metrics, logs and spans ----------------------------------------------------------------------------------------

/// Destinations that metrics name; the rest are one: every name is a series that a monitoring system has to keep.
pub const METRIC_DESTINATIONS: usize = 200;
/// Sources that are named in metrics.
pub const METRIC_SOURCES: usize = 200;
/// Accounts whose backlogs are summed up for them: more than have one at a time.
pub const METRIC_ACCOUNTS: usize = 100_000;
/// What was told is told again for so long: asking more often costs nothing.
pub const METRICS_FRESH: Duration = Duration::from_secs(1);
/// How long all looks into the store for one scrape may take together; what is not known by then is left out.
pub const METRICS_PATIENCE: Duration = Duration::from_secs(1);
/// A destination's success ratio is of this window and the one before.
pub const SUCCESS_WINDOW: Duration = Duration::from_secs(300);
/// How a fan-out fares is judged by one event in so long, of those that came in within the last while.
pub const FANOUT_SAMPLE_EVERY: Duration = Duration::from_secs(5);
pub const FANOUT_SAMPLE_FOR: Duration = Duration::from_secs(300);
/// Bytes of log lines that wait to be written; further ones are dropped and counted.
pub const LOG_QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// How long log lines gather after a write.
pub const LOG_EVERY: Duration = Duration::from_millis(5);
/// How long the end of the process waits for the last lines to be written.
pub const LOG_FLUSH: Duration = Duration::from_secs(2);
/// Spans that wait to be sent to the collector, how many go at a time, and how long they may gather.
pub const SPAN_QUEUE: usize = 8_192;
pub const SPAN_BATCH: usize = 512;
pub const SPAN_EVERY: Duration = Duration::from_secs(1);
/// What the collector may take to answer; spans of a batch that it does not take are lost.
pub const SPAN_PATIENCE: Duration = Duration::from_secs(5);

// --- Every store ----------------------------------------------------------------------------------------------------

/// Payloads from here on are packed where they are stored; of smaller ones too little is saved for the time it takes.
pub const PACKED_FROM_BYTES: usize = 1024;
/// More than the detail of any attempt has, with every byte of its headers and body escaped; nothing larger is packed,
/// and nothing that says it is larger is unpacked.
pub const DETAIL_UNPACKED_BYTES: usize = 1024 * 1024;
/// Getting a connection to the database, and one statement on it: together, a stalled database is noticed in 8 s.
pub const STORE_CONNECT: Duration = Duration::from_secs(3);
pub const STORE_STATEMENT: Duration = Duration::from_secs(5);
/// A node that falls asleep in the middle of a transaction loses it, and what it has locked, after this: less than a lease.
pub const STORE_TRANSACTION_IDLE: Duration = Duration::from_secs(5);
/// A silent connection to the database is asked this often whether it still lives.
pub const STORE_KEEPALIVE: Duration = Duration::from_secs(2);
/// Another node that starts may be migrating.
pub const MIGRATION_WAIT: Duration = Duration::from_secs(60);

// --- The embedded store ---------------------------------------------------------------------------------------------

/// Jobs that wait for the writer; beyond, the callers wait.
pub const WRITER_QUEUE: usize = 1_024;
/// Jobs that share one flush.
pub const WRITER_TURN: usize = 256;
/// Flushes that bulk work leaves to events, one after the other.
pub const BULK_PASSED_OVER: u32 = 3;
/// Kept aside on disk: when there is no room left, settlements get it, so that what was delivered is known.
pub const STORE_RESERVE_BYTES: u64 = 4 * 1024 * 1024;
/// With less free than this the reserve is given up before the file is opened: what a start writes (shared memory, the first
/// pages of the log, the node's row and its shards) takes some 200 KiB. Far below [`INGEST_FREE_BYTES`] even with the
/// reserve added, so that events stay refused.
pub const STORE_START_BYTES: u64 = 1024 * 1024;
/// How often the free space is looked at.
pub const FREE_SPACE_CHECK: Duration = Duration::from_millis(50);
/// Groups the writer writes before it looks how long the log has grown.
pub const CHECKPOINT_LOOK: u32 = 4;
/// Pages in the log (4 KiB each) before they are copied into the database, beside the writer …
pub const CHECKPOINT_PAGES: i64 = 16_000;
/// … until so few are left that the writer copies them itself and the log begins again: some milliseconds. Another round
/// would be another flush, and flushes of two files hold each other up.
pub const CHECKPOINT_PAGES_LEFT: i64 = 1_500;
/// The same when room is short: the log is used again from its beginning instead of growing.
pub const CHECKPOINT_PAGES_SHORT: i64 = 250;
/// A log this long begins again however many are left, and waits for its readers: without, overlapping reads let it grow
/// for ever.
pub const CHECKPOINT_PAGES_WAIT: i64 = 32_000;
/// How long the writer waits for them: readers of a moment are gone by then, and a reader of longer (a backup) must
/// not hold up events.
pub const CHECKPOINT_WAIT: Duration = Duration::from_millis(25);
/// Pages a backup copies before it flushes them and pauses, as long as that took but not longer than this: a mebibyte
/// does not stand long before a flush.
pub const BACKUP_STEP_PAGES: i32 = 256;
pub const BACKUP_PAUSE: Duration = Duration::from_millis(250);
/// Lines about a damaged file: the first few tell all there is to know.
pub const DAMAGE_TOLD: usize = 20;

// --- PostgreSQL -----------------------------------------------------------------------------------------------------

/// Changing a table waits this long for its lock, then lets the others pass and tries again.
pub const DDL_LOCK: Duration = Duration::from_millis(200);
pub const DDL_TRIES: usize = 25;
/// The same for taking a day away, which all writes wait behind, and the pause before the next try.
pub const DAY_LOCK: Duration = Duration::from_millis(50);
pub const DAY_TRIES: usize = 10;
pub const DAY_PAUSE: Duration = Duration::from_millis(250);
/// Days of events and attempts that have their own partition: yesterday's stragglers …
pub const PARTITION_DAYS_BEHIND: i64 = 1;
/// … and enough ahead to survive a long weekend without a chore.
pub const PARTITION_DAYS_AHEAD: i64 = 3;

// --- The live stream ------------------------------------------------------------------------------------------------

/// Facts whose attempt began this long before a place in the feed may still lie behind it: the longest attempt, its
/// flush, and what clocks differ.
pub const FEED_LOOKBACK: Duration = Duration::from_secs(120);
/// Of a past that is caught up with, this much is looked at in one statement; twice as much each time nothing is found,
/// up to the second, and so many times in one call.
pub const FEED_SPAN: Duration = Duration::from_secs(180);
pub const FEED_SPAN_MAX: Duration = Duration::from_secs(3600);
pub const FEED_SPANS: usize = 16;
/// What is read from the feed at once.
pub const FEED_PAGE: usize = 500;
/// Clients that may follow a node's stream at once, in all and of one account. A connection each, of which there are more.
pub const STREAM_CLIENTS: usize = 1_000;
pub const STREAM_CLIENTS_PER_ACCOUNT: usize = 50;
/// When a client should ask for a place again.
pub const STREAM_RETRY_AFTER_SECONDS: u32 = 10;
/// What waits for one client before it is told to catch up by itself, from the history.
pub const STREAM_BUFFER: usize = 1_000;
/// Pieces of text that wait for its socket, and how long one gets before it is sent.
pub const STREAM_CHUNKS: usize = 2;
pub const STREAM_CHUNK_BYTES: usize = 16 * 1024;
/// Clients that read the history at the same time to catch up.
pub const STREAM_CATCHING_UP: usize = 2;
/// The feed is looked at this often while it is followed, and not more often than the second however much
/// happens here; after a look that took long, not before so many times as long: a tenth of a connection at most.
pub const STREAM_LOOK: Duration = Duration::from_millis(500);
pub const STREAM_LOOK_MIN: Duration = Duration::from_millis(50);
pub const STREAM_LOOK_REST: u32 = 10;
/// The longest pause between two looks, however long the last one took, and while the store is away.
pub const STREAM_LOOK_MAX: Duration = Duration::from_secs(5);
/// After the store was away, what was begun before is looked for this long: results are written as it comes back.
pub const STREAM_AFTERMATH: Duration = Duration::from_secs(60);
/// A silent stream says this often that it lives, and a stream looks whether its key still does. A client that has hung up is
/// noticed by the second of these, and has its place until then.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(5);
/// Then a client is asked to come back: it lands wherever the balancer sends it.
pub const STREAM_LIFE: Duration = Duration::from_secs(3600);
/// What a client should wait before it comes back.
pub const STREAM_RECONNECT: Duration = Duration::from_secs(2);
/// The longest text that can be a place to go on from.
pub const STREAM_ID_BYTES: usize = 4_096;

// --- Looking from outside -------------------------------------------------------------------------------------------

/// Rows an audit looks at in one snapshot, and deliveries of the events among them.
pub const AUDIT_ROWS: usize = 1_000;
pub const AUDIT_DELIVERIES: u64 = 20_000;
/// What an audit looks at a second time before it is called a fault; beyond, it is taken at its first word.
pub const AUDIT_SUSPECTS: usize = 1_000;
/// Faults of a kind that are named.
pub const AUDIT_EXAMPLES: usize = 10;
/// Between the two looks at least: a chore that is in the middle of something is done with it.
pub const AUDIT_SECOND_LOOK: Duration = Duration::from_secs(2);
/// What a flush and a settlement may take on top of a request, before it is taken to be left behind.
pub const AUDIT_SLACK: Duration = Duration::from_secs(5);
/// A lane that starts less often than this is not judged.
pub const AUDIT_TURN_MAX: Duration = Duration::from_secs(90);
/// Between the steps of an audit: the database has other work to do.
pub const AUDIT_BREATH: Duration = Duration::from_millis(2);
/// Rows of a list that do not read and for which others are shown: a page with more of them is shorter, and the last.
pub const DAMAGED_PASSED_OVER: usize = 1_000;
/// A machine's clock that was set is followed when it has stayed there for so long: long enough for a time service that
/// was wrong to be right again, and for a person to be told.
pub const CLOCK_CONFIRMED: Duration = Duration::from_secs(60);
/// Clocks that differ by less agree: the question itself takes a while.
pub const CLOCK_SKEW: Duration = Duration::from_secs(5);

// --- The audit log ---------------------------------------------------------------------------------------------------

/// How long an entry is kept, unless a setting says otherwise.
pub const AUDIT_LOG_KEPT: Duration = Duration::from_secs(365 * 86_400);
/// The text of what an act changed; beyond, only the names of the members are told.
pub const AUDIT_DIFFERENCE_BYTES: usize = 8 * 1024;
/// Entries one page looks at: filters have no index of their own.
pub const AUDIT_LOG_SCAN: usize = 1_000;
/// Entries of a chain that are read and checked in one go.
pub const AUDIT_LOG_CHECKED: usize = 500;
/// Refused requests are summed up for so long.
pub const REFUSALS_SUMMED: Duration = Duration::from_secs(60);
/// Sums of refusals that a node has in memory, each of an account and a kind: some 100 bytes each. Beyond, refusals are
/// counted for the installation instead of their account.
pub const REFUSALS_REMEMBERED: usize = 10_000;

// --- Operational events ------------------------------------------------------------------------------------------

/// How often notes of what is to be told are looked for that no wake-up told of.
pub const OPERATIONAL_LOOK: Duration = Duration::from_secs(2);
/// How many notes are read in one go.
pub const OPERATIONAL_PAGE: usize = 100;
/// How many operational events an account is told in a minute; what is more waits for the next.
pub const OPERATIONAL_EVENTS_A_MINUTE: u32 = 100;
/// How long a note may wait for that: what is older is told to nobody.
pub const OPERATIONAL_KEPT: Duration = Duration::from_secs(3_600);
/// A minute's dead letters are summed up so long after its end: settlements that were under way are in.
pub const DEAD_LETTERS_SUMMED_AFTER: Duration = Duration::from_secs(5);
/// Destinations whose dead letters are summed up in one transaction.
pub const DEAD_LETTERS_SUMMED: usize = 500;
/// That a backlog is full is told once in so long.
pub const BACKLOG_FULL_TOLD: Duration = Duration::from_secs(600);
/// Accounts whose refusals are remembered until that is noted.
pub const BACKLOG_FULL_REMEMBERED: usize = 1_000;
/// An operator's account that is not there yet is looked for so often.
pub const OPERATIONS_ACCOUNT_LOOK: Duration = Duration::from_secs(10);
