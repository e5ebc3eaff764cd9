//! Memory for answers: what is being made, or is made and not yet taken by its client, is shared out between accounts.
//!
//! Whoever makes something large asks for room first ([`Answers::room`]); what turns out large without having asked
//! ([`Answers::hold`]) is refused if there is none. The room is given back with the last byte that it was for, not with the
//! body: the connection still has those when the body is gone. A client that does not read loses its connection
//! (`server::pace`), and with it the room.
//!
//! Small answers, as those to events that come in, are not counted, and texts that all clients share neither.

use crate::error::ApiError;
use axum::{
    body::{Body, HttpBody},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use domain::{
    id::AccountId,
    limits,
    metrics::{MetricKind, Text},
};
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use sharing::{Share, SharedResource};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::timeout;

pub(crate) struct Answers {
    /// In kibibytes.
    memory: Arc<SharedResource>,
    patience: Duration,
}

/// Room for one answer, until it is sent.
pub(crate) struct AnswerRoom(Share);

/// Marks an answer whose memory is accounted for.
#[derive(Debug, Clone, Copy)]
struct Counted;

impl Answers {
    pub(crate) fn new(bytes: usize, patience: Duration) -> Self {
        Self { memory: SharedResource::new(kibibytes(bytes)), patience }
    }

    /// Room for so much, soon or not at all. Operators and those who show no key are one account.
    pub(crate) async fn room(
        &self,
        account: impl Into<Option<AccountId>>,
        bytes: usize,
    ) -> Result<AnswerRoom, ApiError> {
        let taken = self.memory.take(payer(account.into()), kibibytes(bytes));
        timeout(self.patience, taken).await.map(AnswerRoom).map_err(|_| no_room())
    }

    /// Room to make a page in, or anything else as large as that.
    pub(crate) async fn page(&self, account: impl Into<Option<AccountId>>) -> Result<AnswerRoom, ApiError> {
        self.room(account, limits::PAGE_MADE_BYTES).await
    }

    /// Whether an answer needs room and has none yet.
    pub(crate) fn is_due(response: &Response) -> bool {
        let size = response.body().size_hint().exact().unwrap_or(0);
        size > limits::ANSWER_SMALL_BYTES as u64 && response.extensions().get::<Counted>().is_none()
    }

    /// An answer that was made without room for it: it is sent if there is some.
    pub(crate) fn hold(&self, account: Option<AccountId>, response: Response) -> Result<Response, ApiError> {
        let size = response.body().size_hint().exact().unwrap_or(0) as usize;
        let share = self.memory.try_take(payer(account), kibibytes(size)).ok_or_else(no_room)?;
        Ok(AnswerRoom(share).holds(response))
    }

    /// The same of something that was done.
    pub(crate) fn untold() -> ApiError {
        ApiError::outcome_unknown(
            "it was done, and there is no memory to show it in: read it again in a moment",
        )
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let help = "Bytes of answers that are being made, or are made and not yet taken by their clients.";
        text.single("posthaste_answers_bytes", MetricKind::Gauge, help, self.memory.used() * 1024);
        let help = "Requests that wait for memory to be answered in.";
        text.single("posthaste_answers_waiting", MetricKind::Gauge, help, self.memory.waiting());
    }
}

impl AnswerRoom {
    /// An answer whose text is all that it holds.
    pub(crate) fn json(self, shown: &impl Serialize) -> Result<Response, ApiError> {
        self.json_as(StatusCode::OK, shown)
    }

    pub(crate) fn json_as(
        mut self,
        status: StatusCode,
        shown: &impl Serialize,
    ) -> Result<Response, ApiError> {
        let text = serde_json::to_vec(shown).map_err(ApiError::from_bug)?;
        self.0.shrink(kibibytes(text.capacity()));
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        Ok(self.holds((status, kind, text).into_response()))
    }

    /// An answer that holds this much until its last byte is sent.
    pub(crate) fn holds(self, response: Response) -> Response {
        let share = Arc::new(self.0);
        share_of_all(response.map(|body| Body::new(HeldBody { body, share })))
    }
}

/// An answer that takes no memory of its own.
pub(crate) fn share_of_all(mut response: Response) -> Response {
    response.extensions_mut().insert(Counted);
    response
}

fn no_room() -> ApiError {
    ApiError::overloaded("answers that were not read yet take all the memory there is for this account's")
}

fn payer(account: Option<AccountId>) -> AccountId {
    account.unwrap_or(AccountId::MIN)
}

fn kibibytes(bytes: usize) -> usize {
    bytes.div_ceil(1024)
}

/// A body whose bytes carry the room that they take.
struct HeldBody {
    body: Body,
    share: Arc<Share>,
}

struct HeldBytes {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let held = |bytes| Bytes::from_owner(HeldBytes { bytes, _share: self.share.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use domain::time::Timestamp;
    use http_body_util::BodyExt;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    fn answers(bytes: usize) -> Answers {
        Answers::new(bytes, limits::ANSWER_ROOM_PATIENCE)
    }

    #[tokio::test]
    async fn room_is_kept_for_the_text_until_its_last_byte_is_gone() {
        let answers = answers(1 << 20);
        let room = answers.room(account(1), 500 * 1024).await.unwrap();
        assert_eq!(answers.memory.used(), 500);
        let answer = room.json(&"x".repeat(20 * 1024)).unwrap();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
        assert!(!Answers::is_due(&answer), "it is counted once");
        assert!((21..=64).contains(&answers.memory.used()), "{}", answers.memory.used());
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_ne!(answers.memory.used(), 0, "the body is gone, its bytes are not");
        drop(text);
        assert_eq!(answers.memory.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_used_its_share_is_told_to_come_back_and_others_are_served() {
        let answers = answers(1 << 20);
        let held = answers.room(account(1), 600 * 1024).await.unwrap();
        let refused = answers.room(account(1), 300 * 1024).await.err().expect("more than its share");
        assert_eq!(refused.code(), Code::Overloaded);
        assert!(answers.room(account(2), 300 * 1024).await.is_ok());
        assert!(answers.room(None, 300 * 1024).await.is_ok());
        drop(held);
        assert!(answers.room(account(1), 300 * 1024).await.is_ok());
        assert_eq!((answers.memory.used(), answers.memory.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn what_is_made_without_room_is_sent_if_there_is_some() {
        let answers = answers(1 << 20);
        let made = |bytes: usize| vec![b'x'; bytes].into_response();
        assert!(!Answers::is_due(&made(limits::ANSWER_SMALL_BYTES)));
        assert!(Answers::is_due(&made(limits::ANSWER_SMALL_BYTES + 1)));
        assert!(!Answers::is_due(&share_of_all(made(1 << 20))));
        let first = answers.hold(None, made(600 * 1024)).expect("room");
        assert!(answers.hold(None, made(300 * 1024)).is_err());
        drop(first);
        assert!(answers.hold(None, made(300 * 1024)).is_ok());
        assert_eq!(answers.memory.used(), 0);
    }
}
