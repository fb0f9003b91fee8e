//! Gates: limits that keep a bad release from replacing the data of earlier releases.
//!
//! A run whose release breaks a gate of its pipeline is held. Nothing of it becomes visible before an
//! operator approves it.

use super::run::{GateBreach, ReleaseEffect, RunCounts};
use crate::base::decimal::{Decimal, DecimalText};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The limits for one release. A run that exceeds one is held until an operator approves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReleaseGates {
    /// The largest share of the records read that may be rejected, from 0 to 1.
    #[schema(value_type = DecimalText)]
    pub max_rejected_ratio: Decimal,
    /// The largest share of the records in force that a release may withdraw, from 0 to 1. Only snapshots, and versions
    /// that are read again, withdraw records.
    #[schema(value_type = DecimalText)]
    pub max_withdrawn_ratio: Decimal,
    /// The largest share of the records in force whose content a release may change, from 0 to 1; no limit where absent.
    /// Checked where `max_withdrawn_ratio` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalText>)]
    pub max_changed_ratio: Option<Decimal>,
    /// The smallest number of accepted records.
    pub min_records: u64,
    /// Whether a release may have the same payload, byte for byte, as another version. If false, such a payload is held as
    /// a file under the wrong version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_same_payload: bool,
}

impl Default for ReleaseGates {
    fn default() -> Self {
        let percent = |text: &str| text.parse().expect("a decimal number");
        Self {
            max_rejected_ratio: percent("0.01"),
            max_withdrawn_ratio: percent("0.05"),
            max_changed_ratio: None,
            min_records: 0,
            accept_same_payload: false,
        }
    }
}

impl fmt::Display for GateBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxRejectedRatio { rejected, read, allowed } => {
                write!(f, "{rejected} of {read} records were rejected (`max_rejected_ratio` is {allowed})")
            }
            Self::MaxWithdrawnRatio { withdrawn, in_force, allowed } => write!(
                f,
                "{withdrawn} of {in_force} records in force would be withdrawn (`max_withdrawn_ratio` is {allowed})"
            ),
            Self::MaxChangedRatio { changed, in_force, allowed } => write!(
                f,
                "{changed} of {in_force} records in force would change (`max_changed_ratio` is {allowed})"
            ),
            Self::MinRecords { records, required } => {
                write!(f, "{records} records were accepted (`min_records` is {required})")
            }
            Self::SamePayload { version } => {
                write!(f, "the payload is byte for byte the one of version {version}")
            }
            Self::EmptiedAxis { axis, version } => {
                write!(f, "no record has a value on axis `{axis}`, which version {version} has values on")
            }
        }
    }
}

impl ReleaseGates {
    /// The gates that a run with these counts breaks. `same_payload_as` names another version with the same payload.
    #[must_use]
    pub fn breaches(&self, counts: &RunCounts, same_payload_as: Option<String>) -> Vec<GateBreach> {
        let RunCounts { read, records, rejected, effect, .. } = *counts;
        let mut breaches = Vec::new();
        if exceeds(rejected, read, &self.max_rejected_ratio) {
            let allowed = self.max_rejected_ratio.clone();
            breaches.push(GateBreach::MaxRejectedRatio { rejected, read, allowed });
        }
        if let Some(ReleaseEffect { in_force, withdrawn, changed }) = effect {
            if exceeds(withdrawn, in_force, &self.max_withdrawn_ratio) {
                let allowed = self.max_withdrawn_ratio.clone();
                breaches.push(GateBreach::MaxWithdrawnRatio { withdrawn, in_force, allowed });
            }
            if let Some(allowed) = self.max_changed_ratio.clone()
                && exceeds(changed, in_force, &allowed)
            {
                breaches.push(GateBreach::MaxChangedRatio { changed, in_force, allowed });
            }
        }
        if records < self.min_records {
            breaches.push(GateBreach::MinRecords { records, required: self.min_records });
        }
        breaches.extend(same_payload_as.map(|version| GateBreach::SamePayload { version }));
        breaches
    }

    /// The first ratio that is not from 0 to 1, with its name.
    pub(super) fn invalid_ratio(&self) -> Option<(&'static str, &Decimal)> {
        let ratios = [
            ("max_rejected_ratio", Some(&self.max_rejected_ratio)),
            ("max_withdrawn_ratio", Some(&self.max_withdrawn_ratio)),
            ("max_changed_ratio", self.max_changed_ratio.as_ref()),
        ];
        let given = ratios.into_iter().filter_map(|(name, ratio)| Some((name, ratio?)));
        let (zero, one) = (Decimal::from(0), Decimal::from(1));
        given.into_iter().find(|(_, ratio)| **ratio < zero || **ratio > one)
    }
}

/// Whether `part` of `whole` is more than the share that is allowed.
fn exceeds(part: u64, whole: u64, allowed: &Decimal) -> bool {
    let number = |count: u64| Decimal::from(i64::try_from(count).unwrap_or(i64::MAX));
    // a product with too many digits counts as a broken gate, so that an operator decides
    allowed.checked_mul(&number(whole)).map_or(true, |most| number(part) > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(read: u64, rejected: u64, effect: Option<(u64, u64, u64)>) -> RunCounts {
        let effect =
            effect.map(|(in_force, withdrawn, changed)| ReleaseEffect { in_force, withdrawn, changed });
        RunCounts { read, records: read - rejected, rejected, effect, ..RunCounts::default() }
    }

    fn ratio(text: &str) -> Decimal {
        text.parse().expect("a decimal number")
    }

    #[test]
    fn gates_report_breach_only_above_allowed_ratio() {
        let gates = ReleaseGates::default();
        assert_eq!(gates.breaches(&counts(100, 1, Some((100, 5, 100))), None), []);
        assert_eq!(
            gates.breaches(&counts(100, 2, Some((100, 6, 100))), None),
            [
                GateBreach::MaxRejectedRatio { rejected: 2, read: 100, allowed: ratio("0.01") },
                GateBreach::MaxWithdrawnRatio { withdrawn: 6, in_force: 100, allowed: ratio("0.05") },
            ]
        );
        assert_eq!(
            gates.breaches(&counts(0, 0, Some((0, 0, 0))), None),
            [],
            "a first release withdraws nothing"
        );
    }

    #[test]
    fn gates_check_optional_limits_when_set() {
        let gates = ReleaseGates {
            max_changed_ratio: Some(ratio("0.5")),
            min_records: 11,
            ..ReleaseGates::default()
        };
        assert_eq!(
            gates.breaches(&counts(10, 0, Some((10, 0, 6))), Some("2023".into())),
            [
                GateBreach::MaxChangedRatio { changed: 6, in_force: 10, allowed: ratio("0.5") },
                GateBreach::MinRecords { records: 10, required: 11 },
                GateBreach::SamePayload { version: "2023".into() },
            ]
        );
        assert_eq!(gates.breaches(&counts(11, 0, Some((10, 0, 5))), None), []);
    }
}
