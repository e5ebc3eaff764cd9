use contract::{Accepted, AcceptedStatus};

pub(crate) fn accepted(accepted: ingest::Accepted) -> Accepted {
    let ingest::Accepted { id, duplicate, deliveries } = accepted;
    let status = match (duplicate, deliveries) {
        (true, _) => AcceptedStatus::Duplicate,
        (false, Some(0)) => AcceptedStatus::Unmatched,
        (false, _) => AcceptedStatus::Queued,
    };
    Accepted { id, status, deliveries, expanding: deliveries.is_none() }
}
