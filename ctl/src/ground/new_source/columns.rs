//! The fields of a sample: their types, their units, and those that identify a record.

use super::notation::{ValueForm, find_form};
use oracled_domain::base::raw::SourceValue;
use oracled_domain::base::unit::UcumUnit;
use std::collections::{BTreeMap, HashSet};

/// The deepest member of a record that becomes an axis.
const DEPTH_MAX: usize = 3;
/// The most fields of the records.
const FIELDS_MAX: usize = 512;
/// The most fields that are tried together as the identity of a record.
const IDENTITY_FIELDS_MAX: usize = 3;
/// The most fields that can identify a record; further ones are not tried.
const CANDIDATES_MAX: usize = 12;
/// Parts of the names of fields that usually identify a record.
const ID_WORDS: [&str; 8] = ["code", "iso", "key", "number", "uuid", "isin", "ean", "gtin"];

/// A field of the records.
#[derive(Debug)]
pub(super) struct SampleColumn {
    /// The steps of its path.
    pub(super) path: Vec<String>,
    /// The name of its axis.
    pub(super) axis: String,
    pub(super) form: ValueForm,
    /// The unit that its name contains, as in the source.
    pub(super) unit: Option<String>,
    /// The UCUM code of this unit; `None` if it is not known.
    pub(super) unit_code: Option<String>,
    /// The words for missing values.
    pub(super) missing_values: Vec<String>,
    /// Whether values have white space at an end.
    pub(super) is_padded: bool,
    /// The number of records with a value.
    pub(super) filled: usize,
    pub(super) is_identity: bool,
}

/// The fields of the records, and whether some of them identify a record.
///
/// # Errors
/// The records have too many fields.
pub(super) fn find_columns(
    records: &[SourceValue],
    period: Option<(&str, Option<&'static str>)>,
) -> Result<(Vec<SampleColumn>, bool), String> {
    let mut fields: Vec<(Vec<String>, Vec<Option<String>>)> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        visit(record, &mut Vec::new(), &mut |path, value| {
            let next = fields.len();
            let at = *known.entry(path.to_vec()).or_insert_with(|| {
                // further fields are only counted
                if next <= FIELDS_MAX {
                    fields.push((path.to_vec(), vec![None; records.len()]));
                }
                next
            });
            if let Some(slot) = fields.get_mut(at).and_then(|(_, values)| values.get_mut(index)) {
                *slot = value;
            }
        });
    }
    if known.len() > FIELDS_MAX {
        return Err(format!(
            "the records have {} fields (at most {FIELDS_MAX} allowed); if their names are values, the list of records is another",
            known.len()
        ));
    }
    let mut names = HashSet::new();
    let mut columns = Vec::new();
    let mut cells = Vec::new();
    for (path, values) in fields {
        let name = path.last().cloned().unwrap_or_default();
        let (label, unit) = split_unit(&name);
        let of_period = period.filter(|(field, _)| *field == name).map(|(_, format)| format);
        let (form, missing_values) = find_form(&label, &values, of_period);
        let is_value = |value: &Option<String>| {
            value.as_ref().is_some_and(|value| !missing_values.iter().any(|word| word == value.trim()))
        };
        let unit = unit.filter(|_| form.is_number());
        let unit_code = unit.as_deref().and_then(unit_code);
        columns.push(SampleColumn {
            axis: axis_name(if unit_code.is_some() { &label } else { &name }, &path, &mut names),
            path,
            form,
            unit,
            unit_code,
            is_padded: values.iter().flatten().any(|value| value.trim() != value),
            filled: values.iter().filter(|value| is_value(value)).count(),
            missing_values,
            is_identity: false,
        });
        cells.push(values);
    }
    let identity = find_identity(&columns, &cells, records.len());
    let is_found = identity.is_some();
    // without an identity, the fields that may be one: the reader of the documents removes some
    let chosen = identity.unwrap_or_else(|| candidates(&columns, records.len()));
    for (index, column) in columns.iter_mut().enumerate() {
        column.is_identity = chosen.contains(&index);
    }
    // the last identity axis is the one by which a query finds the latest record
    columns.sort_by_key(|column| (!column.is_identity, column.is_identity && column.form.is_time()));
    Ok((columns, is_found))
}

/// Passes each scalar member to `take`, with its text; `None` if it is null or blank.
fn visit(value: &SourceValue, path: &mut Vec<String>, take: &mut impl FnMut(&[String], Option<String>)) {
    let text = match value {
        SourceValue::Object(members) => {
            if path.len() < DEPTH_MAX {
                for (name, member) in members {
                    path.push(name.clone());
                    visit(member, path, take);
                    path.pop();
                }
            }
            return;
        }
        SourceValue::List(_) => return,
        SourceValue::Null => None,
        SourceValue::Bool(value) => Some(value.to_string()),
        SourceValue::Number(text) | SourceValue::Text(text) => {
            Some(text.clone()).filter(|text| !text.trim().is_empty())
        }
    };
    take(path, text);
}

/// The name of a field without its unit, and the unit: `Height (m)`, `height [m]`, `height_m`.
fn split_unit(name: &str) -> (String, Option<String>) {
    let trimmed = name.trim();
    for (open, close) in [('(', ')'), ('[', ']')] {
        if let Some((label, unit)) = trimmed.strip_suffix(close).and_then(|rest| rest.rsplit_once(open))
            && !label.trim().is_empty()
            && !unit.trim().is_empty()
        {
            return (label.trim().to_owned(), Some(unit.trim().to_owned()));
        }
    }
    for separator in [" in ", "_in_", ", ", "_", " "] {
        if let Some((label, unit)) = trimmed.rsplit_once(separator)
            && !label.trim().is_empty()
            && unit_code(unit).is_some()
        {
            return (label.trim().to_owned(), Some(unit.trim().to_owned()));
        }
    }
    (trimmed.to_owned(), None)
}

/// The UCUM code of a unit in the name of a field.
fn unit_code(unit: &str) -> Option<String> {
    let spelled = match unit.trim() {
        "sqm" | "m²" => "m2",
        "sqkm" | "km²" => "km2",
        "m³" => "m3",
        "pct" | "Pct" => "%",
        other => other,
    };
    UcumUnit::from_spelling(spelled).ok().map(|unit| unit.code().to_owned())
}

/// A name of `a-z 0-9 _` with a letter first, which no other axis has.
fn axis_name(label: &str, path: &[String], names: &mut HashSet<String>) -> String {
    let parent = path.len().checked_sub(2).and_then(|at| path.get(at));
    let words = |text: &str| {
        let plain = |character: char| {
            if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { ' ' }
        };
        text.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join("_")
    };
    let mut name = words(label);
    if names.contains(&name)
        && let Some(parent) = parent
    {
        name = format!("{}_{name}", words(parent));
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        name = format!("field_{name}");
    }
    name.truncate(60);
    let name = name.trim_end_matches('_').to_owned();
    let unused = (2..).map(|number| format!("{name}_{number}"));
    let name = [name.clone()].into_iter().chain(unused).find(|name| !names.contains(name)).unwrap_or(name);
    names.insert(name.clone());
    name
}

/// Whether the name of a field is that of an id.
fn is_id(column: &SampleColumn) -> bool {
    column.axis.split('_').any(|word| word == "id") || ID_WORDS.iter().any(|word| column.axis.ends_with(word))
}

/// Whether a field probably has measured values.
fn is_measured(column: &SampleColumn) -> bool {
    column.form.is_number() && !is_id(column)
}

/// The fields that can identify a record: every record has a value, which is not a number with a fraction. Those that look like
/// ids are first, and other numbers last, since they are probably measured.
fn candidates(columns: &[SampleColumn], records: usize) -> Vec<usize> {
    let can_identify = |column: &SampleColumn| {
        column.filled == records && column.form.can_identify() && column.unit.is_none()
    };
    let mut found: Vec<_> =
        (0..).zip(columns).filter(|(_, column)| can_identify(column)).map(|(index, _)| index).collect();
    let rank = |index: &usize| columns.get(*index).map(|column| (is_measured(column), !is_id(column)));
    found.sort_by_key(rank);
    found.truncate(CANDIDATES_MAX);
    found
}

/// The fewest fields whose values together occur only once.
fn find_identity(
    columns: &[SampleColumn],
    cells: &[Vec<Option<String>>],
    records: usize,
) -> Option<Vec<usize>> {
    let all = candidates(columns, records);
    let is_probable = |field: &&usize| columns.get(**field).is_some_and(|column| !is_measured(column));
    let probable: Vec<_> = all.iter().filter(is_probable).copied().collect();
    let is_unique = |fields: &[usize]| {
        let mut seen = HashSet::new();
        (0..records).all(|record| {
            let key: Vec<_> =
                fields.iter().map(|field| cells.get(*field).and_then(|values| values.get(record))).collect();
            seen.insert(key)
        })
    };
    [probable, all].into_iter().find_map(|fields| {
        (1..=IDENTITY_FIELDS_MAX)
            .find_map(|size| combinations(&fields, size).into_iter().find(|chosen| is_unique(chosen)))
    })
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
    use super::*;

    #[test]
    fn unit_is_split_from_the_name_of_a_field() {
        for (name, label, unit) in [
            ("Height (m)", "Height", Some("m")),
            ("area [km2]", "area", Some("km2")),
            ("height_m", "height", Some("m")),
            ("Weight in kg", "Weight", Some("kg")),
            ("share_pct", "share", Some("pct")),
            ("Population, total", "Population, total", None),
            ("city", "city", None),
            ("(m)", "(m)", None),
        ] {
            assert_eq!(split_unit(name), (label.to_owned(), unit.map(str::to_owned)), "{name}");
        }
    }

    #[test]
    fn fewest_fields_that_are_unique_identify_a_record() {
        let record = |area: &str, code: &str, year: &str| {
            SourceValue::Object(
                [("Area", area), ("Area Code", code), ("Year", year), ("Value", "1.5")]
                    .map(|(name, value)| (name.to_owned(), SourceValue::Text(value.to_owned())))
                    .to_vec(),
            )
        };
        let records = [record("A", "1", "1999"), record("A", "1", "2000"), record("B", "2", "1999")];
        let (columns, is_found) = find_columns(&records, None).expect("few fields");
        let identity: Vec<_> =
            columns.iter().filter(|column| column.is_identity).map(|column| column.axis.as_str()).collect();
        assert_eq!((identity, is_found), (vec!["area_code", "year"], true));
        let repeated = [record("A", "1", "1999"), record("A", "1", "1999")];
        let (_, is_found) = find_columns(&repeated, None).expect("few fields");
        assert!(!is_found);
    }
}
