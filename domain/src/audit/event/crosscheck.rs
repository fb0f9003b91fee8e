//! What the log keeps of a judgement.

use crate::base::digest::Sha256Hex;
use crate::verdict::crosscheck::{Judgement, Reason};
use crate::verdict::flag::Flag;
use crate::verdict::gate_path::GatePath;
use crate::verdict::label::{Label, Tier};
use crate::verdict::session::Query;
use crate::verdict::tmm::{OMEGA, PHI};
use serde::{Deserialize, Serialize};

/// The seed's "Log Entry", and beside it the mapping's variables, the path and the verdict's digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrosscheckEntry {
    /// Judged for which tier.
    pub tier: Tier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// The valid top-level verdict, else null.
    pub verdict_label: Option<Label>,
    /// C.
    pub coherence_score: f64,
    /// Ω.
    pub threshold: f64,
    /// Φ.
    pub phi: f64,
    /// Whether it passed.
    pub approved: bool,
    /// What was found.
    pub flags: Vec<Flag>,
    /// Why it passed or not.
    pub crosscheck_reason: Reason,
    /// Total value.
    pub v_t: f64,
    /// Resonant value.
    pub v_r: f64,
    /// Decoherence energy.
    pub e_d: f64,
    /// On which path it came.
    pub path: GatePath,
    /// The SHA-256 of the judged text; all that is kept of a rejected one.
    pub verdict_sha256: Sha256Hex,
}

impl CrosscheckEntry {
    /// The entry for `judgement` of a verdict that arrived on `path`.
    #[must_use]
    pub fn of(judgement: &Judgement, query: &Query, path: GatePath) -> Self {
        let Judgement { tier, inspection, decision, sha256, .. } = judgement;
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
