//! The parts that all model APIs share: sending a request, and reading its answer.

use super::failure::{Failure, Kind};
use super::fence::strip_fence;
use super::http::{Endpoint, Reply};
use super::{Attempt, Heard, Miss, Refusal};
use oracled_domain::Sha256Hex;
use oracled_domain::base::blank::is_blank;
use oracled_domain::verdict::generation::Usage;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::time::Duration;

/// An answer, independent of the API's format.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: Result<String, Refusal>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) oracle_version: Option<String>,
}

/// Sends one request. A success answer is parsed as `B`.
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

/// Sends one request and checks only the status of its answer.
pub(crate) async fn probe(
    endpoint: &Endpoint,
    request: RequestBuilder,
    limit: Duration,
) -> Result<(), Failure> {
    let reply = endpoint.send(request, limit).await?;
    endpoint.check(&reply)
}

fn heard<B: DeserializeOwned + Into<Said>>(endpoint: &Endpoint, reply: &Reply) -> Attempt {
    let response_hash = Sha256Hex::of(&reply.body);
    let mute = Heard { response_hash, finish_reason: None, usage: None, oracle_version: None };
    if let Err(failure) = endpoint.check(reply) {
        return Attempt::Heard(mute, Err(Miss::Failed(failure)));
    }
    let said: Said = match serde_json::from_slice::<B>(&reply.body) {
        Ok(body) => body.into(),
        Err(error) => {
            return Attempt::Heard(mute, Err(Miss::Failed(unreadable(&error))));
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
        if is_blank(text) { Err(Refusal::Empty) } else { Ok(text.to_owned()) }
    });
    Attempt::Heard(heard, text.map_err(|refusal| Miss::Refused(refusal.map(clean))))
}

/// The position and kind of a parse error. serde's own message quotes the answer, which is unchecked, and this text is
/// logged.
fn unreadable(error: &serde_json::Error) -> Failure {
    let what = match error.classify() {
        Category::Io => "not read",
        Category::Syntax => "not JSON",
        Category::Data => "not in the format of this API",
        Category::Eof => "incomplete",
    };
    let (line, column) = (error.line(), error.column());
    Failure::new(Kind::Unreadable, format!("{what}, at line {line} column {column}"))
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
