//! Units as sources spell them.

/// Common spellings with the intended code. Each is either not a UCUM code, or rarely used as one. `µ` is
/// listed both as the micro sign and as the Greek letter.
const SPELLINGS: &[(&str, &str)] = &[
    // mass
    ("G", "g"),
    ("gm", "g"),
    ("gram", "g"),
    ("grams", "g"),
    ("KG", "kg"),
    ("Kg", "kg"),
    ("kilogram", "kg"),
    ("kilograms", "kg"),
    ("MG", "mg"),
    ("milligram", "mg"),
    ("milligrams", "mg"),
    ("UG", "ug"),
    ("\u{b5}g", "ug"),
    ("\u{3bc}g", "ug"),
    ("mcg", "ug"),
    ("MCG", "ug"),
    ("microgram", "ug"),
    ("micrograms", "ug"),
    ("NG", "ng"),
    ("lb", "[lb_av]"),
    ("lbs", "[lb_av]"),
    ("pound", "[lb_av]"),
    ("pounds", "[lb_av]"),
    ("oz", "[oz_av]"),
    ("ounce", "[oz_av]"),
    ("ounces", "[oz_av]"),
    ("tonne", "t"),
    ("tonnes", "t"),
    // volume
    ("liter", "L"),
    ("liters", "L"),
    ("litre", "L"),
    ("litres", "L"),
    ("ML", "mL"),
    ("milliliter", "mL"),
    ("milliliters", "mL"),
    ("millilitre", "mL"),
    ("millilitres", "mL"),
    ("DL", "dL"),
    ("UL", "uL"),
    ("\u{b5}L", "uL"),
    ("\u{3bc}L", "uL"),
    ("\u{b5}l", "ul"),
    ("\u{3bc}l", "ul"),
    // energy
    ("KCAL", "kcal"),
    ("Kcal", "kcal"),
    ("kilocalorie", "kcal"),
    ("kilocalories", "kcal"),
    ("KJ", "kJ"),
    ("kj", "kJ"),
    ("kilojoule", "kJ"),
    ("kilojoules", "kJ"),
    // amount
    ("IU", "[IU]"),
    ("iu", "[IU]"),
    ("mole", "mol"),
    ("moles", "mol"),
    ("\u{b5}mol", "umol"),
    ("\u{3bc}mol", "umol"),
    // length
    ("meter", "m"),
    ("meters", "m"),
    ("metre", "m"),
    ("metres", "m"),
    ("KM", "km"),
    ("CM", "cm"),
    ("MM", "mm"),
    ("\u{b5}m", "um"),
    ("\u{3bc}m", "um"),
    ("inch", "[in_i]"),
    ("inches", "[in_i]"),
    ("ft", "[ft_i]"),
    ("foot", "[ft_i]"),
    ("feet", "[ft_i]"),
    ("mile", "[mi_i]"),
    ("miles", "[mi_i]"),
    // time
    ("sec", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("week", "wk"),
    ("weeks", "wk"),
    // temperature and shares
    ("\u{b0}C", "Cel"),
    ("\u{2103}", "Cel"),
    ("\u{b0}F", "[degF]"),
    ("\u{2109}", "[degF]"),
    ("percent", "%"),
    ("ppm", "[ppm]"),
    ("ppb", "[ppb]"),
    ("mmHg", "mm[Hg]"),
];

/// The UCUM code of a known spelling.
pub(super) fn code_of(spelling: &str) -> Option<&'static str> {
    SPELLINGS.iter().find(|(known, _)| *known == spelling).map(|(_, code)| *code)
}

/// Every spelling with its code.
#[cfg(test)]
pub(super) fn all() -> &'static [(&'static str, &'static str)] {
    SPELLINGS
}
