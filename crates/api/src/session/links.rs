//! Links that can be opened once: to sign in with a key, and to make the first user.

use super::cookie::SessionSecret;
use crate::{app::App, error::ApiError, keys::KeyText};
use domain::{
    id::ApiKeyId,
    limits,
    session::{LinkPurpose, SignInLink},
};
use store::Page;

impl App {
    /// The path of a link that begins a session of this key, which the store has.
    pub async fn new_sign_in_link(&self, key: &KeyText) -> Result<String, ApiError> {
        let found = self.store.api_key_by_lookup(key.parts().lookup()).await?;
        let id = found.ok_or_else(|| ApiError::no_such("api key"))?.id;
        Ok(format!("/login?t={}", self.new_link(LinkPurpose::SignIn, Some(id)).await?))
    }

    /// The path of a link with which the first user is made; None once there is one.
    pub async fn new_set_up_link(&self) -> Result<Option<String>, ApiError> {
        if !self.store.users(Page { before: None, limit: 1 }).await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!("/setup?t={}", self.new_link(LinkPurpose::SetUp, None).await?)))
    }

    async fn new_link(&self, purpose: LinkPurpose, key_id: Option<ApiKeyId>) -> Result<String, ApiError> {
        let secret = SessionSecret::generate(&*self.dice);
        let link = SignInLink {
            hash: secret.link_hash(&self.secrets),
            purpose,
            key_id,
            expires_at: self.now().plus(limits::LINK_LENGTH),
        };
        self.store.create_link(&link).await?;
        Ok(secret.text().as_str().to_owned())
    }
}
