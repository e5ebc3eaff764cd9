use contract::{Accepted, AcceptedStatus};

pub(crate) fn accepted(accepted: ingest::Accepted) -> Accepted {
    let ingest::Accepted { id, duplicate, deliveries } = accepted;
    let status = if duplicate { AcceptedStatus::Duplicate } else { AcceptedStatus::Queued };
    Accepted { id, status, deliveries, expanding: deliveries.is_none() }
}
