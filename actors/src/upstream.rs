//! The outside world: models that are asked for verdicts, behind one small trait.
//!
//! An adapter knows one wire and makes one request; [`call::Caller`] decides how often and how long. Nothing here
//! judges an answer: that is the crosscheck's.

pub mod call;
pub mod failure;
mod fence;
pub mod gemini;
pub mod http;
pub mod mail;
pub mod openai;
pub mod oracle;
pub mod oracle_health;
pub mod web;
mod wire;

pub use call::{Answer, CallPolicy, Called, Caller, Health, ModelError, Purpose};
pub use failure::{Failure, Kind};
pub use gemini::Gemini;
pub use http::{BadEndpoint, Endpoint, Key};
pub use openai::OpenAi;

use oracled_domain::verdict::generation::{Settings, Usage};
use oracled_domain::{Prompt, Sha256Hex};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;
use strum::IntoStaticStr;

/// A future behind a trait that can be an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model behind an HTTP API.
pub trait Model: fmt::Debug + Send + Sync {
    /// Its name in the log, "gemini" for instance.
    fn oracle_id(&self) -> &str;

    /// Which version of it `settings` ask for, "v1beta/gemini-2.5-flash" for instance.
    fn oracle_version(&self, settings: &Settings) -> String;

    /// Asks once: one request, whose answer is there within `timeout` or not at all.
    fn attempt<'a>(
        &'a self,
        prompt: &'a Prompt,
        settings: &'a Settings,
        timeout: Duration,
    ) -> BoxFuture<'a, Attempt>;

    /// Asks, within `timeout`, whether it would answer; costs no tokens.
    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), Failure>>;
}

/// What came of one request.
#[derive(Debug)]
pub enum Attempt {
    /// An answer that came whole, and its text, if that is whole too and was meant as one.
    Heard(Heard, Result<String, Miss>),
    /// None.
    Unheard(Failure),
}

/// Why a request brought no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// The model did not answer.
    Failed(Failure),
    /// It answered, but not with a whole text of its own.
    Refused(Refusal),
}

/// How a model answers without a text that can be used. The words are the model's, cleaned and bounded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// It did not take the prompt, for this reason.
    #[error("the prompt was blocked: {0}")]
    PromptBlocked(String),
    /// It stopped for another reason than being done.
    #[error("the model stopped before it was done: {0}")]
    #[strum(to_string = "stopped_early")]
    Stopped(String),
    /// It says that it will not.
    #[error("the model declined: {0}")]
    Declined(String),
    /// There is no text.
    #[error("the model's answer is empty")]
    #[strum(to_string = "empty_answer")]
    Empty,
}

impl Miss {
    /// Whether the request may have reached the model.
    #[must_use]
    pub const fn reached(&self) -> bool {
        match self {
            Self::Failed(failure) => failure.reached(),
            Self::Refused(_) => true,
        }
    }

    /// What was wrong, as one word for the log.
    #[must_use]
    pub fn error_code(&self) -> String {
        match self {
            Self::Failed(failure) => failure.error_code(),
            Self::Refused(refusal) => refusal.error_code(),
        }
    }
}

impl Refusal {
    /// What was wrong, as one word for the log.
    #[must_use]
    pub fn error_code(&self) -> String {
        match self {
            Self::PromptBlocked(reason) => format!("prompt_blocked:{reason}"),
            Self::Stopped(reason) => format!("finish_reason:{reason}"),
            Self::Declined(_) | Self::Empty => <&str>::from(self).to_owned(),
        }
    }
}

/// What is known of an answer beside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The SHA-256 of its body.
    pub response_hash: Sha256Hex,
    /// Why the model stopped, in its own words.
    pub finish_reason: Option<String>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Which version answered.
    pub oracle_version: Option<String>,
}
