//! The codes of errors of circuits.

use domain_base::problem_codes;

problem_codes! {
    /// The oracle does not exist.
    ORACLE_UNKNOWN = 404: "Use an id from `GET /v1/health/oracles`.",
}
