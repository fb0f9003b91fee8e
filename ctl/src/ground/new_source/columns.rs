//! The fields of a sample: their types and their units.

use super::notation::{FoundForm, ValueForm, affix_code, find_form};
use super::remark::{SourceRemark, shown_list};
use domain_base::raw::SourceValue;
use domain_base::text_form::without_marks;
use domain_base::unit::UcumUnit;
use domain_ground::axis::is_group_key;
use domain_ground::ontology::AXES_MAX;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The deepest member of a record that becomes an axis.
const DEPTH_MAX: usize = 3;
/// The most fields of the records.
const FIELDS_MAX: usize = 4096;
/// The most values that are compared. With many fields, fewer records are.
const VALUES_MAX: usize = 4_000_000;
/// The fewest members of an object that are the keys of a group, if there are more fields than axes.
const GROUP_MEMBERS_MIN: usize = 16;

/// A field of the records, or a group of fields.
#[derive(Debug)]
pub(super) struct SampleColumn {
    /// The steps of its path; of a group, those of the object.
    pub(super) path: Vec<String>,
    /// The name of its axis.
    pub(super) axis: String,
    pub(super) form: ValueForm,
    /// The unit that its name or its cells contain, as in the source.
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
    /// The number of fields, if it is a group.
    pub(super) group: Option<usize>,
    pub(super) remarks: Vec<SourceRemark>,
}

impl SampleColumn {
    /// Whether its texts are probably measured, although they are not all numbers or dates.
    pub(super) fn has_measured_text(&self) -> bool {
        let is_measured = |remark: &SourceRemark| {
            matches!(
                remark,
                SourceRemark::Bounds { .. }
                    | SourceRemark::MostlyNumbers { .. }
                    | SourceRemark::MixedAffixes { .. }
                    | SourceRemark::Unread { is_measured: true, .. }
            )
        };
        self.remarks.iter().any(is_measured)
    }

    /// Whether its values are days or times, also if some of them are read as text.
    pub(super) fn has_dates(&self) -> bool {
        let is_of_dates = |remark: &SourceRemark| {
            matches!(remark, SourceRemark::MixedDates { .. } | SourceRemark::NoSuchDate { .. })
        };
        matches!(self.form, ValueForm::Date { .. }) || self.remarks.iter().any(is_of_dates)
    }
}

/// The fields of a sample, without an identity.
#[derive(Debug)]
pub(super) struct FoundFields {
    pub(super) columns: Vec<SampleColumn>,
    /// The values of each column, by record.
    pub(super) cells: Vec<FieldValues>,
    /// The number of records.
    pub(super) records: usize,
    /// The fields that no axis takes, for readers.
    pub(super) omitted: Vec<String>,
}

/// The values of a field, by record.
pub(super) type FieldValues = Vec<Option<String>>;

/// The fields of the records. `period` is the field with the names of unpivoted columns, if they are periods, and their format. With
/// more than `columns_max` fields, groups are formed.
///
/// # Errors
/// The records have too many fields.
pub(super) fn find_fields(
    records: &[SourceValue],
    period: Option<(&str, Option<&'static str>)>,
    columns_max: usize,
) -> Result<FoundFields, String> {
    let RecordFields { paths, nested } = RecordFields::of(records)?;
    let records = records.get(..VALUES_MAX / paths.len().max(1)).unwrap_or(records);
    let mut cells: Vec<FieldValues> = vec![vec![None; records.len()]; paths.len()];
    for (index, record) in records.iter().enumerate() {
        visit(record, &mut Vec::new(), &mut |path, value| {
            let values = paths.get(path).and_then(|field| cells.get_mut(*field));
            if let (Some(slot), FieldValue::Single(text)) =
                (values.and_then(|values| values.get_mut(index)), value)
            {
                *slot = text;
            }
        });
    }
    let mut ordered: Vec<_> = paths.iter().collect();
    ordered.sort_by_key(|(_, field)| **field);
    // a field that is a list in some records would reject them
    let (fields, mut omitted): (Vec<_>, Vec<_>) = ordered
        .into_iter()
        .map(|(path, field)| (path.clone(), *field))
        .partition(|(path, _)| !nested.contains(path));
    omitted.extend(nested.into_iter().filter(|path| !paths.contains_key(path)).map(|path| (path, 0)));
    let fields = fields.into_iter().map(|(path, field)| {
        let values = cells.get_mut(field).map(std::mem::take).unwrap_or_default();
        (path, values)
    });
    let mut sample = fold_groups(fields.collect(), columns_max)?;
    if sample.fields.is_empty() {
        let omitted = omitted.into_iter().map(|(path, _)| path.join("."));
        let omitted: Vec<_> = omitted.chain(sample.omitted).collect();
        return Err(format!(
            "no field of the records has single values; {} are lists or are nested too deeply: put each record on a line of its own, \
             such as by `jq`",
            shown_list(&omitted)
        ));
    }
    let mut names = HashSet::new();
    let mut columns = Vec::new();
    for (path, group, values) in &sample.fields {
        columns.push(column(path, *group, values, &mut names, period));
    }
    let cells: Vec<_> = sample.fields.drain(..).map(|(_, _, values)| values).collect();
    let mut omitted: Vec<_> = omitted.into_iter().map(|(path, _)| path.join(".")).collect();
    omitted.extend(sample.omitted);
    Ok(FoundFields { columns, cells, records: records.len(), omitted })
}

/// The column of a field or of a group of fields.
fn column(
    path: &[String],
    group: Option<usize>,
    values: &FieldValues,
    names: &mut HashSet<String>,
    period: Option<(&str, Option<&'static str>)>,
) -> SampleColumn {
    let name = path.last().cloned().unwrap_or_default();
    let (label, unit) = split_unit(&name);
    let of_period = period.filter(|(field, _)| *field == name).map(|(_, format)| format);
    let FoundForm { form, missing_values, mut remarks } = find_form(&label, values, of_period);
    let is_value = |value: &Option<String>| {
        value.as_ref().is_some_and(|value| !missing_values.iter().any(|word| word == value.trim()))
    };
    let in_cells = match &form {
        ValueForm::Number { affix: Some(affix), .. } => affix.unit().map(str::to_owned),
        _ => None,
    };
    let in_name = unit.filter(|_| form.is_number());
    let code_in_name = in_name.as_deref().and_then(unit_code);
    let (unit, code) = match in_cells {
        Some(unit) => (Some(unit.clone()), affix_code(&unit)),
        None => (in_name, code_in_name.clone()),
    };
    if let Some(unit) = unit.as_ref().filter(|_| code.is_none()) {
        remarks.push(SourceRemark::UnitUnknown { unit: unit.clone() });
    }
    remarks.extend(group.map(|fields| SourceRemark::Group { fields }));
    let axis = axis_name(if code_in_name.is_some() { &label } else { &name }, path, names);
    SampleColumn {
        axis: if group.is_some() { format!("{axis}.*") } else { axis },
        path: path.to_vec(),
        form,
        unit,
        unit_code: code,
        is_padded: values.iter().flatten().any(|value| value.trim() != value),
        filled: values.iter().filter(|value| is_value(value)).count(),
        missing_values,
        is_identity: false,
        group,
        remarks,
    }
}

/// The paths of the fields in their order, and those that are lists or too deep in a record.
struct RecordFields {
    paths: BTreeMap<Vec<String>, usize>,
    nested: BTreeSet<Vec<String>>,
}

impl RecordFields {
    fn of(records: &[SourceValue]) -> Result<Self, String> {
        let (mut paths, mut nested) = (BTreeMap::new(), BTreeSet::new());
        for record in records {
            visit(record, &mut Vec::new(), &mut |path, value| {
                let next = paths.len();
                match value {
                    FieldValue::Nested if nested.len() <= FIELDS_MAX => drop(nested.insert(path.to_vec())),
                    FieldValue::Single(_) if next <= FIELDS_MAX => {
                        paths.entry(path.to_vec()).or_insert(next);
                    }
                    _ => {}
                }
            });
        }
        match paths.len() + nested.len() {
            0..=FIELDS_MAX => Ok(Self { paths, nested }),
            _ => Err(format!(
                "the records have more than {FIELDS_MAX} fields; if their names are values, the list of records is another"
            )),
        }
    }
}

/// The fields after groups were formed.
struct FoldedFields {
    /// Paths with the number of fields of a group, and the values.
    fields: Vec<(Vec<String>, Option<usize>, FieldValues)>,
    omitted: Vec<String>,
}

/// If there are too many fields, the members of large objects become the keys of groups.
fn fold_groups(fields: Vec<(Vec<String>, FieldValues)>, columns_max: usize) -> Result<FoldedFields, String> {
    let mut folded = FoldedFields { fields: Vec::new(), omitted: Vec::new() };
    if fields.len() <= columns_max {
        folded.fields = fields.into_iter().map(|(path, values)| (path, None, values)).collect();
        return Ok(folded);
    }
    let mut members: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (path, _) in &fields {
        if let [parent @ .., _] = path.as_slice()
            && !parent.is_empty()
        {
            *members.entry(parent.to_vec()).or_default() += 1;
        }
    }
    let mut groups: BTreeMap<Vec<String>, FieldValues> = BTreeMap::new();
    for (path, values) in fields {
        let (parent, name) = match path.as_slice() {
            [parent @ .., name] => (parent.to_vec(), name.clone()),
            [] => continue,
        };
        match members.get(&parent).filter(|count| **count >= GROUP_MEMBERS_MIN) {
            None => folded.fields.push((path, None, values)),
            // another name needs a table of words
            Some(_) if !is_group_key(&name) => folded.omitted.push(path.join(".")),
            Some(_) => groups.entry(parent).or_default().extend(values.into_iter().filter(Option::is_some)),
        }
    }
    for (path, values) in groups {
        let count = members.get(&path).copied();
        folded.fields.push((path, count, values));
    }
    match folded.fields.len() {
        count if count <= columns_max => Ok(folded),
        count => Err(format!(
            "the records have {count} fields (at most {AXES_MAX} axes allowed); put those that are measured into one object of each record, which becomes a keyed group, or convert the file to CSV, whose columns `unpivot` turns into records"
        )),
    }
}

/// The value of a field.
enum FieldValue {
    /// `None` if it is null or blank.
    Single(Option<String>),
    /// A list, or an object that is too deep.
    Nested,
}

/// Passes each member that is no object to `take`.
fn visit(value: &SourceValue, path: &mut Vec<String>, take: &mut impl FnMut(&[String], FieldValue)) {
    let text = match value {
        SourceValue::Object(members) if path.len() < DEPTH_MAX => {
            for (name, member) in members {
                path.push(name.clone());
                visit(member, path, take);
                path.pop();
            }
            return;
        }
        SourceValue::Object(_) | SourceValue::List(_) => return take(path, FieldValue::Nested),
        SourceValue::Null => None,
        SourceValue::Bool(value) => Some(value.to_string()),
        SourceValue::Number(text) | SourceValue::Text(text) => {
            Some(text.clone()).filter(|text| !text.trim().is_empty())
        }
    };
    take(path, FieldValue::Single(text));
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
    // a number alone is a unit in UCUM, and the number of a field in a name
    if unit.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ') {
        return None;
    }
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
        without_marks(text)
            .chars()
            .map(plain)
            .collect::<String>()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join("_")
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
            ("column_7", "column_7", None),
        ] {
            assert_eq!(split_unit(name), (label.to_owned(), unit.map(str::to_owned)), "{name}");
        }
    }
}
