//! What the wires of all models have in common: one request, and how an answer to it is taken.

use super::failure::{Failure, Kind, seconds};
use super::fence::strip_fence;
use super::http::{Endpoint, Reply};
use super::{Attempt, Heard, Miss, Refusal};
use domain::Sha256Hex;
use domain::generation::Usage;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// What a wire's answer says, in the words of none.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: Result<String, Refusal>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) oracle_version: Option<String>,
}

/// Sends one request, whose answer is a `B` where it is a success.
pub(crate) async fn attempt<B: DeserializeOwned + Into<Said>>(
    endpoint: &Endpoint,
    request: RequestBuilder,
    limit: Duration,
) -> Attempt {
    match endpoint.send(request, limit).await {
        Ok(reply) => heard::<B>(endpoint, &reply),
        Err(failure) => Attempt::Unheard(failure),
    }
}

/// Sends one request of whose answer only the status counts.
pub(crate) async fn probe(
    endpoint: &Endpoint,
    request: RequestBuilder,
    limit: Duration,
) -> Result<(), Failure> {
    let reply = endpoint.send(request, limit).await?;
    if reply.status.is_success() { Ok(()) } else { Err(unwelcome(endpoint, &reply)) }
}

fn heard<B: DeserializeOwned + Into<Said>>(endpoint: &Endpoint, reply: &Reply) -> Attempt {
    let response_hash = Sha256Hex::of(&reply.body);
    let mute = Heard { response_hash, finish_reason: None, usage: None, oracle_version: None };
    if !reply.status.is_success() {
        return Attempt::Heard(mute, Err(Miss::Failed(unwelcome(endpoint, reply))));
    }
    let said: Said = match serde_json::from_slice::<B>(&reply.body) {
        Ok(body) => body.into(),
        Err(error) => {
            let failure = Failure::new(Kind::Unreadable, endpoint.clean(&error.to_string()));
            return Attempt::Heard(mute, Err(Miss::Failed(failure)));
        }
    };
    let clean = |words: String| endpoint.clean(&words);
    let heard = Heard {
        finish_reason: said.finish_reason.map(clean),
        usage: said.usage,
        oracle_version: said.oracle_version.map(clean),
        ..mute
    };
    let text = said.text.and_then(|text| {
        let text = strip_fence(&text);
        if text.trim().is_empty() { Err(Refusal::Empty) } else { Ok(text.to_owned()) }
    });
    Attempt::Heard(heard, text.map_err(|refusal| Miss::Refused(refusal.map(clean))))
}

impl Refusal {
    fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::PromptBlocked(reason) => Self::PromptBlocked(change(reason)),
            Self::Stopped(reason) => Self::Stopped(change(reason)),
            Self::Declined(reason) => Self::Declined(change(reason)),
            Self::Empty => Self::Empty,
        }
    }
}

/// The failure that an answer is whose status is no success. Its body never becomes anything else.
fn unwelcome(endpoint: &Endpoint, reply: &Reply) -> Failure {
    // it may be no JSON at all; then the status has to say it
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let word = |place: &str| body.pointer(place).and_then(Value::as_str);
    let detail = [word("/error/status").or_else(|| word("/error/type")), word("/error/message")];
    let detail = detail.into_iter().flatten().collect::<Vec<_>>().join(": ");
    let detail = if detail.is_empty() { reply.status.to_string() } else { detail };
    Failure {
        kind: Kind::Status(reply.status.as_u16()),
        retry_after: reply.retry_after.max(retry_info(&body)),
        detail: endpoint.clean(&detail),
    }
}

/// The wait that a Google error asks for in its details, "3.5s" for instance.
fn retry_info(body: &Value) -> Option<Duration> {
    let details = body.pointer("/error/details")?.as_array()?;
    let named = |detail: &&Value| {
        detail.get("@type").and_then(Value::as_str) == Some("type.googleapis.com/google.rpc.RetryInfo")
    };
    let delay = details.iter().find(named)?.get("retryDelay")?.as_str()?;
    seconds(delay.strip_suffix('s')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn retry_info_is_read_where_it_is_sound() {
        let info = |delay: Value| {
            let help = json!({"@type": "type.googleapis.com/google.rpc.Help"});
            let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
            retry_info(&json!({"error": {"details": [help, info]}}))
        };
        assert_eq!(info(json!("3.5s")), Some(Duration::from_millis(3500)));
        assert_eq!(info(json!("59s")), Some(Duration::from_secs(59)));
        for unsound in [json!("3.5"), json!("-1s"), json!(3), json!(null), json!("s"), json!("é")] {
            assert_eq!(info(unsound.clone()), None, "{unsound}");
        }
        for body in [json!(null), json!({"error": {"details": {}}}), json!({"error": {"details": [1]}})] {
            assert_eq!(retry_info(&body), None, "{body}");
        }
    }
}
