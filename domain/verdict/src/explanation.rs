//! The decision on a verdict in plain words, for the person concerned: made from the entries of the log alone.

use crate::counterfactual::{Counterfactual, VerdictChange, counterfactuals};
use crate::event::{
    CrosscheckEntry, OracleInteraction, OrderCancelled, OrderDelivered, OrderReleased, OrderRetried,
    OrderStopped, PolicyApplied, RegenDivergenceCheck, SessionCorrected, SessionRemoved, TmmCrosscheck,
    VerdictCached,
};
use crate::flag::{FieldPath, Flag};
use crate::opinion::{OpinionDecision, OrderOpinion};
use crate::policy::PolicyCause;
use crate::recall::VerdictRecalled;
use crate::recall_notice::{RecallNoticeReleased, RecallNoticeWithdrawn};
use crate::tmm::OMEGA;
use domain_base::event::{EntryMembers, Event, LoggedEvent};
use domain_base::moment::Moment;
use domain_base::text_form::visible_line;
use domain_rules::RuleId;
use domain_rules::event::RulesEvaluated;
use jiff::tz::TimeZone;
use serde_json::Value;

/// The language of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplanationLanguage {
    English,
    German,
}

/// The sentences about a session, by its log entries in their order. Other entries have none. An erased value is shown as erased. What
/// operators have written, such as their reasons, is left out.
#[must_use]
pub fn explain(lines: &[String], language: ExplanationLanguage) -> Vec<String> {
    let words = Words { language };
    lines.iter().flat_map(|line| words.of_line(line)).collect()
}

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

    /// A text of the log on one line.
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
                let (model, version) = (text("generation/model"), text("oracle_version"));
                let version = Some(version).filter(|version| *version != model);
                let version = version.map(|version| format!(" (version {version})")).unwrap_or_default();
                self.pick(
                    format!("The language model {model}{version} wrote an answer."),
                    format!("Das Sprachmodell {model}{version} schrieb eine Antwort."),
                )
            }
            RulesEvaluated::NAME => self.of_rules(entry),
            PolicyApplied::NAME => self.of_policy(line, entry),
            OrderOpinion::NAME => return self.of_opinions(line, entry),
            VerdictCached::NAME => {
                let label = text("verdict_label");
                self.pick(
                    format!("The answer with the label {label} was stored for delivery."),
                    format!("Die Antwort mit der Einstufung {label} wurde zur Auslieferung gespeichert."),
                )
            }
            OrderDelivered::NAME => self
                .pick(
                    "The answer to the order was delivered.",
                    "Die Antwort auf den Auftrag wurde ausgeliefert.",
                )
                .to_owned(),
            RegenDivergenceCheck::NAME => self.of_regeneration(entry),
            VerdictRecalled::NAME => {
                let (source, result) = (text("oracle_id"), entry.text("result"));
                let result = self.recall_result(&result);
                self.pick(
                    format!("The source {source} changed a statement that the answer relied on. By its new statement, the answer {result}. The answer was not changed."),
                    format!("Die Quelle {source} änderte eine Angabe, auf die sich die Antwort stützte. Nach ihrer neuen Angabe {result}. Die Antwort wurde nicht geändert."),
                )
            }
            RecallNoticeWithdrawn::NAME => {
                let source = text("oracle_id");
                self.pick(
                    format!("The source {source} states again what the answer relied on."),
                    format!("Die Quelle {source} gibt wieder an, worauf sich die Antwort stützte."),
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
                format!("The operator's policy held the answer for a person. {causes}"),
                format!("Nach einer Vorgabe des Betreibers wurde die Antwort nicht sofort ausgeliefert, sondern einem Menschen vorgelegt. {causes}"),
            )
        } else {
            self.pick(
                format!("The operator's policy refused the answer. {causes}"),
                format!("Nach einer Vorgabe des Betreibers wurde die Antwort abgelehnt. {causes}"),
            )
        }
    }

    fn cause(self, cause: &PolicyCause) -> String {
        match cause {
            PolicyCause::Flag(flag) => self.finding(flag),
            PolicyCause::CoherenceMin(least) => {
                let least = self.number(*least);
                self.pick(
                    format!("Its score is below {least}."),
                    format!("Der Wert der Antwort liegt unter {least}."),
                )
            }
        }
    }

    /// The result of several opinions; `None` as long as further ones are required.
    fn of_opinions(self, line: &str, entry: EntryMembers<'_>) -> Option<String> {
        let [count, agree] = ["count", "agree"].map(|path| self.text(entry, path));
        let decision = match LoggedEvent::<OrderOpinion>::read(line) {
            Ok(Some(LoggedEvent { event, .. })) => event.tally.decision(),
            _ => return None,
        };
        Some(match decision {
            OpinionDecision::Open => return None,
            OpinionDecision::Disagreed => self.pick(
                format!("Up to {count} answers were requested; fewer than {agree} had the same label."),
                format!("Bis zu {count} Antworten wurden angefordert; weniger als {agree} hatten dieselbe Einstufung."),
            ),
            OpinionDecision::Agreed(label) => self.pick(
                format!("Up to {count} answers were requested; {agree} agreed on the label {label}, and the first of these counts."),
                format!("Bis zu {count} Antworten wurden angefordert; {agree} stimmten in der Einstufung {label} überein, und die erste davon gilt."),
            ),
        })
    }

    /// A decision of a person.
    fn of_person(self, event: &str, entry: EntryMembers<'_>) -> Option<String> {
        let is_by_person = !entry.text("reason").is_empty();
        let (english, german) = match event {
            OrderReleased::NAME => ("A person released the answer.", "Ein Mensch gab die Antwort frei."),
            OrderRetried::NAME => (
                "A person requested another answer from the model.",
                "Ein Mensch veranlasste eine neue Anfrage an das Modell.",
            ),
            OrderStopped::NAME if is_by_person => (
                "A person ended the order without an answer.",
                "Ein Mensch beendete den Auftrag ohne Antwort.",
            ),
            OrderStopped::NAME => return Some(self.stop(&entry.text("cause")).to_owned()),
            OrderCancelled::NAME if is_by_person => {
                ("A person cancelled the order.", "Ein Mensch stornierte den Auftrag.")
            }
            OrderCancelled::NAME => {
                ("The application cancelled the order.", "Die Anwendung stornierte den Auftrag.")
            }
            RecallNoticeReleased::NAME => (
                "A person released a notice to the customer about the changed statement.",
                "Ein Mensch gab eine Mitteilung an den Kunden über die geänderte Angabe frei.",
            ),
            _ => return None,
        };
        Some(self.pick(english, german).to_owned())
    }

    /// Why an order stopped without a person.
    fn stop(self, cause: &str) -> &'static str {
        match cause {
            "policy" => self.pick(
                "The order was left to the decision of a person.",
                "Der Auftrag wurde einem Menschen zur Entscheidung vorgelegt.",
            ),
            "generations_used_up" => self.pick(
                "The order stopped: no answer of the model passed.",
                "Der Auftrag wurde angehalten: Keine Antwort des Modells bestand die Prüfung.",
            ),
            "expired" => self.pick(
                "The order stopped: no answer passed in time.",
                "Der Auftrag wurde angehalten: Bis zum Ablauf der Frist bestand keine Antwort die Prüfung.",
            ),
            "no_agreement" => self.pick(
                "The order stopped: too few answers had the same label.",
                "Der Auftrag wurde angehalten: Zu wenige Antworten hatten dieselbe Einstufung.",
            ),
            "interrupted" => self.pick(
                "The order stopped: the model calls were interrupted too often.",
                "Der Auftrag wurde angehalten: Die Aufrufe des Modells wurden zu oft unterbrochen.",
            ),
            _ => self.pick("The order stopped.", "Der Auftrag wurde angehalten."),
        }
    }

    fn of_rules(self, entry: EntryMembers<'_>) -> String {
        let has_facts = !entry.text("facts_from").is_empty();
        let checked = if has_facts {
            self.pick(
                "Rules checked the answer against facts of registered sources.",
                "Die Antwort wurde nach Regeln mit Angaben registrierter Quellen abgeglichen.",
            )
        } else {
            self.pick(
                "Rules checked the answer, also against facts that the application gave, if it gave any.",
                "Die Antwort wurde nach Regeln geprüft, auch mit den Angaben der Anwendung, falls es solche gab.",
            )
        };
        let rules = entry.0.get("rules").and_then(Value::as_array).into_iter().flatten().map(EntryMembers);
        let unmet: Vec<_> = rules
            .filter(|rule| rule.text("verdict") == entry.text("verdict"))
            .map(|rule| self.unmet_rule(rule))
            .collect();
        let unmet = unmet.join("; ");
        let result = match entry.text("verdict").as_str() {
            "PASS" => self.pick("It passed all of them.", "Sie erfüllte alle Regeln.").to_owned(),
            "FAIL" => self.pick(
                format!("It was rejected, because it failed: {unmet}."),
                format!("Sie wurde abgelehnt, denn verletzt waren: {unmet}."),
            ),
            _ => self.pick(
                format!("It was rejected, because these could not be applied: {unmet}."),
                format!("Sie wurde abgelehnt, denn nicht anwendbar waren: {unmet}."),
            ),
        };
        format!("{checked} {result}")
    }

    /// A rule that an answer did not pass, with the number of places.
    fn unmet_rule(self, rule: EntryMembers<'_>) -> String {
        let (id, count) = (rule.text("rule"), rule.text("violations"));
        let (english, german) = match RuleId::try_from(id.clone()) {
            Ok(RuleId::Prec001 | RuleId::Prec004) => {
                ("each claim has a source", "jede Aussage hat eine Quelle")
            }
            Ok(RuleId::Prec002) => ("required words are there", "verlangte Wörter kommen vor"),
            Ok(RuleId::Prec003) => ("forbidden words are not there", "verbotene Wörter kommen nicht vor"),
            Ok(RuleId::Prec013) => ("the facts support each claim", "die Angaben belegen jede Aussage"),
            Ok(RuleId::Cont001 | RuleId::Cont002 | RuleId::Cont003) => (
                "no claim contradicts another one or a fact",
                "keine Aussage widerspricht einer anderen oder einer Angabe",
            ),
            Err(_) => return id,
        };
        self.pick(format!("{id} ({english}; places: {count})"), format!("{id} ({german}; Stellen: {count})"))
    }

    fn of_regeneration(self, entry: EntryMembers<'_>) -> String {
        let [before, after] = ["original_verdict", "regen_verdict"].map(|path| self.text(entry, path));
        self.pick(
            format!("The stored answer was lost, and another one was generated. The label was {before} and is now {after}. The answer that was delivered first stays the valid one."),
            format!("Die gespeicherte Antwort ging verloren, und eine andere wurde erzeugt. Die Einstufung war vorher {before} und ist jetzt {after}. Gültig bleibt die zuerst ausgelieferte Antwort."),
        )
    }

    fn recall_result(self, result: &str) -> &str {
        match result {
            "still_supported" => self.pick("was still supported", "war die Antwort weiterhin belegt"),
            "no_longer_supported" => {
                self.pick("was no longer supported", "war die Antwort nicht mehr belegt")
            }
            "now_contradicted" => self.pick("was contradicted", "war die Antwort widerlegt"),
            "not_evaluated" => self.pick("was not checked again", "wurde die Antwort nicht erneut geprüft"),
            other => other,
        }
    }

    fn of_judgment(self, line: &str, entry: EntryMembers<'_>) -> Vec<String> {
        let time = self.time(entry);
        let label = entry.text("verdict_label");
        let (english, german) = if label.is_empty() {
            ("without a valid label".to_owned(), "ohne gültige Einstufung".to_owned())
        } else {
            (format!("with the label {label}"), format!("mit der Einstufung {label}"))
        };
        let mut sentences = vec![self.pick(
            format!("{time}: An answer {english} was examined for contradictions and gaps, not for whether it is true."),
            format!("{time}: Eine Antwort {german} wurde auf Widersprüche und Lücken geprüft, aber nicht darauf, ob sie wahr ist."),
        )];
        if entry.text("test_mode") == "true" {
            let in_test_mode = self.pick(
                "- It is an answer of the test mode, and of no real order.",
                "- Sie stammt aus dem Testbetrieb und gehört zu keinem wirklichen Auftrag.",
            );
            sentences.push(in_test_mode.to_owned());
        }
        // the findings can be erased; the result cannot
        let judged = match LoggedEvent::read(line) {
            Ok(Some(LoggedEvent { event: TmmCrosscheck(judged), .. })) => Some(judged),
            _ => None,
        };
        match &judged {
            Some(judged) => {
                let findings = findings(&judged.flags);
                sentences.extend(findings.map(|flag| format!("- {}", self.finding(flag))));
            }
            None => sentences.push(
                self.pick(
                    "- The findings, if there were any, were erased.",
                    "- Einzelheiten, falls es welche gab, wurden gelöscht.",
                )
                .to_owned(),
            ),
        }
        let score = entry.0.get("coherence_score").and_then(Value::as_f64).unwrap_or_default();
        let (score, least) = (self.number(score), self.number(OMEGA));
        let outcome = self.outcome(&entry.text("crosscheck_reason"));
        sentences.push(self.pick(
            format!("Its score is {score}; at least {least} of 1 is needed. {outcome}"),
            format!("Der Wert der Antwort ist {score}; nötig sind mindestens {least} von 1. {outcome}"),
        ));
        if let Some(judged) = &judged {
            sentences.extend(counterfactuals(judged).iter().map(|one| self.counterfactual(judged, one)));
        }
        sentences
    }

    fn outcome(self, reason: &str) -> &'static str {
        match reason {
            "pass" => self.pick("It passed.", "Sie hat bestanden."),
            "field_missing" => self.pick(
                "It was rejected: a part is missing or invalid.",
                "Sie wurde abgelehnt: Ein Teil fehlt oder ist ungültig.",
            ),
            "dimension_conflict" => self.pick(
                "It was rejected: it contradicts itself.",
                "Sie wurde abgelehnt: Sie widerspricht sich.",
            ),
            "unexpected_field" => self.pick(
                "It was rejected: it has parts that were not asked for.",
                "Sie wurde abgelehnt: Sie enthält Teile, die nicht verlangt waren.",
            ),
            _ => self.pick(
                "It was rejected: the score is too low.",
                "Sie wurde abgelehnt: Der Wert ist zu niedrig.",
            ),
        }
    }

    fn counterfactual(self, judged: &CrosscheckEntry, one: &Counterfactual) -> String {
        let changes: Vec<_> = one.changes.iter().map(|change| self.change(*change)).collect();
        let changes = changes.join(self.pick(" and ", " und "));
        let score = self.number(one.lowest.coherence_score);
        let score = if one.is_exact() {
            score
        } else {
            self.pick(format!("at least {score}"), format!("mindestens {score}"))
        };
        let outcome = match (one.lowest.approved, one.highest.approved) {
            _ if judged.approved => "",
            (true, _) => self.pick(
                ", and the answer would have passed this examination",
                ", und die Antwort hätte diese Prüfung bestanden",
            ),
            (false, false) => self.pick(
                ", and the answer would still have been rejected",
                ", und die Antwort wäre dennoch abgelehnt worden",
            ),
            (false, true) => {
                self.pick("; whether that is enough is not known", "; ob das genügt hätte, ist nicht bekannt")
            }
        };
        self.pick(
            format!("With {changes}, the score would have been {score}{outcome}."),
            format!("Mit {changes} wäre der Wert {score} gewesen{outcome}."),
        )
    }

    fn change(self, change: VerdictChange) -> String {
        let (english, german) = match change {
            VerdictChange::Analysis(dimension) => {
                return self.pick(
                    format!("an analysis of the dimension {dimension}"),
                    format!("einer Begründung der Dimension {dimension}"),
                );
            }
            VerdictChange::Summary => {
                ("a summary of at least 10 characters", "einer Zusammenfassung von mindestens 10 Zeichen")
            }
            VerdictChange::Label => {
                ("the label of most dimensions", "der Einstufung der meisten Dimensionen")
            }
            VerdictChange::Strategy => ("a complete strategy", "einer vollständigen Strategie"),
            VerdictChange::NextStep => ("a next step", "einem nächsten Schritt"),
            VerdictChange::Alternative => ("an alternative", "einer Alternative"),
            VerdictChange::Tests => ("two tests", "zwei Tests"),
            VerdictChange::NoUnexpected => {
                ("only the parts that were asked for", "nur den verlangten Teilen")
            }
        };
        self.pick(english, german).to_owned()
    }

    fn missing(self, path: FieldPath) -> String {
        let (english, german) = match path {
            FieldPath::Dimension(dimension) => {
                (format!("The dimension {dimension}"), format!("Die Dimension {dimension}"))
            }
            FieldPath::DimensionVerdict(dimension) => (
                format!("The label of the dimension {dimension}"),
                format!("Die Einstufung der Dimension {dimension}"),
            ),
            FieldPath::DimensionAnalysis(dimension) => (
                format!("The analysis of the dimension {dimension}"),
                format!("Die Begründung der Dimension {dimension}"),
            ),
            FieldPath::Summary => ("The summary".to_owned(), "Die Zusammenfassung".to_owned()),
            FieldPath::Breakdown => {
                ("The breakdown into dimensions".to_owned(), "Die Aufteilung in Dimensionen".to_owned())
            }
            FieldPath::Strategy => ("The strategy".to_owned(), "Die Strategie".to_owned()),
            FieldPath::NextStep => {
                ("The next step of the strategy".to_owned(), "Der nächste Schritt der Strategie".to_owned())
            }
            FieldPath::Alternative => {
                ("The alternative in the strategy".to_owned(), "Die Alternative in der Strategie".to_owned())
            }
            FieldPath::Tests => (
                "The list of tests in the strategy".to_owned(),
                "Die Liste der Tests in der Strategie".to_owned(),
            ),
        };
        self.pick(format!("{english} is missing."), format!("{german} fehlt."))
    }

    fn finding(self, flag: &Flag) -> String {
        let (english, german) = match flag {
            Flag::EmptyAnalysis(dimension) => {
                return self.pick(
                    format!("The dimension {dimension} has a label and no analysis."),
                    format!("Die Dimension {dimension} hat eine Einstufung, aber keine Begründung."),
                );
            }
            Flag::FieldMissing(path) => return self.missing(*path),
            Flag::DimensionVerdictInvalid(dimension) => {
                return self.pick(
                    format!("The label of the dimension {dimension} is invalid."),
                    format!("Die Einstufung der Dimension {dimension} ist ungültig."),
                );
            }
            Flag::UnexpectedField(path) => {
                let path = visible_line(path);
                return self.pick(
                    format!("The part {path} was not asked for."),
                    format!("Der Teil {path} war nicht verlangt."),
                );
            }
            Flag::VerdictConflict => (
                "Its label differs from that of most dimensions.",
                "Die Einstufung der Antwort weicht von der der meisten Dimensionen ab.",
            ),
            Flag::ShortSummary => (
                "Its summary has fewer than 10 characters.",
                "Die Zusammenfassung hat weniger als 10 Zeichen.",
            ),
            Flag::ContradictoryNull => (
                "Its label is NULL, although all dimensions are GREEN or AMBER.",
                "Die Einstufung der Antwort ist NULL, obwohl alle Dimensionen GREEN oder AMBER sind.",
            ),
            Flag::StrategyMissing => ("It has no strategy.", "Sie hat keine Strategie."),
            Flag::FewTests => {
                ("Its strategy has fewer than two tests.", "Die Strategie enthält weniger als zwei Tests.")
            }
            Flag::MalformedJson => (
                "The answer is incomplete or malformed; it may be truncated.",
                "Die Antwort ist unvollständig oder fehlerhaft aufgebaut; möglicherweise wurde sie abgeschnitten.",
            ),
            Flag::VerdictMissing => ("It has no label.", "Die Einstufung fehlt."),
            Flag::VerdictInvalid => (
                "Its label is invalid (GREEN, AMBER, RED or NULL allowed).",
                "Die Einstufung der Antwort ist ungültig (erlaubt: GREEN, AMBER, RED, NULL).",
            ),
            Flag::DegenerateManifold => ("The score is below zero.", "Der Wert ist kleiner als null."),
        };
        self.pick(english, german).to_owned()
    }
}

/// The flags, without those that only repeat that a member is missing.
fn findings(flags: &[Flag]) -> impl Iterator<Item = &Flag> {
    flags.iter().filter(|flag| {
        let is_missing = |other: &&Flag| matches!(other, Flag::FieldMissing(_));
        let mut missing = flags.iter().filter(is_missing).filter_map(VerdictChange::of);
        is_missing(flag) || VerdictChange::of(flag).is_none_or(|change| !missing.any(|other| other == change))
    })
}

#[cfg(test)]
mod tests;
