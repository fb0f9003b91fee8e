//! One attempt to get an answer from outside, as it stands in the log (seed: `rfc-0002-ground-truth`, "Versioned
//! Oracle Logging").

use crate::base::digest::Sha256Hex;
use crate::verdict::gate_path::GatePath;
use crate::verdict::generation::{Settings, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The statuses of a permanent refusal: the same request is refused again.
pub const PERMANENT_STATUSES: [u16; 6] = [400, 401, 403, 404, 413, 422];

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Status {
    /// With an answer that can be used.
    Success,
    /// With no answer in time.
    Timeout,
    /// With an error, or with an answer that says nothing.
    Error,
    /// With an answer that another one contradicts.
    Conflict,
}

/// The seed's `OracleInteractionLog`, and beside it whose answer it was and how the model was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// What all attempts of one call have in common.
    pub execution_id: String,
    /// Who was asked.
    pub oracle_id: String,
    /// Which version of it: as the answer says, else as it was asked.
    pub oracle_version: String,
    /// When it was asked.
    pub request_timestamp: Timestamp,
    /// When its answer, of whatever kind, was there; null where none came.
    pub response_timestamp: Option<Timestamp>,
    /// How long it took to answer, or to give up.
    pub latency_ms: u64,
    /// How it ended.
    pub status: Status,
    /// What was wrong, in one word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
    /// Whether the answer came from a cache.
    pub cache_hit: bool,
    /// Whether it is older than it should be.
    pub stale_data_used: bool,
    /// On which path.
    pub path: GatePath,
    /// Which attempt of the call, from 1.
    pub attempt: u32,
    /// Whether it took longer than it should.
    pub soft_timeout_exceeded: bool,
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// How the model was to generate.
    pub generation: Settings,
    /// Why the model stopped, in its own words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish_reason: Option<String>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interaction() -> Interaction {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        Interaction {
            execution_id: "regen:cs_1:1795168800000000".into(),
            oracle_id: "gemini".into(),
            oracle_version: "v1beta/gemini-2.5-flash".into(),
            request_timestamp: at,
            response_timestamp: None,
            latency_ms: 20_000,
            status: Status::Timeout,
            error_code: Some("timeout".into()),
            response_hash: None,
            cache_hit: false,
            stale_data_used: false,
            path: GatePath::Regen,
            attempt: 1,
            soft_timeout_exceeded: true,
            prompt_sha256: Sha256Hex::of(b"abc"),
            generation: Settings::locked("gemini-2.5-flash".into()),
            finish_reason: None,
            usage: None,
        }
    }

    #[test]
    fn an_interaction_has_the_seeds_fields_under_the_seeds_names() {
        assert_eq!(
            serde_json::to_string(&interaction()).expect("it serializes"),
            concat!(
                r#"{"execution_id":"regen:cs_1:1795168800000000","oracle_id":"gemini","#,
                r#""oracle_version":"v1beta/gemini-2.5-flash","request_timestamp":"2026-11-20T10:00:00Z","#,
                r#""response_timestamp":null,"latency_ms":20000,"status":"timeout","error_code":"timeout","#,
                r#""cache_hit":false,"stale_data_used":false,"path":"regen","attempt":1,"#,
                r#""soft_timeout_exceeded":true,"#,
                r#""prompt_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
                r#""generation":{"model":"gemini-2.5-flash","temperature":0.0,"topP":1.0,"topK":1,"#,
                r#""candidateCount":1}}"#,
            )
        );
    }

    #[test]
    fn an_interaction_reads_back_with_and_without_an_answer() {
        let silent = interaction();
        let usage = Usage { prompt_tokens: Some(1), output_tokens: None, total_tokens: Some(3) };
        let answered = Interaction {
            status: Status::Success,
            error_code: None,
            response_timestamp: Some(silent.request_timestamp),
            response_hash: Some(Sha256Hex::of(b"")),
            finish_reason: Some("STOP".into()),
            usage: Some(usage),
            ..interaction()
        };
        for interaction in [silent, answered] {
            let line = serde_json::to_string(&interaction).expect("it serializes");
            assert_eq!(serde_json::from_str::<Interaction>(&line).expect("it reads back"), interaction);
        }
    }
}
