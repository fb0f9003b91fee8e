//! The TMM constants and the coherence formula. They are defined only here.
//!
//! Seed: `tmm-crosscheck`, "TMM Constants" and invariants 1, 2 and 6. No configuration, parameter, environment variable
//! or control message can change the constants, and [`coherence`] does not take them as arguments.

/// Φ, the weight of resonant value (dimensionless).
pub const PHI: f64 = 0.042;

/// The golden ratio to the digits the seed gives (dimensionless).
pub const GOLDEN: f64 = 1.618_033_988_75;

/// Ω, the approval threshold: a verdict is approved only at `C >= OMEGA` (dimensionless).
pub const OMEGA: f64 = 1.0 - PHI / GOLDEN;

/// `C = 1 - (E_D + V_r × Φ) / V_t`, the coherence of a verdict.
///
/// `v_t` is the total value and at least 1.0, `v_r` the resonant value, `e_d` the decoherence energy; all three
/// are dimensionless and not negative. The result is at most 1.0 and may be negative.
#[must_use]
pub fn coherence(v_t: f64, v_r: f64, e_d: f64) -> f64 {
    debug_assert!(v_t >= 1.0 && v_r >= 0.0 && e_d >= 0.0, "the mapping never leaves these ranges");
    1.0 - (e_d + v_r * PHI) / v_t
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vc_6_constants_are_correct() {
        assert_eq!(PHI.to_bits(), 0.042_f64.to_bits());
        assert_eq!(OMEGA.to_bits(), (1.0_f64 - 0.042 / 1.618_033_988_75).to_bits());
        assert_eq!(OMEGA.to_bits(), 0.974_042_572_472_506_1_f64.to_bits());
    }

    #[test]
    fn worked_example_of_a_full_verdict_with_conflict_scores_0_982() {
        assert_eq!(coherence(7.0, 3.0, 0.0), 1.0 - 0.126 / 7.0);
    }

    #[test]
    fn worked_example_of_a_severely_malformed_verdict_is_below_omega() {
        let c = coherence(2.0, 5.5, 0.5);
        assert!((c - (1.0 - 0.731 / 2.0)).abs() < 1e-12 && c < OMEGA, "{c}");
    }

    proptest! {
        #[test]
        fn c_never_rises_with_v_r_or_e_d(
            v_t in 1.0..10.5_f64, v_r in 0.0..10.0_f64, more_v_r in 0.0..10.0_f64,
            e_d in 0.0..2.0_f64, more_e_d in 0.0..2.0_f64,
        ) {
            let c = coherence(v_t, v_r, e_d);
            prop_assert!(coherence(v_t, v_r + more_v_r, e_d) <= c);
            prop_assert!(coherence(v_t, v_r, e_d + more_e_d) <= c);
            prop_assert!(c <= 1.0);
        }
    }
}
