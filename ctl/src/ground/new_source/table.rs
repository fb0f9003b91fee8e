//! The form of a table: its delimiter, the lines before its header, and columns that are periods.

use oracled_domain::base::pattern::compile_pattern;
use oracled_domain::ground::format::{ColumnUnpivot, CsvDelimiter, PayloadFormat};
use std::collections::HashMap;

/// The lines by which the form is recognized.
const LINES: usize = 500;
/// Columns that are named by periods: their pattern, the name of the new field, and the format of the periods, if it is not the
/// canonical one.
const PERIODS: [(&str, &str, Option<&str>); 7] = [
    ("[0-9]{4}", "Year", None),
    (r"[0-9]{4} \[YR[0-9]{4}\]", "Year", Some("%Y [YR%Y]")),
    ("[0-9]{4}-[0-9]{2}", "Month", None),
    ("[0-9]{4}M[0-9]{2}", "Month", Some("%YM%m")),
    ("[0-9]{4}-Q[1-4]", "Quarter", None),
    ("[0-9]{4}Q[1-4]", "Quarter", Some("%YQ%q")),
    ("[0-9]{4} Q[1-4]", "Quarter", Some("%Y Q%q")),
];
/// The fewest columns that make a table wide.
const WIDE_COLUMNS: usize = 3;

/// The format of a table, and the format of its periods, if it is wide.
pub(super) fn find_table(text: &str) -> Result<(PayloadFormat, Option<&'static str>), String> {
    let lines: Vec<_> = text.trim_start_matches('\u{feff}').lines().take(LINES).collect();
    let score = |delimiter: char| {
        let counts =
            lines.iter().filter(|line| !line.trim().is_empty()).map(|line| fields(line, delimiter).len());
        let mut lines_by_count = HashMap::new();
        counts.for_each(|count| *lines_by_count.entry(count).or_insert(0_usize) += 1);
        let usual = lines_by_count.into_iter().filter(|(count, _)| *count > 1);
        usual.max_by_key(|(count, lines)| (*lines, *count)).map(|(count, lines)| (lines, count, delimiter))
    };
    let best =
        [',', ';', '\t', '|'].into_iter().filter_map(score).max_by_key(|(lines, count, _)| (*lines, *count));
    let (count, delimiter) = match best {
        Some((_, count, delimiter)) => (count, delimiter),
        // a table with one column
        None => (1, ','),
    };
    let is_header = |line: &&str| !line.trim().is_empty() && fields(line, delimiter).len() == count;
    let skipped = lines.iter().position(is_header).ok_or("the file has no header line")?;
    let skip_lines = u16::try_from(skipped).map_err(|error| error.to_string())?;
    let header = lines.get(skipped).map(|line| fields(line, delimiter)).unwrap_or_default();
    let wide = find_periods(&header);
    let period = wide.as_ref().and_then(|(_, format)| *format);
    let unpivot = wide.map(|(unpivot, _)| unpivot);
    if delimiter == '\t' && !lines.iter().any(|line| line.contains('"')) {
        return Ok((PayloadFormat::Tsv { skip_lines, unpivot }, period));
    }
    let delimiter = CsvDelimiter::try_from(delimiter).map_err(|error| error.to_string())?;
    Ok((PayloadFormat::Csv { delimiter, quote: true, skip_lines, unpivot }, period))
}

/// The columns of a header that are named by periods.
fn find_periods(header: &[String]) -> Option<(ColumnUnpivot, Option<&'static str>)> {
    PERIODS.into_iter().find_map(|(pattern, name, format)| {
        let whole = compile_pattern(pattern).ok()?;
        let selected = header.iter().filter(|column| whole.is_match(column)).count();
        let free = |name: &str| {
            let mut name = name.to_owned();
            while header.contains(&name) {
                name.push('_');
            }
            name
        };
        let unpivot = ColumnUnpivot { columns: pattern.to_owned(), name: free(name), value: free("Value") };
        (selected >= WIDE_COLUMNS).then_some((unpivot, format))
    })
}

/// The fields of one line. A quoted field that continues in the next line ends with this one.
fn fields(line: &str, delimiter: char) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            _ if character == delimiter && !is_quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(character),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_a_table_is_recognized() {
        let csv = |delimiter: char, skip_lines: u16, unpivot: Option<ColumnUnpivot>| PayloadFormat::Csv {
            delimiter: CsvDelimiter::try_from(delimiter).expect("a delimiter"),
            quote: true,
            skip_lines,
            unpivot,
        };
        let unpivot = |columns: &str, name: &str| ColumnUnpivot {
            columns: columns.to_owned(),
            name: name.to_owned(),
            value: "Value".to_owned(),
        };
        let wide = "\"Source\",\"WDI\",\n\n\"Updated\",\"2026\",\n\n\"Code\",\"1960\",\"1961\",\"1962\",\n\"A\",1,2,3,\n\"B, C\",1,2,3,\n";
        for (text, expected, period) in [
            ("city,height\nA,1\nB,2\n", csv(',', 0, None), None),
            ("city;height\nA;1,5\nB;2,5\n", csv(';', 0, None), None),
            ("city\theight\nA\t1\n", PayloadFormat::Tsv { skip_lines: 0, unpivot: None }, None),
            ("city\theight\n\"A\"\t1\n", csv('\t', 0, None), None),
            ("city\nA\n", csv(',', 0, None), None),
            ("A title\ncity,height\nA,1\nB,2\n", csv(',', 1, None), None),
            (wide, csv(',', 4, Some(unpivot("[0-9]{4}", "Year"))), None),
            (
                "a,2024Q1,2024Q2,2024Q3\nb,1,2,3\n",
                csv(',', 0, Some(unpivot("[0-9]{4}Q[1-4]", "Quarter"))),
                Some("%YQ%q"),
            ),
        ] {
            assert_eq!(find_table(text), Ok((expected, period)), "{text}");
        }
    }

    #[test]
    fn new_field_of_a_wide_table_has_no_name_of_a_column() {
        let (unpivot, _) =
            find_periods(&["Year", "1999", "2000", "2001"].map(str::to_owned)).expect("a wide table");
        assert_eq!((unpivot.name.as_str(), unpivot.value.as_str()), ("Year_", "Value"));
    }
}
