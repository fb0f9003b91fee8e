//! Statements of texts and of facts in the form in which RULE-PREC-013 compares them: parts with their subject, words,
//! quantities, polarity and conditions.

mod fact_parts;
mod form;
mod form_reader;
mod language;
mod part;
mod quantity;
mod sentence;
mod stem;
mod tokens;
mod unit;
mod verb;

pub(crate) use fact_parts::{EXAMINED_MAX, FactPart, FactParts};
pub use language::TextLanguage;
pub(crate) use part::Part;
pub(crate) use quantity::begins_with_unit;
pub(crate) use sentence::{Sentence, TextReader};
