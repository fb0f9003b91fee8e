//! The client of webhook endpoints. Requests are signed by the Standard Webhooks scheme, version 1.

use super::{WebClient, WebError};
use crate::http::requested_wait;
use actors_platform::clock::{Clock, monotonic};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain_base::digest::Sha256Hex;
use domain_base::upstream_text::UpstreamText;
use domain_verdict::webhook::{
    OutboxWebhook, WebhookAnswer, WebhookId, WebhookReceiver, WebhookSendFailure, WebhookType,
};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::time::Duration;

/// The start of each secret.
const SECRET_PREFIX: &str = "whsec_";
/// The allowed lengths of a key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The most secrets of an endpoint: the one that is replaced, and the new one.
const SECRETS_MAX: usize = 2;

/// Why a text has no secrets of webhooks. The text is not quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a webhook secret (allowed: `{SECRET_PREFIX}` and the base64 form of 24 to 64 bytes, and a second secret on a line of its own \
     while one is replaced)"
)]
pub struct WebhookSecretError;

/// The keys that sign the webhooks to an endpoint: two while one is replaced by the other.
#[derive(Debug, Clone)]
pub struct WebhookSecrets(Vec<hmac::Key>);

impl WebhookSecrets {
    /// Parses one or two lines, each `whsec_` and a key in base64.
    ///
    /// # Errors
    /// If `secrets` has another form, or a key has not 24 to 64 bytes.
    pub fn parse(secrets: &SecretString) -> Result<Self, WebhookSecretError> {
        let parse = |line: &str| {
            let key = line.strip_prefix(SECRET_PREFIX).and_then(|key| STANDARD.decode(key).ok())?;
            KEY_BYTES.contains(&key.len()).then(|| hmac::Key::new(hmac::HMAC_SHA256, &key))
        };
        let keys: Option<Vec<_>> = secrets.expose_secret().lines().map(parse).collect();
        let keys = keys.filter(|keys| (1..=SECRETS_MAX).contains(&keys.len()));
        keys.map(Self).ok_or(WebhookSecretError)
    }

    /// The signatures of a request that is sent at `at`, one for each secret.
    fn sign(&self, webhook_id: &str, at: Timestamp, body: &str) -> String {
        let content = format!("{webhook_id}.{}.{body}", at.as_second());
        let sign = |key| format!("v1,{}", STANDARD.encode(hmac::sign(key, content.as_bytes())));
        self.0.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

/// Where webhooks are sent, and the keys that sign them.
#[derive(Debug, Clone)]
pub struct WebhookEndpoint {
    pub url: String,
    pub secrets: WebhookSecrets,
    /// The events that are sent; `None` for all.
    pub events: Option<Vec<WebhookType>>,
}

impl WebhookEndpoint {
    /// Whether it gets webhooks about this event.
    fn receives(&self, event: WebhookType) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(&event))
    }
}

/// The configured endpoints.
pub type WebhookEndpoints = BTreeMap<WebhookReceiver, WebhookEndpoint>;

/// The client of the configured endpoints.
#[derive(Debug)]
pub struct WebhookClient {
    web: WebClient,
    endpoints: WebhookEndpoints,
    clock: Clock,
}

impl WebhookClient {
    /// Creates a client that reaches public addresses and those in `allow_local`, with this time limit of an attempt.
    #[must_use]
    pub fn new(
        endpoints: WebhookEndpoints,
        allow_local: &[IpNet],
        hard_timeout: Duration,
        clock: Clock,
    ) -> Self {
        let half = hard_timeout / 2;
        Self { web: WebClient::new(allow_local, half, half, clock.clone()), endpoints, clock }
    }

    /// Sets whether webhooks may be sent without encryption.
    #[must_use]
    pub fn with_cleartext(self, allow_cleartext: bool) -> Self {
        Self { web: self.web.with_cleartext(allow_cleartext), ..self }
    }

    /// The receivers whose endpoint may not be reached. Host names are not resolved.
    #[must_use]
    pub fn find_unreachable(&self) -> Vec<(WebhookReceiver, WebError)> {
        let fault = |(receiver, endpoint): (&WebhookReceiver, &WebhookEndpoint)| {
            let url = self.web.address_filter.endpoint(&endpoint.url).map_err(WebError::Endpoint);
            let checked = url.and_then(|url| self.web.check_confidential(&url, super::format_url));
            Some((receiver.clone(), checked.err()?))
        };
        self.endpoints.iter().filter_map(fault).collect()
    }

    /// The events that are queued for each receiver with an endpoint.
    #[must_use]
    pub fn receivers(&self) -> BTreeMap<WebhookReceiver, Vec<WebhookType>> {
        let events_of = |(receiver, endpoint): (&WebhookReceiver, &WebhookEndpoint)| {
            let events = WebhookType::queued_for(receiver.application.is_none());
            (receiver.clone(), events.filter(|event| endpoint.receives(*event)).collect())
        };
        self.endpoints.iter().map(events_of).collect()
    }

    /// The SHA-256 of the URL of an endpoint; `None` if it is not configured.
    #[must_use]
    pub fn url_sha256(&self, receiver: &WebhookReceiver) -> Option<Sha256Hex> {
        self.endpoints.get(receiver).map(|endpoint| Sha256Hex::of(endpoint.url.as_bytes()))
    }

    /// Sends `webhook` once. Each status from 200 to 299 accepts it.
    pub async fn send(&self, webhook: &OutboxWebhook) -> Result<WebhookAnswer, WebhookSendFailure> {
        let fault = |cause: String| WebhookSendFailure {
            cause: UpstreamText::new(cause),
            answer: None,
            is_permanent: false,
            retry_after: None,
        };
        let receiver = webhook.state.receiver();
        let Some(endpoint) = self.endpoints.get(&receiver) else {
            return Err(fault(format!("no webhook endpoint is configured for {}", receiver.describe())));
        };
        let headers = self.headers(&endpoint.secrets, &webhook.state.webhook_id, &webhook.body);
        let began = monotonic();
        let sent = self.web.post(&endpoint.url, headers, webhook.body.clone()).await;
        let response = sent.map_err(|error| fault(error.to_string()))?;
        let status = response.status();
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = WebhookAnswer { status: status.as_u16(), latency_ms };
        if status.is_success() {
            return Ok(answer);
        }
        let retry_after = requested_wait(&response, &self.clock);
        Err(WebhookSendFailure {
            answer: Some(answer),
            is_permanent: status == StatusCode::GONE,
            retry_after: retry_after.and_then(|wait| SignedDuration::try_from(wait).ok()),
            ..fault(format!("the endpoint answered with status {}", answer.status))
        })
    }

    fn headers(&self, secrets: &WebhookSecrets, webhook_id: &WebhookId, body: &str) -> HeaderMap {
        let now = self.clock.now();
        let signature = secrets.sign(webhook_id.as_str(), now, body);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            ("webhook-id", webhook_id.to_string()),
            ("webhook-timestamp", now.as_second().to_string()),
            ("webhook-signature", signature),
        ] {
            let value = HeaderValue::from_str(&value).expect("the value is visible ASCII");
            headers.insert(HeaderName::from_static(name), value);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_equals_the_known_vector_of_the_scheme() {
        let sign = |secrets: &str| {
            let at = Timestamp::from_second(1_614_265_330).expect("a valid time");
            let body = r#"{"test": 2432232314}"#;
            let secrets = WebhookSecrets::parse(&secrets.into()).expect("secrets");
            secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
        };
        let (secret, known) =
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(sign(secret), known);
        let another = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
        assert_eq!(sign(&format!("{another}\n{secret}\n")), format!("{} {known}", sign(another)));
    }

    #[test]
    fn secret_of_another_form_is_rejected() {
        let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let (blank, three) = (format!("{good}\n\n{good}"), [good; 3].join("\n"));
        for bad in
            ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", &blank, &three]
        {
            assert!(WebhookSecrets::parse(&bad.into()).is_err(), "{bad}");
        }
    }
}
