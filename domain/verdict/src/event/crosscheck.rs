//! The log entry of a crosscheck.

use crate::crosscheck::{CrosscheckJudgment, CrosscheckReason};
use crate::flag::Flag;
use crate::label::{ProductTier, VerdictLabel};
use crate::query::CustomerQuery;
use crate::tmm::{OMEGA, PHI};
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use serde::{Deserialize, Serialize};

/// The seed's "Log Entry", with the mapping's variables, the path and the verdict's digest in addition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CrosscheckEntry {
    /// The tier for which the verdict was judged.
    pub tier: ProductTier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// The top-level verdict; null if it is invalid.
    pub verdict_label: Option<VerdictLabel>,
    /// The coherence score C.
    pub coherence_score: f64,
    /// The threshold Ω.
    pub threshold: f64,
    /// The constant Φ.
    pub phi: f64,
    /// Whether the verdict was approved.
    pub approved: bool,
    /// The flags that were found.
    pub flags: Vec<Flag>,
    /// The reason for the approval or the rejection.
    pub crosscheck_reason: CrosscheckReason,
    /// The total value.
    pub v_t: f64,
    /// The resonant value.
    pub v_r: f64,
    /// The decoherence energy.
    pub e_d: f64,
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// The SHA-256 of the judged text. The text of a rejected verdict is not stored.
    pub verdict_sha256: Sha256Hex,
}

impl CrosscheckEntry {
    /// The entry for `judgment` of a verdict that arrived on `path`.
    #[must_use]
    pub fn of(judgment: &CrosscheckJudgment, query: &CustomerQuery, path: GatePath) -> Self {
        let CrosscheckJudgment { tier, inspection, decision, sha256, .. } = judgment;
        Self {
            tier: *tier,
            query_preview: query.preview(),
            verdict_label: decision.verdict_label,
            coherence_score: decision.coherence_score,
            threshold: OMEGA,
            phi: PHI,
            approved: decision.approved,
            flags: decision.flags.clone(),
            crosscheck_reason: decision.crosscheck_reason,
            v_t: inspection.v_t,
            v_r: inspection.v_r,
            e_d: inspection.e_d,
            path,
            verdict_sha256: sha256.clone(),
        }
    }
}
