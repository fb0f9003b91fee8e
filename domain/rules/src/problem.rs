//! The codes of errors of Oracle-A.

use domain_base::problem_codes;

problem_codes! {
    /// The word list is not registered.
    WORDLIST_UNKNOWN = 404: "Register it with `oraclectl apply`, or name a registered one.",
    /// A decision that facts depend on is not authoritative, or no template fits a record, which `detail` names.
    FACTS_UNAVAILABLE = 409 retry Sometimes: "Send the request again after `Retry-After`, if it is there. Otherwise add the template.",
}
