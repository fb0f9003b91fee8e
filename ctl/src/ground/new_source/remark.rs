//! Remarks on guesses that can be wrong. The documents have them as comments.

use crate::base::output::shorten_line;
use domain_base::wording::format_count;
use domain_ground::format::TextEncoding;
use std::fmt;
use strum::IntoStaticStr;

/// The most characters of a foreign text in a remark.
const SHOWN_CHARS: usize = 40;
/// The most names in a remark.
const SHOWN_NAMES: usize = 20;

/// A guess that can be wrong, or a part of the file that the documents do not read.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum SourceRemark {
    /// The file is not UTF-8. One of its words with letters outside ASCII, as it is read; empty if there is none.
    EncodingGuessed {
        encoding: TextEncoding,
        word: String,
    },
    LinesSkipped {
        count: u16,
        first: String,
    },
    CommentLines {
        mark: String,
    },
    /// The header has more or fewer names than the rows have fields.
    HeaderLength {
        names: usize,
        fields: usize,
    },
    NoHeader,
    /// All columns are text, so the first row can be a record.
    HeaderUncertain,
    RepeatedName {
        name: String,
    },
    /// Columns that become records.
    Unpivoted {
        columns: usize,
    },
    PartialSample {
        records: usize,
    },
    /// The file has one record.
    OneRecord,
    /// Further lists of objects in a JSON document, by their paths.
    OtherLists {
        chosen: String,
        others: Vec<String>,
    },
    /// Fields that no axis takes.
    NoAxis {
        fields: Vec<String>,
    },
    NoIdentity,
    MeasuredIdentity,
    /// A few records have no value on an axis of the identity, or the identity of another record.
    IdentityExceptions {
        records: usize,
    },
    /// Dimensions of SDMX with one value in the sample.
    ConstantDimensions {
        axes: Vec<String>,
    },

    UnitUnknown {
        unit: String,
    },
    NoValue,
    MissingValues {
        records: usize,
    },
    Season,
    SectionNumbers,
    /// Different texts that are the same number.
    EqualNumbers {
        one: String,
        other: String,
    },
    MostlyNumbers {
        numbers: usize,
        values: usize,
        words: Vec<String>,
    },
    Bounds {
        value: String,
    },
    MixedAffixes {
        affixes: Vec<String>,
    },
    Sentinel {
        values: Vec<String>,
    },
    KeptWords {
        words: Vec<String>,
    },
    /// A date of each form.
    MixedDates {
        values: Vec<String>,
    },
    /// A few texts among dates are none.
    RejectedDates {
        /// Examples of them.
        values: Vec<String>,
        records: usize,
    },
    /// A text in the form of the other dates, such as 30 February.
    NoSuchDate {
        value: String,
    },
    /// Texts that are probably numbers or dates, in a form that is not read.
    Unread {
        values: Vec<String>,
        /// Whether they are probably measured. A range, a day or a time can identify a record.
        is_measured: bool,
    },
    /// A text such as 1E5 among digits.
    ExponentCodes {
        value: String,
    },
    /// An integer with an exponent, such as 1E+05.
    Exponents {
        value: String,
    },
    /// An integer with more digits than spreadsheets keep.
    LongNumbers {
        value: String,
    },

    MissingWords,
    BooleanWords,
    Group {
        fields: usize,
    },
    /// The numbers can be read with either decimal mark.
    DecimalMark {
        /// Why they have their mark; `None` if nothing shows one.
        as_in: Option<MarkOrigin>,
    },
    DateOrder {
        format: String,
        other: String,
    },
    CompactDates {
        value: String,
        /// Whether they are read as dates; else as numbers.
        are_read: bool,
    },
    TwoDigitYears,
    /// Some years have two digits, others four.
    ShortYears {
        values: usize,
    },
    LocalTimes,
    Affix,
    Accounting,
}

/// The evidence for a decimal mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MarkOrigin {
    /// Another field, by its name.
    Field(String),
    /// The numbers of the field without a mark.
    Lengths,
    /// The semicolons between the fields.
    Semicolons,
    /// Dates such as 31.12.2024.
    Dates,
}

/// The line of the documents that has a remark on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemarkPlace {
    Axis,
    Mapping,
    Normalizer,
}

impl SourceRemark {
    /// The name for programs.
    pub(super) const fn code(&self) -> &'static str {
        self.into_str()
    }

    pub(super) const fn place(&self) -> RemarkPlace {
        match self {
            Self::MissingWords | Self::Group { .. } => RemarkPlace::Mapping,
            Self::BooleanWords
            | Self::DecimalMark { .. }
            | Self::DateOrder { .. }
            | Self::CompactDates { are_read: true, .. }
            | Self::TwoDigitYears
            | Self::ShortYears { .. }
            | Self::LocalTimes
            | Self::Affix
            | Self::Accounting => RemarkPlace::Normalizer,
            _ => RemarkPlace::Axis,
        }
    }
}

/// Names or words in a list that is not too long, without line ends and other control characters.
pub(super) fn shown_list(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN_NAMES).map(|name| shown(name)).collect();
    match names.len().checked_sub(SHOWN_NAMES) {
        Some(more) if more > 0 => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

fn shown(text: &str) -> String {
    format!("`{}`", shorten_line(text, SHOWN_CHARS))
}

impl SourceRemark {
    /// The text of a remark on the file.
    fn text_of_source(&self) -> Option<String> {
        Some(match self {
            Self::EncodingGuessed { encoding, word } => {
                let name = serde_json::to_string(encoding).unwrap_or_default();
                let (cause, remedy) = match encoding {
                    TextEncoding::Utf16Le | TextEncoding::Utf16Be => ("has NUL bytes as in UTF-16", "change"),
                    TextEncoding::Utf8 | TextEncoding::Latin1 => (
                        "is not UTF-8",
                        "convert the file to UTF-8 (`iconv -f windows-1250 -t utf-8`), and remove",
                    ),
                };
                let example = if word.is_empty() { String::new() } else { format!(", with {}", shown(word)) };
                format!(
                    "the file {cause}, and its encoding is a guess: {}{example}; if words are wrong, {remedy} `encoding`",
                    name.trim_matches('"')
                )
            }
            Self::LinesSkipped { count, first } => {
                let lines = format_count(u64::from(*count), "line", "lines");
                format!("{lines} before the first row: {}", shown(first))
            }
            Self::CommentLines { mark } => format!("lines that begin with `{mark}` are comments"),
            Self::HeaderLength { names, fields } => format!(
                "the header has {names} names, and the rows have {fields} fields: check which name belongs to which column; with \
                 `columns`, the header line is not read"
            ),
            Self::NoHeader => {
                String::from("the file has no header line: name the columns, here and in `source_field`")
            }
            Self::HeaderUncertain => String::from(
                "the first row is read as the header; if it is a record, add `columns` with the names of the columns",
            ),
            Self::RepeatedName { name } => format!(
                "the header has {} more than once: check the names; with `columns`, the header line is not read",
                shown(name)
            ),
            Self::Unpivoted { columns } => {
                format!(
                    "each of {columns} columns becomes a record of its own; if they are axes, remove `unpivot`"
                )
            }
            Self::PartialSample { records } => {
                format!("types and identity are from the first {records} records")
            }
            Self::OneRecord => String::from(
                "the file has one record: types and identity are guesses; if its members are records, put each of them on a line of \
                 its own, such as by `jq`",
            ),
            Self::OtherLists { chosen, others } => format!(
                "the records are the objects at {}; if they are those at {}, change `records`",
                shown(chosen),
                shown_list(others)
            ),
            _ => return None,
        })
    }

    /// The text of a remark on the fields that identify a record, or have no axis.
    fn text_of_identity(&self) -> Option<String> {
        Some(match self {
            Self::NoAxis { fields } => format!("no axis takes: {}", shown_list(fields)),
            Self::NoIdentity => String::from(
                "no few fields identify a record in the sample: several records have the same values on all axes with `identity`, or \
                 no value on one of them",
            ),
            Self::MeasuredIdentity => String::from(
                "no other fields identify a record: check that these values do not change with a later file",
            ),
            Self::IdentityExceptions { records } => {
                let records = format_count(*records as u64, "record", "records");
                format!(
                    "the identity holds for nearly all of the sample: {records} without a value on its axes, or with the identity of another \
                     record, will be rejected"
                )
            }
            Self::ConstantDimensions { axes } => format!(
                "dimensions with one value in the sample; if the files can have others, add `identity: true` to: {}",
                shown_list(axes)
            ),
            _ => return None,
        })
    }

    /// The text of a remark on the type of an axis or on its values.
    fn text_of_axis(&self) -> Option<String> {
        Some(match self {
            Self::UnitUnknown { unit } => {
                format!("the unit {} is not known; add `unit` with its UCUM code", shown(unit))
            }
            Self::NoValue => String::from("no record of the sample has a value"),
            Self::MissingValues { records } => {
                let records = format_count(*records as u64, "record", "records");
                format!("without a value in {records} of the sample")
            }
            Self::Season => String::from(
                "seasons such as 2008-09, from one year to the next; if they are months, change the type to `month`",
            ),
            Self::SectionNumbers => String::from(
                "numbers of sections or versions (1.10 is not 1.1); if they are quantities, change the type to `number`",
            ),
            Self::EqualNumbers { one, other } => format!(
                "{} and {} are the same number; if they are names, change the type to `string`",
                shown(one),
                shown(other)
            ),
            Self::MostlyNumbers { numbers, values, words } => format!(
                "{numbers} of {values} values are numbers; if {} mean that a value is missing, name them in `missing_values`, and \
                 change the type to `number`",
                shown_list(words)
            ),
            Self::Bounds { value } => {
                format!("text, since values such as {} are bounds, not numbers", shown(value))
            }
            Self::MixedAffixes { affixes } => {
                format!("text, since the numbers have different signs or units: {}", shown_list(affixes))
            }
            Self::Sentinel { values } => {
                let values = shown_list(values);
                format!("if {values} means that a value is missing, name it in `missing_values`")
            }
            Self::KeptWords { words } => format!(
                "{} are values; if they mean that a value is missing, name them in `missing_values`",
                shown_list(words)
            ),
            Self::ExponentCodes { value } => format!(
                "text, since {} can be a code; if it is a number with an exponent, change the type to `number`",
                shown(value)
            ),
            Self::Exponents { value } => format!(
                "{} is read as a number with an exponent; if it is a code, change the type to `string`",
                shown(value)
            ),
            Self::LongNumbers { value } => {
                format!("{} is read as a number; if it is a code, change the type to `string`", shown(value))
            }
            Self::CompactDates { value, are_read: false } => format!(
                "{} is read as a number; if it is a date, change the type to `date`, and add a `date_parsing` normalizer with \
                 `formats: [\"%Y%m%d\"]`",
                shown(value)
            ),
            _ => return None,
        })
    }

    /// The text of a remark on texts that are probably numbers or dates.
    fn text_of_unread(&self) -> Option<String> {
        Some(match self {
            Self::MixedDates { values } => {
                format!("text, since the dates have different forms: {}", shown_list(values))
            }
            Self::RejectedDates { values, records } => {
                let records = format_count(*records as u64, "value", "values");
                format!(
                    "{records} of the sample will be rejected, since they are in another form, or no dates: {}",
                    shown_list(values)
                )
            }
            Self::NoSuchDate { value } => format!(
                "text, since {} is no date or time that exists; with the type `date`, such records are rejected",
                shown(value)
            ),
            Self::Unread { values, .. } => format!(
                "text, since {} can be numbers, dates or times in a form that is not read; if they are, convert them, or add \
                 `value_normalizers`, and change the type",
                shown_list(values)
            ),
            _ => return None,
        })
    }

    /// The text of a remark on how the values of an axis are read.
    fn text_of_reading(&self) -> Option<String> {
        Some(match self {
            Self::MissingWords => String::from("the words for a missing value"),
            Self::BooleanWords => String::from("the words for true and false"),
            Self::Group { fields } => {
                format!("{fields} fields are the keys of one group, since an ontology has at most 256 axes")
            }
            Self::DecimalMark { as_in } => {
                let cause = match as_in {
                    None => String::new(),
                    Some(MarkOrigin::Field(field)) => format!("read with the mark of {}, and ", shown(field)),
                    Some(MarkOrigin::Lengths) => {
                        String::from("read with the mark that fits the numbers without one, and ")
                    }
                    Some(MarkOrigin::Semicolons) => String::from(
                        "read with a decimal comma, which is usual with `;` between fields, and ",
                    ),
                    Some(MarkOrigin::Dates) => String::from(
                        "read with a decimal comma, which is usual beside dates such as 31.12.2024, and ",
                    ),
                };
                format!("{cause}the sample can also be read with the other mark: check the numbers")
            }
            Self::DateOrder { format, other } => {
                format!(
                    "read as {}, and the sample can also be read as {}: check the dates",
                    shown(format),
                    shown(other)
                )
            }
            Self::CompactDates { value, .. } => format!(
                "{} is read as a date or a month; if it is a number, change the type to `integer`, and remove this line",
                shown(value)
            ),
            Self::TwoDigitYears => String::from(
                "years with two digits: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068; check them",
            ),
            Self::ShortYears { values } => {
                let dates = format_count(*values as u64, "date", "dates");
                format!("{dates} of the sample with a year of two digits will be rejected")
            }
            Self::LocalTimes => String::from(
                "times without an offset: check the time zone, such as Europe/Vienna; UTC is a guess",
            ),
            Self::Affix => String::from("the sign or the unit in the cells is removed: check it"),
            Self::Accounting => String::from("numbers in parentheses are read as negative: check it"),
            _ => return None,
        })
    }
}

impl fmt::Display for SourceRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text_of_source().or_else(|| self.text_of_identity());
        let text = text.or_else(|| self.text_of_axis()).or_else(|| self.text_of_unread());
        let text = text.or_else(|| self.text_of_reading());
        f.write_str(text.as_deref().unwrap_or(self.code()))
    }
}
