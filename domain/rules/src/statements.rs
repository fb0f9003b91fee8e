//! Statements of texts and of facts in the form in which RULE-PREC-013 compares them: parts with their subject, words,
//! quantities, polarity and conditions.

mod derivation;
mod fact_parts;
mod form;
mod form_reader;
mod language;
mod layout;
mod listed_words;
mod part;
mod quantity;
mod sentence;
mod stem;
mod tokens;
mod unit;
mod verb;

pub(crate) use derivation::Derivation;
pub(crate) use fact_parts::{EXAMINED_MAX, FactParts};
pub(crate) use language::LanguageTables;
pub(crate) use layout::read_text;
pub use listed_words::ReservedUse;
pub(crate) use listed_words::{is_read_after_number, read_entry, read_unit};
pub(crate) use part::Part;
pub(crate) use quantity::begins_with_unit;
pub(crate) use sentence::Sentence;
