//! Units, by a fixed table of their spellings.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) struct KnownUnit {
    /// The name in the canonical form.
    pub(super) name: &'static str,
    /// The case-sensitive spellings.
    pub(super) symbols: &'static [&'static str],
    /// The case-insensitive spellings.
    pub(super) words: &'static [&'static str],
    /// Whether the unit takes prefixes.
    pub(super) is_prefixed: bool,
}

/// The prefixes: symbol, word and power of ten. The micro sign and the Greek letter are two different characters.
pub(super) const PREFIXES: [(&str, &str, i32); 12] = [
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

/// The units that the rules read.
pub(super) static UNITS: [KnownUnit; 46] = [
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

/// The maximum length of a spelling, in bytes.
const SPELLING_MAX_BYTES: usize = 128;

/// A parsed unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuantityUnit {
    /// The canonical name, without a prefix.
    pub(super) name: String,
    /// The power of ten of its prefix.
    pub(super) power: i32,
}

/// The longest unit at the beginning of `text`, and the rest.
pub(super) fn leading_unit(text: &str) -> Option<(QuantityUnit, &str)> {
    let [one, two] = leading_words(text);
    let (word, (known, power)) = [two, one].into_iter().find_map(|word| Some((word, by_spelling(word)?)))?;
    let rest = text.get(word.len()..).unwrap_or_default();
    for (exponent, sign, caret, digit) in [(2, "²", "^2", '2'), (3, "³", "^3", '3')] {
        let written = rest.strip_prefix(sign).or_else(|| rest.strip_prefix(caret));
        if let Some(rest) = written.or_else(|| after_exponent(known, rest, digit)) {
            return Some((
                QuantityUnit { name: format!("{}{sign}", known.name), power: power * exponent },
                rest,
            ));
        }
    }
    Some((QuantityUnit { name: known.name.to_owned(), power }, rest))
}

/// The rest after an exponent that is a plain digit, as in `m3`: of a length, and at the end of the word.
fn after_exponent<'t>(known: &KnownUnit, text: &'t str, digit: char) -> Option<&'t str> {
    let rest = text.strip_prefix(digit).filter(|_| matches!(known.name, "m" | "in" | "ft"))?;
    let ends = !rest.starts_with(char::is_alphanumeric)
        && !rest.strip_prefix(['.', ',']).is_some_and(|more| more.starts_with(|c: char| c.is_ascii_digit()));
    ends.then_some(rest)
}

/// The first word of `text`, and its first two words. A word has letters and the signs of units.
fn leading_words(text: &str) -> [&str; 2] {
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

/// The unit with the spelling `word`, and the power of its prefix.
fn by_spelling(word: &str) -> Option<(&'static KnownUnit, i32)> {
    if word.is_empty() || word.len() > SPELLING_MAX_BYTES {
        return None;
    }
    UNIT_SPELLINGS.find(word, &word.to_lowercase())
}

/// All spellings of some units, with their prefixes. A lookup takes constant time, because a text may consist only of
/// numbers with units.
struct UnitSpellings {
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

static UNIT_SPELLINGS: LazyLock<UnitSpellings> = LazyLock::new(|| UnitSpellings::of(&UNITS));

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds a unit by a linear search over all spellings.
    fn searched(word: &str) -> Option<(&'static str, i32)> {
        let lower = word.to_lowercase();
        UNITS.iter().find_map(|known| {
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
    fn exponent_is_read_in_each_spelling() {
        let read =
            |text: &str| leading_unit(text).map(|(unit, rest)| (unit.name, unit.power, rest.to_owned()));
        let cubic = |power, rest: &str| Some(("m³".to_owned(), power, rest.to_owned()));
        for text in ["m³", "m^3", "m3"] {
            assert_eq!(read(&format!("{text} of gas")), cubic(0, " of gas"), "{text}");
            assert_eq!(read(&format!("c{text}.")), cubic(-6, "."), "{text}");
        }
        // no exponent: a longer number, a decimal, or a unit that is no length
        for (text, rest) in [("m35", "35"), ("m3.5", "3.5"), ("m3x", "3x"), ("g2", "2"), ("m 3", " 3")] {
            assert_eq!(read(text).map(|(_, _, left)| left).as_deref(), Some(rest), "{text}");
        }
    }

    #[test]
    fn spelling_lookup_equals_a_linear_search() {
        let prefixes = || PREFIXES.iter().flat_map(|(symbol, word, _)| [*symbol, *word]).chain(["", "x"]);
        let names = || UNITS.iter().flat_map(|known| known.symbols.iter().chain(known.words));
        for word in prefixes().flat_map(|prefix| names().map(move |name| format!("{prefix}{name}"))) {
            for word in [word.to_uppercase(), word] {
                let found = by_spelling(&word).map(|(known, power)| (known.name, power));
                assert_eq!(found, searched(&word), "{word}");
            }
        }
    }

    #[test]
    fn every_spelling_has_one_unit() {
        let mut spellings = std::collections::BTreeMap::new();
        for known in &UNITS {
            let prefixes = PREFIXES.iter().filter(|_| known.is_prefixed);
            let prefixes: Vec<_> = prefixes.copied().chain([("", "", 0)]).collect();
            for (symbol, word, power) in prefixes {
                // the decibel is found before the tenth of a byte
                let is_decibel = known.name == "B" && symbol == "d";
                let symbols = known
                    .symbols
                    .iter()
                    .filter(|_| !is_decibel)
                    .map(|spelling| format!("{symbol}{spelling}"));
                for spelling in symbols.chain(known.words.iter().map(|spelling| format!("{word}{spelling}")))
                {
                    let meaning = (known.name, power);
                    let other = *spellings.entry(spelling.clone()).or_insert(meaning);
                    assert_eq!(other, meaning, "{spelling}");
                }
            }
        }
    }
}
