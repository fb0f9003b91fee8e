//! The decision on a verdict in plain words, for the person concerned: made from the entries of the log alone.

use crate::counterfactual::{Counterfactual, VerdictChange, counterfactuals};
use crate::crosscheck::CrosscheckReason;
use crate::event::{
    CrosscheckEntry, OracleInteraction, OrderCancelled, OrderDelivered, OrderReleased, OrderRetried,
    OrderStopped, PolicyApplied, RegenDivergenceCheck, SessionCorrected, SessionRemoved, TmmCrosscheck,
    VerdictCached,
};
use crate::flag::Flag;
use crate::policy::PolicyCause;
use crate::recall::VerdictRecalled;
use crate::tmm::OMEGA;
use domain_base::event::{EntryMembers, Event, LoggedEvent};
use domain_base::moment::Moment;
use domain_base::text_form::visible_line;
use domain_rules::event::RulesEvaluated;
use jiff::tz::TimeZone;
use serde_json::Value;

/// The language of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplanationLanguage {
    English,
    German,
}

/// The sentences about a session, by its log entries in their order. Entries that no person is concerned by have none.
///
/// Values that were erased are not in it; it says so.
#[must_use]
pub fn explain(lines: &[String], language: ExplanationLanguage) -> Vec<String> {
    let words = Words { language };
    lines.iter().flat_map(|line| words.of_line(line)).collect()
}

/// How sentences are said.
#[derive(Clone, Copy)]
struct Words {
    language: ExplanationLanguage,
}

impl Words {
    fn pick<T>(self, english: T, german: T) -> T {
        match self.language {
            ExplanationLanguage::English => english,
            ExplanationLanguage::German => german,
        }
    }

    fn number(self, number: f64) -> String {
        let text = format!("{number:.4}");
        self.pick(text.clone(), text.replace('.', ","))
    }

    fn time(self, entry: EntryMembers<'_>) -> String {
        let text = entry.text("timestamp");
        let Ok(Moment(at)) = text.parse() else { return text };
        let format = self.pick("%-d %B %Y, %H:%M UTC", "%-d.%-m.%Y, %H:%M Uhr (UTC)");
        at.to_zoned(TimeZone::UTC).strftime(format).to_string()
    }

    /// A text of the log, as one line; what was erased is named so.
    fn text(self, entry: EntryMembers<'_>, path: &str) -> String {
        let text = entry.text(path);
        match text.as_str() {
            "" => self.pick("not stated", "nicht angegeben").to_owned(),
            EntryMembers::HIDDEN => self.pick("erased", "gelöscht").to_owned(),
            text => visible_line(text).into_owned(),
        }
    }

    fn of_line(self, line: &str) -> Vec<String> {
        let Ok(members) = serde_json::from_str::<Value>(line) else {
            return vec![
                self.pick(
                    "An entry of the log cannot be read.",
                    "Ein Eintrag des Protokolls ist nicht lesbar.",
                )
                .to_owned(),
            ];
        };
        let entry = EntryMembers(&members);
        let event = entry.text("event");
        if event == TmmCrosscheck::NAME {
            return self.of_judgment(line, entry);
        }
        self.of_event(&event, line, entry)
            .map(|sentence| format!("{}: {sentence}", self.time(entry)))
            .into_iter()
            .collect()
    }

    fn of_event(self, event: &str, line: &str, entry: EntryMembers<'_>) -> Option<String> {
        let text = |path| self.text(entry, path);
        Some(match event {
            OracleInteraction::NAME if entry.text("status") == "success" => {
                let (model, version) = (text("oracle_id"), text("oracle_version"));
                self.pick(
                    format!("The language model {model} (version {version}) wrote an answer."),
                    format!("Das Sprachmodell {model} (Version {version}) schrieb eine Antwort."),
                )
            }
            RulesEvaluated::NAME => self.of_rules(entry),
            PolicyApplied::NAME => self.of_policy(line, entry),
            VerdictCached::NAME => {
                let label = text("verdict_label");
                self.pick(
                    format!("The answer with the label {label} was stored, and is what is delivered."),
                    format!("Die Antwort mit dem Label {label} wurde gespeichert; sie wird ausgeliefert."),
                )
            }
            OrderDelivered::NAME => {
                self.pick("The order was delivered.", "Der Auftrag wurde ausgeliefert.").to_owned()
            }
            RegenDivergenceCheck::NAME => self.of_regeneration(entry),
            VerdictRecalled::NAME => {
                let (source, result) = (text("oracle_id"), entry.text("result"));
                let result = self.recall_result(&result);
                self.pick(
                    format!("The source {source} corrected a statement that the answer relied on: {result}. The answer was not changed."),
                    format!("Die Quelle {source} berichtigte eine Angabe, auf die sich die Antwort stützte: {result}. Die Antwort wurde nicht geändert."),
                )
            }
            SessionCorrected::NAME => self
                .pick(
                    "The record of the session was corrected.",
                    "Die Angaben zur Sitzung wurden berichtigt.",
                )
                .to_owned(),
            SessionRemoved::NAME => self
                .pick(
                    "A person removed the session with its answer.",
                    "Ein Mensch entfernte die Sitzung mit ihrer Antwort.",
                )
                .to_owned(),
            _ => return self.of_person(event, entry),
        })
    }

    fn of_policy(self, line: &str, entry: EntryMembers<'_>) -> String {
        let causes = match LoggedEvent::<PolicyApplied>::read(line) {
            Ok(Some(LoggedEvent { event, .. })) => {
                event.policy.causes.iter().map(|cause| self.cause(cause)).collect::<Vec<_>>().join(" ")
            }
            _ => self.pick("The cause was erased.", "Der Grund wurde gelöscht.").to_owned(),
        };
        if entry.text("action") == "hold" {
            self.pick(
                format!("By a rule of the provider, the answer was not delivered but waited for a person. {causes}"),
                format!("Nach einer Regel des Anbieters wurde die Antwort nicht ausgeliefert, sondern einem Menschen vorgelegt. {causes}"),
            )
        } else {
            self.pick(
                format!("By a rule of the provider, the answer was refused. {causes}"),
                format!("Nach einer Regel des Anbieters wurde die Antwort abgelehnt. {causes}"),
            )
        }
    }

    fn cause(self, cause: &PolicyCause) -> String {
        match cause {
            PolicyCause::Flag(flag) => self.finding(flag),
            PolicyCause::CoherenceMin(least) => {
                let least = self.number(*least);
                self.pick(format!("Its score is below {least}."), format!("Ihr Wert liegt unter {least}."))
            }
        }
    }

    /// A decision of a person about an order.
    fn of_person(self, event: &str, entry: EntryMembers<'_>) -> Option<String> {
        let is_by_person = !entry.text("reason").is_empty();
        let reason = self.text(entry, "reason");
        let (english, german) = match event {
            OrderReleased::NAME => {
                ("A person read the answer and released it", "Ein Mensch prüfte die Antwort und gab sie frei")
            }
            OrderRetried::NAME => {
                ("A person had the model asked again", "Ein Mensch ließ das Modell erneut fragen")
            }
            OrderStopped::NAME if is_by_person => {
                ("A person ended the order without an answer", "Ein Mensch beendete den Auftrag ohne Antwort")
            }
            OrderStopped::NAME => return Some(self.stop(&entry.text("cause")).to_owned()),
            OrderCancelled::NAME if is_by_person => {
                ("A person cancelled the order", "Ein Mensch stornierte den Auftrag")
            }
            OrderCancelled::NAME => {
                return Some(
                    self.pick(
                        "The application cancelled the order.",
                        "Die Anwendung stornierte den Auftrag.",
                    )
                    .to_owned(),
                );
            }
            _ => return None,
        };
        Some(self.pick(format!("{english}. Reason: {reason}."), format!("{german}. Grund: {reason}.")))
    }

    /// Why an order stopped without a person.
    fn stop(self, cause: &str) -> &'static str {
        match cause {
            "policy" => self.pick("The order waits for a person.", "Der Auftrag wartet auf einen Menschen."),
            "generations_used_up" => self.pick(
                "The order stopped: the model gave no answer that passed.",
                "Der Auftrag hielt an: Das Modell gab keine Antwort, die bestand.",
            ),
            "expired" => self.pick(
                "The order stopped: the model gave no answer in time.",
                "Der Auftrag hielt an: Das Modell gab rechtzeitig keine Antwort.",
            ),
            _ => self.pick(
                "The order stopped: the calls of the model were cut off.",
                "Der Auftrag hielt an: Die Aufrufe des Modells brachen ab.",
            ),
        }
    }

    fn of_rules(self, entry: EntryMembers<'_>) -> String {
        let facts = entry.text("facts_from/facts");
        let facts = if facts.is_empty() {
            self.pick("the facts of the request", "den Angaben der Anfrage").to_owned()
        } else {
            self.pick(
                format!("{facts} facts of registered sources"),
                format!("{facts} Angaben registrierter Quellen"),
            )
        };
        match entry.text("verdict").as_str() {
            "PASS" => self.pick(
                format!("The claims of the answer were compared with {facts}; none was without support."),
                format!("Die Aussagen der Antwort wurden mit {facts} verglichen; keine blieb unbelegt."),
            ),
            "FAIL" => self.pick(
                format!("The claims of the answer were compared with {facts}; at least one was without support, so the answer was rejected."),
                format!("Die Aussagen der Antwort wurden mit {facts} verglichen; mindestens eine blieb unbelegt, daher wurde die Antwort abgelehnt."),
            ),
            _ => self.pick(
                format!("The claims of the answer could not be compared with {facts}, so the answer was rejected."),
                format!("Die Aussagen der Antwort konnten nicht mit {facts} verglichen werden, daher wurde die Antwort abgelehnt."),
            ),
        }
    }

    fn of_regeneration(self, entry: EntryMembers<'_>) -> String {
        let [before, after, level] =
            ["original_verdict", "regen_verdict", "divergence_level"].map(|path| self.text(entry, path));
        self.pick(
            format!("The stored answer was lost and made again: label {before} before, {after} now (difference: {level})."),
            format!("Die gespeicherte Antwort ging verloren und wurde neu erzeugt: Label vorher {before}, jetzt {after} (Abweichung: {level})."),
        )
    }

    fn recall_result(self, result: &str) -> &str {
        match result {
            "still_supported" => self.pick("it is still supported", "sie ist weiterhin belegt"),
            "no_longer_supported" => self.pick("it is no longer supported", "sie ist nicht mehr belegt"),
            "now_contradicted" => self.pick("it is contradicted now", "ihr wird nun widersprochen"),
            "not_evaluated" => self.pick("it was not examined again", "sie wurde nicht erneut geprüft"),
            other => other,
        }
    }

    fn of_judgment(self, line: &str, entry: EntryMembers<'_>) -> Vec<String> {
        let time = self.time(entry);
        let Ok(Some(LoggedEvent { event: TmmCrosscheck(judged), .. })) = LoggedEvent::read(line) else {
            return vec![self.pick(
                format!("{time}: an answer was examined; what was found has been erased."),
                format!("{time}: Eine Antwort wurde geprüft; die Befunde wurden gelöscht."),
            )];
        };
        let label = judged.verdict_label.map_or_else(
            || self.pick("no valid label", "kein gültiges Label").to_owned(),
            |label| self.pick(format!("the label {label}"), format!("das Label {label}")),
        );
        let mut sentences = vec![self.pick(
            format!("{time}: an answer with {label} was examined for contradictions and gaps, not for whether it is true."),
            format!("{time}: Eine Antwort ({label}) wurde auf Widersprüche und Lücken geprüft, nicht darauf, ob sie wahr ist."),
        )];
        sentences.extend(judged.flags.iter().map(|flag| format!("- {}", self.finding(flag))));
        let (score, least) = (self.number(judged.coherence_score), self.number(OMEGA));
        let outcome = self.outcome(judged.crosscheck_reason);
        sentences.push(self.pick(
            format!("Its score is {score}; at least {least} of 1 is needed. {outcome}"),
            format!("Ihr Wert ist {score}; nötig sind mindestens {least} von 1. {outcome}"),
        ));
        sentences.extend(counterfactuals(&judged).iter().map(|one| self.counterfactual(&judged, one)));
        sentences
    }

    fn outcome(self, reason: CrosscheckReason) -> &'static str {
        match reason {
            CrosscheckReason::Pass => self.pick("It passed.", "Sie hat bestanden."),
            CrosscheckReason::FieldMissing => self.pick(
                "It was rejected: a part is missing or invalid.",
                "Sie wurde abgelehnt: Ein Teil fehlt oder ist ungültig.",
            ),
            CrosscheckReason::DimensionConflict => self.pick(
                "It was rejected: it contradicts itself.",
                "Sie wurde abgelehnt: Sie widerspricht sich.",
            ),
            CrosscheckReason::DegenerateManifold | CrosscheckReason::LowCoherence => self.pick(
                "It was rejected: the score is too low.",
                "Sie wurde abgelehnt: Der Wert ist zu niedrig.",
            ),
            CrosscheckReason::UnexpectedField => self.pick(
                "It was rejected: it has parts that were not asked for.",
                "Sie wurde abgelehnt: Sie enthält Teile, die nicht verlangt waren.",
            ),
        }
    }

    fn counterfactual(self, judged: &CrosscheckEntry, one: &Counterfactual) -> String {
        let changes: Vec<_> = one.changes.iter().map(|change| self.change(*change)).collect();
        let changes = changes.join(self.pick(" and ", " und "));
        let score = self.number(one.decision.coherence_score);
        let score = if one.is_exact() {
            score
        } else {
            self.pick(format!("at least {score}"), format!("mindestens {score}"))
        };
        let outcome = match (judged.approved, one.decision.approved) {
            (false, true) => {
                self.pick(", and the answer would have passed", ", und die Antwort hätte bestanden")
            }
            (false, false) => {
                self.pick("; that alone is not known to be enough", "; das allein genügt nicht sicher")
            }
            (true, _) => "",
        };
        self.pick(
            format!("With {changes}, the score would have been {score}{outcome}."),
            format!("Mit {changes} wäre der Wert {score} gewesen{outcome}."),
        )
    }

    fn change(self, change: VerdictChange) -> String {
        match change {
            VerdictChange::Summary => self
                .pick(
                    "a summary of at least 10 characters",
                    "einer Zusammenfassung von mindestens 10 Zeichen",
                )
                .to_owned(),
            VerdictChange::Label => {
                self.pick("the label of most dimensions", "dem Label der meisten Dimensionen").to_owned()
            }
            VerdictChange::Analysis(dimension) => self.pick(
                format!("an analysis of the dimension {dimension}"),
                format!("einer Begründung der Dimension {dimension}"),
            ),
            VerdictChange::Strategy => {
                self.pick("a complete strategy", "einer vollständigen Strategie").to_owned()
            }
            VerdictChange::NextStep => self.pick("a next step", "einem nächsten Schritt").to_owned(),
            VerdictChange::Alternative => self.pick("an alternative", "einer Alternative").to_owned(),
            VerdictChange::Tests => self.pick("two tests", "zwei Tests").to_owned(),
            VerdictChange::NoUnexpected => self
                .pick("none of the parts that were not asked for", "keinem der nicht verlangten Teile")
                .to_owned(),
        }
    }

    fn finding(self, flag: &Flag) -> String {
        match flag {
            Flag::VerdictConflict => self
                .pick(
                    "Its label differs from that of most dimensions.",
                    "Ihr Label weicht von dem der meisten Dimensionen ab.",
                )
                .to_owned(),
            Flag::EmptyAnalysis(dimension) => self.pick(
                format!("The dimension {dimension} has a label and no analysis."),
                format!("Die Dimension {dimension} hat ein Label, aber keine Begründung."),
            ),
            Flag::ShortSummary => self
                .pick(
                    "Its summary has fewer than 10 characters.",
                    "Ihre Zusammenfassung hat weniger als 10 Zeichen.",
                )
                .to_owned(),
            Flag::ContradictoryNull => self
                .pick(
                    "Its label is NULL, although all dimensions are GREEN or AMBER.",
                    "Ihr Label ist NULL, obwohl alle Dimensionen GREEN oder AMBER sind.",
                )
                .to_owned(),
            Flag::StrategyMissing => self.pick("It has no strategy.", "Sie hat keine Strategie.").to_owned(),
            Flag::FewTests => self
                .pick("Its strategy has fewer than two tests.", "Ihre Strategie hat weniger als zwei Tests.")
                .to_owned(),
            Flag::MalformedJson => self
                .pick(
                    "It is not one complete document; it may be truncated.",
                    "Sie ist kein vollständiges Dokument; sie kann abgeschnitten sein.",
                )
                .to_owned(),
            Flag::VerdictMissing => self.pick("It has no label.", "Sie hat kein Label.").to_owned(),
            Flag::VerdictInvalid => {
                self.pick("Its label is none of the four.", "Ihr Label ist keines der vier.").to_owned()
            }
            Flag::FieldMissing(path) => {
                self.pick(format!("The part {path} is missing."), format!("Der Teil {path} fehlt."))
            }
            Flag::DimensionVerdictInvalid(dimension) => self.pick(
                format!("The label of the dimension {dimension} is none of the four."),
                format!("Das Label der Dimension {dimension} ist keines der vier."),
            ),
            Flag::UnexpectedField(path) => {
                let path = visible_line(path);
                self.pick(
                    format!("The part {path} was not asked for."),
                    format!("Der Teil {path} war nicht verlangt."),
                )
            }
            Flag::DegenerateManifold => {
                self.pick("The score is below zero.", "Der Wert ist kleiner als null.").to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
