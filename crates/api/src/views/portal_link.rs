use contract::{PortalLinkView, PortalSessionView};
use domain::{session::Session, time::Timestamp};
use store::ListedPortalLink;

pub(crate) fn portal_link(listed: &ListedPortalLink, now: Timestamp) -> PortalLinkView {
    let ListedPortalLink { link, session } = listed;
    let session = session.as_ref().filter(|session| !session.is_over(now));
    PortalLinkView {
        id: link.id,
        account_id: link.account_id,
        status: link.status(session, now),
        read_only: link.read_only,
        created_by: link.maker,
        created_at: link.created_at,
        expires_at: link.expires_at,
        session_seconds: link.session_length.as_secs().try_into().unwrap_or(u32::MAX),
        opened_at: link.opened_at,
        session: session.map(portal_session),
    }
}

fn portal_session(session: &Session) -> PortalSessionView {
    PortalSessionView {
        seen_at: session.seen_at,
        expires_at: session.expires_at,
        client: session.client.clone(),
        user_agent: session.user_agent.clone(),
    }
}
