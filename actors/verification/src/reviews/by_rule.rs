//! Resolutions by a review rule.

use super::{LoadedReview, ReviewError};
use crate::VerificationContext;
use crate::evidence::{PresentRecord, read_present_records};
use domain_ground::ontology::Ontology;
use domain_ground::version_name::{ReviewRuleName, ReviewRuleRef};
use domain_verification::ReviewCase;
use domain_verification::review::ReviewResolution;
use domain_verification::review_rule::{ReviewRule, ReviewRuleMismatch, TakenValue, differences_percent};
use domain_verification::wire::{RuleMismatchReport, RuledReview};
use std::collections::BTreeSet;

impl VerificationContext {
    /// What a rule gives for an open review. Reads the disk.
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

    /// Checks that the sources still have the answers of a review, as far as a rule depends on them. Reads the disk.
    pub(crate) fn check_evidence(&self, review_id: &str, rule: &ReviewRuleRef) -> Result<(), ReviewError> {
        let case = self.load_review(review_id)?;
        case.check_open()?;
        self.check_unchanged(&case.state.review, &self.find_rule(&rule.clone().into())?)
    }

    /// Checks that `resolution` is the one that its rule gives, if it names one.
    pub(super) fn check_rule(
        &self,
        case: &LoadedReview,
        ontology: &Ontology,
        resolution: &ReviewResolution,
    ) -> Result<(), ReviewError> {
        let Some(reference) = &resolution.rule else { return Ok(()) };
        let rule = self.find_rule(&reference.clone().into())?;
        let given = self.resolution_by(&rule, case, ontology)?;
        let given = ReviewResolution { reason: resolution.reason.clone(), ..given };
        if given == *resolution {
            return Ok(());
        }
        let ReviewResolution { values, valid_for_seconds, .. } = given;
        let mismatch = ReviewRuleMismatch::OtherResolution { values, valid_for_seconds };
        Err(mismatch_error(&case.state.review, reference, mismatch))
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

    /// The resolution of a review by `rule`. It also resolves older reviews of the subject, as every resolution does; for a newer one,
    /// the rule must give it, too.
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
            if !review.is_deciding(other) || other.opened_at < review.opened_at {
                continue;
            }
            let is_given = rule.resolve(other, ontology).is_ok_and(|given| {
                given.values.iter().all(|(axis, value)| resolution.values.get(axis) == Some(value))
            });
            if !is_given {
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
