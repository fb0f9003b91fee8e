//! A parser of UCUM codes, from left to right (The Unified Code for Units of Measure, sections 1 to 13), with the
//! prefixes and common units, as in version 2.2 of UCUM, without units that depend on pi or on a measured constant.

use super::{CODE_MAX_BYTES, UnitError, UnitMeasure};
use crate::decimal::Decimal;
use UnitDefinition::{Base, Of, Scale};
use num::BigInt;

/// The maximum nesting of parentheses.
pub const NESTING_MAX: usize = 8;
/// The maximum absolute value of an exponent.
pub const EXPONENT_MAX: i32 = 64;

/// Characters that a unit name contains only in square brackets.
const MARKS: &[u8] = b"\"()+-./=[]{}";

/// Parses `code`, and computes its value.
///
/// # Errors
///
/// If `code` is not a UCUM code, or exceeds the limits.
pub(super) fn measure(code: &str) -> Result<UnitMeasure, UnitError> {
    if code.is_empty() || code.len() > CODE_MAX_BYTES {
        return Err(UnitError::Length { size_bytes: code.len() });
    }
    let mut parser = UcumCodeParser { code, at: 0, nesting: 0 };
    let first =
        if parser.consume_if_next(b'/') { parser.over(&UnitMeasure::one())? } else { parser.component()? };
    let measure = parser.term(first)?;
    if parser.at < code.len() {
        return Err(parser.missing("`.`, `/` or the end"));
    }
    Ok(measure)
}

struct UcumCodeParser<'a> {
    code: &'a str,
    /// The offset of the next byte to read.
    at: usize,
    /// The number of open parentheses.
    nesting: usize,
}

impl<'a> UcumCodeParser<'a> {
    /// Parses the rest of a product that begins with `product`: `a/b.c` is `(a/b).c`.
    fn term(&mut self, mut product: UnitMeasure) -> Result<UnitMeasure, UnitError> {
        loop {
            if self.consume_if_next(b'.') {
                let factor = self.component()?;
                product = self.combined(&product, &factor, UnitMeasure::times)?;
            } else if self.consume_if_next(b'/') {
                product = self.over(&product)?;
            } else {
                return Ok(product);
            }
        }
    }

    /// Divides `dividend` by the next component.
    fn over(&mut self, dividend: &UnitMeasure) -> Result<UnitMeasure, UnitError> {
        let divisor = self.component()?;
        self.combined(dividend, &divisor, UnitMeasure::over)
    }

    /// Combines two measures, which must not be scales.
    fn combined(
        &self,
        left: &UnitMeasure,
        right: &UnitMeasure,
        combine: fn(&UnitMeasure, &UnitMeasure) -> UnitMeasure,
    ) -> Result<UnitMeasure, UnitError> {
        match left.scale().or(right.scale()) {
            Some(scale) => Err(self.scale_in_term(scale)),
            None => self.in_range(combine(left, right)),
        }
    }

    /// Parses one part of a product: a unit with its exponent, a number, an annotation, or a term in parentheses.
    fn component(&mut self) -> Result<UnitMeasure, UnitError> {
        if self.consume_if_next(b'(') {
            return self.parenthesized();
        }
        if self.peek() == Some(b'{') {
            return Ok(UnitMeasure::one().annotated(self.annotation()?));
        }
        let mut simple = self.simple_unit()?;
        if self.peek() == Some(b'{') {
            simple = simple.annotated(self.annotation()?);
        }
        self.in_range(simple)
    }

    fn parenthesized(&mut self) -> Result<UnitMeasure, UnitError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(UnitError::Nesting { code: self.code.to_owned() });
        }
        let first = self.component()?;
        let term = self.term(first)?;
        self.nesting -= 1;
        if self.consume_if_next(b')') { Ok(term) } else { Err(self.missing("`.`, `/` or `)`")) }
    }

    /// Parses an annotation, with its braces.
    fn annotation(&mut self) -> Result<&'a str, UnitError> {
        let from = self.at;
        self.at += 1;
        let words = self.run(|byte| byte.is_ascii_graphic() && !b"{}".contains(&byte));
        if words.is_empty() {
            return Err(self.missing("an annotation's text"));
        }
        if !self.consume_if_next(b'}') {
            return Err(self.missing("`}`"));
        }
        Ok(self.code.get(from..self.at).unwrap_or_default())
    }

    /// Parses a unit with its exponent, or a whole number.
    fn simple_unit(&mut self) -> Result<UnitMeasure, UnitError> {
        let from = self.at;
        let mut bracket_end = from;
        loop {
            self.run(|byte| byte.is_ascii_graphic() && !MARKS.contains(&byte));
            if !self.consume_if_next(b'[') {
                break;
            }
            self.run(|byte| byte.is_ascii_graphic() && !b"[]".contains(&byte));
            if !self.consume_if_next(b']') {
                return Err(self.missing("`]`"));
            }
            bracket_end = self.at;
        }
        let text = self.code.get(from..self.at).unwrap_or_default();
        let (bracketed, open) = text.split_at_checked(bracket_end - from).unwrap_or_default();
        let name = bracketed.len() + open.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        match text.split_at_checked(name).unwrap_or_default() {
            ("", "") => Err(self.missing("a unit")),
            ("", digits) => Ok(UnitMeasure::of_integer(digits.parse::<BigInt>().unwrap_or_default())),
            (name, "") => {
                let from = self.at;
                if !self.consume_if_next(b'-') && !self.consume_if_next(b'+') {
                    return self.unit(name);
                }
                if self.run(|byte| byte.is_ascii_digit()).is_empty() {
                    return Err(self.missing("a digit"));
                }
                self.power(name, self.code.get(from..self.at).unwrap_or_default())
            }
            (name, exponent) => self.power(name, exponent),
        }
    }

    fn power(&self, name: &str, exponent: &str) -> Result<UnitMeasure, UnitError> {
        let unit = self.unit(name)?;
        if let Some(scale) = unit.scale() {
            return Err(self.scale_in_term(scale));
        }
        let exponent =
            exponent.parse().ok().filter(|exponent| (-EXPONENT_MAX..=EXPONENT_MAX).contains(exponent));
        exponent
            .map(|exponent| unit.power(exponent))
            .ok_or_else(|| UnitError::Exponent { code: self.code.to_owned() })
    }

    /// The unit `name`, with its prefix if it has one.
    fn unit(&self, name: &str) -> Result<UnitMeasure, UnitError> {
        if let Some(atom) = atom(name) {
            return defined(atom, name);
        }
        let parts = |(prefix, value): &(&str, &'static str)| {
            name.strip_prefix(prefix).and_then(atom).map(|atom| (*value, atom))
        };
        let (code, unit) = (self.code.to_owned(), name.to_owned());
        let mut prefixed = PREFIXES.iter().filter_map(parts).peekable();
        if prefixed.peek().is_none() {
            return Err(UnitError::Unknown { code, unit });
        }
        let (value, atom) =
            prefixed.find(|(_, atom)| atom.is_metric).ok_or(UnitError::Prefix { code, unit })?;
        let unit = defined(atom, name)?;
        Ok(if unit.scale().is_some() { unit } else { number(value).times(&unit) })
    }

    fn in_range(&self, measure: UnitMeasure) -> Result<UnitMeasure, UnitError> {
        if measure.is_in_range() { Ok(measure) } else { Err(UnitError::Range { code: self.code.to_owned() }) }
    }

    fn peek(&self) -> Option<u8> {
        self.code.as_bytes().get(self.at).copied()
    }

    /// Consumes `byte` if it is next, and returns whether it was.
    fn consume_if_next(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes and returns the bytes for which `is_part` is true.
    fn run(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.code.get(self.at..).unwrap_or_default();
        let size = rest.bytes().take_while(|byte| is_part(*byte)).count();
        self.at += size;
        rest.get(..size).unwrap_or_default()
    }

    fn missing(&self, expected: &'static str) -> UnitError {
        UnitError::Syntax { code: self.code.to_owned(), at: self.at, expected }
    }

    fn scale_in_term(&self, scale: &str) -> UnitError {
        UnitError::ScaleInTerm { code: self.code.to_owned(), scale: scale.to_owned() }
    }
}

fn atom(code: &str) -> Option<&'static UnitAtom> {
    ATOMS.iter().find(|atom| atom.code == code)
}

/// The value of `atom`. A scale keeps `name`, which includes its prefix.
fn defined(atom: &UnitAtom, name: &str) -> Result<UnitMeasure, UnitError> {
    match atom.definition {
        Base => Ok(UnitMeasure::of_base(atom.code)),
        Of(value, unit) => Ok(number(value).times(&measure(unit)?)),
        Scale => Ok(UnitMeasure::of_scale(name.to_owned())),
    }
}

fn number(text: &str) -> UnitMeasure {
    UnitMeasure::of(&text.parse::<Decimal>().expect("a test reads the table's numbers"))
}

/// A unit without its prefix.
#[derive(Debug)]
pub(super) struct UnitAtom {
    pub(super) code: &'static str,
    /// Whether it takes a prefix.
    pub(super) is_metric: bool,
    pub(super) definition: UnitDefinition,
}

#[derive(Debug)]
pub(super) enum UnitDefinition {
    /// A dimension of its own: one of UCUM's seven base units, or one of its arbitrary units.
    Base,
    /// A decimal number times another unit.
    Of(&'static str, &'static str),
    /// A scale whose zero, or whose steps, are not multiples of another unit.
    Scale,
}

const fn metric(code: &'static str, definition: UnitDefinition) -> UnitAtom {
    UnitAtom { code, is_metric: true, definition }
}

const fn plain(code: &'static str, definition: UnitDefinition) -> UnitAtom {
    UnitAtom { code, is_metric: false, definition }
}

/// Prefixes with their values; the longer ones first.
pub(super) const PREFIXES: [(&str, &str); 24] = [
    ("da", "1e1"),
    ("Ki", "1024"),
    ("Mi", "1048576"),
    ("Gi", "1073741824"),
    ("Ti", "1099511627776"),
    ("Y", "1e24"),
    ("Z", "1e21"),
    ("E", "1e18"),
    ("P", "1e15"),
    ("T", "1e12"),
    ("G", "1e9"),
    ("M", "1e6"),
    ("k", "1e3"),
    ("h", "1e2"),
    ("d", "1e-1"),
    ("c", "1e-2"),
    ("m", "1e-3"),
    ("u", "1e-6"),
    ("n", "1e-9"),
    ("p", "1e-12"),
    ("f", "1e-15"),
    ("a", "1e-18"),
    ("z", "1e-21"),
    ("y", "1e-24"),
];

pub(super) const ATOMS: &[UnitAtom] = &[
    // UCUM's seven dimensions
    metric("m", Base),
    metric("s", Base),
    metric("g", Base),
    metric("rad", Base),
    metric("K", Base),
    metric("C", Base),
    metric("cd", Base),
    // numbers
    plain("10*", Of("10", "1")),
    plain("10^", Of("10", "1")),
    plain("%", Of("1", "10*-2")),
    plain("[ppth]", Of("1", "10*-3")),
    plain("[ppm]", Of("1", "10*-6")),
    plain("[ppb]", Of("1", "10*-9")),
    plain("[pptr]", Of("1", "10*-12")),
    metric("mol", Of("6.02214076", "10*23")),
    metric("eq", Of("1", "mol")),
    metric("osm", Of("1", "mol")),
    // SI
    metric("sr", Of("1", "rad2")),
    metric("Hz", Of("1", "s-1")),
    metric("N", Of("1", "kg.m/s2")),
    metric("Pa", Of("1", "N/m2")),
    metric("J", Of("1", "N.m")),
    metric("W", Of("1", "J/s")),
    metric("A", Of("1", "C/s")),
    metric("V", Of("1", "J/C")),
    metric("F", Of("1", "C/V")),
    metric("Ohm", Of("1", "V/A")),
    metric("S", Of("1", "Ohm-1")),
    metric("Wb", Of("1", "V.s")),
    metric("T", Of("1", "Wb/m2")),
    metric("H", Of("1", "Wb/A")),
    metric("lm", Of("1", "cd.sr")),
    metric("lx", Of("1", "lm/m2")),
    metric("Bq", Of("1", "s-1")),
    metric("Gy", Of("1", "J/kg")),
    metric("Sv", Of("1", "J/kg")),
    metric("kat", Of("1", "mol/s")),
    metric("U", Of("1", "umol/min")),
    // units outside SI: volume, area, mass, pressure, energy, acceleration
    metric("l", Of("1", "dm3")),
    metric("L", Of("1", "l")),
    metric("st", Of("1", "m3")),
    metric("ar", Of("100", "m2")),
    metric("t", Of("1e3", "kg")),
    metric("bar", Of("1e5", "Pa")),
    plain("atm", Of("101325", "Pa")),
    plain("att", Of("1", "kgf/cm2")),
    metric("[g]", Of("980665e-5", "m/s2")),
    metric("gf", Of("1", "g.[g]")),
    metric("Gal", Of("1", "cm/s2")),
    metric("dyn", Of("1", "g.cm/s2")),
    metric("erg", Of("1", "dyn.cm")),
    // time
    plain("min", Of("60", "s")),
    plain("h", Of("60", "min")),
    plain("d", Of("24", "h")),
    plain("wk", Of("7", "d")),
    plain("a_t", Of("365.24219", "d")),
    plain("a_j", Of("365.25", "d")),
    plain("a_g", Of("365.2425", "d")),
    plain("a", Of("1", "a_j")),
    plain("mo_s", Of("29.53059", "d")),
    plain("mo_j", Of("1", "a_j/12")),
    plain("mo_g", Of("1", "a_g/12")),
    plain("mo", Of("1", "mo_j")),
    // CGS, and radioactivity
    metric("P", Of("1", "dyn.s/cm2")),
    metric("St", Of("1", "cm2/s")),
    metric("G", Of("1e-4", "T")),
    metric("Ci", Of("37e9", "Bq")),
    metric("R", Of("2.58e-4", "C/kg")),
    metric("RAD", Of("100", "erg/g")),
    metric("REM", Of("1", "RAD")),
    // columns
    metric("m[Hg]", Of("133.3220", "kPa")),
    metric("m[H2O]", Of("980665e-5", "kPa")),
    plain("[in_i'Hg]", Of("1", "m[Hg].[in_i]/m")),
    // heat
    metric("cal_[15]", Of("4.18580", "J")),
    metric("cal_[20]", Of("4.18190", "J")),
    metric("cal_m", Of("4.19002", "J")),
    metric("cal_IT", Of("4.1868", "J")),
    metric("cal_th", Of("4.184", "J")),
    metric("cal", Of("1", "cal_th")),
    plain("[Cal]", Of("1", "kcal_th")),
    plain("[Btu_IT]", Of("1.05505585262", "kJ")),
    plain("[Btu_th]", Of("1.054350", "kJ")),
    plain("[Btu]", Of("1", "[Btu_th]")),
    // international customary units
    plain("[in_i]", Of("254e-2", "cm")),
    plain("[ft_i]", Of("12", "[in_i]")),
    plain("[yd_i]", Of("3", "[ft_i]")),
    plain("[mi_i]", Of("5280", "[ft_i]")),
    plain("[fth_i]", Of("6", "[ft_i]")),
    plain("[nmi_i]", Of("1852", "m")),
    plain("[kn_i]", Of("1", "[nmi_i]/h")),
    plain("[sin_i]", Of("1", "[in_i]2")),
    plain("[sft_i]", Of("1", "[ft_i]2")),
    plain("[syd_i]", Of("1", "[yd_i]2")),
    plain("[cin_i]", Of("1", "[in_i]3")),
    plain("[cft_i]", Of("1", "[ft_i]3")),
    plain("[cyd_i]", Of("1", "[yd_i]3")),
    // survey and volume in the United States
    plain("[ft_us]", Of("1200", "m/3937")),
    plain("[rd_us]", Of("16.5", "[ft_us]")),
    plain("[fur_us]", Of("40", "[rd_us]")),
    plain("[mi_us]", Of("8", "[fur_us]")),
    plain("[acr_us]", Of("160", "[rd_us]2")),
    plain("[gal_us]", Of("231", "[in_i]3")),
    plain("[bbl_us]", Of("42", "[gal_us]")),
    plain("[qt_us]", Of("1", "[gal_us]/4")),
    plain("[pt_us]", Of("1", "[qt_us]/2")),
    plain("[gil_us]", Of("1", "[pt_us]/4")),
    plain("[foz_us]", Of("1", "[gil_us]/4")),
    plain("[fdr_us]", Of("1", "[foz_us]/8")),
    plain("[tbs_us]", Of("1", "[foz_us]/2")),
    plain("[tsp_us]", Of("1", "[tbs_us]/3")),
    plain("[cup_us]", Of("16", "[tbs_us]")),
    plain("[bu_us]", Of("2150.42", "[in_i]3")),
    plain("[foz_m]", Of("30", "mL")),
    plain("[cup_m]", Of("240", "mL")),
    plain("[tsp_m]", Of("5", "mL")),
    plain("[tbs_m]", Of("15", "mL")),
    // imperial volume
    plain("[gal_br]", Of("4.54609", "l")),
    plain("[qt_br]", Of("1", "[gal_br]/4")),
    plain("[pt_br]", Of("1", "[qt_br]/2")),
    plain("[gil_br]", Of("1", "[pt_br]/4")),
    plain("[foz_br]", Of("1", "[gil_br]/5")),
    // avoirdupois and troy
    plain("[gr]", Of("64.79891", "mg")),
    plain("[lb_av]", Of("7000", "[gr]")),
    plain("[oz_av]", Of("1", "[lb_av]/16")),
    plain("[dr_av]", Of("1", "[oz_av]/16")),
    plain("[scwt_av]", Of("100", "[lb_av]")),
    plain("[lcwt_av]", Of("112", "[lb_av]")),
    plain("[ston_av]", Of("20", "[scwt_av]")),
    plain("[lton_av]", Of("20", "[lcwt_av]")),
    plain("[stone_av]", Of("14", "[lb_av]")),
    plain("[pwt_tr]", Of("24", "[gr]")),
    plain("[oz_tr]", Of("20", "[pwt_tr]")),
    plain("[lb_tr]", Of("12", "[oz_tr]")),
    // force and power from these
    plain("[lbf_av]", Of("1", "[lb_av].[g]")),
    plain("[psi]", Of("1", "[lbf_av]/[in_i]2")),
    plain("[HP]", Of("550", "[ft_i].[lbf_av]/s")),
    // temperature
    plain("[degR]", Of("5", "K/9")),
    metric("Cel", Scale),
    plain("[degF]", Scale),
    // scales
    plain("[pH]", Scale),
    metric("B", Scale),
    metric("Np", Scale),
    // information
    metric("bit", Of("1", "1")),
    metric("By", Of("8", "bit")),
    metric("Bd", Of("1", "/s")),
    // arbitrary units
    metric("[iU]", Base),
    metric("[IU]", Of("1", "[iU]")),
    plain("[arb'U]", Base),
    plain("[USP'U]", Base),
    plain("[CFU]", Base),
    plain("[PFU]", Base),
];
