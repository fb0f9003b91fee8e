//! Quantities that follow from two facts, for checks that allow it: sums, differences and percentage changes (seeds:
//! `oracle-a-rules`, RULE-PREC-001, "derivable via an explicitly defined rule").

use super::fact_parts::FactParts;
use super::form::{Form, Item, PlacedQuantity, TIME};
use super::language::Tense;
use super::part::Part;
use super::quantity::Quantity;
use crate::result::{ClaimAspect, ClaimComparison, ComparisonResult};
use domain_base::decimal::{Decimal, Rounding};

/// A quantity that two facts give.
pub(crate) struct Derivation {
    pub(crate) facts: [u32; 2],
    pub(crate) comparison: ClaimComparison,
}

/// A calculation that a claim states.
struct Calculation<'p> {
    operation: Operation,
    /// The forms of the two facts, with an amount that is to be found.
    terms: [Form; 2],
    result: &'p PlacedQuantity,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// "X and Y cost 138 € together".
    Sum,
    /// "X costs 40 € more than Y".
    Difference,
    /// "X rose by 10 % from 2020 to 2021", of the first to the second.
    Growth,
    /// "X fell by 10 % from 2020 to 2021".
    Decline,
}

impl FactParts {
    /// Two facts from which the quantity of `part` follows. It takes from `left` the number of parts that it examines.
    pub(crate) fn derive(&self, part: &Part, left: &mut usize) -> Option<Derivation> {
        let is_plain = |item: &Item| !matches!(item, Item::Negation(_) | Item::Qualifier(_));
        if part.undecidable.is_some()
            || part.is_joined
            || !part.frames.is_empty()
            || !part.form.verb.iter().all(is_plain)
        {
            return None;
        }
        let Calculation { operation, terms: [one, other], result } = Calculation::of(&part.form)?;
        result.exact()?;
        let (first, one, tense) = self.amount_of(&one, part, operation, left)?;
        let (second, other, other_tense) = self.amount_of(&other, part, operation, left)?;
        if first == second || tense != other_tense {
            return None;
        }
        let (text, is_rounded) = operation.gives(&one, &other, &result.quantity)?;
        let comparison = ClaimComparison {
            aspect: ClaimAspect::Quantity,
            claim: result.shown(),
            fact: text,
            result: if is_rounded { ComparisonResult::Rounded } else { ComparisonResult::Derived },
        };
        Some(Derivation { facts: [first, second], comparison })
    }

    /// The fact with the form `term`, its amount and its tense; `None` if facts state different ones.
    fn amount_of(
        &self,
        term: &Form,
        part: &Part,
        operation: Operation,
        left: &mut usize,
    ) -> Option<(u32, Quantity, Option<Tense>)> {
        let mut found: Option<(u32, Quantity, Option<Tense>)> = None;
        for (fact, stated) in self.with_words_of(term, left) {
            // "they cost" is the present of "it costs", "it cost" is not
            let is_plural = matches!(operation, Operation::Sum) && part.tense.is_none();
            let is_tense_same = is_plural
                || part.tense.is_some() && part.tense == stated.tense
                || part.form.has_same_verb_form(&stated.form);
            let is_open = stated.frames.is_empty() && is_tense_same && term.is_in(&stated.form);
            let Some(amount) = stated.form.amount().filter(|_| is_open) else { continue };
            match &found {
                Some((_, known, tense))
                    if known.as_number() != amount.as_number() || *tense != stated.tense =>
                {
                    return None;
                }
                Some(_) => {}
                None => found = Some((fact, amount.clone(), stated.tense)),
            }
        }
        // a fact with another amount may not have been examined
        found.filter(|_| *left > 0)
    }
}

impl<'p> Calculation<'p> {
    fn of(form: &'p Form) -> Option<Self> {
        Self::difference(form).or_else(|| Self::sum(form)).or_else(|| Self::change(form))
    }

    /// "X costs 40 € more than Y", "X has 3 fewer rooms than Y".
    fn difference(form: &'p Form) -> Option<Self> {
        let (Item::Quantity(result), rest) = form.object.split_first()? else { return None };
        let (Item::Qualifier(direction), rest) = rest.split_first()? else { return None };
        let is_than = |item: &Item| matches!(item, Item::Qualifier("than"));
        let (direction, noun, other) = match *direction {
            "more than" => ("more", &[][..], rest),
            "less than" => ("less", &[][..], rest),
            direction => {
                let than = rest.iter().position(is_than)?;
                (direction, rest.get(..than)?, rest.get(than + 1..)?)
            }
        };
        let with = |subject: &[Item]| form.with_amount(subject.to_vec(), noun);
        let (own, other) = (with(&form.subject), with(other));
        let terms = match direction {
            "more" => [own, other],
            "less" | "fewer" => [other, own],
            _ => return None,
        };
        Some(Self { operation: Operation::Difference, terms, result })
    }

    /// "X and Y cost 138 € together".
    fn sum(form: &'p Form) -> Option<Self> {
        let (Item::Quantity(result), rest) = form.object.split_first()? else { return None };
        let (last, noun) = rest.split_last()?;
        if !matches!(last, Item::Word(word) if matches!(&*word.text, "together" | "altogether" | "zusammen"))
        {
            return None;
        }
        // "ran 5 km together" is no sum
        let is_added = |item: &Item| matches!(item, Item::Verb(verb) if matches!(&*verb.text, "cost" | "costs" | "kosten" | "kostet" | "weigh" | "weighs" | "wiegen" | "wiegt"));
        if !form.verb.iter().any(is_added) {
            return None;
        }
        let mut subjects = form.subject.split(|item| matches!(item, Item::Qualifier("and")));
        let (one, other) = (subjects.next()?, subjects.next()?);
        let terms = [one, other].map(|subject| form.with_amount(subject.to_vec(), noun));
        subjects.next().is_none().then_some(Self { operation: Operation::Sum, terms, result })
    }

    /// "X rose by 10 % from 2020 to 2021".
    fn change(form: &'p Form) -> Option<Self> {
        const GROWTH: [&str; 4] = ["rise", "increase", "grow", "climb"];
        const DECLINE: [&str; 4] = ["fall", "decrease", "drop", "decline"];
        let [Item::Verb(verb)] = form.verb.as_slice() else { return None };
        let is_one_of = |known: [&str; 4]| known.iter().any(|known| known.starts_with(&verb.stem));
        let operation = match () {
            () if is_one_of(GROWTH) => Operation::Growth,
            () if is_one_of(DECLINE) => Operation::Decline,
            () => return None,
        };
        if !form.object.is_empty() {
            return None;
        }
        let (mut result, mut years) = (None, None);
        for phrase in &form.phrases {
            match phrase.as_slice() {
                [Item::Mark("by"), Item::Quantity(placed)] if result.is_none() => result = Some(placed),
                [Item::Mark("from"), Item::Quantity(placed)] if years.is_none() => {
                    years = Some(placed.quantity.as_years()?);
                }
                _ => return None,
            }
        }
        let terms = years?.map(|year| form.in_year(year));
        Some(Self { operation, terms, result: result? })
    }
}

impl Operation {
    /// The calculation as people read it, if `one` and `other` give `result`, and whether that is rounded.
    fn gives(self, one: &Quantity, other: &Quantity, result: &Quantity) -> Option<(String, bool)> {
        let (one_value, unit) = one.as_number()?;
        let (other_value, other_unit) = other.as_number()?;
        let (wanted, result_unit) = result.as_number()?;
        let zero = Decimal::from(0_i64);
        // "5 % more" than 50 % can be 55 % or 52.5 %
        if unit != other_unit || unit == "%" || *wanted <= zero {
            return None;
        }
        match self {
            Self::Sum | Self::Difference => {
                let is_sum = matches!(self, Self::Sum);
                // two people can have the same children
                if is_sum && unit.is_empty() {
                    return None;
                }
                let sign = if is_sum { "+" } else { "−" };
                let value = if is_sum {
                    one_value.checked_add(other_value)
                } else {
                    one_value.checked_sub(other_value)
                }
                .ok()?;
                (value == *wanted && unit == result_unit)
                    .then(|| (format!("{one} {sign} {other} = {result}"), false))
            }
            Self::Growth | Self::Decline => {
                let difference = match self {
                    Self::Growth => other_value.checked_sub(one_value),
                    _ => one_value.checked_sub(other_value),
                };
                // twice as many degrees are not twice as warm
                if result_unit != "%" || *one_value <= zero || unit.starts_with('°') {
                    return None;
                }
                let hundredfold = difference.ok()?.checked_mul(&Decimal::from(100_i64)).ok()?;
                let percent = hundredfold.div_rounded(one_value, wanted.places(), Rounding::HalfUp).ok()?;
                let is_rounded = wanted.checked_mul(one_value).ok()? != hundredfold;
                let text = format!("from {one} to {other}: {result}");
                (percent == *wanted).then_some((text, is_rounded))
            }
        }
    }
}

impl Form {
    /// The same statement about `subject`, with an amount that is to be found, and `noun` after it.
    fn with_amount(&self, subject: Vec<Item>, noun: &[Item]) -> Self {
        let object = [Item::Amount].into_iter().chain(noun.iter().cloned()).collect();
        Self { subject, object, ..self.clone() }
    }

    /// The statement that the subject is an amount in `year`.
    fn in_year(&self, year: Quantity) -> Self {
        let written = year.to_string();
        let year = Item::Quantity(PlacedQuantity { quantity: year, written, is_about: false, bound: None });
        Self {
            subject: self.subject.clone(),
            verb: vec![Item::Mark("be")],
            object: vec![Item::Amount],
            phrases: vec![vec![Item::Mark(TIME), year]],
            is_definite: [self.is_definite[0], None],
            ..Self::default()
        }
    }

    /// The amount at the beginning of the object.
    fn amount(&self) -> Option<&Quantity> {
        match self.object.first()? {
            Item::Quantity(placed) => placed.exact(),
            _ => None,
        }
    }
}
