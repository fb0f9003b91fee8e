//! The costs of model calls, as one row for each UTC day.
//!
//! The journal computes the rows from the events of a record, in the commit of the record.

use crate::base::engine::TableReader;
use domain_verdict::cost_budget::{COSTS, DayCosts, day_name};
use jiff::civil::Date;
use store_base::error::StoreError;

/// The number of days that are read at a time.
const AT_ONCE: usize = 100;

impl TableReader {
    /// The costs of one day.
    pub fn costs_of_day(&self, day: Date) -> Result<DayCosts, StoreError> {
        Ok(self.own_row(COSTS.name, &day_name(day))?.unwrap_or_default())
    }

    /// The costs of all days from `since` to `until`, the earliest day first. Blocks on disk reads.
    pub fn costs(&self, since: Option<Date>, until: Option<Date>) -> Result<Vec<DayCosts>, StoreError> {
        let before = since.and_then(|since| since.yesterday().ok());
        let mut after = before.map(day_name);
        let mut costs = Vec::new();
        loop {
            let names = self.names_after(COSTS.name, after.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(costs) };
            after = Some(last.clone());
            for name in names {
                if until.is_some_and(|until| name > day_name(until)) {
                    return Ok(costs);
                }
                costs.extend(self.own_row(COSTS.name, &name)?);
            }
        }
    }
}
