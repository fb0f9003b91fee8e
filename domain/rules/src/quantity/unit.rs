//! Units, by a fixed table of their spellings.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(in super::super) struct KnownUnit {
    /// The name in the canonical form.
    pub(in super::super) name: &'static str,
    /// The case-sensitive spellings.
    pub(in super::super) symbols: &'static [&'static str],
    /// The case-insensitive spellings.
    pub(in super::super) words: &'static [&'static str],
    /// Whether the unit takes prefixes.
    pub(in super::super) is_prefixed: bool,
}

/// The prefixes: symbol, word and power of ten. The micro sign and the Greek letter are two different characters.
pub(in super::super) const PREFIXES: [(&str, &str, i32); 12] = [
    ("n", "nano", -9),
    ("µ", "micro", -6),
    ("μ", "micro", -6),
    ("m", "milli", -3),
    ("c", "centi", -2),
    ("d", "deci", -1),
    ("da", "deca", 1),
    ("h", "hecto", 2),
    ("k", "kilo", 3),
    ("M", "mega", 6),
    ("G", "giga", 9),
    ("T", "tera", 12),
];

const fn known(
    name: &'static str,
    symbols: &'static [&'static str],
    words: &'static [&'static str],
    is_prefixed: bool,
) -> KnownUnit {
    KnownUnit { name, symbols, words, is_prefixed }
}

/// The units of the rules from RULE-PREC-007 on.
pub(in super::super) static UNITS: [KnownUnit; 46] = [
    known("m", &["m"], &["metre", "metres", "meter", "meters"], true),
    known("in", &["in", "″"], &["inch", "inches"], false),
    known("ft", &["ft"], &["foot", "feet"], false),
    known("g", &["g"], &["gram", "grams", "gramme", "grammes"], true),
    known("t", &["t"], &["tonne", "tonnes"], false),
    known("lb", &["lb", "lbs"], &[], false),
    known("oz", &["oz"], &["ounce", "ounces"], false),
    known("L", &["l", "L"], &["litre", "litres", "liter", "liters"], true),
    known("s", &["s"], &["sec", "secs", "second", "seconds"], true),
    known("min", &["min"], &["minute", "minutes"], false),
    known("h", &["h"], &["hr", "hrs", "hour", "hours"], false),
    known("d", &["d"], &["day", "days"], false),
    known("week", &[], &["week", "weeks"], false),
    known("month", &[], &["month", "months"], false),
    known("year", &[], &["year", "years"], false),
    known(
        "°C",
        &["°C", "° C", "℃", "C"],
        &["celsius", "deg c", "degree c", "degrees c", "deg celsius", "degree celsius", "degrees celsius"],
        false,
    ),
    known(
        "°F",
        &["°F", "° F", "℉", "F"],
        &[
            "fahrenheit",
            "deg f",
            "degree f",
            "degrees f",
            "deg fahrenheit",
            "degree fahrenheit",
            "degrees fahrenheit",
        ],
        false,
    ),
    known("K", &["K"], &["kelvin", "kelvins"], true),
    known("°", &["°"], &["deg", "degree", "degrees"], false),
    known("Hz", &["Hz"], &["hertz"], true),
    known("N", &["N"], &["newton", "newtons"], true),
    known("Pa", &["Pa"], &["pascal", "pascals"], true),
    known("bar", &["bar"], &["bar", "bars"], true),
    known("J", &["J"], &["joule", "joules"], true),
    known("eV", &["eV"], &["electronvolt", "electronvolts"], true),
    known("Wh", &["Wh"], &["watt-hour", "watt-hours", "watt hour", "watt hours"], true),
    known(
        "Ah",
        &["Ah"],
        &[
            "amp-hour",
            "amp-hours",
            "amp hour",
            "amp hours",
            "ampere-hour",
            "ampere-hours",
            "ampere hour",
            "ampere hours",
        ],
        true,
    ),
    known("W", &["W"], &["watt", "watts"], true),
    known("V", &["V"], &["volt", "volts"], true),
    known("A", &["A"], &["amp", "amps", "ampere", "amperes"], true),
    known("Ω", &["Ω", "\u{2126}"], &["ohm", "ohms"], true),
    known("lm", &["lm"], &["lumen", "lumens"], true),
    known("lx", &["lx"], &["lux"], true),
    known("dB", &["dB"], &["decibel", "decibels"], false),
    known("mol", &["mol"], &["mole", "moles"], true),
    known("B", &["B"], &["byte", "bytes"], true),
    known("bit", &["bit"], &["bit", "bits"], true),
    known("bit/s", &["bps"], &[], true),
    known("%", &["%"], &["percent", "per cent"], false),
    known("€", &["€", "EUR"], &["euro", "euros"], false),
    known("$", &["$"], &["dollar", "dollars"], false),
    known("£", &["£"], &[], false),
    known("¥", &["¥"], &["yen"], false),
    known("USD", &["USD"], &[], false),
    known("GBP", &["GBP"], &[], false),
    known("JPY", &["JPY"], &[], false),
];

/// Counted units, which the rules from RULE-PREC-009 on also read. They take no prefixes: "hops" are not hundreds of
/// "ops".
pub(in super::super) static COUNTED: [KnownUnit; 13] = [
    known("call", &[], &["call", "calls"], false),
    known("conn", &[], &["conn", "conns", "connection", "connections"], false),
    known("event", &[], &["evt", "evts", "event", "events"], false),
    known("frame", &[], &["frame", "frames"], false),
    known("frame/s", &["fps", "FPS"], &[], false),
    known("job", &[], &["job", "jobs"], false),
    known("msg", &[], &["msg", "msgs", "message", "messages"], false),
    known("op", &["op", "ops"], &["operation", "operations"], false),
    known("packet", &[], &["pkt", "pkts", "packet", "packets"], false),
    known("query", &[], &["query", "queries"], false),
    known("req", &[], &["req", "reqs", "request", "requests"], false),
    known("token", &[], &["token", "tokens"], false),
    known("tx", &["tx", "txn", "txns"], &["transaction", "transactions"], false),
];

/// The lists of units to use, in their order.
pub(super) type UnitSpellingTables<'a> = &'a [&'a LazyLock<UnitSpellings>];

/// The maximum length of a spelling, in bytes.
const SPELLING_MAX_BYTES: usize = 128;

/// The currencies that may also precede the number.
pub(in super::super) const CURRENCIES: [&str; 8] = ["€", "$", "£", "¥", "EUR", "USD", "GBP", "JPY"];

/// A parsed unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuantityUnit {
    /// The canonical name, without a prefix.
    pub(super) name: String,
    /// The power of ten of its prefix.
    pub(super) power: i32,
}

/// The longest unit of `table` at the beginning of `text`, and the rest.
pub(super) fn leading_unit<'a>(text: &'a str, table: UnitSpellingTables) -> Option<(QuantityUnit, &'a str)> {
    let [one, two] = leading_words(text);
    let (word, (known, power)) =
        [two, one].into_iter().find_map(|word| Some((word, by_spelling(word, table)?)))?;
    let rest = text.get(word.len()..).unwrap_or_default();
    for (exponent, sign, digit) in [(2, "²", "^2"), (3, "³", "^3")] {
        if let Some(rest) = rest.strip_prefix(sign).or_else(|| rest.strip_prefix(digit)) {
            return Some((
                QuantityUnit { name: format!("{}{sign}", known.name), power: power * exponent },
                rest,
            ));
        }
    }
    Some((QuantityUnit { name: known.name.to_owned(), power }, rest))
}

/// The currency at the end of `text`, and the text before it.
pub(super) fn trailing_currency(text: &str) -> Option<(&str, QuantityUnit)> {
    CURRENCIES.iter().find_map(|currency| {
        let before = text.strip_suffix(currency)?;
        let (known, power) = by_spelling(currency, &[&UNIT_SPELLINGS])?;
        Some((before, QuantityUnit { name: known.name.to_owned(), power }))
    })
}

/// The first word of `text`, and its first two words. A word has letters and the signs of units.
pub(super) fn leading_words(text: &str) -> [&str; 2] {
    let is_of_word = |character: char| character.is_alphabetic() || "°%€$£¥℃℉″".contains(character);
    let word = |text: &str| text.find(|character| !is_of_word(character)).unwrap_or(text.len());
    let one = word(text);
    let rest = text.get(one..).unwrap_or_default();
    let two = match rest.strip_prefix([' ', '-']) {
        Some(next) => text.len() - next.len() + word(next),
        None => one,
    };
    [one, two].map(|end| text.get(..end).unwrap_or_default())
}

/// The unit of `table` with the spelling `word`, and the power of its prefix.
fn by_spelling(word: &str, table: UnitSpellingTables) -> Option<(&'static KnownUnit, i32)> {
    if word.is_empty() || word.len() > SPELLING_MAX_BYTES {
        return None;
    }
    let lower = word.to_lowercase();
    table.iter().find_map(|spellings| spellings.find(word, &lower))
}

/// All spellings of some units, with their prefixes. A lookup takes constant time, because a text may consist only of
/// numbers with units.
pub(in super::super) struct UnitSpellings {
    units: &'static [KnownUnit],
    /// By symbol: the index of the unit, and the power of the prefix.
    symbols: HashMap<String, (usize, i32)>,
    /// The same by word, in lower case.
    words: HashMap<String, (usize, i32)>,
}

impl UnitSpellings {
    fn of(units: &'static [KnownUnit]) -> Self {
        let (mut symbols, mut words) = (HashMap::new(), HashMap::new());
        for (index, known) in units.iter().enumerate() {
            let prefixes = if known.is_prefixed { PREFIXES.as_slice() } else { &[] };
            // if two units share a spelling, the first one counts
            for symbol in known.symbols {
                symbols.entry((*symbol).to_owned()).or_insert((index, 0));
                for (prefix, _, power) in prefixes {
                    symbols.entry(format!("{prefix}{symbol}")).or_insert((index, *power));
                }
            }
            for word in known.words {
                words.entry((*word).to_owned()).or_insert((index, 0));
                for (_, prefix, power) in prefixes {
                    words.entry(format!("{prefix}{word}")).or_insert((index, *power));
                }
            }
        }
        Self { units, symbols, words }
    }

    /// The first unit with the symbol `word`, or with the lower-case word `lower`.
    fn find(&self, word: &str, lower: &str) -> Option<(&'static KnownUnit, i32)> {
        let (symbol, by_word) = (self.symbols.get(word), self.words.get(lower));
        // `min_by_key` returns the first of two equal keys: the symbol takes precedence over the word of the same unit
        let (index, power) = symbol.into_iter().chain(by_word).min_by_key(|(index, _)| *index)?;
        Some((self.units.get(*index)?, *power))
    }
}

pub(in super::super) static UNIT_SPELLINGS: LazyLock<UnitSpellings> =
    LazyLock::new(|| UnitSpellings::of(&UNITS));
pub(in super::super) static COUNTED_SPELLINGS: LazyLock<UnitSpellings> =
    LazyLock::new(|| UnitSpellings::of(&COUNTED));

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds a unit by a linear search over all spellings.
    fn searched(word: &str, table: &[&[KnownUnit]]) -> Option<(&'static str, i32)> {
        let lower = word.to_lowercase();
        table.iter().copied().flatten().find_map(|known| {
            let power = |prefix: &str, by: fn(&(&'static str, &'static str, i32)) -> &'static str| {
                let found = || PREFIXES.iter().find(|known| by(known) == prefix).map(|(.., power)| *power);
                if prefix.is_empty() { Some(0) } else { known.is_prefixed.then(found).flatten() }
            };
            let symbol =
                known.symbols.iter().find_map(|symbol| power(word.strip_suffix(symbol)?, |prefix| prefix.0));
            let by_word =
                || known.words.iter().find_map(|name| power(lower.strip_suffix(name)?, |prefix| prefix.1));
            Some((known.name, symbol.or_else(by_word)?))
        })
    }

    #[test]
    fn spelling_lookup_equals_a_linear_search() {
        let prefixes = || PREFIXES.iter().flat_map(|(symbol, word, _)| [*symbol, *word]).chain(["", "x"]);
        let names = || UNITS.iter().chain(&COUNTED).flat_map(|known| known.symbols.iter().chain(known.words));
        for word in prefixes().flat_map(|prefix| names().map(move |name| format!("{prefix}{name}"))) {
            for word in [word.to_uppercase(), word] {
                let found = |table: UnitSpellingTables| {
                    by_spelling(&word, table).map(|(known, power)| (known.name, power))
                };
                assert_eq!(found(&[&UNIT_SPELLINGS]), searched(&word, &[&UNITS]), "{word}");
                let both: UnitSpellingTables = &[&UNIT_SPELLINGS, &COUNTED_SPELLINGS];
                assert_eq!(found(both), searched(&word, &[&UNITS, &COUNTED]), "{word}");
            }
        }
    }
}
