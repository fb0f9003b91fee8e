//! Logged attempts to get an answer from an upstream (seed: `rfc-0002-ground-truth`, "Versioned Oracle Logging").

use crate::cost::{CostSum, ModelCost, day_of};
use crate::generation::{GenerationSettings, ModelTokenUsage};
use crate::label::ProductTier;
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::event::InteractionStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The seed's `OracleInteractionLog`, with additional fields about the oracle and the generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OracleInteractionLog {
    /// The id that all attempts of one call share.
    pub execution_id: String,
    /// The id of the oracle.
    pub oracle_id: String,
    /// The version of the oracle: as reported in the answer, else as requested. It is `other` if it is no short word, if it occurs in
    /// the prompt or in the answer, or if the call has no session.
    pub oracle_version: UpstreamText,
    /// The time of the request.
    pub request_timestamp: Timestamp,
    /// The time of the response, of any kind; null if there was none.
    pub response_timestamp: Option<Timestamp>,
    /// The time until the response or until the attempt was abandoned, in milliseconds.
    pub latency_ms: u64,
    /// The outcome.
    pub status: InteractionStatus,
    /// The error code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of the response body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
    /// Whether the answer is from a cache.
    pub cache_hit: bool,
    /// Whether the answer was older than allowed.
    pub stale_data_used: bool,
    /// The path on which the verdict was requested.
    pub path: GatePath,
    /// The tier of the verdict.
    pub tier: ProductTier,
    /// The number of the attempt within the call, from 1.
    pub attempt: u32,
    /// Whether the attempt exceeded the soft timeout.
    pub soft_timeout_exceeded: bool,
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Sha256Hex,
    /// The settings of the generation.
    pub generation: GenerationSettings,
    /// The reason why the model stopped, as reported by the model; `other` as for `oracle_version`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finish_reason: Option<UpstreamText>,
    /// The token usage.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<ModelTokenUsage>,
    /// The cost, if the model has prices and has reported its tokens.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<ModelCost>,
}

impl OracleInteractionLog {
    /// The cost of the call, which a session caused; `None` if it is unknown.
    #[must_use]
    pub fn cost_sum(&self, timestamp: Timestamp, session_id: Option<&SessionId>) -> Option<CostSum> {
        let usage = self.usage?;
        Some(CostSum {
            day: day_of(timestamp),
            application: session_id.map(SessionId::application),
            model: self.oracle_id.clone(),
            tier: self.tier,
            calls: 1,
            prompt_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens.unwrap_or(0),
            cost: self.cost.clone()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interaction() -> OracleInteractionLog {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        OracleInteractionLog {
            execution_id: "m-0660bc5347f1ed-d07ba42cbb".into(),
            oracle_id: "gemini".into(),
            oracle_version: "v1beta/gemini-2.5-flash".into(),
            request_timestamp: at,
            response_timestamp: None,
            latency_ms: 20_000,
            status: InteractionStatus::Timeout,
            error_code: Some("timeout".into()),
            response_hash: None,
            cache_hit: false,
            stale_data_used: false,
            path: GatePath::Regen,
            tier: ProductTier::Quick,
            attempt: 1,
            soft_timeout_exceeded: true,
            prompt_sha256: Sha256Hex::of(b"abc"),
            generation: GenerationSettings::locked("gemini-2.5-flash".into()),
            finish_reason: None,
            usage: None,
            cost: None,
        }
    }

    #[test]
    fn interaction_has_fields_and_names_of_the_seed() {
        assert_eq!(
            serde_json::to_string(&interaction()).expect("the value serializes"),
            concat!(
                r#"{"execution_id":"m-0660bc5347f1ed-d07ba42cbb","oracle_id":"gemini","#,
                r#""oracle_version":"v1beta/gemini-2.5-flash","request_timestamp":"2026-11-20T10:00:00Z","#,
                r#""response_timestamp":null,"latency_ms":20000,"status":"timeout","error_code":"timeout","#,
                r#""cache_hit":false,"stale_data_used":false,"path":"regen","tier":"quick","attempt":1,"#,
                r#""soft_timeout_exceeded":true,"#,
                r#""prompt_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
                r#""generation":{"model":"gemini-2.5-flash","temperature":0.0,"topP":1.0,"topK":1,"#,
                r#""candidateCount":1}}"#,
            )
        );
    }

    #[test]
    fn interaction_reads_back_with_and_without_answer() {
        let silent = interaction();
        let usage = ModelTokenUsage {
            prompt_tokens: Some(1),
            output_tokens: None,
            thinking_tokens: None,
            total_tokens: Some(3),
        };
        let answered = OracleInteractionLog {
            status: InteractionStatus::Success,
            error_code: None,
            response_timestamp: Some(silent.request_timestamp),
            response_hash: Some(Sha256Hex::of(b"")),
            finish_reason: Some("STOP".into()),
            usage: Some(usage),
            ..interaction()
        };
        for interaction in [silent, answered] {
            let line = serde_json::to_string(&interaction).expect("the value serializes");
            assert_eq!(serde_json::from_str::<OracleInteractionLog>(&line).expect("valid JSON"), interaction);
        }
    }
}
