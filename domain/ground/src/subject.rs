//! The subject of values in words.

use crate::ontology::Ontology;
use crate::value::AxisValue;
use std::collections::BTreeMap;

/// The names of the values of a subject, by axis: the values of axes such as `area_name`, which is the name of the value of `area`, in
/// the record `values`.
#[must_use]
pub fn name_subject<'a>(
    axes: impl IntoIterator<Item = &'a String>,
    values: &BTreeMap<String, AxisValue>,
) -> BTreeMap<String, AxisValue> {
    let name = |axis: &String| Some((axis.clone(), values.get(&format!("{axis}_name"))?.clone()));
    axes.into_iter().filter_map(name).collect()
}

/// The title of values on `axes`, in words, such as "Population, Aruba, 2000". `names` replace values of the subject, by axis.
#[must_use]
pub fn title_subject<'a>(
    axes: impl IntoIterator<Item = &'a String>,
    ontology: Option<&Ontology>,
    subject: &BTreeMap<String, AxisValue>,
    names: &BTreeMap<String, AxisValue>,
) -> String {
    let axes: Vec<_> = axes.into_iter().map(|path| path.replace(['_', '.'], " ")).collect();
    let identity = ontology.into_iter().flat_map(Ontology::identity).map(|axis| axis.axis.as_str());
    let ordered: Vec<_> = identity.filter(|axis| subject.contains_key(*axis)).collect();
    let others = subject.keys().map(String::as_str).filter(|axis| !ordered.contains(axis));
    let values = ordered
        .iter()
        .copied()
        .chain(others)
        .filter_map(|axis| names.get(axis).or_else(|| subject.get(axis)).map(ToString::to_string));
    let title = [axes.join(" and ")].into_iter().chain(values).collect::<Vec<_>>().join(", ");
    let mut characters = title.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_titled_by_the_names_of_its_values() {
        let values = |pairs: &[(&str, &str)]| {
            let value =
                |(axis, text): &(&str, &str)| ((*axis).to_owned(), AxisValue::Text((*text).to_owned()));
            pairs.iter().map(value).collect::<BTreeMap<_, _>>()
        };
        let subject = values(&[("area", "ABW"), ("year", "2000")]);
        let record =
            values(&[("area", "ABW"), ("area_name", "Aruba"), ("population", "90588"), ("year", "2000")]);
        let names = name_subject(subject.keys(), &record);
        assert_eq!(names, values(&[("area", "Aruba")]));
        let axis = "total_population".to_owned();
        assert_eq!(title_subject([&axis], None, &subject, &names), "Total population, Aruba, 2000");
        assert_eq!(title_subject([&axis], None, &subject, &BTreeMap::new()), "Total population, ABW, 2000");
    }
}
