//! Reading a request's body: its size is checked before anything else, and its pace all the time.
//!
//! Room for it is taken before its bytes are: at once for a small one, in steps that double for a large one. Only a client
//! that sends much gets much; announcing it is not enough.

use crate::{app::Deadlines, error::ApiError};
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use domain::{id::AccountId, limits};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use ingest::{ByteBudget, ReservedBytes};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Room that is given to an announcement alone: most bodies are smaller.
const FIRST_RESERVATION: usize = 16 * 1024;

/// 415 if the body is encoded: what is delivered is what was sent, byte for byte.
pub(crate) fn check_unencoded(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    if encodings.all(|encoding| encoding.is_empty() || encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Ok(());
    }
    Err(ApiError::unsupported_media_type("send the body without `content-encoding`"))
}

/// 413 if the client announces more than the limit; nothing of it is read.
pub(crate) fn check_announced_size(body: &Body, limit: usize) -> Result<(), ApiError> {
    if body.size_hint().lower() <= limit as u64 { Ok(()) } else { Err(too_large(limit)) }
}

/// The body, unless its request is refused. A small one is read all the same: it is here already, most likely, and the
/// connection can go on. After a larger one it ends, and lingers (`server/linger.rs`).
pub(crate) async fn keep_if_admitted<T>(
    decided: Result<T, ApiError>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Body), ApiError> {
    match decided {
        Ok(decided) => Ok((decided, body)),
        Err(refused) => {
            let is_small = body.size_hint().upper().is_some_and(|most| most <= FIRST_RESERVATION as u64);
            // A client that asks first has sent nothing of it.
            if is_small && !headers.contains_key(header::EXPECT) {
                let _ = Box::pin(timeout(limits::LINGER, body.collect())).await;
            }
            Err(refused)
        }
    }
}

/// The whole body and the room it takes, at most `limit` bytes of it: 413 beyond, 400 if it breaks off, 408 if it
/// takes too long, 503 if there is no room.
pub(crate) async fn read(
    mut body: Body,
    limit: usize,
    deadlines: &Deadlines,
    budget: &ByteBudget,
    account: AccountId,
) -> Result<(Bytes, ReservedBytes), ApiError> {
    check_announced_size(&body, limit)?;
    let announced = body.size_hint().lower() as usize;
    let mut reserved = budget.reserve(account, announced.min(FIRST_RESERVATION))?;
    let started = Instant::now();
    let mut whole = BytesMut::new();
    loop {
        let frame = match timeout_at(next_bytes_deadline(started, whole.len(), deadlines), body.frame()).await
        {
            Err(_) => return Err(ApiError::request_timeout("the body came too slowly, or not at all")),
            Ok(None) => return Ok((whole.freeze(), reserved)),
            Ok(Some(Err(_))) => {
                return Err(ApiError::malformed_request(
                    "the body breaks off, or is not chunked as it should be",
                ));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        let length = whole.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if length > whole.capacity() {
            // Its own memory, of its own size: a small body must not keep the connection's buffer alive.
            let size = buffer_size(length, whole.capacity(), announced);
            reserved.grow(size)?;
            whole.reserve(size - whole.len());
        }
        whole.extend_from_slice(&data);
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::payload_too_large(format!("a body may have {limit} bytes here"))
}

/// When the next bytes must have come: after the grace, time is earned by sending.
fn next_bytes_deadline(started: Instant, received: usize, deadlines: &Deadlines) -> Instant {
    let earned = Duration::from_secs_f64(received as f64 / limits::BODY_BYTES_PER_SECOND as f64);
    started + deadlines.body.min(deadlines.body_grace + earned)
}

/// What to set aside for a body that has this `length` by now: twice what it had before, but no more than announced.
fn buffer_size(length: usize, before: usize, announced: usize) -> usize {
    let step = FIRST_RESERVATION.max(before * 2);
    length.max(if announced > 0 { announced.min(step) } else { before * 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use domain::time::Timestamp;
    use futures_util::stream;

    async fn check(body: Body, limit: usize) -> Result<Bytes, Code> {
        check_in(&ByteBudget::default(), body, limit).await
    }

    async fn check_in(budget: &ByteBudget, body: Body, limit: usize) -> Result<Bytes, Code> {
        let read = read(body, limit, &Deadlines::default(), budget, AccountId::MIN).await;
        read.map(|(bytes, _)| bytes).map_err(|error| error.code())
    }

    fn chunks(chunks: &[&'static str]) -> Body {
        Body::from_stream(stream::iter(
            chunks.iter().map(|chunk| Ok::<_, std::io::Error>(*chunk)).collect::<Vec<_>>(),
        ))
    }

    #[tokio::test]
    async fn a_body_is_whole_or_refused() {
        assert_eq!(check(Body::from("12345"), 5).await, Ok("12345".into()));
        assert_eq!(check(Body::from("123456"), 5).await, Err(Code::PayloadTooLarge));
        assert_eq!(check(chunks(&["12", "345"]), 5).await, Ok("12345".into()));
        assert_eq!(check(chunks(&["12", "345", "6"]), 5).await, Err(Code::PayloadTooLarge));
        assert_eq!(check(Body::empty(), 5).await, Ok(Bytes::new()));
    }

    #[tokio::test]
    async fn a_body_without_room_is_refused_and_room_comes_back() {
        let budget = ByteBudget::default();
        let another = AccountId::at(Timestamp::MIN, 1);
        let taken = budget.reserve(another, limits::INGEST_QUEUE_BYTES - 20).unwrap();
        let (ten, ten_more) = ("0123456789", "abcdefghij");
        let twenty = "0123456789abcdefghij";
        for _ in 0..2 {
            assert_eq!(check_in(&budget, Body::from(twenty), 99).await, Ok(twenty.into()));
            assert_eq!(
                check_in(&budget, Body::from([twenty, "!"].concat()), 99).await,
                Err(Code::Overloaded)
            );
            assert_eq!(check_in(&budget, chunks(&[ten, ten_more]), 99).await, Ok(twenty.into()));
            assert_eq!(check_in(&budget, chunks(&[ten, ten_more, "!"]), 99).await, Err(Code::Overloaded));
        }
        drop(taken);
        assert!(check_in(&budget, chunks(&[ten, ten_more, "!"]), 99).await.is_ok());
    }

    #[test]
    fn much_is_set_aside_for_a_client_that_sends_much() {
        let announced = 5_000_000;
        assert_eq!(buffer_size(100, 0, 300), 300, "a small body at once");
        assert_eq!(buffer_size(100, 0, announced), FIRST_RESERVATION);
        assert_eq!(buffer_size(FIRST_RESERVATION + 1, FIRST_RESERVATION, announced), 2 * FIRST_RESERVATION);
        assert_eq!(buffer_size(4_000_001, 4_000_000, announced), announced);
        assert_eq!(buffer_size(100, 0, 0), 100, "nothing announced");
        assert_eq!(buffer_size(101, 100, 0), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up_after_the_grace() {
        let started = Instant::now();
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(check(never, 5).await, Err(Code::RequestTimeout));
        assert_eq!(started.elapsed().as_secs(), limits::BODY_GRACE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up_at_the_deadline_at_last() {
        let started = Instant::now();
        let trickle = stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 200])), ()))
        });
        assert_eq!(check(Body::from_stream(trickle), usize::MAX).await, Err(Code::RequestTimeout));
        assert_eq!(started.elapsed().as_secs(), limits::BODY_DEADLINE.as_secs());
    }
}
