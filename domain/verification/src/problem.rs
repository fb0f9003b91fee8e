//! The codes of errors of verifications and reviews.

use domain_base::problem_codes;

problem_codes! {
    /// The question cannot be verified.
    INVALID_VERIFICATION = 400: "Correct the workflow, the identity or the axes that `detail` names.",
    /// The resolution, revocation or dismissal of a review is invalid.
    INVALID_RESOLUTION = 400: "Correct the member that `detail` names.",
    /// The workflow is not registered.
    WORKFLOW_UNKNOWN = 404: "Register it first.",
    /// No decision has this execution id.
    EXECUTION_UNKNOWN = 404: "Use the `execution_id` of an envelope.",
    /// The review does not exist.
    REVIEW_UNKNOWN = 404: "Use an id from `oraclectl review list`.",
    /// The review rule is not registered.
    REVIEW_RULE_UNKNOWN = 404: "Use a rule of `GET /v1/review-rules`, or register it.",
    /// The review rule does not give this resolution. `detail` has the reason.
    REVIEW_RULE_MISMATCH = 409: "Use the resolution that the rule gives now, or resolve the review without a rule.",
    /// The review is resolved. `detail` has the reviewer and the time.
    REVIEW_RESOLVED = 409: "Revoke the resolution first.",
    /// The review is dismissed. `detail` has the reviewer and the time.
    REVIEW_DISMISSED = 409: "None: the next question opens a new review.",
    /// The review has 50 comments.
    TOO_MANY_COMMENTS = 409: "None: a review has at most 50 comments.",
    /// The review has no resolution in force.
    REVIEW_NOT_IN_FORCE = 409: "None: there is no resolution to revoke.",
    /// The inputs or the envelope of the decision were erased.
    DECISION_ERASED = 410: "Ask again. `oraclectl explain` shows what the log still has of the decision.",
    /// The envelope in the log is not the one that was returned, so none is returned.
    DECISION_ALTERED = 500: "Compare the log with a backup: the entry was changed after it was written.",
}
