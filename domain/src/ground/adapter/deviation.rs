//! Jumps: what a source says against what it said last (RFC-0002, "Failure Modes": poisoning).

use super::Adapter;
use crate::ground::decimal::{self, Decimal};
use crate::ground::ontology::Ontology;
use crate::ground::value::Typed;
use crate::verification::candidate::Stated;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is said, by the paths of axes.
type Values = BTreeMap<String, Stated>;

/// By how much the values of an axis may change from one answer to the next. Where both bounds are given, either is enough to
/// be suspicious.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Which axis, as it stands in the ontology; of a group all values.
    pub axis: String,
    /// By at most so much, in the axis's unit.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub max_change: Option<Decimal>,
    /// By at most so many hundredths of what it was.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub max_change_percent: Option<Decimal>,
}

impl Adapter {
    /// The axes whose values in `said` jump away from those in `last`, with the reason, in words that hold no value.
    pub(super) fn jumps(
        &self,
        said: &Values,
        last: &Values,
        ontology: &Ontology,
    ) -> BTreeMap<String, String> {
        let mut jumps = BTreeMap::new();
        for (path, before) in last {
            let Some(axis) = ontology.axis(path) else { continue };
            let bound = self.deviations.iter().find(|bound| bound.axis == axis.axis);
            let (Some(bound), Some(now)) = (bound, said.get(path)) else { continue };
            if now.definition != before.definition {
                jumps.insert(path.clone(), "it is measured by another definition than before".to_owned());
            } else if let (Ok(Typed::Number(now)), Ok(Typed::Number(before))) =
                (now.value.typed(axis), before.value.typed(axis))
                && let Some(jump) = bound.exceeded(&before, &now)
            {
                jumps.insert(path.clone(), jump);
            }
        }
        jumps
    }
}

impl Deviation {
    /// What is exceeded by the change from `before` to `now`.
    fn exceeded(&self, before: &Decimal, now: &Decimal) -> Option<String> {
        let zero = Decimal::from(0);
        let size =
            |number: &Decimal| if *number < zero { zero.checked_sub(number) } else { Ok(number.clone()) };
        // what is too large to be computed with is no small change
        let change = now.checked_sub(before).and_then(|change| size(&change)).ok();
        let most = self.max_change.as_ref();
        if let Some(most) = most.filter(|most| change.as_ref().is_none_or(|change| change > most)) {
            return Some(format!("it differs by more than {most} from what the source said last"));
        }
        let percent = self.max_change_percent.as_ref()?;
        let hundredfold = change.and_then(|change| change.checked_mul(&Decimal::from(100)).ok());
        let most = size(before).and_then(|size| size.checked_mul(percent)).ok();
        let holds = matches!((hundredfold, most), (Some(change), Some(most)) if change <= most);
        (!holds).then(|| format!("it differs by more than {percent} % from what the source said last"))
    }
}
