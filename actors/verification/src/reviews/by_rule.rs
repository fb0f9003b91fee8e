//! Resolutions by a review rule.

use super::{LoadedReview, ReviewError};
use crate::VerificationContext;
use crate::evidence::{PresentRecord, read_present_records};
use domain_ground::ontology::Ontology;
use domain_ground::source_state::SourceState;
use domain_ground::version_name::{ReviewRuleName, ReviewRuleRef};
use domain_verification::ReviewCase;
use domain_verification::review::ReviewResolution;
use domain_verification::review_rule::{
    ReviewRule, ReviewRuleMismatch, TakenValue, check_reasons, differences_percent,
};
use domain_verification::wire::{RuleMismatchReport, RuledReview};
use oracled_store::RowExpectation;
use std::collections::BTreeSet;

impl VerificationContext {
    /// The result of a rule for an open review. Reads the disk.
    pub(crate) fn apply_rule(
        &self,
        review_id: &str,
        name: &ReviewRuleName,
    ) -> Result<RuledReview, ReviewError> {
        let rule = self.find_rule(name)?;
        let case = self.load_review(review_id)?;
        case.check_open()?;
        let review = &case.state.review;
        self.check_ontology(review)?;
        let ontology = self.read_ontology(review)?;
        let given =
            self.check_unchanged(review, &rule).and_then(|()| self.resolution_by(&rule, &case, &ontology));
        let (resolution, mismatch) = match given {
            Ok(resolution) => (Some(resolution), None),
            Err(ReviewError::RuleMismatch { mismatch, .. }) => {
                (None, Some(RuleMismatchReport::from(&*mismatch)))
            }
            Err(error) => return Err(error),
        };
        Ok(RuledReview {
            review_id: review.review_id.clone(),
            rule: rule.reference(),
            differences_percent: differences_percent(review, &ontology),
            resolution,
            mismatch,
        })
    }

    /// Checks that `resolution` is the one that its rule gives, if it names one, and that the sources still have the answers of the review.
    /// Returns the rows of the sources, which must be unchanged when the resolution is committed. Reads the disk.
    pub(super) fn check_rule(
        &self,
        case: &LoadedReview,
        ontology: &Ontology,
        resolution: &ReviewResolution,
    ) -> Result<Vec<RowExpectation>, ReviewError> {
        let Some(reference) = &resolution.rule else { return Ok(Vec::new()) };
        let rule = self.find_rule(&reference.clone().into())?;
        // read before the answers, so that a later change of a source is noticed
        let sources = self.expect_sources(&case.state.review)?;
        self.check_unchanged(&case.state.review, &rule)?;
        let given = self.resolution_by(&rule, case, ontology)?;
        let given = ReviewResolution { reason: resolution.reason.clone(), ..given };
        if given == *resolution {
            return Ok(sources);
        }
        let ReviewResolution { values, valid_for_seconds, .. } = given;
        let mismatch = ReviewRuleMismatch::OtherResolution { values, valid_for_seconds };
        Err(mismatch_error(&case.state.review, reference, mismatch))
    }

    /// The rows of the sources of a review, as they are now.
    fn expect_sources(&self, review: &ReviewCase) -> Result<Vec<RowExpectation>, ReviewError> {
        let mut expect = Vec::new();
        for oracle_id in review.sources.keys() {
            let revision = self.store.view(oracle_id)?.map(|view| view.revision);
            expect.push(RowExpectation::new::<SourceState>(oracle_id, revision));
        }
        Ok(expect)
    }

    fn find_rule(&self, name: &ReviewRuleName) -> Result<ReviewRule, ReviewError> {
        self.store.find_document(name)?.ok_or_else(|| ReviewError::RuleUnknown(name.clone()))
    }

    fn check_unchanged(&self, review: &ReviewCase, rule: &ReviewRule) -> Result<(), ReviewError> {
        let (mut changed, mut confirmed) = (BTreeSet::new(), BTreeSet::new());
        for (oracle_id, record) in read_present_records(&self.store, review, self.clock.now())? {
            match record {
                PresentRecord::Same => {}
                PresentRecord::Confirmed => {
                    confirmed.insert(oracle_id);
                }
                PresentRecord::Changed(_) => {
                    changed.insert(oracle_id);
                }
            }
        }
        let mismatch = if !changed.is_empty() {
            ReviewRuleMismatch::EvidenceChanged { sources: changed }
        } else if !confirmed.is_empty() && rule.take == TakenValue::NewerRelease {
            ReviewRuleMismatch::ReleasedAgain { sources: confirmed }
        } else {
            return Ok(());
        };
        Err(mismatch_error(review, &rule.reference(), mismatch))
    }

    /// The resolution of a review by `rule`. It also resolves other reviews of the subject, as every resolution does. The rule must give it
    /// for a newer one, too. An older one, whose values are no longer the present ones, must be a difference between sources.
    fn resolution_by(
        &self,
        rule: &ReviewRule,
        case: &LoadedReview,
        ontology: &Ontology,
    ) -> Result<ReviewResolution, ReviewError> {
        let review = &case.state.review;
        let mismatch = |mismatch| mismatch_error(review, &rule.reference(), mismatch);
        let resolution = rule.resolve(review, ontology).map_err(mismatch)?;
        for open in case.subject.open.iter().filter(|open| open.review_id != review.review_id) {
            let Some((state, _)) = self.store.review(&open.review_id)? else { continue };
            let other = &state.review;
            if !review.is_deciding(other) {
                continue;
            }
            let is_older = other.opened_at < review.opened_at;
            let is_given = || {
                rule.resolve(other, ontology).is_ok_and(|given| {
                    given.values.iter().all(|(axis, value)| resolution.values.get(axis) == Some(value))
                })
            };
            let may_resolve = if is_older { check_reasons(other).is_ok() } else { is_given() };
            if !may_resolve {
                let review_id = other.review_id.clone();
                return Err(mismatch(ReviewRuleMismatch::OtherReview { review_id }));
            }
        }
        Ok(resolution)
    }
}

fn mismatch_error(review: &ReviewCase, rule: &ReviewRuleRef, mismatch: ReviewRuleMismatch) -> ReviewError {
    ReviewError::RuleMismatch {
        review_id: review.review_id.clone(),
        rule: rule.clone(),
        mismatch: Box::new(mismatch),
    }
}
