//! A payload on its way out, unpacked as its client takes it. One that cannot be unpacked to its end breaks the connection
//! off: what is shorter than its `content-length` is nobody's idea of whole.

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use store::{KeptPayload, PayloadPieces, StoreError};

pub(crate) struct PayloadBody(PayloadPieces);

impl PayloadBody {
    pub(crate) fn of(payload: KeptPayload) -> Result<Self, StoreError> {
        payload.pieces().map(Self)
    }
}

impl HttpBody for PayloadBody {
    type Data = Bytes;
    type Error = StoreError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreError>>> {
        Poll::Ready(self.0.next().map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left() as u64)
    }
}
