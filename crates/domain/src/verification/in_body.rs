//! Providers that put the signature into the body, over some of its members. What is not among those is not signed: who has
//! one good request can change the rest of it, and is only kept from that by the id, which counts once.

use super::{
    Encoding, Inbound, RefusalReason, Verified, Verifier, digest_of, fitting, keys::Algorithm, provider_type,
    schemes::Clock,
};
use crate::{signature::SIGNATURES_TRIED, tag, time::Timestamp};
use serde::{
    Deserialize,
    de::{Deserializer, Error, SeqAccess, Visitor},
};
use std::fmt;

/// documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks: timestamp and token are signed. The token is
/// new with every request, and the id.
pub(super) fn verify_mailgun(
    verifier: &Verifier,
    inbound: &Inbound<'_>,
    now: Timestamp,
) -> Result<Verified, RefusalReason> {
    const PATHS: [&str; 4] =
        ["signature.timestamp", "signature.token", "signature.signature", "event-data.event"];
    let found = tag::texts_at(&PATHS, inbound.body);
    let [Some(timestamp), Some(token), Some(signature), event] = found.as_slice() else {
        return Err(RefusalReason::MissingSignature);
    };
    verifier.require_fresh(timestamp, Clock::Seconds, now)?;
    let presented: Vec<_> =
        Encoding::Hex.decode(signature).into_iter().map(|bytes| (Algorithm::Sha256, bytes)).collect();
    verifier.require_match(&[timestamp.as_bytes(), token.as_bytes()], &presented)?;
    let event_type = event.as_deref().map(provider_type);
    Ok(Verified { id: Some(fitting(token.clone())), event_type, handshake: None })
}

/// docs.adyen.com/development-resources/webhooks/verify-hmac-signatures: eight members of each item are signed, with colons
/// between. There is one item in a request; of several each must be good.
pub(super) fn verify_adyen(verifier: &Verifier, inbound: &Inbound<'_>) -> Result<Verified, RefusalReason> {
    let notification: Notification =
        serde_json::from_slice(inbound.body).map_err(|_| RefusalReason::MissingSignature)?;
    let items: Vec<Item> = notification.items.0.into_iter().map(|wrapped| wrapped.item).collect();
    let (first, rest) = items.split_first().ok_or(RefusalReason::MissingSignature)?;
    let mut all_good = true;
    for item in &items {
        let signature = &item.additional_data.hmac_signature;
        if signature.0.is_empty() {
            return Err(RefusalReason::MissingSignature);
        }
        let presented: Vec<_> = Encoding::Base64
            .decode(&signature.0)
            .into_iter()
            .map(|bytes| (Algorithm::Sha256, bytes))
            .collect();
        all_good &= verifier.require_match(&[item.signed().as_bytes()], &presented).is_ok();
    }
    if !all_good {
        return Err(RefusalReason::WrongSignature);
    }
    let signed: Vec<String> = items.iter().map(Item::signed).collect();
    let signed: Vec<&[u8]> = signed.iter().map(|content| content.as_bytes()).collect();
    let is_one_type = rest.iter().all(|item| item.event_code.0 == first.event_code.0);
    let event_type = is_one_type.then(|| provider_type(&first.event_code.0));
    Ok(Verified { id: Some(digest_of(&signed)), event_type, handshake: None })
}

#[derive(Deserialize)]
struct Notification {
    #[serde(rename = "notificationItems")]
    items: FewItems,
}

#[derive(Deserialize)]
struct Wrapped {
    #[serde(rename = "NotificationRequestItem")]
    item: Item,
}

/// What is signed of an item, and its signature. What is not there is signed as nothing.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Item {
    psp_reference: Text,
    original_reference: Text,
    merchant_account_code: Text,
    merchant_reference: Text,
    amount: Amount,
    event_code: Text,
    success: Text,
    additional_data: AdditionalData,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Amount {
    value: Text,
    currency: Text,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AdditionalData {
    hmac_signature: Text,
}

impl Item {
    fn signed(&self) -> String {
        let Self { psp_reference, original_reference, merchant_account_code, merchant_reference, .. } = self;
        let Self { amount, event_code, success, .. } = self;
        let members = [
            psp_reference,
            original_reference,
            merchant_account_code,
            merchant_reference,
            &amount.value,
            &amount.currency,
            event_code,
            success,
        ];
        members.map(|text| text.0.as_str()).join(":")
    }
}

/// At most as many as signatures are tried: whoever sends more is not answered by more work.
struct FewItems(Vec<Wrapped>);

impl<'de> Deserialize<'de> for FewItems {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = FewItems;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a few items")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<FewItems, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = elements.next_element()? {
                    if items.len() == SIGNATURES_TRIED {
                        return Err(A::Error::custom("too many items"));
                    }
                    items.push(item);
                }
                Ok(FewItems(items))
            }
        }
        from.deserialize_seq(Items)
    }
}

/// A text; of a number or a truth value how it is written.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number or a truth value")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_unit<E: Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        from.deserialize_any(Written)
    }
}
