//! What a person has to know to have a provider verified: what its secret is called there, and where its form for webhooks is.
//! How it signs is `domain::verification`'s.

use domain::verification::VerificationKind;

pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// What is typed here, in the provider's own word.
    pub(crate) secret: &'static str,
    /// What one looks like.
    pub(crate) example: &'static str,
    /// What to do there.
    pub(crate) steps: &'static str,
    /// The secret is only there once the provider has the URL.
    pub(crate) url_first: bool,
}

const fn provider(
    name: &'static str,
    secret: &'static str,
    example: &'static str,
    steps: &'static str,
) -> Provider {
    Provider { name, secret, example, steps, url_first: false }
}

const fn url_first(provider: Provider) -> Provider {
    Provider { url_first: true, ..provider }
}

/// None for a source that takes whatever comes.
pub(crate) fn of(kind: VerificationKind) -> Option<Provider> {
    Some(match kind {
        VerificationKind::None => return None,
        VerificationKind::Stripe => url_first(provider(
            "Stripe",
            "Signing secret of the endpoint",
            "whsec_…",
            "In Stripe's Workbench, under Webhooks, add an endpoint with the ingest URL and choose its events; then reveal its signing secret. Each endpoint has one of its own, in test mode too.",
        )),
        VerificationKind::Github => provider(
            "GitHub",
            "Secret of the webhook",
            "a random text of your own",
            "In the settings of the repository or organization, under Webhooks, add one: the ingest URL, content type application/json, and the secret that you type here.",
        ),
        VerificationKind::Shopify => provider(
            "Shopify",
            "Client secret of the app",
            "",
            "The client secret is among the app's settings. Subscribe to topics with the ingest URL, in the app's configuration or by the API.",
        ),
        VerificationKind::Slack => provider(
            "Slack",
            "Signing secret of the app",
            "",
            "At api.slack.com/apps, the signing secret is under Basic Information. Make the source with it first: Slack asks the ingest URL at once when it is entered as Request URL under Event Subscriptions.",
        ),
        VerificationKind::Twilio => provider(
            "Twilio",
            "Auth token of the account",
            "",
            "The auth token is on the console's first page. Enter the ingest URL, to the letter, as webhook of the number or service: the URL is signed.",
        ),
        VerificationKind::Linear => url_first(provider(
            "Linear",
            "Signing secret of the webhook",
            "lin_wh_…",
            "In the workspace's settings, under API, make a webhook with the ingest URL; its page shows the signing secret.",
        )),
        VerificationKind::Paddle => url_first(provider(
            "Paddle",
            "Secret key of the notification destination",
            "pdl_ntfset_…",
            "Under Developer tools, Notifications, make a destination of type webhook with the ingest URL; then edit it to see its secret key.",
        )),
        VerificationKind::Standard => url_first(provider(
            "Standard Webhooks, Svix",
            "Secret, or public key",
            "whsec_… or whpk_…",
            "Whoever sends by the rules of standardwebhooks.com shows a secret for the endpoint that is made with the ingest URL.",
        )),
        VerificationKind::Hubspot => provider(
            "HubSpot",
            "Client secret of the app",
            "",
            "The client secret is on the app's Auth page. Enter the ingest URL, to the letter, as target URL under Webhooks: the URL is signed.",
        ),
        VerificationKind::Intercom => provider(
            "Intercom",
            "Client secret of the app",
            "",
            "In the Developer Hub, the client secret is among the app's basic information. Enter the ingest URL under Webhooks and choose topics.",
        ),
        VerificationKind::Zendesk => url_first(provider(
            "Zendesk",
            "Signing secret of the webhook",
            "",
            "In the Admin Center, under Apps and integrations, Webhooks, make one with the ingest URL as endpoint; its page reveals the signing secret.",
        )),
        VerificationKind::Twitch => provider(
            "Twitch",
            "Secret of the subscription",
            "10 to 100 characters of your own",
            "Make an EventSub subscription by the API, with the ingest URL as callback and the secret that you type here. The challenge is answered.",
        ),
        VerificationKind::Discord => provider(
            "Discord",
            "Public key of the application",
            "64 hexadecimal digits",
            "In the Developer Portal, the public key is under General Information. Make the source with it first: Discord asks the ingest URL at once when it is entered as endpoint under Webhooks.",
        ),
        VerificationKind::Mailgun => provider(
            "Mailgun",
            "HTTP webhook signing key",
            "",
            "The signing key is shown beside the account's webhooks. Add the ingest URL for each event. What happened is not signed: name Mailgun's networks as well.",
        ),
        VerificationKind::Sendgrid => url_first(provider(
            "SendGrid",
            "Verification key",
            "MFkw…",
            "Under Settings, Mail Settings, Event Webhook, make one with the ingest URL, switch on signature verification and copy the key.",
        )),
        VerificationKind::Square => url_first(provider(
            "Square",
            "Signature key of the subscription",
            "",
            "In the Developer Console, under Webhooks, add a subscription with the ingest URL, to the letter: the URL is signed. Then show its signature key.",
        )),
        VerificationKind::Adyen => url_first(provider(
            "Adyen",
            "HMAC key",
            "64 hexadecimal digits",
            "In the Customer Area, under Developers, Webhooks, add a standard webhook with the ingest URL and generate its HMAC key. Eight members of each item are signed: name Adyen's networks as well.",
        )),
        VerificationKind::Calendly => provider(
            "Calendly",
            "Signing key",
            "a random text of your own",
            "Make a webhook subscription by the API, with the ingest URL and, as signing_key, what you type here.",
        ),
        VerificationKind::Typeform => provider(
            "Typeform",
            "Secret of the webhook",
            "a random text of your own",
            "In the form, under Connect, Webhooks, add one with the ingest URL; edit it and enter the secret that you type here.",
        ),
        VerificationKind::Pagerduty => url_first(provider(
            "PagerDuty",
            "Secret of the subscription",
            "",
            "Under Integrations, Generic Webhooks (v3), make one with the ingest URL. The secret is shown once.",
        )),
        VerificationKind::Vercel => url_first(provider(
            "Vercel",
            "Secret of the webhook",
            "",
            "In the team's settings, under Webhooks, make one with the ingest URL. The secret is shown once.",
        )),
        VerificationKind::Hmac => provider(
            "Another signature (HMAC)",
            "Secret",
            "its characters are the key",
            "Say below where the signature is and what is signed. Only the header is needed.",
        ),
        VerificationKind::Basic => provider(
            "User name and password",
            "Name and password",
            "name:password",
            "Whoever sends gives them with basic authentication.",
        ),
        VerificationKind::Bearer => provider(
            "Bearer token",
            "Token",
            "8 characters at least",
            "Whoever sends gives it as Authorization: Bearer.",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_verify_has_a_name_of_its_own_and_steps() {
        let mut names: Vec<_> = VerificationKind::ALL.into_iter().filter_map(of).map(|it| it.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), all), (VerificationKind::ALL.len() - 1, VerificationKind::ALL.len() - 1));
        for provider in VerificationKind::ALL.into_iter().filter_map(of) {
            assert!(provider.steps.ends_with('.') && !provider.secret.is_empty(), "{}", provider.name);
            // Whoever needs the URL for the secret is told to begin with the URL.
            assert!(!provider.url_first || provider.steps.contains("ingest URL"), "{}", provider.name);
        }
    }
}
