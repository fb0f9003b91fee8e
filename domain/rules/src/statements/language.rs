//! The words of a language that the rule for supported claims knows: function words, negations, conditions, and the light
//! inflection of its other words.

use super::stem;
use crate::result::TextLanguage;
use domain_base::decimal::Decimal;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::LazyLock;

impl TextLanguage {
    pub(crate) fn tables(self) -> &'static LanguageTables {
        match self {
            Self::En => &ENGLISH,
            Self::De => &GERMAN,
        }
    }
}

/// When a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Tense {
    Present,
    Past,
    /// "has been open": from a time in the past until now.
    Perfect,
    /// "had closed": before a time in the past.
    PastPerfect,
}

/// The role of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum WordClass {
    /// It carries no meaning of its own, and is ignored.
    Function,
    /// A function word in place of the subject of the sentence before.
    Pronoun,
    /// It reverses a part: "not", "never", "without".
    Negation,
    /// It begins a condition: "if", "unless".
    Condition,
    /// It names the source of a statement: "says", "according to".
    Attribution,
    /// It changes how far or how surely a part holds: "only", "most", "expected", "before".
    Qualifier,
    /// It bounds the number after it: "at least", "up to".
    Bound,
    /// It makes the number after it an approximate one.
    About,
    /// It joins two parts: "and", "or", "because".
    Conjunction,
    /// It begins a clause about a word before it: "which".
    Relative,
    /// A conjunction that begins a clause of content: "that", "whether".
    Complementizer,
    /// A verb that carries no meaning of its own: "is", "has".
    Auxiliary,
    /// A preposition, which begins no subject.
    Preposition,
    /// A word after which a subject ends.
    Verb,
    /// A content word that narrows the word beside it: "first", "known".
    Narrowing,
}

/// The tables of a language, with the words of a word list.
#[derive(Debug, Clone)]
pub(crate) struct LanguageTables {
    pub(crate) vocabulary: Vocabulary,
    /// The entries of one word or several, each with its class and the word that represents all with the same meaning.
    phrases: HashMap<&'static str, (WordClass, &'static str)>,
    /// The most words of an entry, by its first word.
    phrase_words: HashMap<&'static str, usize>,
    /// Irregular forms, each with its base.
    irregular: HashMap<&'static str, &'static str>,
    /// The bases that are no verbs.
    nouns: HashSet<&'static str>,
    pub(super) numbers: HashMap<&'static str, u32>,
    pub(super) months: HashMap<&'static str, u8>,
    /// The stems of the days of the week, and those of all words of the calendar without a number.
    days: HashSet<String>,
    calendar: HashSet<String>,
    grammar: Grammar,
}

impl LanguageTables {
    /// The class of a phrase in lower case, and the word that represents it.
    pub(super) fn class(&self, phrase: &str) -> Option<(WordClass, &'static str)> {
        self.phrases.get(phrase).copied()
    }

    /// The most words of an entry that begins with `word`; 0 if none does.
    pub(super) fn phrase_words(&self, word: &str) -> usize {
        self.phrase_words.get(word).copied().unwrap_or(0)
    }

    /// Whether `word` has the form of a past participle.
    pub(super) fn is_participle(&self, word: &str) -> bool {
        const SAME_AS_BASE: [&str; 8] = ["run", "put", "set", "cut", "hit", "read", "let", "come"];
        if self.is_verb_second {
            return word.len() > 4 && (word.ends_with('t') || word.ends_with("en"));
        }
        self.has_past_ending(word) || self.irregular.contains_key(word) || SAME_AS_BASE.contains(&word)
    }

    /// Whether `word` ends as a verb in a past form. "Need" and "arbeiten" only look like one.
    pub(super) fn has_past_ending(&self, word: &str) -> bool {
        let is_base = self.bases_like_past.iter().any(|base| word.ends_with(base));
        !is_base && self.past_endings.iter().any(|end| word.ends_with(end))
    }

    /// The tense of a verb without an auxiliary; `None` if its form is that of several tenses.
    pub(super) fn tense(&self, form: &str) -> Option<Tense> {
        const SEVERAL: [&str; 10] =
            ["beat", "shut", "cost", "put", "set", "cut", "hit", "read", "let", "kosten"];
        const GERMAN: [&str; 18] = [
            "stieg", "sank", "fiel", "wog", "lag", "stand", "ging", "kam", "fuhr", "lief", "gab", "nahm",
            "blieb", "begann", "schloss", "erhielt", "gewann", "verlor",
        ];
        let is_irregular = if self.is_verb_second {
            GERMAN.iter().any(|past| form.strip_prefix(past).is_some_and(|end| matches!(end, "" | "en")))
        } else {
            self.irregular.contains_key(form)
        };
        let is_past = self.has_past_ending(form) || is_irregular;
        let tense = if is_past { Tense::Past } else { Tense::Present };
        (!SEVERAL.contains(&form)).then_some(tense)
    }

    /// Whether it is German, whose units, scales and dates are its own.
    pub(super) const fn is_german(&self) -> bool {
        self.grammar.is_verb_second
    }

    /// Whether `word` is a day of the week.
    pub(super) fn is_day(&self, word: &str) -> bool {
        self.days.contains(&self.own_stem(word))
    }

    /// Whether `word` is of the calendar, as "Monday", "year" and "today".
    pub(super) fn is_of_calendar(&self, word: &str) -> bool {
        self.calendar.contains(&self.own_stem(word))
    }

    /// Whether `noun` is the base of an adjective and its noun ("long", "length") or of an ordinal ("1st").
    pub(super) fn is_listed_noun(&self, noun: &str) -> bool {
        self.nouns.contains(noun)
    }

    pub(super) fn is_pronoun(&self, word: &str) -> bool {
        matches!(self.class(word), Some((WordClass::Pronoun, _)))
    }

    /// The base of an auxiliary.
    pub(super) fn lemma(&self, auxiliary: &str) -> &'static str {
        const HAVE: [&str; 3] = ["comes with", "come with", "came with"];
        match auxiliary {
            "there is" | "there was" => "there",
            _ if HAVE.contains(&auxiliary) => self.lemma_have,
            _ => self
                .irregular
                .get(auxiliary)
                .copied()
                .or_else(|| self.phrases.get_key_value(auxiliary).map(|(name, _)| *name))
                .unwrap_or(""),
        }
    }

    /// The form of a verb for a German participle: "gründet" for "gegründet".
    pub(super) fn verb_of<'a>(&self, word: &'a str) -> &'a str {
        let verb = word.strip_prefix("ge").filter(|verb| verb.ends_with('t') && verb.len() > 3);
        verb.filter(|_| self.is_verb_second).unwrap_or(word)
    }

    /// Whether `word` is an irregular form of a verb.
    pub(super) fn is_irregular_verb(&self, word: &str) -> bool {
        self.irregular.get(word).is_some_and(|base| !self.nouns.contains(base))
    }

    /// The common form of the numbers and cases of `word`.
    pub(super) fn noun(&self, word: &str, is_capital: bool) -> String {
        match self.irregular.get(word).filter(|base| self.nouns.contains(*base)) {
            Some(base) => (*base).to_owned(),
            None if self.is_verb_second && is_capital => stem::german_noun(word),
            None if self.is_verb_second => stem::german(word),
            // singular and plural are two words
            None => word.to_owned(),
        }
    }

    /// The common form of the inflections of `word`, which is in lower case, and of the group of a word list that has it.
    pub(super) fn stem(&self, word: &str) -> String {
        let own = self.own_stem(word);
        self.vocabulary.group_of(&own).map(str::to_owned).unwrap_or(own)
    }

    /// The common form of the inflections of `word`, if a word list has it in a group.
    pub(super) fn listed_stem(&self, word: &str) -> Option<String> {
        let own = (!self.vocabulary.has_no_words()).then(|| self.own_stem(word));
        own.filter(|own| self.vocabulary.group_of(own).is_some())
    }

    /// The common form of the inflections of `word`, which is in lower case.
    pub(super) fn own_stem(&self, word: &str) -> String {
        let base = self.irregular.get(word).copied();
        // "stored" is of "store", "planned" is not of "plane"
        let verb =
            || word.strip_suffix('d').filter(|base| matches!(self.class(base), Some((WordClass::Verb, _))));
        (self.stem_of)(base.or_else(verb).unwrap_or(word))
    }
}

/// The grammar of a language, besides its words.
#[derive(Debug, Clone)]
pub(crate) struct Grammar {
    /// Whether the verb stands second and its participle last, whatever stands first.
    pub(super) is_verb_second: bool,
    /// Whether a decimal comma and points between thousands are read.
    pub(super) has_decimal_comma: bool,
    pub(super) stem_of: fn(&str) -> String,
    /// The endings of verbs in a past form.
    pub(super) past_endings: &'static [&'static str],
    /// The ends of verbs in the present that look like past forms.
    pub(super) bases_like_past: &'static [&'static str],
    /// The endings of verbs, for words that no list has.
    pub(super) verb_endings: &'static [&'static str],
    /// The forms of "be" with which the passive is built.
    pub(super) passive_auxiliaries: &'static [&'static str],
    /// The auxiliaries in a past form.
    pub(super) past_auxiliaries: &'static [&'static str],
    /// The auxiliaries that form a past tense with a participle.
    pub(super) perfect_auxiliaries: &'static [&'static str],
    /// The bases of "be" and "have".
    pub(super) lemma_be: &'static str,
    pub(super) lemma_have: &'static str,
    /// The stem of the verb that measures: "weighs 2 kg" is "has a weight of 2 kg".
    pub(super) weighing_stem: &'static str,
    /// The articles, after which no verb follows.
    pub(super) articles: &'static [&'static str],
    /// The stems of words with which a heading questions the text below it: "Myths".
    pub(super) doubt_stems: &'static [&'static str],
    /// The stems of words that refer to the sentence before.
    pub(super) reference_stems: &'static [&'static str],
    /// The words, as they are written, that state that something is true or false.
    pub(super) truth_words: &'static [&'static str],
    /// The days of the week.
    pub(super) weekdays: &'static [&'static str],
    /// The other words of the calendar without a number, besides months.
    pub(super) calendar_words: &'static [&'static str],
    /// The word for "times", as in "two times".
    pub(super) times_word: &'static str,
    /// The preposition before the one who acts, in a passive sentence.
    pub(super) by: &'static str,
    /// The preposition between a property and what has it.
    pub(crate) of: &'static str,
}

impl Deref for LanguageTables {
    type Target = Grammar;

    fn deref(&self) -> &Grammar {
        &self.grammar
    }
}

/// `canonical: phrase, phrase; …` of one class.
type Entries = (WordClass, &'static str);

fn language(
    entries: &[Entries],
    irregular: &'static str,
    nouns: &'static str,
    numbers: &'static str,
    months: &'static str,
    grammar: Grammar,
) -> LanguageTables {
    let mut phrases = HashMap::new();
    for (class, groups) in entries {
        for group in groups.split(';') {
            let (name, words) = group.split_once(':').unwrap_or(("", group));
            for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let name = if name.trim().is_empty() { word } else { name.trim() };
                phrases.entry(word).or_insert((*class, name));
            }
        }
    }
    let bases = nouns.split(';').filter_map(|group| group.trim().split_once(':'));
    let nouns_alone = bases.map(|(base, _)| base).collect();
    let forms = irregular.split(';').chain(nouns.split(';')).filter_map(|group| group.trim().split_once(':'));
    let irregular =
        forms.flat_map(|(base, forms)| forms.split_whitespace().map(move |form| (form, base))).collect();
    let counted = numbers.split(';').filter_map(|entry| entry.trim().split_once(':'));
    let numbers = counted
        .flat_map(|(value, words)| {
            let value: u32 = value.parse().unwrap_or_default();
            words.split_whitespace().map(move |word| (word, value))
        })
        .collect();
    let months = (1_u8..).zip(months.split(';'));
    let months =
        months.flat_map(|(number, names)| names.split_whitespace().map(move |name| (name, number))).collect();
    let mut phrase_words = HashMap::new();
    for phrase in phrases.keys() {
        let first = phrase.split(' ').next().unwrap_or_default();
        let most: &mut usize = phrase_words.entry(first).or_default();
        *most = phrase.split(' ').count().max(*most);
    }
    let mut language = LanguageTables {
        vocabulary: Vocabulary::default(),
        phrases,
        phrase_words,
        irregular,
        nouns: nouns_alone,
        numbers,
        months,
        days: HashSet::new(),
        calendar: HashSet::new(),
        grammar,
    };
    language.days = language.weekdays.iter().map(|day| language.own_stem(day)).collect();
    let calendar = language.calendar_words.iter().chain(language.weekdays);
    language.calendar = calendar.map(|word| language.own_stem(word)).collect();
    language
}

/// English.
pub(super) static ENGLISH: LazyLock<LanguageTables> = LazyLock::new(|| {
    language(
        &[
            (
                WordClass::Bound,
                "at least: at least, or more, a minimum of, minimum of, no less than, no fewer than, not less than, not fewer than;\
                at most: at most, or less, or fewer, up to, a maximum of, maximum of, no more than, not more than, as many as, as much as;\
                more than: more than, over, above, exceeding, in excess of, upwards of; less than: less than, fewer than, under, below",
            ),
            (WordClass::About, "about; around; approximately; roughly; circa; approx; ca"),
            (
                WordClass::Negation,
                "not: not, anything but, everything but; no; nobody: nobody, no one; none; nothing; nowhere; never; no longer; hardly; barely; without; except: except, excluding; neither;\
                false: it is not true that, it is a lie that, it is a myth that, it is false that, it is wrong that, it is untrue that, it is incorrect that",
            ),
            (
                WordClass::Condition,
                "if: if, in the event that, provided that, provided, on condition that; when; whenever; as long as; in case; assuming; subject to; depending on; in cases of; in the event of; in case of;\
                once: once, as soon as; unless: unless, except if, except when; only if; only when; only after",
            ),
            (
                WordClass::Attribution,
                "says: says, said, say, claim that, claims that, claimed that, critics claim, states that, stated that, according to, reports that, reported that, announced that, announces that, maintains that;\
                reportedly; allegedly; supposedly; purportedly; rumor: rumor, rumour, rumors, rumours; argues: argues, argue; argued; insists: insists, insist; insisted; believes: believes, believe; believed; thinks: thinks, think; thought;\
                warns: warns that; warned: warned that; suggests: suggests that; suggested: suggested that; denies: denies that; denied: denied that; hopes: hopes that, hope that, hopes, hope; hoped: hoped that, hoped; fears: fears that, fears; feared: feared that, feared; doubts: doubts, doubt; doubted;\
                promises: promises that; promised: promised that; guarantees: guarantees that; guaranteed: guaranteed that; alleges: alleges that; alleged: alleged that",
            ),
            (
                WordClass::Qualifier,
                "only; just; solely; exclusively; all; every: every, each; always; some; the most; several; a number of; various; certain; partly; partially; in part; most; majority; mostly; mainly; largely; a few; the few; a little; many; much; any;\
                for example: e.g, for example, for instance; namely: namely, i.e, that is to say; often; frequently;\
                usually; generally; typically; normally; few; little; rarely; seldom; sometimes; occasionally; both; almost; nearly; likely; probably; will; shall; going to; may; might; could; possibly; perhaps; maybe; potentially;\
                apparently; should; ought; must: must, have to, has to; can; would; before: before, prior to; until: until, till; after: after, following; since; during; within; still; again;\
                instead: instead, instead of, rather than; than; more; less; fewer; respectively",
            ),
            (
                WordClass::Conjunction,
                "nor; and: and, but, whereas, as well as, yet, however; or; while; so; because; therefore; although: although, though",
            ),
            (WordClass::Relative, "which, who, whose, whom, where"),
            (WordClass::Complementizer, "that, whether"),
            (
                WordClass::Pronoun,
                "it, they, he, she, its, their, his, her, this, these, those, them, him, itself",
            ),
            (
                WordClass::Auxiliary,
                "there is: there is, there are; there was: there was, there were; comes with, come with, came with, is, are, was, were, be, been, am, has, have, had, having, do, does, did, done, 's, 're, 've",
            ),
            (
                WordClass::Preposition,
                "in, on, at, for, with, from, by, to, of, as, into, onto, per, via, through, between, among, against, across, along, near, \
                inside, outside, beyond, behind, beside, towards, toward, throughout, despite, because of, upon, off, out, out of, about",
            ),
            (
                WordClass::Function,
                "the, a, an, also, as well, now, moreover, additionally, furthermore, currently",
            ),
            (
                WordClass::Narrowing,
                "first, second, third, fourth, fifth, last, next, new, old, known, additional, extra, average, mean, median, net, gross, main, basic, standard, initial, final, temporary, permanent, evening, morning, afternoon, night, selected, eligible, registered, double",
            ),
            (
                WordClass::Verb,
                "cost, costs, weigh, weighs, come, comes, came, include, includes, included, offer, offers, offered, cover, covers, covered, open, opens, close, closes, run, runs, ran, \
                use, uses, make, makes, made, give, gives, gave, take, takes, took, last, lasts, start, starts, end, ends, begin, begins, began, contain, contains, provide, provides, support, supports, \
                pay, pays, paid, sell, sells, sold, buy, buys, bought, hold, holds, held, win, wins, won, play, plays, score, scores, beat, beats, reach, reaches, measure, measures, store, stores, \
                produce, produces, generate, generates, work, works, receive, receives, get, gets, got, go, goes, went, sit, sits, stand, stands, stood, lie, lies, lay, face, faces, lead, leads, led, \
                leave, leaves, left, arrive, arrives, depart, departs, fly, flies, flew, serve, serves, apply, applies, remain, remains, become, becomes, became, add, adds, fix, fixes, remove, removes, \
                drop, drops, replace, replaces, require, requires, allow, allows, let, lets, keep, keeps, kept, set, sets, show, shows, bring, brings, brought, build, built, carry, carries, meet, meets, met, \
                own, owns, employ, employs, hire, hires, sign, signs, expire, expires, return, returns, rent, rents, charge, charges, deliver, delivers, connect, connects, feature, features, ship, ships, \
                operate, operates, live, lives, earn, earns, know, known, see, seen, blow, blows, blew, bear, bore, break, broke, broken, choose, chose, fall, feel, felt, fight, find, finds, found, hit, hits, mean, means, \
                put, puts, read, reads, rise, send, sends, sent, spend, spends, spent, teach, throw, write, writes, wrote, written, grant, grants, entitle, entitles, accept, accepts, ban, bans, permit, permits, save, saves, drive, drives, drove, consist, consists, exist, exists, belong, belongs, need, needs, want, wants, help, helps, protect, protects, prevent, prevents, reduce, reduces, create, creates, \
                launch, launches, release, releases, publish, publishes, record, records, report, reports, damage, damages, destroy, destroys, stay, stays, stop, stops, pass, passes, treat, treats, consume, consumes, emit, emits, \
                represent, represents, border, borders, host, hosts, join, joins, lasts, link, links, occur, occurs, owe, owes, reimburse, reimburses, reimbursed, renew, renews, submit, submits, terminate, terminates, visit, visits, walk, walks, warm, warms",
            ),
        ],
        "be:is are was were been am;have:has had having;do:does did done;rise:rose risen;use:used uses using;build:built;sell:sold;buy:bought;make:made;hold:held;leave:left;pay:paid;run:ran running;win:won winning;lose:lost;rise:rose risen;fall:fell fallen;grow:grew grown;\
         give:gave given;take:took taken;come:came;begin:began begun;write:wrote written;send:sent;spend:spent;bring:brought;keep:kept;meet:met;lead:led;find:found;\
         stand:stood;go:went gone;get:got gotten;see:saw seen;know:knew known;fly:flew flown;drive:drove driven;break:broke broken;choose:chose chosen;wear:wore worn;\
         tear:tore torn;blow:blew blown;throw:threw thrown;draw:drew drawn;show:shown;lend:lent;bear:bore born borne;begin:began;teach:taught;think:thought;lay:laid;say:said;\
         freeze:froze frozen;steal:stole stolen;speak:spoke spoken;drink:drank drunk;eat:ate eaten;sing:sang sung;swim:swam swum;forget:forgot forgotten;hide:hid hidden;catch:caught;\
         seek:sought;shake:shook shaken;shoot:shot;sink:sank sunk;sleep:slept;strike:struck;sweep:swept;withdraw:withdrew withdrawn;feed:fed;deal:dealt;bind:bound;bite:bit bitten;",
        "long:length;wide:width;high:height;weigh:weight heavy;1st:first;2nd:second;3rd:third;4th:fourth;5th:fifth;6th:sixth;7th:seventh;8th:eighth;9th:ninth;10th:tenth;11th:eleventh;12th:twelfth;20th:twentieth",
        "0:zero;1:one;2:two;3:three;4:four;5:five;6:six;7:seven;8:eight;9:nine;10:ten;11:eleven;12:twelve dozen;13:thirteen;14:fourteen;15:fifteen;16:sixteen;17:seventeen;18:eighteen;\
         19:nineteen;20:twenty;30:thirty;40:forty;50:fifty;60:sixty;70:seventy;80:eighty;90:ninety",
        "january jan;february feb;march mar;april apr;may;june jun;july jul;august aug;september sep sept;october oct;november nov;december dec",
        Grammar {
            is_verb_second: false,
            has_decimal_comma: false,
            stem_of: stem::english,
            past_endings: &["ed"],
            bases_like_past: &["need", "ceed", "feed", "speed", "bleed", "breed", "heed", "embed", "shed"],
            verb_endings: &["s", "ed"],
            passive_auxiliaries: &["is", "are", "was", "were", "be", "been", "being"],
            past_auxiliaries: &["was", "were", "had", "did", "came with", "there was"],
            perfect_auxiliaries: &["has", "have"],
            lemma_be: "be",
            lemma_have: "have",
            weighing_stem: "weigh",
            articles: &["the", "a", "an"],
            doubt_stems: &[
                "myth",
                "false",
                "wrong",
                "fiction",
                "error",
                "mistake",
                "reject",
                "obsolet",
                "draft",
                "planned",
                "debunk",
                "untrue",
                "mistakes",
                "rumour",
                "rumours",
                "rumor",
                "rumors",
                "former",
                "lie",
                "discontinu",
                "outdat",
                "expir",
                "cancel",
                "archiv",
            ],
            reference_stems: &[
                "same", "other", "otherwis", "such", "1st", "2nd", "latter", "former", "too", "then", "that",
                "one",
            ],
            truth_words: &[
                "false",
                "wrong",
                "untrue",
                "mistakes",
                "rumour",
                "rumours",
                "rumor",
                "rumors",
                "incorrect",
                "lie",
                "lies",
                "myth",
                "myths",
                "fiction",
                "debunked",
                "true",
                "correct",
                "following",
                "suppose",
                "imagine",
                "assume",
                "satire",
                "joke",
                "fictional",
                "hypothetical",
            ],
            weekdays: &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
            calendar_words: &[
                "day",
                "night",
                "week",
                "weekend",
                "month",
                "year",
                "morning",
                "afternoon",
                "evening",
                "today",
                "tomorrow",
                "yesterday",
                "spring",
                "summer",
                "autumn",
                "winter",
            ],
            times_word: "times",
            by: "by",
            of: "of",
        },
    )
});

/// German.
pub(super) static GERMAN: LazyLock<LanguageTables> = LazyLock::new(|| {
    language(
        &[
            (
                WordClass::Bound,
                "at least: mindestens, wenigstens, nicht weniger als; at most: höchstens, maximal, bis zu, nicht mehr als; more than: mehr als; less than: weniger als",
            ),
            (WordClass::About, "etwa; rund; circa; ca; ungefähr"),
            (
                WordClass::Negation,
                "not: nicht; no: kein, keine, keinen, keinem, keiner, keines; never: nie, niemals; nobody: niemand; nothing: nichts; noch nicht; nicht mehr; kaum; ohne; neither: weder; außer: außer, ausgenommen",
            ),
            (
                WordClass::Condition,
                "if: wenn, falls, sofern, im falle; vorausgesetzt; bei vorlage; solange; once: sobald; unless: es sei denn, außer wenn; only if: nur wenn; erst wenn; erst nach",
            ),
            (
                WordClass::Attribution,
                "says: sagt, sagte, laut, zufolge, nach angaben, nach angaben von; behauptet: behauptet, behaupten, behauptete; angeblich; meint: meint, meinen; glaubt: glaubt, glauben; berichtet; soll: soll, sollen; warnt; gerücht; hofft; bezweifelt; bestreitet; leugnet",
            ),
            (
                WordClass::Qualifier,
                "only: nur; lediglich; ausschließlich; bloß; all: alle, allen; every: jede, jeder, jedes, jeden, jedem; immer; sämtliche; einige; ein paar; ein wenig; wenig; manche; mehrere; teilweise; teils; meiste; meisten; überwiegend; größtenteils; viele; vielen; oft;\
                häufig; meist; meistens; üblicherweise; normalerweise; wenige; wenigen; selten; both: beide, beiden; fast; beinahe; knapp; wahrscheinlich; may: kann, können; könnte; könnten; darf: darf, dürfen; möglicherweise; eventuell;\
                vielleicht; dürfte; should: sollte, sollten; must: muss, müssen; before: vor, bevor; until: bis; after: nach, nachdem; since: seit; during: während; within: innerhalb, binnen; noch; wieder; instead: statt, anstatt, anstelle;\
                than: als; mehr; weniger; erst",
            ),
            (
                WordClass::Conjunction,
                "and: und, aber, sondern, sowie, jedoch; nor: noch; or: oder; because: weil; although: obwohl; deshalb; daher",
            ),
            (WordClass::Relative, "welche, welcher, welches"),
            (WordClass::Complementizer, "dass, ob"),
            (
                WordClass::Pronoun,
                "er, sie, es, ihr, ihre, ihren, sein, seine, seinen, dieser, diese, dieses, diesem, diesen, sie, ihn, ihm",
            ),
            (
                WordClass::Auxiliary,
                "there is: es gibt, gibt es; there was: es gab, gab es; wird, werden, ist, sind, war, waren, gewesen, hat, haben, hatte, hatten, wurde, wurden, worden, geworden, beträgt, betragen, betrug",
            ),
            (
                WordClass::Preposition,
                "in, im, an, am, auf, für, mit, von, vom, zu, über, unter, ab, zum, zur, bei, beim, aus, durch, gegen, pro, je, um, zwischen, neben, entlang, per, ins",
            ),
            (
                WordClass::Function,
                "der, die, das, den, dem, des, ein, eine, einen, einem, einer, eines, auch, zudem, außerdem, derzeit",
            ),
            (
                WordClass::Narrowing,
                "erste, ersten, erster, erstes, zweite, zweiten, letzte, letzten, nächste, nächsten, neue, neuen, neuer, alte, alten, bekannte, bekannten, zusätzliche, durchschnittlich",
            ),
            (
                WordClass::Verb,
                "kostet, kosten, wiegt, wiegen, kommt, kommen, enthält, enthalten, bietet, bieten, umfasst, umfassen, öffnet, öffnen, schließt, läuft, laufen, gilt, gelten, liefert, zahlt, zahlen, \
                fährt, fahren, liegt, liegen, steht, stehen, dauert, dauern, beginnt, endet, gewann, gewinnt, verlor, spielt, misst, verbraucht, erzeugt, deckt, erhält, erhalten, bekommt, bekommen, verkauft, verfügt, unterstützt, behebt, weht, fiel",
            ),
        ],
        "sein:ist sind war waren gewesen beträgt betragen betrug;haben:hat hatte hatten;werden:wird wurde wurden worden geworden;gewicht:wiegt wiegen wog;fallen:fiel fielen fällt;steigen:steigt stieg gestiegen;sinken:sinkt sank gesunken",
        "haus:häuser;land:länder;kind:kinder;jahr:jahre jahren jahres;tag:tage tagen tages;monat:monate monaten;mann:männer;wohnung:wohnungen;buch:bücher;platz:plätze plätzen;zug:züge zügen;fenster:fenstern",
        "0:null;1:eins;2:zwei;3:drei;4:vier;5:fünf;6:sechs;7:sieben;8:acht;9:neun;10:zehn;11:elf;12:zwölf dutzend;13:dreizehn;14:vierzehn;15:fünfzehn;16:sechzehn;17:siebzehn;18:achtzehn;19:neunzehn;20:zwanzig;\
         30:dreißig;40:vierzig;50:fünfzig;60:sechzig;70:siebzig;80:achtzig;90:neunzig",
        "januar jan jänner;februar feb;märz mär;april apr;mai;juni jun;juli jul;august aug;september sep sept;oktober okt;november nov;dezember dez",
        Grammar {
            is_verb_second: true,
            has_decimal_comma: true,
            stem_of: stem::german,
            past_endings: &["te", "ten"],
            bases_like_past: &[
                "halten",
                "raten",
                "treten",
                "bieten",
                "leiten",
                "arbeiten",
                "warten",
                "mieten",
                "richten",
                "achten",
                "statten",
                "deuten",
                "gelten",
                "bitten",
                "reiten",
                "schreiten",
            ],
            verb_endings: &["t", "te", "ten"],
            passive_auxiliaries: &["wird", "werden", "wurde", "wurden", "worden"],
            past_auxiliaries: &["war", "waren", "hatte", "hatten", "wurde", "wurden", "betrug", "there was"],
            perfect_auxiliaries: &["hat", "haben"],
            lemma_be: "sein",
            lemma_have: "haben",
            weighing_stem: "gewicht",
            articles: &["der", "die", "das", "ein", "eine", "dem", "den"],
            doubt_stems: &[
                "mythos",
                "mythen",
                "falsch",
                "unwahr",
                "gelogen",
                "lüge",
                "lügen",
                "irrtum",
                "irrtümer",
                "fehler",
                "gerücht",
                "gerüchte",
                "widerlegt",
                "abgelehnt",
                "veraltet",
                "eingestellt",
                "entwurf",
                "entwürfe",
                "geplant",
                "geplante",
                "ehemalig",
                "ehemalige",
            ],
            reference_stems: &[
                "andere", "anderer", "sonst", "solch", "dann", "dort", "dass", "derselb", "dasselb",
            ],
            truth_words: &[
                "falsch", "unwahr", "gelogen", "lüge", "mythos", "mythen", "irrtum", "wahr", "richtig",
                "korrekt",
            ],
            weekdays: &["montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"],
            calendar_words: &[
                "tag", "nacht", "woche", "monat", "jahr", "morgen", "abend", "heute", "gestern", "sommer",
                "winter",
            ],
            times_word: "mal",
            by: "von",
            of: "von",
        },
    )
});

/// The words of a caller, beside those of a language.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    /// The stem of the group, by the stem of each of its words.
    words: HashMap<String, String>,
    /// The stems of the phrases of groups, by their first stem; the longest first.
    phrases: HashMap<String, Vec<Phrase>>,
    /// The words for each abbreviation.
    abbreviations: HashMap<String, String>,
    /// The longest spelling first.
    units: Vec<ListedUnit>,
}

/// A phrase of several words.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    pub(super) stems: Vec<String>,
    /// The stem of its group.
    pub(super) group: String,
}

#[derive(Debug, Clone)]
struct ListedUnit {
    spelling: String,
    /// The number of base units.
    factor: Decimal,
    base: String,
}

impl Vocabulary {
    /// Adds a group: the stems of each of its words and phrases. The first one represents all.
    pub(crate) fn add_group(&mut self, members: Vec<Vec<String>>) {
        let group = members.first().map(|stems| stems.join(" ")).unwrap_or_default();
        for stems in members {
            match stems.as_slice() {
                [] => {}
                [stem] => {
                    self.words.insert(stem.clone(), group.clone());
                }
                [first, ..] => {
                    let phrases = self.phrases.entry(first.clone()).or_default();
                    let longer = phrases.partition_point(|phrase| phrase.stems.len() >= stems.len());
                    phrases.insert(longer, Phrase { stems, group: group.clone() });
                }
            }
        }
    }

    pub(crate) fn add_abbreviation(&mut self, abbreviation: String, words: String) {
        self.abbreviations.insert(abbreviation, words);
    }

    /// Adds a unit of `factor` times `base`.
    pub(crate) fn add_unit(&mut self, spelling: String, factor: Decimal, base: String) {
        let longer = self.units.partition_point(|unit| unit.spelling.len() >= spelling.len());
        self.units.insert(longer, ListedUnit { spelling, factor, base });
    }

    /// The stem of the group that has the word with this stem.
    pub(super) fn group_of(&self, stem: &str) -> Option<&str> {
        self.words.get(stem).map(String::as_str)
    }

    /// The phrases that begin with this stem, the longest first.
    pub(super) fn phrases_from(&self, stem: &str) -> &[Phrase] {
        self.phrases.get(stem).map_or(&[], Vec::as_slice)
    }

    /// The words for an abbreviation.
    pub(super) fn expand(&self, abbreviation: &str) -> Option<&str> {
        self.abbreviations.get(abbreviation).map(String::as_str)
    }

    pub(super) fn has_no_words(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether no word is replaced by others, and no phrase by a word.
    pub(super) fn replaces_nothing(&self) -> bool {
        self.phrases.is_empty() && self.abbreviations.is_empty()
    }

    /// `value` in base units of the unit at the beginning of `text`, the base, and the length of the unit.
    pub(super) fn leading_unit(&self, value: &Decimal, text: &str) -> Option<(Decimal, String, usize)> {
        let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
        let unit =
            self.units.iter().find(|unit| text.strip_prefix(unit.spelling.as_str()).is_some_and(is_end))?;
        Some((value.checked_mul(&unit.factor).ok()?, unit.base.clone(), unit.spelling.len()))
    }
}
