//! Gates: limits that keep a bad release from replacing the data of earlier releases.
//!
//! A run whose release breaks a gate of its pipeline is held. Nothing of it becomes visible before an
//! operator approves it.

use super::ontology::Ontology;
use super::run::{GateBreach, ReleaseEffect, RunCounts};
use crate::axis_effect::{AxisEffect, AxisEffects, CommonChange, CommonChangeKind};
use domain_base::decimal::{Decimal, DecimalText};
use domain_base::wording::format_count;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// The smallest number of compared records to which a gate of an axis applies. For a key of a group, and for a common
/// change, the smallest number of compared values.
const COMPARED_MIN: u64 = 20;
/// The maximum number of broken gates of axes that a run reports.
const AXIS_BREACHES_MAX: usize = 64;

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
    /// The limits for axes, by axis. An axis that is not named has the default limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, AxisGates>,
}

/// The limits for the values of an axis. They count the records of a release that replace or confirm a record in force, and
/// apply from 20 such records on. On a group they apply to all its values, and to the values of each key from 20 values of
/// the key on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AxisGates {
    /// The largest share of the values in force that a release may empty, from 0 to 1.
    #[schema(value_type = DecimalText)]
    pub max_unfilled_ratio: Decimal,
    /// The largest share of the records whose value a release may change or empty, from 0 to 1; no limit where absent. On a
    /// group, and on each key of it, the share of the values in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalText>)]
    pub max_changed_values_ratio: Option<Decimal>,
}

impl Default for ReleaseGates {
    fn default() -> Self {
        Self {
            max_rejected_ratio: ratio("0.01"),
            max_withdrawn_ratio: ratio("0.05"),
            max_changed_ratio: None,
            min_records: 0,
            accept_same_payload: false,
            axes: BTreeMap::new(),
        }
    }
}

impl Default for AxisGates {
    fn default() -> Self {
        Self { max_unfilled_ratio: ratio("0.5"), max_changed_values_ratio: None }
    }
}

fn ratio(text: &str) -> Decimal {
    text.parse().expect("a decimal number")
}

impl fmt::Display for GateBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxRejectedRatio { rejected, read, allowed } => {
                let were = if *rejected == 1 { "was" } else { "were" };
                write!(f, "{rejected} of {read} records {were} rejected (`max_rejected_ratio` is {allowed})")
            }
            Self::MaxWithdrawnRatio { withdrawn, in_force, allowed } => write!(
                f,
                "{withdrawn} of {in_force} records in force would be withdrawn (`max_withdrawn_ratio` is {allowed})"
            ),
            Self::Unconfirmed { unconfirmed, in_force, allowed } => {
                let are = if *unconfirmed == 1 { "is" } else { "are" };
                write!(
                    f,
                    "{unconfirmed} of {in_force} records in force {are} not in the release; nothing is withdrawn, because rejected \
                     records have no readable identity (`max_withdrawn_ratio` is {allowed})"
                )
            }
            Self::MaxChangedRatio { changed, in_force, allowed } => write!(
                f,
                "{changed} of {in_force} records in force would change (`max_changed_ratio` is {allowed})"
            ),
            Self::MinRecords { records, required } => {
                let accepted = format_count(records, "record was", "records were");
                write!(f, "{accepted} accepted (`min_records` is {required})")
            }
            Self::SamePayload { version } => {
                write!(f, "the payload is byte for byte the one of version {version}")
            }
            Self::EmptiedAxis { axis, version } => {
                write!(f, "no record has a value on axis `{axis}`, which version {version} has values on")
            }
            Self::OpenEnd { version } => write!(
                f,
                "the payload ends without a line break, which version {version} ended with: its last value may be cut off"
            ),
            Self::Utf8Payload { records } => {
                let have = format_count(records, "record has", "records have");
                write!(
                    f,
                    "the payload is UTF-8, which the pipeline reads as `latin-1`: {have} wrong characters"
                )
            }
            Self::PrunedContent { records } => {
                write!(
                    f,
                    "{records} earlier statements would be in force again, and their content was pruned"
                )
            }
            Self::MaxUnfilledRatio { axis, unfilled, filled, allowed } => write!(
                f,
                "{unfilled} of {filled} values of axis `{axis}` would be empty (`max_unfilled_ratio` is {allowed})"
            ),
            Self::MaxChangedValuesRatio { axis, changed, compared, allowed } => write!(
                f,
                "{changed} values of axis `{axis}` would change, of {compared} compared (`max_changed_values_ratio` is {allowed})"
            ),
            Self::CommonFactor { axis, factor, numbers, compared } => write!(
                f,
                "{numbers} of {compared} numbers of axis `{axis}` would change by the same factor, {factor}"
            ),
            Self::CommonProduct { axis, product, numbers, compared } => write!(
                f,
                "{numbers} of {compared} numbers of axis `{axis}` would become {product} divided by the number in force"
            ),
        }
    }
}

impl ReleaseGates {
    /// The gates that a run with these counts and effects breaks. `same_payload_as` names another version with the same
    /// payload.
    #[must_use]
    pub fn breaches(
        &self,
        counts: &RunCounts,
        effects: &AxisEffects,
        same_payload_as: Option<String>,
    ) -> Vec<GateBreach> {
        let RunCounts { read, records, rejected, unidentified, effect, utf8_records, .. } = *counts;
        let mut breaches = Vec::new();
        if exceeds(rejected, read, &self.max_rejected_ratio) {
            let allowed = self.max_rejected_ratio.clone();
            breaches.push(GateBreach::MaxRejectedRatio { rejected, read, allowed });
        }
        if let Some(ReleaseEffect { in_force, withdrawn, changed, unconfirmed }) = effect {
            let allowed = || self.max_withdrawn_ratio.clone();
            if exceeds(withdrawn, in_force, &self.max_withdrawn_ratio) {
                breaches.push(GateBreach::MaxWithdrawnRatio { withdrawn, in_force, allowed: allowed() });
            // each record without an identity can be one of those that are missing
            } else if exceeds(
                withdrawn + unconfirmed.saturating_sub(unidentified),
                in_force,
                &self.max_withdrawn_ratio,
            ) {
                breaches.push(GateBreach::Unconfirmed { unconfirmed, in_force, allowed: allowed() });
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
        breaches.extend((utf8_records > 0).then_some(GateBreach::Utf8Payload { records: utf8_records }));
        breaches.extend(same_payload_as.map(|version| GateBreach::SamePayload { version }));
        breaches.extend(self.axis_breaches(effects));
        breaches
    }

    /// The gates of axes that a run with these effects breaks: those of each axis, and those of each key of a group
    /// unless the group breaks the same kind of gate as a whole.
    fn axis_breaches(&self, effects: &AxisEffects) -> Vec<GateBreach> {
        let default = AxisGates::default();
        let gates = |axis: &str| self.axes.get(axis).unwrap_or(&default);
        let of_axes = effects.axes.iter().map(|(axis, effect)| {
            // a record has several values of a group
            let compared = if axis.contains('*') { effect.filled } else { effects.records };
            (axis, gates(axis).breaches(axis, effect, (effects.records, compared)))
        });
        let of_axes: BTreeMap<_, _> = of_axes.collect();
        let mut breaches: Vec<_> = of_axes.values().flatten().cloned().collect();
        for (path, (axis, effect)) in &effects.keys {
            let of_group = of_axes.get(axis).map(Vec::as_slice).unwrap_or_default();
            let is_reported = |breach: &GateBreach| {
                of_group.iter().any(|group| std::mem::discriminant(group) == std::mem::discriminant(breach))
            };
            // few records have a rare key, so only its values count
            let of_key = gates(axis).breaches(path, effect, (effect.filled, effect.filled));
            breaches.extend(of_key.into_iter().filter(|breach| !is_reported(breach)));
        }
        breaches.truncate(AXIS_BREACHES_MAX);
        breaches
    }

    /// The faults of the gates, each with the name of its field.
    pub(super) fn faults(&self, ontology: &Ontology) -> Vec<(String, String)> {
        let of_release = [
            ("max_rejected_ratio".to_owned(), Some(&self.max_rejected_ratio)),
            ("max_withdrawn_ratio".to_owned(), Some(&self.max_withdrawn_ratio)),
            ("max_changed_ratio".to_owned(), self.max_changed_ratio.as_ref()),
        ];
        let of_axes = self.axes.iter().flat_map(|(axis, gates)| {
            [
                (format!("axes.{axis}.max_unfilled_ratio"), Some(&gates.max_unfilled_ratio)),
                (format!("axes.{axis}.max_changed_values_ratio"), gates.max_changed_values_ratio.as_ref()),
            ]
        });
        let (zero, one) = (Decimal::from(0), Decimal::from(1));
        let given = of_release.into_iter().chain(of_axes).filter_map(|(name, ratio)| Some((name, ratio?)));
        let ratios = given.filter(|(_, ratio)| **ratio < zero || **ratio > one);
        let ratios =
            ratios.map(|(name, ratio)| (name, format!("{ratio} is not a share of records (0 to 1 allowed)")));
        let is_gated =
            |axis: &&String| ontology.axes.iter().any(|known| known.axis == **axis && !known.identity);
        let unknown = self.axes.keys().filter(|axis| !is_gated(axis)).map(|axis| {
            let reference = ontology.reference();
            (format!("axes.{axis}"), format!("`{axis}` is not a value axis of ontology {reference}"))
        });
        ratios.chain(unknown).collect()
    }
}

impl AxisGates {
    /// The gates that a release with this effect on the values at `path` breaks. The ratios apply from 20 `counted` on, and
    /// the changed values are a share of `compared`.
    fn breaches(&self, path: &str, effect: &AxisEffect, (counted, compared): (u64, u64)) -> Vec<GateBreach> {
        let AxisEffect { filled, unfilled, changed, numbers: compared_numbers, common_change } =
            effect.clone();
        let axis = || path.to_owned();
        let mut breaches = Vec::new();
        if counted >= COMPARED_MIN {
            if exceeds(unfilled, filled, &self.max_unfilled_ratio) {
                let allowed = self.max_unfilled_ratio.clone();
                breaches.push(GateBreach::MaxUnfilledRatio { axis: axis(), unfilled, filled, allowed });
            }
            if let Some(allowed) = self.max_changed_values_ratio.clone()
                && exceeds(changed, compared, &allowed)
            {
                breaches.push(GateBreach::MaxChangedValuesRatio { axis: axis(), changed, compared, allowed });
            }
        }
        if let Some(CommonChange { of, value, numbers }) = common_change
            && numbers >= COMPARED_MIN
            && numbers > compared_numbers / 2
        {
            let compared = compared_numbers;
            breaches.push(match of {
                CommonChangeKind::Factor => {
                    GateBreach::CommonFactor { axis: axis(), factor: value, numbers, compared }
                }
                CommonChangeKind::Product => {
                    GateBreach::CommonProduct { axis: axis(), product: value, numbers, compared }
                }
            });
        }
        breaches
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
        let effect = effect.map(|(in_force, withdrawn, changed)| ReleaseEffect {
            in_force,
            withdrawn,
            changed,
            unconfirmed: 0,
        });
        RunCounts { read, records: read - rejected, rejected, effect, ..RunCounts::default() }
    }

    fn breaches(gates: &ReleaseGates, counts: &RunCounts, same: Option<String>) -> Vec<GateBreach> {
        gates.breaches(counts, &AxisEffects::default(), same)
    }

    #[test]
    fn gates_report_breach_only_above_allowed_ratio() {
        let gates = ReleaseGates::default();
        assert_eq!(breaches(&gates, &counts(100, 1, Some((100, 5, 100))), None), []);
        assert_eq!(
            breaches(&gates, &counts(100, 2, Some((100, 6, 100))), None),
            [
                GateBreach::MaxRejectedRatio { rejected: 2, read: 100, allowed: ratio("0.01") },
                GateBreach::MaxWithdrawnRatio { withdrawn: 6, in_force: 100, allowed: ratio("0.05") },
            ]
        );
        assert_eq!(
            breaches(&gates, &counts(0, 0, Some((0, 0, 0))), None),
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
            breaches(&gates, &counts(10, 0, Some((10, 0, 6))), Some("2023".into())),
            [
                GateBreach::MaxChangedRatio { changed: 6, in_force: 10, allowed: ratio("0.5") },
                GateBreach::MinRecords { records: 10, required: 11 },
                GateBreach::SamePayload { version: "2023".into() },
            ]
        );
        assert_eq!(breaches(&gates, &counts(11, 0, Some((10, 0, 5))), None), []);
    }

    #[test]
    fn utf8_payload_of_a_latin1_pipeline_breaks_a_gate() {
        let counts = RunCounts { utf8_records: 1, ..counts(10, 0, None) };
        let found = breaches(&ReleaseGates::default(), &counts, None);
        assert_eq!(found, [GateBreach::Utf8Payload { records: 1 }]);
        let text =
            "the payload is UTF-8, which the pipeline reads as `latin-1`: 1 record has wrong characters";
        assert_eq!(found[0].to_string(), text);
    }
}
