//! The definitions. A test pins the SHA-256 of each.

use super::{RuleCheckType, RuleDefinition, RuleId, RuleInvariant};

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

pub(super) const PREC_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::CountThreshold,
    description: "At most so many claims without support: every sentence is in a fact, or a fact in it",
    id: RuleId::Prec001,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX"}"#,
    version: "1.0.0",
};

pub(super) const PREC_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustFind,
    description: "Every pattern of `must_find` appears",
    id: RuleId::Prec002,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

pub(super) const PREC_003: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears",
    id: RuleId::Prec003,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

pub(super) const PREC_004: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every claim is traced to a fact; no more are without one than RULE-PREC-001 allows",
    id: RuleId::Prec004,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX","whitespace":"collapsed"}"#,
    version: "1.0.0",
};

pub(super) const CONT_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear",
    id: RuleId::Cont001,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

pub(super) const CONT_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear, and the comparisons that are made can hold together",
    id: RuleId::Cont002,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(r#""comparisons":["<",">","<=",">="],"#),
    version: "1.0.0",
};

pub(super) const CONT_003: RuleDefinition = RuleDefinition {
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

pub(super) const PREC_005: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence, by Unicode's boundaries, is traced to a fact by whole words",
    id: RuleId::Prec005,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(r#""match_mode":"case_insensitive_whole_words","#),
    version: "1.0.0",
};

pub(super) const PREC_006: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own",
    id: RuleId::Prec006,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(r#""joints":["and","with",","],"match_mode":"case_insensitive_whole_words","#),
    version: "1.0.0",
};

pub(super) const PREC_007: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence is traced to a fact, with numbers with units compared by their value",
    id: RuleId::Prec007,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_quantities!(r#""match_mode":"case_insensitive_whole_words","#)),
    version: "1.0.0",
};

pub(super) const PREC_008: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own, with numbers with units compared by their value",
    id: RuleId::Prec008,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_quantities!(
        r#""joints":["and","with",","],"match_mode":"case_insensitive_whole_words","#
    )),
    version: "1.0.0",
};

pub(super) const PREC_009: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every sentence is traced to a fact, with counted units compared by their value too, or to a note that it completes with \"is\" or \"are\"",
    id: RuleId::Prec009,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_notes!("")),
    version: "1.0.0",
};

pub(super) const PREC_010: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of a sentence that is joined by \"and\", \"with\" or a comma is traced to a fact on its own, with counted units compared by their value too, or to a note that it completes with \"is\" or \"are\"",
    id: RuleId::Prec010,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: by_sentences!(with_notes!(r#""joints":["and","with",","],"#)),
    version: "1.0.0",
};

pub(super) const PREC_011: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustFind,
    description: "Every pattern of `must_find` appears, with the line ends that it has",
    id: RuleId::Prec011,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"line_ends":"whole","match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

pub(super) const PREC_012: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears, with the line ends that it has",
    id: RuleId::Prec012,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"line_ends":"characters","match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

pub(super) const CONT_004: RuleDefinition = RuleDefinition {
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
