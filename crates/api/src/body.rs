//! Reading a request's body: its size is checked before anything else, and its pace all the time.

use crate::{app::Deadlines, error::ApiError};
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use domain::limits;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// 413 if the client announces more than the limit; nothing of it is read.
pub(crate) fn within(headers: &HeaderMap, body: Body, limit: usize) -> Result<Body, ApiError> {
    if body.size_hint().lower() <= limit as u64 {
        return Ok(body);
    }
    // Who asks first is refused before it sends anything; who does not gets a chance to see why.
    if !headers.contains_key(header::EXPECT) {
        linger(body);
    }
    Err(too_large(limit))
}

/// The whole body, at most `limit` bytes of it: 413 beyond, 408 if it takes too long.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    deadlines: &Deadlines,
) -> Result<Bytes, ApiError> {
    let mut body = within(headers, body, limit)?;
    let announced = body.size_hint().lower();
    let started = Instant::now();
    let mut whole = BytesMut::new();
    loop {
        let frame = match timeout_at(pace(started, whole.len(), deadlines), body.frame()).await {
            Err(_) => return Err(ApiError::request_timeout("the body came too slowly, or not at all")),
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Err(_))) => return Err(ApiError::request_timeout("the body broke off")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            linger(body);
            return Err(too_large(limit));
        }
        if whole.is_empty() {
            // Its own memory, of its own size: a small body must not keep the connection's buffer alive.
            whole = BytesMut::with_capacity(room(announced as usize, data.len()));
        }
        whole.extend_from_slice(&data);
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::payload_too_large(format!("a body may have {limit} bytes here"))
}

/// When the next bytes must have come: after the grace, time is earned by sending.
fn pace(started: Instant, received: usize, deadlines: &Deadlines) -> Instant {
    let earned = Duration::from_secs_f64(received as f64 / limits::BODY_BYTES_PER_SECOND as f64);
    started + deadlines.body.min(deadlines.body_grace + earned)
}

/// Reads on for a moment and throws away. Closing with bytes unread would reset the connection, and the client would
/// lose the answer that tells it what was wrong.
fn linger(mut body: Body) {
    tokio::spawn(timeout(limits::LINGER, async move {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > limits::LINGER_BYTES {
                return;
            }
        }
    }));
}

/// What was announced, if the first bytes make it believable; a client cannot make us set megabytes aside by announcing
/// them.
fn room(announced: usize, first: usize) -> usize {
    announced.min(first.saturating_mul(64)).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use futures_util::stream;

    async fn check(body: Body, limit: usize) -> Result<Bytes, Code> {
        read(&HeaderMap::new(), body, limit, &Deadlines::default()).await.map_err(|error| error.code())
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
