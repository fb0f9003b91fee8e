//! The choice of the fields that identify a record.

use super::{FieldValues, SampleColumn};
use crate::ground::new_source::notation::{EXCEPTION_OF, ValueForm};
use crate::ground::new_source::remark::SourceRemark;
use std::collections::{HashMap, HashSet};

/// The most fields of which all selections are tried; with more fields, the superfluous ones are removed.
const TRIED_FIELDS_MAX: usize = 3;
/// The most fields that can identify a record; further ones are not tried.
const CANDIDATES_MAX: usize = 16;
/// The average length of a text that is probably no name, in characters.
const NAME_CHARS_MAX: usize = 40;
/// Parts of the names of fields that usually identify a record.
const ID_WORDS: [&str; 9] = ["code", "iso", "key", "number", "uuid", "isin", "ean", "gtin", "alpha"];
/// Words in the names of fields with parts of a time.
const TIME_WORDS: [&str; 9] = ["year", "quarter", "month", "week", "day", "hour", "minute", "jahr", "monat"];
/// Parts of the names of fields with dates that are an attribute of a record.
const EVENT_WORDS: [&str; 17] = [
    "updat", "modif", "chang", "creat", "birth", "death", "start", "end", "begin", "expir", "valid",
    "publish", "releas", "retriev", "insert", "load", "extract",
];
/// Columns of SDMX-CSV that are neither dimensions nor observations.
const SDMX_HEADER: [&str; 7] =
    ["dataflow", "structure", "structure_id", "structure_name", "action", "last update", "key"];

/// The columns of a sample with their values.
pub(super) struct IdentitySample<'s> {
    pub(super) columns: &'s [SampleColumn],
    /// The values of each column, by record.
    pub(super) cells: &'s [FieldValues],
    /// The number of records.
    pub(super) records: usize,
    /// The records without those that are equal to an earlier one.
    pub(super) distinct: Vec<usize>,
}

/// The fields that identify a record.
#[derive(Debug)]
pub(super) struct FoundIdentity {
    /// The indexes of the columns. If none identify a record, those that may be a part of its identity.
    pub(super) fields: Vec<usize>,
    pub(super) is_found: bool,
    pub(super) remarks: Vec<SourceRemark>,
}

/// How probably a field is a part of the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IdentityRank {
    Id,
    /// A name, or the time of an observation.
    Name,
    /// A long text, or a date that is an attribute of the record.
    Attribute,
    Measured,
}

/// The fewest fields whose values together occur only once, the most probable ones first. Measured numbers and dates are used only
/// if no other fields identify a record. A few records can be exceptions: an id of its own is taken before several fields that have none,
/// unless these are ids and times.
pub(super) fn find_identity(sample: &IdentitySample<'_>) -> FoundIdentity {
    if let Some(found) = sample.sdmx() {
        return found;
    }
    let candidates = sample.candidates(|column| column.filled == sample.records);
    let (names, attributes) =
        (up_to(&candidates, IdentityRank::Name), up_to(&candidates, IdentityRank::Attribute));
    if !names.iter().any(|field| sample.is_unique(&[*field]))
        && let Some(found) = sample.nearly_unique_id(&names)
    {
        return found;
    }
    if let Some(mut fields) = sample.without_measured(&names, &attributes) {
        fields.extend(sample.constant_periods());
        let is_attribute = |field: &usize| !names.contains(field);
        let remarks = fields.iter().any(is_attribute).then_some(SourceRemark::MeasuredIdentity);
        return FoundIdentity { fields, is_found: true, remarks: remarks.into_iter().collect() };
    }
    if let Some(found) = sample.nearly_unique() {
        return found;
    }
    // a few records that occur twice do not make a measured value a part of the identity
    let keys = sample.count_keys(&attributes);
    if keys * 10 >= sample.distinct.len() * 9 && !attributes.is_empty() {
        let fields = sample.reduced(&attributes, keys).unwrap_or(attributes);
        return FoundIdentity { fields, is_found: false, remarks: vec![SourceRemark::NoIdentity] };
    }
    let all = up_to(&candidates, IdentityRank::Measured);
    match sample.smallest(&all).or_else(|| sample.reduced(&all, sample.distinct.len())) {
        Some(fields) => {
            FoundIdentity { fields, is_found: true, remarks: vec![SourceRemark::MeasuredIdentity] }
        }
        None => {
            let fields = if attributes.is_empty() { all } else { attributes };
            let fields = if fields.is_empty() { sample.fullest() } else { fields };
            FoundIdentity { fields, is_found: false, remarks: vec![SourceRemark::NoIdentity] }
        }
    }
}

/// The candidates that are as probable as `rank`, or more.
fn up_to(candidates: &[(usize, IdentityRank)], rank: IdentityRank) -> Vec<usize> {
    candidates.iter().filter(|(_, other)| *other <= rank).map(|(index, _)| *index).collect()
}

impl IdentitySample<'_> {
    /// The dimensions of a table of SDMX that have several values, and its period.
    fn sdmx(&self) -> Option<FoundIdentity> {
        let names: Vec<_> =
            self.columns.iter().map(|column| column.path.last().map_or("", String::as_str)).collect();
        let at = |name: &str| names.iter().position(|other| other.eq_ignore_ascii_case(name));
        let (period, _) = (at("TIME_PERIOD")?, at("OBS_VALUE")?);
        let dimensions: Vec<_> = (0..period)
            .filter(|index| {
                names.get(*index).is_some_and(|name| !SDMX_HEADER.contains(&name.to_lowercase().as_str()))
            })
            .collect();
        // beside the columns with codes, a file can have columns with their labels
        let is_code = |index: &usize| {
            let name = names.get(*index).copied().unwrap_or_default();
            name.chars().all(|character| character.is_ascii_uppercase() || "_0123456789".contains(character))
        };
        let has_codes = dimensions.iter().any(is_code);
        let dimensions = dimensions.into_iter().filter(|index| !has_codes || is_code(index));
        let (constant, mut fields): (Vec<_>, Vec<_>) =
            dimensions.partition(|index| self.distinct(*index) < 2);
        fields.push(period);
        let can_identify =
            |index: &usize| self.columns.get(*index).is_some_and(|column| self.can_identify(column));
        let exceptions = self.exceptions(&fields).filter(|_| fields.iter().all(can_identify))?;
        let axes: Vec<_> = constant
            .into_iter()
            .filter_map(|index| self.columns.get(index))
            .map(|column| column.axis.clone())
            .collect();
        let constant = (!axes.is_empty()).then_some(SourceRemark::ConstantDimensions { axes });
        let remarks = constant.into_iter().chain(exceptions_remark(exceptions)).collect();
        Some(FoundIdentity { fields, is_found: true, remarks })
    }

    /// Whether a column has a value in nearly all records, and of a form that can identify one.
    fn can_identify(&self, column: &SampleColumn) -> bool {
        (self.records - column.filled.min(self.records)) * EXCEPTION_OF <= self.records
            && column.form.can_identify()
            && column.unit.is_none()
            && column.group.is_none()
    }

    /// The fields that can identify a record, the most probable ones first.
    fn candidates(&self, is_filled: impl Fn(&SampleColumn) -> bool) -> Vec<(usize, IdentityRank)> {
        let mut found: Vec<_> = (0..)
            .zip(self.columns)
            .filter(|(_, column)| is_filled(column) && self.can_identify(column))
            .map(|(index, column)| (index, self.rank(index, column)))
            .collect();
        found.sort_by_key(|(_, rank)| *rank);
        found.truncate(CANDIDATES_MAX);
        found
    }

    fn rank(&self, index: usize, column: &SampleColumn) -> IdentityRank {
        let has_word = |words: &[&str]| words.iter().any(|word| column.axis.contains(word));
        let words: Vec<_> = column.axis.split('_').collect();
        let is_id = words.contains(&"id") || ID_WORDS.iter().any(|word| column.axis.ends_with(word));
        let is_time_part = || TIME_WORDS.iter().any(|word| words.contains(word));
        match &column.form {
            _ if column.has_dates() && has_word(&EVENT_WORDS) => IdentityRank::Attribute,
            ValueForm::Text if column.has_dates() => IdentityRank::Name,
            ValueForm::Date { .. } | ValueForm::Period { .. } => IdentityRank::Name,
            _ if is_id => IdentityRank::Id,
            ValueForm::Number { .. } if is_time_part() && self.is_small(index) => IdentityRank::Name,
            ValueForm::Number { .. } | ValueForm::Boolean { .. } => IdentityRank::Measured,
            ValueForm::Text if column.has_measured_text() => IdentityRank::Measured,
            ValueForm::Text if self.average_chars(index) > NAME_CHARS_MAX => IdentityRank::Attribute,
            ValueForm::Text => IdentityRank::Name,
        }
    }

    fn values(&self, index: usize) -> impl Iterator<Item = &str> {
        self.cells.get(index).into_iter().flatten().flatten().map(String::as_str)
    }

    fn distinct(&self, index: usize) -> usize {
        self.values(index).collect::<HashSet<_>>().len()
    }

    /// Whether the values have the length of years, days or hours.
    fn is_small(&self, index: usize) -> bool {
        self.values(index).all(|value| value.trim().len() <= 4)
    }

    fn average_chars(&self, index: usize) -> usize {
        let chars: usize = self.values(index).map(|value| value.chars().count()).sum();
        chars / self.values(index).count().max(1)
    }

    /// The fields with a value in the most records, if no field has one in all of them.
    fn fullest(&self) -> Vec<usize> {
        let can_identify = |column: &&SampleColumn| {
            column.form.can_identify() && column.unit.is_none() && column.group.is_none()
        };
        let most = self.columns.iter().filter(can_identify).map(|column| column.filled).max();
        let is_fullest =
            |column: &SampleColumn| can_identify(&column) && Some(column.filled) == most && column.filled > 0;
        let found = (0..).zip(self.columns).filter(|(_, column)| is_fullest(column));
        found.map(|(index, _)| index).take(CANDIDATES_MAX).collect()
    }

    fn cell(&self, field: usize, record: usize) -> Option<&str> {
        self.cells.get(field)?.get(record)?.as_deref()
    }

    /// The values of a record, if it has one in each of these fields.
    fn key(&self, fields: &[usize], record: usize) -> Option<Vec<&str>> {
        fields.iter().map(|field| self.cell(*field, record)).collect()
    }

    /// The number of different combinations of values, in records with a value in each of these fields.
    fn count_keys(&self, fields: &[usize]) -> usize {
        let keys = self.distinct.iter().filter_map(|record| self.key(fields, *record));
        keys.collect::<HashSet<_>>().len()
    }

    /// Whether a field is an id, or the time of an observation or a part of it.
    fn is_id_or_time(&self, index: usize) -> bool {
        self.columns.get(index).is_some_and(|column| match self.rank(index, column) {
            IdentityRank::Id => true,
            IdentityRank::Name => column.form != ValueForm::Text || column.has_dates(),
            IdentityRank::Attribute | IdentityRank::Measured => false,
        })
    }

    /// The ids and times with a value in nearly all records.
    fn ids_and_times(&self) -> Vec<usize> {
        let mut fields = self.nearly_filled(IdentityRank::Name);
        fields.retain(|field| self.is_id_or_time(*field));
        fields
    }

    /// Whether records with the same values in `fields` differ in another of these ids and times.
    fn omits_key(&self, fields: &[usize], ids_and_times: &[usize]) -> bool {
        let mut firsts = HashMap::new();
        self.distinct.iter().any(|record| {
            let Some(key) = self.key(fields, *record) else { return false };
            let first: usize = *firsts.entry(key).or_insert(*record);
            let differs = |field: &usize| self.cell(*field, first) != self.cell(*field, *record);
            first != *record && ids_and_times.iter().any(differs)
        })
    }

    fn is_unique(&self, fields: &[usize]) -> bool {
        self.count_keys(fields) == self.distinct.len()
    }

    /// The number of records that fields do not identify, if they identify nearly all.
    fn exceptions(&self, fields: &[usize]) -> Option<usize> {
        let exceptions = self.distinct.len() - self.count_keys(fields);
        (exceptions * EXCEPTION_OF <= self.distinct.len()).then_some(exceptions)
    }

    /// The fields with a value in nearly all records, up to this rank.
    fn nearly_filled(&self, rank: IdentityRank) -> Vec<usize> {
        up_to(&self.candidates(|_| true), rank)
    }

    /// The identity of a single id that identifies nearly all records, or of ids and times among `names` that identify all of them.
    /// `None` if further ids or times are needed for the others.
    fn nearly_unique_id(&self, names: &[usize]) -> Option<FoundIdentity> {
        let ids = self.nearly_filled(IdentityRank::Id);
        let nearly: Vec<_> = ids.into_iter().filter_map(|id| Some((id, self.exceptions(&[id])?))).collect();
        if nearly.is_empty() {
            return None;
        }
        let exact: Vec<_> = names.iter().copied().filter(|field| self.is_id_or_time(*field)).collect();
        if let Some(fields) = self.smallest(&exact) {
            return Some(self.with_exceptions(fields, 0));
        }
        let ids_and_times = self.ids_and_times();
        let (id, exceptions) = nearly.into_iter().find(|(id, _)| !self.omits_key(&[*id], &ids_and_times))?;
        Some(self.with_exceptions(vec![id], exceptions))
    }

    /// The fewest fields without measured ones that identify nearly all records, with the ids and times by which others differ.
    fn nearly_unique(&self) -> Option<FoundIdentity> {
        let ids_and_times = self.ids_and_times();
        [IdentityRank::Name, IdentityRank::Attribute].into_iter().find_map(|rank| {
            let fields = self.nearly_filled(rank);
            let sizes = 1..=TRIED_FIELDS_MAX;
            let selections = sizes.flat_map(|size| combinations(&fields, size));
            let selections = selections.chain(self.reduced(&fields, self.count_keys(&fields)));
            let found = selections.filter_map(|chosen| {
                let exceptions = self.exceptions(&chosen)?;
                Some((chosen, exceptions))
            });
            let mut found = found.peekable();
            let first = found.peek().cloned()?;
            let complete = found.find(|(chosen, _)| !self.omits_key(chosen, &ids_and_times));
            let (chosen, exceptions) = complete.unwrap_or(first);
            Some(self.with_exceptions(chosen, exceptions))
        })
    }

    fn with_exceptions(&self, fields: Vec<usize>, exceptions: usize) -> FoundIdentity {
        let mut periods = self.constant_periods();
        periods.retain(|period| !fields.contains(period));
        let remarks = exceptions_remark(exceptions).into_iter().collect();
        FoundIdentity { fields: [fields, periods].concat(), is_found: true, remarks }
    }

    /// The first of the smallest selections that are unique.
    fn smallest(&self, fields: &[usize]) -> Option<Vec<usize>> {
        (1..=TRIED_FIELDS_MAX)
            .find_map(|size| combinations(fields, size).into_iter().find(|chosen| self.is_unique(chosen)))
    }

    /// The fewest fields without measured ones.
    fn without_measured(&self, names: &[usize], attributes: &[usize]) -> Option<Vec<usize>> {
        let records = self.distinct.len();
        self.smallest(names)
            .or_else(|| self.smallest(attributes))
            .or_else(|| self.reduced(names, records))
            .or_else(|| self.reduced(attributes, records))
    }

    /// Periods with one value in the sample: the next file probably has another one.
    fn constant_periods(&self) -> Vec<usize> {
        let is_constant = |(index, column): &(usize, &SampleColumn)| {
            matches!(column.form, ValueForm::Period { .. })
                && self.can_identify(column)
                && self.records > 1
                && self.distinct(*index) == 1
        };
        (0..).zip(self.columns).filter(is_constant).map(|(index, _)| index).collect()
    }

    /// All fields without those that are not needed for this number of keys, the least probable ones first.
    fn reduced(&self, fields: &[usize], keys: usize) -> Option<Vec<usize>> {
        let mut chosen = fields.to_vec();
        if chosen.is_empty() || self.count_keys(&chosen) != keys {
            return None;
        }
        for field in fields.iter().rev() {
            let fewer: Vec<_> = chosen.iter().filter(|other| *other != field).copied().collect();
            if !fewer.is_empty() && self.count_keys(&fewer) == keys {
                chosen = fewer;
            }
        }
        Some(chosen)
    }
}

fn exceptions_remark(records: usize) -> Option<SourceRemark> {
    (records > 0).then_some(SourceRemark::IdentityExceptions { records })
}

/// All selections of `size` items, in the order of the items.
fn combinations(items: &[usize], size: usize) -> Vec<Vec<usize>> {
    match (size, items.split_first()) {
        (0, _) => vec![Vec::new()],
        (_, None) => Vec::new(),
        (_, Some((first, rest))) => {
            let with_first = combinations(rest, size - 1).into_iter().map(|mut chosen| {
                chosen.insert(0, *first);
                chosen
            });
            with_first.chain(combinations(rest, size)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ground::new_source::columns::FoundColumns;
    use crate::ground::new_source::columns::tests::{found, record};
    use crate::ground::new_source::remark::SourceRemark;

    fn identity(found: &FoundColumns) -> Vec<&str> {
        found.columns.iter().filter(|column| column.is_identity).map(|column| column.axis.as_str()).collect()
    }

    fn codes(found: &FoundColumns) -> Vec<&str> {
        found.remarks.iter().map(SourceRemark::code).collect()
    }

    #[test]
    fn fewest_fields_that_are_unique_identify_a_record() {
        let record = |area: &str, code: &str, year: &str, value: &str| {
            record(&[("Area", area), ("Area Code", code), ("Year", year), ("Value", value)])
        };
        let records = [
            record("A", "1", "1999", "1.5"),
            record("A", "1", "2000", "1.5"),
            record("B", "2", "1999", "1.5"),
        ];
        let columns = found(&records, false);
        assert_eq!((identity(&columns), columns.has_identity), (vec!["area_code", "year"], true));
        let repeated = [record("A", "1", "1999", "1.5"), record("A", "1", "1999", "2.5")];
        assert!(!found(&repeated, false).has_identity);
        let equal = [repeated[0].clone(), repeated[0].clone(), record("B", "2", "1999", "1.5")];
        let equal = found(&equal, false);
        assert_eq!((identity(&equal), codes(&equal)), (vec!["area_code", "year"], vec![]));
    }

    #[test]
    fn identity_is_found_if_one_of_a_hundred_records_has_none() {
        let rows = |last: &[(&str, &str)]| -> Vec<_> {
            let row = |number: u32| {
                let (id, value) = (format!("k{number}"), format!("{number}.5"));
                record(&[("id", id.as_str()), ("name", "x"), ("value", value.as_str())])
            };
            (1..100).map(row).chain([record(last)]).collect()
        };
        for last in [
            &[("id", ""), ("name", "x"), ("value", "0.5")],
            &[("id", "k5"), ("name", "x"), ("value", "0.5")],
            &[("id", "k5"), ("name", "y"), ("value", "0.5")],
        ] {
            let found = found(&rows(last), false);
            assert_eq!(
                (identity(&found), found.has_identity, codes(&found)),
                (vec!["id"], true, vec!["identity_exceptions"]),
                "{last:?}"
            );
        }
        let few: Vec<_> = rows(&[("id", "k99"), ("name", "x"), ("value", "0.5")]).split_off(90);
        assert!(!found(&few, false).has_identity);
    }

    #[test]
    fn identity_has_the_second_id_if_a_few_records_need_it() {
        let row = |order: u32, line: &str, amount: &str| {
            let order = (10_000 + order).to_string();
            record(&[("order_id", order.as_str()), ("line_number", line), ("amount", amount)])
        };
        let firsts = (0..1000).map(|order| row(order, "1", "1.5"));
        let mut rows: Vec<_> = firsts.chain((0..8).map(|order| row(order, "2", "2.5"))).collect();
        let exact = found(&rows, false);
        assert_eq!((identity(&exact), codes(&exact)), (vec!["order_id", "line_number"], vec![]));
        rows.push(row(0, "1", "9.5"));
        let nearly = found(&rows, false);
        assert_eq!(
            (identity(&nearly), codes(&nearly)),
            (vec!["order_id", "line_number"], vec!["identity_exceptions"])
        );
    }
}
