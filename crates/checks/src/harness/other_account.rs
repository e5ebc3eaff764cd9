//! An account beside the testbed's own.

use std::time::Duration;

use anyhow::Result;
use client::{ApiKeyInput, Client, NewAccount};
use lab::{PumpConfig, Target, Until};

use super::Testbed;
use super::testbed::OPERATOR_KEY;

pub(crate) struct OtherAccount {
    pub(crate) key: String,
    pub(crate) client: Client,
}

impl OtherAccount {
    pub(crate) async fn make(testbed: &Testbed) -> Result<OtherAccount> {
        let operator = Client::new(&testbed.base_url(), OPERATOR_KEY)?;
        let account = operator.create_account(&NewAccount::new("Other")).await?;
        let plan = ApiKeyInput { name: "other".into(), account_id: Some(account.id), ..Default::default() };
        let key = operator.create_api_key(&plan).await?.key;
        let client = Client::new(&testbed.base_url(), &key)?;
        Ok(OtherAccount { key, client })
    }

    /// Publishes so many events a second, for so long.
    pub(crate) fn pump(&self, testbed: &Testbed, per_second: f64, span: Duration) -> PumpConfig {
        let target = Target::Publish { base: testbed.base_url(), key: self.key.clone() };
        let config = PumpConfig { keep_log: false, ..PumpConfig::new(target, Until::Elapsed(span)) };
        config.open(per_second)
    }
}
