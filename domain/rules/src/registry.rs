//! All rules by id. A published rule never changes; an improvement is a new rule with a new id (seed: "Extensibility").

use domain_base::digest::Sha256Hex;
use domain_base::schema::one_of;
use domain_base::wording::ParseTextError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The id of a rule. Rules are applied and listed in this order.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    Display,
    EnumString,
    VariantArray,
    VariantNames,
)]
#[serde(try_from = "String", into = "&'static str")]
#[strum(const_into_str, parse_err_fn = unknown_rule, parse_err_ty = ParseTextError)]
pub enum RuleId {
    /// Zero unsupported claims.
    #[strum(to_string = "RULE-PREC-001")]
    Prec001,
    /// Patterns that must be found.
    #[strum(to_string = "RULE-PREC-002")]
    Prec002,
    /// Patterns that must not be found.
    #[strum(to_string = "RULE-PREC-003")]
    Prec003,
    /// Fact sourcing, claim by claim.
    #[strum(to_string = "RULE-PREC-004")]
    Prec004,
    /// Fact sourcing over whole sentences.
    #[strum(to_string = "RULE-PREC-005")]
    Prec005,
    /// Fact sourcing part by part.
    #[strum(to_string = "RULE-PREC-006")]
    Prec006,
    /// Fact sourcing with quantities by their value.
    #[strum(to_string = "RULE-PREC-007")]
    Prec007,
    /// Fact sourcing part by part, with quantities by their value.
    #[strum(to_string = "RULE-PREC-008")]
    Prec008,
    /// Fact sourcing with quantities and notes.
    #[strum(to_string = "RULE-PREC-009")]
    Prec009,
    /// Fact sourcing part by part, with quantities and notes.
    #[strum(to_string = "RULE-PREC-010")]
    Prec010,
    /// Patterns that must be found, with their line ends.
    #[strum(to_string = "RULE-PREC-011")]
    Prec011,
    /// Patterns that must not be found, with their line ends.
    #[strum(to_string = "RULE-PREC-012")]
    Prec012,
    /// Direct negation.
    #[strum(to_string = "RULE-CONT-001")]
    Cont001,
    /// Incompatible constraints.
    #[strum(to_string = "RULE-CONT-002")]
    Cont002,
    /// Assertion, then infirmation.
    #[strum(to_string = "RULE-CONT-003")]
    Cont003,
    /// Direct negation by whole words and their inflections.
    #[strum(to_string = "RULE-CONT-004")]
    Cont004,
}

/// The invariant that a rule enforces (seed: "Rule Index").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum RuleInvariant {
    /// Every claim has a source.
    #[serde(rename = "Q-INV-01")]
    NoUnsupportedClaims,
    /// There is no contradiction.
    #[serde(rename = "Q-INV-03")]
    NoContradiction,
}

/// How a rule checks, in the seed's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheckType {
    /// Counts, and compares the count with a threshold.
    CountThreshold,
    /// Searches for required text.
    MustFind,
    /// Searches for forbidden text.
    MustNotFind,
    /// Compares claims with facts.
    PatternMatch,
    /// Searches for two statements that cannot both be true.
    ContradictionCheck,
}

/// The definition of a rule. Members are in RFC 8785 order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleDefinition {
    /// How it checks.
    pub check_type: RuleCheckType,
    /// The requirement that it checks.
    pub description: &'static str,
    /// The id, which never changes.
    pub id: RuleId,
    /// The invariant that it enforces.
    pub invariant: RuleInvariant,
    /// The parameters, as canonical JSON.
    pub parameters: &'static str,
    /// The version of the definition; it never changes after publication.
    pub version: &'static str,
}

impl RuleId {
    /// The rules that the seed publishes. They are the default profile.
    pub const PUBLISHED: [Self; 7] = [
        Self::Prec001,
        Self::Prec002,
        Self::Prec003,
        Self::Prec004,
        Self::Cont001,
        Self::Cont002,
        Self::Cont003,
    ];

    /// The first of `rules` that occurs again later in the list.
    #[must_use]
    pub fn first_repeated(rules: &[Self]) -> Option<Self> {
        let mut rest = rules.iter();
        while let Some(rule) = rest.next() {
            if rest.as_slice().contains(rule) {
                return Some(*rule);
            }
        }
        None
    }

    /// The rule's definition.
    #[must_use]
    pub const fn rule(self) -> &'static RuleDefinition {
        match self {
            Self::Prec001 => &PREC_001,
            Self::Prec002 => &PREC_002,
            Self::Prec003 => &PREC_003,
            Self::Prec004 => &PREC_004,
            Self::Prec005 => &PREC_005,
            Self::Prec006 => &PREC_006,
            Self::Prec007 => &PREC_007,
            Self::Prec008 => &PREC_008,
            Self::Prec009 => &PREC_009,
            Self::Prec010 => &PREC_010,
            Self::Prec011 => &PREC_011,
            Self::Prec012 => &PREC_012,
            Self::Cont001 => &CONT_001,
            Self::Cont002 => &CONT_002,
            Self::Cont003 => &CONT_003,
            Self::Cont004 => &CONT_004,
        }
    }
}

impl RuleDefinition {
    /// The parameters, as JSON.
    #[must_use]
    pub fn parameters(&self) -> Box<RawValue> {
        serde_json::from_str(self.parameters).expect("a test reads the parameters of every rule")
    }

    /// The SHA-256 of the definition's canonical JSON.
    #[must_use]
    pub fn sha256(&self) -> Sha256Hex {
        Sha256Hex::of_json(self)
    }
}

/// The rules of a configuration, in the order in which they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RuleIds(pub Vec<RuleId>);

impl TryFrom<Vec<String>> for RuleIds {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let ids: Result<Vec<RuleId>, _> = words.iter().map(|word| word.parse()).collect();
        ids.map(Self).map_err(|_: ParseTextError| {
            format!("an entry is not a rule; allowed: {}", <RuleId as VariantNames>::VARIANTS.join(", "))
        })
    }
}

impl From<RuleIds> for Vec<String> {
    fn from(RuleIds(ids): RuleIds) -> Self {
        ids.iter().map(ToString::to_string).collect()
    }
}

/// The definition of a rule, as it is published.
#[derive(Serialize, ToSchema)]
struct CanonicalRuleDefinition {
    /// How it checks.
    check_type: RuleCheckType,
    /// The requirement that it checks.
    description: &'static str,
    /// The id, which never changes.
    id: RuleId,
    /// The invariant that it enforces.
    invariant: RuleInvariant,
    /// The parameters.
    #[schema(value_type = Value)]
    parameters: Box<RawValue>,
    /// The version of the definition; it never changes after publication.
    version: &'static str,
}

impl PartialSchema for RuleDefinition {
    fn schema() -> RefOr<Schema> {
        CanonicalRuleDefinition::schema()
    }
}

impl ToSchema for RuleDefinition {
    fn name() -> Cow<'static, str> {
        "RuleDefinition".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CanonicalRuleDefinition::schemas(schemas);
    }
}

impl PartialSchema for RuleId {
    fn schema() -> RefOr<Schema> {
        one_of("The id of a rule.", <Self as VariantNames>::VARIANTS.iter().copied())
    }
}

impl ToSchema for RuleId {}

impl Serialize for RuleDefinition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { check_type, description, id, invariant, version, .. } = *self;
        let parameters = self.parameters();
        CanonicalRuleDefinition { check_type, description, id, invariant, parameters, version }
            .serialize(serializer)
    }
}

impl TryFrom<String> for RuleId {
    type Error = ParseTextError;

    fn try_from(word: String) -> Result<Self, ParseTextError> {
        word.parse()
    }
}

fn unknown_rule(word: &str) -> ParseTextError {
    ParseTextError::new("a rule", word, <RuleId as VariantNames>::VARIANTS.join(", "))
}

/// The parameters of rules that use pairs of terms.
macro_rules! with_the_pairs {
    ($before:literal) => {
        concat!(
            "{",
            $before,
            r#""match_mode":"case_insensitive_substring_outside_the_opposite","#,
            r#""pairs":[["always","never"],["true","false"],["increase","decrease"],["positive","negative"],"#,
            r#"["valid","invalid"],["correct","incorrect"],["success","failure"],["above","below"],"#,
            r#"["present","absent"],["enabled","disabled"]]}"#
        )
    };
}

const PREC_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::CountThreshold,
    description: "At most so many claims without support: every sentence is in a fact, or a fact in it",
    id: RuleId::Prec001,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX"}"#,
    version: "1.0.0",
};

const PREC_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustFind,
    description: "Every pattern of `must_find` appears",
    id: RuleId::Prec002,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_003: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears",
    id: RuleId::Prec003,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_004: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every claim is traced to a fact; no more are without one than RULE-PREC-001 allows",
    id: RuleId::Prec004,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX","whitespace":"collapsed"}"#,
    version: "1.0.0",
};

const CONT_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear",
    id: RuleId::Cont001,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

const CONT_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear, and the comparisons that are made can hold together",
    id: RuleId::Cont002,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(r#""comparisons":["<",">","<=",">="],"#),
    version: "1.0.0",
};

const CONT_003: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "What one sentence asserts no later one infirms",
    id: RuleId::Cont003,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

/// The parameters of rules that use texts without their layout.
macro_rules! dropped {
    () => {
        concat!(
            r#""dropped":{"bullets":["-","*","•"],"heading_max":6,"list_number_max_digits":3,"#,
            r#""marks":["*","_","`","~~"],"quote":">"},"#
        )
    };
}

/// The parameters of rules that use Unicode's sentences and whole words; a test compares them with the lists.
macro_rules! by_sentences {
    ($between:expr) => {
        concat!(
            r#"{"abbreviations":["e.g.","E.g.","i.e.","I.e.","cf.","Cf.","vs.","viz.","Dr.","Mr.","Mrs.","Ms.","Prof.","St."],"#,
            r#""abbreviations_before_digits":["No.","no.","Nos.","nos.","Fig.","fig.","Figs.","figs.","Approx.","approx.","ca.","pp.","Incl.","incl.","Excl.","excl.","Max.","max.","Min.","min.","p.","Vol.","vol.","Ch.","ch.","Art.","art.","Sec.","sec.","v.","Jan.","Feb.","Mar.","Apr.","Jun.","Jul.","Aug.","Sep.","Sept.","Oct.","Nov.","Dec."],"#,
            r#""behind_stop_max_chars":64,"#,
            dropped!(),
            r#""edges":".!?…,;:\"'()[]{}“”„‘’‚«»‹›。！？、","#,
            $between,
            r#""sentences":"UAX29","threshold_ref":"CONFIG:UNSUPPORTED_MAX","unicode":"17.0.0","words":"UAX29"}"#
        )
    };
}

/// The parameters of rules that compare quantities; a test compares them with the table.
macro_rules! with_quantities {
    ($before:expr) => {
        concat!(
            $before,
            r#""quantities":{"currencies":["€","$","£","¥","EUR","USD","GBP","JPY"],"digits_max":64,"prefixes":["#,
            r#"["n","nano",-9],["µ","micro",-6],["μ","micro",-6],["m","milli",-3],["c","centi",-2],"#,
            r#"["d","deci",-1],["da","deca",1],["h","hecto",2],["k","kilo",3],["M","mega",6],["G","giga",9],["T","tera",12]],"#,
            r#""scales":[["thousand",3],["million",6],["billion",9],["trillion",12]],"#,
            "\"separators\":[\",\",\"\u{a0}\",\"\u{2009}\",\"\u{202f}\"],\"units\":[",
            r#"["m",["m"],["metre","metres","meter","meters"],true],"#,
            r#"["in",["in","″"],["inch","inches"],false],["ft",["ft"],["foot","feet"],false],"#,
            r#"["g",["g"],["gram","grams","gramme","grammes"],true],"#,
            r#"["t",["t"],["tonne","tonnes"],false],"#,
            r#"["lb",["lb","lbs"],[],false],["oz",["oz"],["ounce","ounces"],false],"#,
            r#"["L",["l","L"],["litre","litres","liter","liters"],true],"#,
            r#"["s",["s"],["sec","secs","second","seconds"],true],"#,
            r#"["min",["min"],["minute","minutes"],false],"#,
            r#"["h",["h"],["hr","hrs","hour","hours"],false],["d",["d"],["day","days"],false],"#,
            r#"["week",[],["week","weeks"],false],["month",[],["month","months"],false],"#,
            r#"["year",[],["year","years"],false],"#,
            r#"["°C",["°C","° C","℃","C"],["celsius","deg c","degree c","degrees c","deg celsius","degree celsius","degrees celsius"],false],"#,
            r#"["°F",["°F","° F","℉","F"],["fahrenheit","deg f","degree f","degrees f","deg fahrenheit","degree fahrenheit","degrees fahrenheit"],false],"#,
            r#"["K",["K"],["kelvin","kelvins"],true],["°",["°"],["deg","degree","degrees"],false],"#,
            r#"["Hz",["Hz"],["hertz"],true],["N",["N"],["newton","newtons"],true],"#,
            r#"["Pa",["Pa"],["pascal","pascals"],true],["bar",["bar"],["bar","bars"],true],"#,
            r#"["J",["J"],["joule","joules"],true],"#,
            r#"["eV",["eV"],["electronvolt","electronvolts"],true],"#,
            r#"["Wh",["Wh"],["watt-hour","watt-hours","watt hour","watt hours"],true],"#,
            r#"["Ah",["Ah"],["amp-hour","amp-hours","amp hour","amp hours","ampere-hour","ampere-hours","ampere hour","ampere hours"],true],"#,
            r#"["W",["W"],["watt","watts"],true],["V",["V"],["volt","volts"],true],"#,
            r#"["A",["A"],["amp","amps","ampere","amperes"],true],"#,
            r#"["Ω",["Ω","Ω"],["ohm","ohms"],true],["lm",["lm"],["lumen","lumens"],true],"#,
            r#"["lx",["lx"],["lux"],true],["dB",["dB"],["decibel","decibels"],false],"#,
            r#"["mol",["mol"],["mole","moles"],true],"#,
            r#"["B",["B"],["byte","bytes"],true],["bit",["bit"],["bit","bits"],true],"#,
            r#"["bit/s",["bps"],[],true],["%",["%"],["percent","per cent"],false],"#,
            r#"["€",["€","EUR"],["euro","euros"],false],["$",["$"],["dollar","dollars"],false],"#,
            r#"["£",["£"],[],false],["¥",["¥"],["yen"],false],"#,
            r#"["USD",["USD"],[],false],["GBP",["GBP"],[],false],["JPY",["JPY"],[],false]"#,
            "]},"
        )
    };
}

/// The parameters of rules that also use counted units and notes; a test compares them with the lists.
macro_rules! with_notes {
    ($before:literal) => {
        concat!(
            with_quantities!(concat!(
                $before,
                r#""match_mode":"case_insensitive_whole_words","notes":{"added":["are","is"],"prepositions":["#,
                r#""above","after","as","at","before","below","between","by","during","for","from","in","of","on","#,
                r#""over","per","since","than","through","to","under","until","up","via","with","within","without"]},"#
            )),
            r#""quantities_counted":[["call",[],["call","calls"],false],"#,
            r#"["conn",[],["conn","conns","connection","connections"],false],"#,
            r#"["event",[],["evt","evts","event","events"],false],["frame",[],["frame","frames"],false],"#,
            r#"["frame/s",["fps","FPS"],[],false],["job",[],["job","jobs"],false],"#,
            r#"["msg",[],["msg","msgs","message","messages"],false],"#,
            r#"["op",["op","ops"],["operation","operations"],false],"#,
            r#"["packet",[],["pkt","pkts","packet","packets"],false],"#,
            r#"["query",[],["query","queries"],false],"#,
            r#"["req",[],["req","reqs","request","requests"],false],"#,
            r#"["token",[],["token","tokens"],false],"#,
            r#"["tx",["tx","txn","txns"],["transaction","transactions"],false]],"#
        )
    };
}

const PREC_005: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence, by Unicode's boundaries, is traced to a fact by whole words",
    id: RuleId::Prec005,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(r#""match_mode":"case_insensitive_whole_words","#),
    version: "1.0.0",
};

const PREC_006: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own",
    id: RuleId::Prec006,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(r#""joints":["and","with",","],"match_mode":"case_insensitive_whole_words","#),
    version: "1.0.0",
};

const PREC_007: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence is traced to a fact, with numbers with units compared by their value",
    id: RuleId::Prec007,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_quantities!(r#""match_mode":"case_insensitive_whole_words","#)),
    version: "1.0.0",
};

const PREC_008: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own, with numbers with units compared by their value",
    id: RuleId::Prec008,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_quantities!(
        r#""joints":["and","with",","],"match_mode":"case_insensitive_whole_words","#
    )),
    version: "1.0.0",
};

const PREC_009: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence is traced to a fact, with counted units compared by their value too, or to a note that it completes with \"is\" or \"are\"",
    id: RuleId::Prec009,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_notes!("")),
    version: "1.0.0",
};

const PREC_010: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own, with counted units compared by their value too, or to a note that it completes with \"is\" or \"are\"",
    id: RuleId::Prec010,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_notes!(r#""joints":["and","with",","],"#)),
    version: "1.0.0",
};

const PREC_011: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustFind,
    description: "Every pattern of `must_find` appears, with the line ends that it has",
    id: RuleId::Prec011,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"line_ends":"whole","match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_012: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears, with the line ends that it has",
    id: RuleId::Prec012,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"line_ends":"characters","match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const CONT_004: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear as whole words, in any inflection",
    id: RuleId::Cont004,
    invariant: RuleInvariant::NoContradiction,
    parameters: concat!(
        "{",
        dropped!(),
        r#""match_mode":"case_insensitive_whole_words","pairs":["#,
        r#"[["always"],["never"]],[["true"],["false"]],"#,
        r#"[["increase","increases","increased","increasing"],["decrease","decreases","decreased","decreasing"]],"#,
        r#"[["positive","positives","positively"],["negative","negatives","negatively"]],"#,
        r#"[["valid","validly"],["invalid","invalidly"]],"#,
        r#"[["correct","correctly"],["incorrect","incorrectly"]],"#,
        r#"[["success","successes","successful","successfully","succeed","succeeds","succeeded","succeeding"],["failure","failures","fail","fails","failed","failing","unsuccessful","unsuccessfully"]],"#,
        r#"[["above"],["below"]],[["present"],["absent"]],"#,
        r#"[["enabled","enable","enables","enabling"],["disabled","disable","disables","disabling"]]"#,
        r#"],"unicode":"17.0.0","words":"UAX29"}"#
    ),
    version: "1.0.0",
};
