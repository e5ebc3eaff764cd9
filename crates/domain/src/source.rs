//! Sources: where events of others come in.

use crate::{
    id::{AccountId, SourceId},
    seal::Sealed,
    tag::TagRule,
    time::Timestamp,
    verification::Verification,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub id: SourceId,
    pub account_id: AccountId,
    pub uid: Option<String>,
    pub name: String,
    pub enabled: bool,
    /// The secret part of the ingest URL, sealed; shown to those who may see secrets.
    pub token: Sealed,
    #[serde(skip)]
    /// HMAC of the token under the installation's pepper: what an ingest request is looked up by.
    pub token_hash: Vec<u8>,
    pub verification: Verification,
    pub rate_limit: Option<u32>,
    /// What its events are tagged with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<TagRule>,
    /// The last requests that it did not believe are kept, for a person to see why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_refused: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The account's version at which this row last changed; kept by the store.
    #[serde(skip)]
    pub version: i64,
}

impl Source {
    /// Without a token: nothing comes in by it yet.
    pub fn new(id: SourceId, account_id: AccountId, name: &str, now: Timestamp) -> Self {
        Self {
            id,
            account_id,
            uid: None,
            name: name.into(),
            enabled: true,
            token: Sealed::default(),
            token_hash: Vec::new(),
            verification: Verification::default(),
            rate_limit: None,
            tags: Vec::new(),
            keep_refused: false,
            created_at: now,
            updated_at: now,
            version: 0,
        }
    }

    /// Everything of it that is sealed, with its place.
    pub fn sealed_mut(&mut self) -> Vec<(String, &mut Sealed)> {
        let verification_place = Self::verification_place(self.id);
        let secrets = self.verification.secrets.iter_mut();
        let secrets = secrets.map(|secret| (verification_place.clone(), secret));
        [(Self::token_place(self.id), &mut self.token)].into_iter().chain(secrets).collect()
    }

    /// Where its token is sealed.
    pub fn token_place(id: SourceId) -> String {
        format!("sources|token|{id}")
    }

    /// Where the secrets of its verification are sealed.
    pub fn verification_place(id: SourceId) -> String {
        format!("sources|verification|{id}")
    }
}
