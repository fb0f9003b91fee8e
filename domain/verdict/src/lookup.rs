//! The look-up of a session that is not registered: where the payment service has it, and how the answer is read (seed:
//! `regen-consistency`, "Session Context").

use crate::label::ProductTier;
use crate::query::CustomerQuery;
use crate::session::{CustomerEmail, ParseEmailError};
use domain_base::digest::Sha256Hex;
use domain_base::raw::SourceValue;
use domain_base::session_id::SessionId;
use domain_base::text_form::is_blank;
use domain_ground::path::RawFieldPath;
use domain_ground::value::AxisValue;
use domain_upstream::event::InteractionStatus;
use domain_upstream::upstream_id::UpstreamId;
use domain_verification::adapter::UnsupportedQuestionError;
use domain_verification::adapter::template::{EndpointTemplate, NONCE, POINT_IN_TIME};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The variable of the URL.
const SESSION_ID: &str = "session_id";

/// Where the payment service has a session, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupSettings {
    /// The URL of a session, with the variable `{session_id}`.
    pub session_url: String,
    pub tier_path: String,
    /// The paths of the parts of the query, in order.
    pub query_paths: Vec<String>,
    pub email_path: Option<String>,
    /// A path, and the values of which an answer must have one there.
    pub required: Option<(String, Vec<String>)>,
    /// The longest query, in bytes.
    pub query_max_bytes: usize,
}

/// Why settings are invalid: the setting, and its fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}`: {fault}")]
pub struct LookupSettingsError {
    pub setting: &'static str,
    pub fault: String,
}

/// Valid settings of a look-up.
#[derive(Debug)]
pub struct LookupDefinition {
    session_url: EndpointTemplate,
    tier: RawFieldPath,
    query: Vec<RawFieldPath>,
    email: Option<RawFieldPath>,
    required: Option<(RawFieldPath, Vec<String>)>,
    query_max_bytes: usize,
}

/// A session as the payment service has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookedUpSession {
    pub tier: ProductTier,
    pub query: CustomerQuery,
    /// `None` if the answer has no valid address.
    pub customer_email: Option<CustomerEmail>,
    /// Why the address of the answer is not used.
    pub email_error: Option<ParseEmailError>,
}

/// Why an answer is not a session that can be registered. The messages quote no value of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupReadError {
    #[error("the answer is not a JSON object: {0}")]
    NotJson(String),
    #[error("the value at `{path}` is not {expected}")]
    NotFulfilled { path: String, expected: String },
    #[error("the value at `{path}` {fault}")]
    Unusable { path: String, fault: String },
}

/// The outcome of a look-up.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LookupOutcome {
    /// The session was found, and can be registered.
    Found,
    /// The payment service does not have the session.
    Unknown,
    /// The session does not have the required value, for example because it is not paid.
    NotFulfilled,
    /// The session has no usable tier or query.
    Unusable,
    /// The payment service failed, or its answer cannot be read.
    Failed,
    /// The answer did not arrive in time.
    TimedOut,
}

/// A session was looked up. The fields have the names of the RFC's `OracleInteractionLog`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LookupEntry {
    /// The payment service.
    pub oracle_id: UpstreamId,
    /// The time of the request.
    pub request_timestamp: Timestamp,
    /// The time of the answer, of any kind; null if none arrived.
    pub response_timestamp: Option<Timestamp>,
    /// The time until the answer, or until the wait for it ended, in milliseconds.
    pub latency_ms: u64,
    /// The result of the call.
    pub status: InteractionStatus,
    /// The outcome of the look-up.
    pub outcome: LookupOutcome,
    /// The error code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
}

impl LookupDefinition {
    /// # Errors
    /// The first invalid setting.
    pub fn new(settings: &LookupSettings) -> Result<Self, LookupSettingsError> {
        let path = |setting, text: &str| {
            let invalid = |fault| LookupSettingsError { setting, fault };
            let path = RawFieldPath::parse(text).map_err(|error| invalid(error.to_string()))?;
            if path.is_group() {
                return Err(invalid(format!("`{text}` leads to a group, not to one value")));
            }
            Ok(path)
        };
        let session_url = parse_url(&settings.session_url)?;
        let query: Result<Vec<_>, _> =
            settings.query_paths.iter().map(|text| path("query_paths", text)).collect();
        let query = query?;
        if query.is_empty() {
            return Err(LookupSettingsError { setting: "query_paths", fault: "it is not set".into() });
        }
        let required = settings.required.as_ref();
        let required =
            required.map(|(text, values)| Ok((path("required_path", text)?, values.clone()))).transpose()?;
        Ok(Self {
            session_url,
            tier: path("tier_path", &settings.tier_path)?,
            query,
            email: settings.email_path.as_deref().map(|text| path("email_path", text)).transpose()?,
            required,
            query_max_bytes: settings.query_max_bytes,
        })
    }

    /// The URL with `x` for the session id.
    #[must_use]
    pub fn sample_url(&self) -> String {
        self.session_url.sample()
    }

    /// The URL of a session. The id has no application there.
    ///
    /// # Errors
    /// The id makes the URL too long.
    pub fn url(&self, session_id: &SessionId) -> Result<String, UnsupportedQuestionError> {
        let id = AxisValue::Text(session_id.local().to_owned());
        self.session_url.expand(&[(SESSION_ID.to_owned(), id)].into(), Timestamp::UNIX_EPOCH, "")
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// It is not a session that can be registered.
    pub fn read(&self, body: &[u8]) -> Result<LookedUpSession, LookupReadError> {
        let answer =
            SourceValue::parse_object(body).map_err(|error| LookupReadError::NotJson(error.to_string()))?;
        if let Some((path, expected)) = &self.required
            && !path
                .find(&answer)
                .and_then(word)
                .is_some_and(|found| expected.iter().any(|value| value == found))
        {
            let expected: Vec<_> = expected.iter().map(|value| format!("`{value}`")).collect();
            let (path, expected) = (path.as_str().to_owned(), expected.join(" or "));
            return Err(LookupReadError::NotFulfilled { path, expected });
        }
        let tier = text_at(&self.tier, &answer)?.ok_or_else(|| unusable(&self.tier, "is missing"))?;
        let tier = tier.parse().map_err(|_| {
            let tiers = ProductTier::ALL.map(<&str>::from).join(", ");
            unusable(&self.tier, &format!("is none of the tiers {tiers}"))
        })?;
        let email = self.email.as_ref().map(|path| text_at(path, &answer)).transpose().ok().flatten();
        let email = email.flatten().map(|text| CustomerEmail::try_from(text.to_owned()));
        let email_error = email.as_ref().and_then(|email| email.as_ref().err().copied());
        let customer_email = email.and_then(Result::ok);
        Ok(LookedUpSession { tier, query: self.read_query(&answer)?, customer_email, email_error })
    }

    /// The query: the values at its paths, joined.
    fn read_query(&self, answer: &SourceValue) -> Result<CustomerQuery, LookupReadError> {
        let (mut query, mut missing) = (String::new(), None);
        for path in &self.query {
            match (text_at(path, answer)?, missing) {
                (Some(part), None) => query.push_str(part),
                // without this part, the query would be another one
                (Some(_), Some(missing)) => return Err(unusable(missing, "is missing")),
                (None, _) => missing = missing.or(Some(path)),
            }
        }
        let fault = if query.len() > self.query_max_bytes {
            format!("is a query of {} bytes; at most {} are allowed", query.len(), self.query_max_bytes)
        } else if is_blank(&query) {
            "is missing or blank".into()
        } else {
            return Ok(CustomerQuery::new(query));
        };
        Err(LookupReadError::Unusable {
            path: self.query.first().map(|path| path.as_str().to_owned()).unwrap_or_default(),
            fault,
        })
    }
}

impl LookupReadError {
    #[must_use]
    pub const fn outcome(&self) -> LookupOutcome {
        match self {
            Self::NotJson(_) => LookupOutcome::Failed,
            Self::NotFulfilled { .. } => LookupOutcome::NotFulfilled,
            Self::Unusable { .. } => LookupOutcome::Unusable,
        }
    }
}

fn parse_url(text: &str) -> Result<EndpointTemplate, LookupSettingsError> {
    let invalid = |fault| LookupSettingsError { setting: "session_url", fault };
    let url = EndpointTemplate::parse(text, &[SESSION_ID]).map_err(|error| invalid(error.to_string()))?;
    if let Some(name) = [NONCE, POINT_IN_TIME].into_iter().find(|name| url.has_variable(name)) {
        return Err(invalid(format!("`{{{name}}}` is unknown; allowed: `{{{SESSION_ID}}}`")));
    }
    if !url.has_variable(SESSION_ID) {
        return Err(invalid(format!("it does not contain `{{{SESSION_ID}}}`")));
    }
    Ok(url)
}

fn unusable(path: &RawFieldPath, fault: &str) -> LookupReadError {
    LookupReadError::Unusable { path: path.as_str().to_owned(), fault: fault.to_owned() }
}

/// The text at `path`; `None` if it is missing or null.
fn text_at<'a>(path: &RawFieldPath, answer: &'a SourceValue) -> Result<Option<&'a str>, LookupReadError> {
    match path.find(answer) {
        None | Some(SourceValue::Null) => Ok(None),
        Some(SourceValue::Text(text)) => Ok(Some(text)),
        Some(other) => Err(unusable(path, &format!("is {}, not a text", other.kind()))),
    }
}

/// A text, number or boolean as a word, for a comparison.
fn word(value: &SourceValue) -> Option<&str> {
    match value {
        SourceValue::Text(text) | SourceValue::Number(text) => Some(text),
        SourceValue::Bool(true) => Some("true"),
        SourceValue::Bool(false) => Some("false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings() -> LookupSettings {
        LookupSettings {
            session_url: "https://pay.example/v1/sessions/{session_id}".into(),
            tier_path: "$.metadata.tier".into(),
            query_paths: vec![
                "$.metadata.query".into(),
                "$.metadata.query_2".into(),
                "metadata.query_3".into(),
            ],
            email_path: Some("$.customer_details.email".into()),
            required: Some(("$.payment_status".into(), vec!["paid".into(), "no_payment_required".into()])),
            query_max_bytes: 20,
        }
    }

    /// The outcome of reading a paid session with this metadata and address.
    fn read(metadata: Value, email: Value) -> Result<LookedUpSession, LookupReadError> {
        let body =
            json!({"payment_status": "paid", "metadata": metadata, "customer_details": {"email": email}});
        LookupDefinition::new(&settings()).expect("valid settings").read(body.to_string().as_bytes())
    }

    #[test]
    fn answer_is_read_with_all_parts_of_the_query() {
        let found = read(json!({"tier": "full", "query": "Sell ", "query_2": "honey?"}), json!("a@b"));
        let session = LookedUpSession {
            tier: ProductTier::Full,
            query: CustomerQuery::new("Sell honey?".into()),
            customer_email: Some("a@b".to_owned().try_into().expect("an address")),
            email_error: None,
        };
        assert_eq!(found, Ok(session));
        for (unusable, error) in [
            (json!("a b@c"), Some(ParseEmailError::Character(' '))),
            (json!("a@example..org"), Some(ParseEmailError::Domain)),
            (json!(null), None),
            (json!(1), None),
        ] {
            let found = read(json!({"tier": "full", "query": "Sell honey?"}), unusable).expect("a session");
            assert_eq!((found.customer_email, found.email_error), (None, error));
        }
    }

    #[test]
    fn answer_without_usable_tier_or_query_is_rejected_at_its_path() {
        for (metadata, at) in [
            (json!({"query": "Sell honey?"}), "$.metadata.tier"),
            (json!({"tier": "gold", "query": "Sell honey?"}), "$.metadata.tier"),
            (json!({"tier": ["full"], "query": "Sell honey?"}), "$.metadata.tier"),
            (json!({"tier": "full"}), "$.metadata.query"),
            (json!({"tier": "full", "query": " "}), "$.metadata.query"),
            (json!({"tier": "full", "query": "a query of 21 bytes.."}), "$.metadata.query"),
            (json!({"tier": "full", "query_2": "Sell honey?"}), "$.metadata.query"),
            (json!({"tier": "full", "query": "Sell", "query_3": "?"}), "$.metadata.query_2"),
        ] {
            match read(metadata.clone(), json!(null)) {
                Err(LookupReadError::Unusable { path, .. }) => assert_eq!(path, at, "{metadata}"),
                other => panic!("{metadata}: {other:?}"),
            }
        }
    }

    #[test]
    fn answer_is_read_only_if_the_required_value_is_there() {
        let definition = LookupDefinition::new(&settings()).expect("valid settings");
        for body in [r#"{"payment_status":"unpaid"}"#, "{}", r#"{"payment_status":["paid"]}"#] {
            let error = definition.read(body.as_bytes()).expect_err("it is not paid");
            assert_eq!(error.outcome(), LookupOutcome::NotFulfilled, "{body}");
        }
        for damaged in ["", "{", "[]", "{\"a\":1,\"a\":2}"] {
            let error = definition.read(damaged.as_bytes()).expect_err("it is not an object");
            assert_eq!(error.outcome(), LookupOutcome::Failed, "{damaged}");
        }
    }

    #[test]
    fn case_stripe_free_session_fulfils_the_condition() {
        let definition = LookupDefinition::new(&settings()).expect("valid settings");
        for status in ["paid", "no_payment_required"] {
            let body =
                json!({"payment_status": status, "metadata": {"tier": "full", "query": "Sell honey?"}});
            assert!(definition.read(body.to_string().as_bytes()).is_ok(), "{status}");
        }
    }

    #[test]
    fn url_has_the_encoded_id_without_its_application() {
        let definition = LookupDefinition::new(&settings()).expect("valid settings");
        let url = |id: &str| definition.url(&id.parse().expect("a valid id"));
        assert_eq!(url("shop/cs_1:a").as_deref(), Ok("https://pay.example/v1/sessions/cs_1%3Aa"));
    }

    #[test]
    fn invalid_setting_is_named() {
        let with = |change: fn(&mut LookupSettings)| {
            let mut settings = settings();
            change(&mut settings);
            LookupDefinition::new(&settings).map(drop).map_err(|error| error.setting)
        };
        assert_eq!(with(|_| ()), Ok(()));
        for url in
            ["ftp://a/{session_id}", "https://a/x", "https://{session_id}/", "https://a/{nonce}/{session_id}"]
        {
            let changed = LookupSettings { session_url: url.into(), ..settings() };
            let error = LookupDefinition::new(&changed).expect_err("the URL is invalid");
            assert_eq!(error.setting, "session_url", "{url}");
        }
        assert_eq!(with(|all| all.tier_path = "a[*].b".into()), Err("tier_path"));
        assert_eq!(with(|all| all.query_paths.clear()), Err("query_paths"));
        assert_eq!(with(|all| all.query_paths.push("a[".into())), Err("query_paths"));
        assert_eq!(with(|all| all.email_path = Some(".".into())), Err("email_path"));
        assert_eq!(
            with(|all| all.required = Some((String::new(), vec!["paid".into()]))),
            Err("required_path")
        );
    }
}
