//! An `ExportTraceServiceRequest` of opentelemetry-proto 1.x, written field by field. The numbers are those of
//! `trace.proto`, `common.proto` and `resource.proto`; the tests of the binary read it back with the official types.

use domain::trace::{Attribute, Span, SpanKind};

/// All spans of one process.
pub(super) fn request(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |message| {
            for (name, value) in resource {
                message.message(1, |pair| text_pair(pair, name, value));
            }
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| scope.text(1, "posthaste"));
            for span in spans {
                scope_spans.message(2, |message| write(message, span));
            }
        });
    });
    request.0
}

fn write(message: &mut Message, span: &Span) {
    message.bytes(1, &span.context.trace_id.to_be_bytes());
    message.bytes(2, &span.context.span_id.to_be_bytes());
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.to_be_bytes());
    }
    message.text(5, span.name);
    message.number(
        6,
        match span.kind {
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
    );
    let nanos = |at: domain::time::Timestamp| at.micros().max(0) as u64 * 1_000;
    message.fixed64(7, nanos(span.started_at));
    message.fixed64(8, nanos(span.ended_at.max(span.started_at)));
    for (name, value) in &span.attributes {
        message.message(9, |pair| match value {
            Attribute::Text(text) => text_pair(pair, name, text),
            Attribute::Number(number) => {
                pair.text(1, name);
                pair.message(2, |value| value.number(3, *number as u64));
            }
        });
    }
    if let Some(error) = span.error {
        message.message(15, |status| {
            status.text(2, error);
            status.number(3, 2); // an error
        });
    }
    message.fixed32(16, u32::from(span.context.flags));
}

fn text_pair(pair: &mut Message, name: &str, value: &str) {
    pair.text(1, name);
    pair.message(2, |any| any.text(1, value));
}

/// A message in protobuf's wire format.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, number: u32) {
        self.tag(field, 5);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn tag(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let mut message = Message::default();
        message.number(1, 150);
        message.fixed32(16, 1);
        assert_eq!(message.0, [0x08, 0x96, 0x01, 0x85, 0x01, 1, 0, 0, 0]);
    }
}
