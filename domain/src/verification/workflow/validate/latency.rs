//! Validation of the time limits of a workflow.

use super::{
    BUDGET_MAX_MS, TIMEOUT_MAX_MS, WorkflowError, WorkflowValidator, build_field_error, check_within,
};
use crate::ground::freshness::MAX_AGE_S;
use crate::verification::workflow::{EnforcementMode, OracleTimeoutBehavior};

impl WorkflowValidator<'_> {
    /// Checks the RFC's binding rules: the soft timeout is less than the hard timeout, and a caller who waits for a
    /// decision waits at least for the soft timeout.
    pub(super) fn check_latency(&self) -> Result<(), WorkflowError> {
        let (oracle, authority) = (&self.workflow.oracle_latency, &self.workflow.authority_latency);
        let (soft, hard, budget) =
            (oracle.soft_timeout_ms, oracle.hard_timeout_ms, authority.authority_latency_budget_ms);
        check_within("oracle_latency.soft_timeout_ms", soft, 1..=TIMEOUT_MAX_MS, " ms")?;
        check_within("oracle_latency.hard_timeout_ms", hard, 1..=TIMEOUT_MAX_MS, " ms")?;
        check_within("authority_latency.authority_latency_budget_ms", budget, 1..=BUDGET_MAX_MS, " ms")?;
        if soft >= hard {
            let fault = format!("it is {soft}; allowed: less than `hard_timeout_ms`, which is {hard}");
            return Err(build_field_error("oracle_latency.soft_timeout_ms", fault));
        }
        if authority.enforcement_mode == EnforcementMode::Inline && budget < soft {
            let fault = format!(
                "it is {budget}; with `INLINE` allowed: at least `soft_timeout_ms`, which is {soft}; for less, use \
                 `ASYNC` or `NON_AUTHORITATIVE_ONLY`"
            );
            return Err(build_field_error("authority_latency.authority_latency_budget_ms", fault));
        }
        self.check_tolerance()
    }

    fn check_tolerance(&self) -> Result<(), WorkflowError> {
        const FIELD: &str = "oracle_latency.stale_tolerance_seconds";
        let oracle = &self.workflow.oracle_latency;
        let serves_stale = oracle.on_timeout == OracleTimeoutBehavior::ServeStale;
        let Some(tolerance) = oracle.stale_tolerance_seconds else {
            let missing = || {
                build_field_error(
                    FIELD,
                    "`SERVE_STALE` requires it: the maximum age of a cached answer".into(),
                )
            };
            return if serves_stale { Err(missing()) } else { Ok(()) };
        };
        if !serves_stale {
            return Err(build_field_error(
                FIELD,
                "it is only allowed with `on_timeout` `SERVE_STALE`".into(),
            ));
        }
        check_within(FIELD, tolerance, 1..=MAX_AGE_S, " s")?;
        let mut limits = self.axes.iter().filter_map(|axis| Some((axis, axis.max_ttl_seconds?)));
        match limits.find(|(_, limit)| tolerance > *limit) {
            Some((axis, limit)) => Err(build_field_error(
                FIELD,
                format!("it is {tolerance}; the ontology allows `{}` to be at most {limit} s old", axis.axis),
            )),
            None => Ok(()),
        }
    }
}
