//! Cosignatures of witnesses on checkpoints of the log (C2SP `tlog-cosignature`, Ed25519).

use crate::signed_note::{SignedNote, VerifierKey, signature_line};
use jiff::Timestamp;
use std::str::FromStr;

/// The type of a key that cosigns checkpoints.
const COSIGNATURE_TYPE: u8 = 4;

/// The public key of a witness.
pub type WitnessKey = VerifierKey<COSIGNATURE_TYPE>;

/// Why a text is not the public key of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text is not the key of a witness; allowed: NAME+ID+KEY with an Ed25519 key for cosignatures (type 4), as the operator \
     of the witness publishes it"
)]
pub struct WitnessKeyError;

/// Why a checkpoint has no valid cosignature of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CosignatureError {
    #[error("the text is not a signed checkpoint, or has other lines than signatures after it")]
    Malformed,
    #[error("the checkpoint has no cosignature of this key")]
    Missing,
    #[error("the cosignature is not valid: the checkpoint or the cosignature was changed")]
    Forged,
    #[error("the time of the cosignature is not valid")]
    Time,
}

/// A cosignature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosignature {
    /// When the witness cosigned the checkpoint, by its clock.
    pub at: Timestamp,
    /// Its line in the note, with the line end.
    pub line: String,
}

impl WitnessKey {
    /// Checks that the witness has cosigned the checkpoint in `note`. Signatures of other keys are ignored.
    ///
    /// # Errors
    /// If `note` is no signed note, or has no valid cosignature of this key. One that is not valid is an error, even if there is
    /// another one.
    pub fn verify(&self, note: &str) -> Result<Cosignature, CosignatureError> {
        let SignedNote { text, signatures } = SignedNote::read(note).ok_or(CosignatureError::Malformed)?;
        let own = signatures.iter().filter_map(|signature| self.own_signature(signature));
        let mut verified = own.map(|signature| self.verify_signature(text, signature));
        let first = verified.next().ok_or(CosignatureError::Missing)??;
        verified.try_for_each(|other| other.map(drop))?;
        Ok(first)
    }

    fn verify_signature(&self, text: &str, bytes: &[u8]) -> Result<Cosignature, CosignatureError> {
        let (time, signature) = bytes.split_first_chunk().ok_or(CosignatureError::Forged)?;
        let seconds = u64::from_be_bytes(*time);
        if !self.has_signed(format!("cosignature/v1\ntime {seconds}\n{text}").as_bytes(), signature) {
            return Err(CosignatureError::Forged);
        }
        // a cosignature without a time has the time 0
        let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        Ok(Cosignature { at: at.ok_or(CosignatureError::Time)?, line: signature_line(self, bytes) })
    }
}

impl FromStr for WitnessKey {
    type Err = WitnessKeyError;

    fn from_str(text: &str) -> Result<Self, WitnessKeyError> {
        Self::read(text).ok_or(WitnessKeyError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{LogKey, LogSigner, SECRET_BYTES};
    use crate::log_tree::leaf_hash;
    use ring::signature::{Ed25519KeyPair, KeyPair};

    /// A witness whose key is made from this secret.
    fn witness(name: &str, secret: u8) -> (WitnessKey, Ed25519KeyPair) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[secret; 32]).expect("a secret");
        let public = pair.public_key().as_ref().try_into().expect("32 bytes");
        (WitnessKey::new(name, public), pair)
    }

    fn note() -> String {
        LogSigner::new("oracled/1", &[7; SECRET_BYTES]).sign(42, leaf_hash(b"x"))
    }

    /// The line of a cosignature over `note` at `time`.
    fn cosign((key, pair): &(WitnessKey, Ed25519KeyPair), note: &str, time: u64) -> String {
        let text = note.split_once("\n\n").expect("a note").0;
        let signature = pair.sign(format!("cosignature/v1\ntime {time}\n{text}\n").as_bytes());
        signature_line(key, &[&time.to_be_bytes(), signature.as_ref()].concat())
    }

    #[test]
    fn witness_key_is_read_only_with_its_type_and_id() {
        let (key, _) = witness("witness.example/w1", 3);
        let text = key.to_string();
        assert_eq!(text.parse::<WitnessKey>(), Ok(key));
        assert!(text.parse::<LogKey>().is_err());
        for bad in [
            "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            &text.replacen("w1", "w2", 1),
            &text[..text.len() - 4],
            "witness",
            "",
        ] {
            assert_eq!(bad.parse::<WitnessKey>(), Err(WitnessKeyError), "{bad}");
        }
    }

    #[test]
    fn cosignature_is_accepted_only_unchanged_and_under_its_key() {
        let (own, other) = (witness("w1", 3), witness("w2", 4));
        let line = cosign(&own, &note(), 1_700_000_000);
        let cosigned = format!("{}{}{line}", note(), cosign(&other, &note(), 1));
        let at = Timestamp::from_second(1_700_000_000).expect("a time");
        assert_eq!(own.0.verify(&cosigned), Ok(Cosignature { at, line: line.clone() }));
        let log_key: LogKey = LogSigner::new("oracled/1", &[7; SECRET_BYTES]).key().clone();
        assert_eq!(log_key.verify(&cosigned).expect("signed").size, 42);
        // a key with another name, and one with another secret
        for stranger in [witness("w3", 3), witness("w1", 4)] {
            assert_eq!(stranger.0.verify(&cosigned), Err(CosignatureError::Missing));
        }
        assert_eq!(own.0.verify(&cosigned.replacen("42", "43", 1)), Err(CosignatureError::Forged));
        let of_other_text = cosign(&own, &note().replacen("42", "43", 1), 1_700_000_000);
        for bad in [of_other_text.as_str(), &signature_line(&own.0, b"short")] {
            // also after a valid one
            for before in ["", &line] {
                let changed = format!("{}{before}{bad}", note());
                assert_eq!(own.0.verify(&changed), Err(CosignatureError::Forged), "{changed}");
            }
        }
        assert_eq!(own.0.verify(&format!("{cosigned}junk\n")), Err(CosignatureError::Malformed));
    }

    #[test]
    fn cosignature_without_a_time_is_refused() {
        let own = witness("w1", 3);
        for time in [0, 1 << 63, u64::MAX] {
            let cosigned = note() + &cosign(&own, &note(), time);
            assert_eq!(own.0.verify(&cosigned), Err(CosignatureError::Time), "{time}");
        }
    }

    /// A checkpoint of a public log of certificates, with the cosignatures of four public witnesses.
    #[test]
    fn cosignatures_of_public_witnesses_are_verified() {
        let note = "arche2025h1.staging.ct.transparency.dev\n1432088532\nU7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=\n\n\
            \u{2014} arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=\n\
            \u{2014} transparency.dev/DEV:witness-little-garden 2AQqhwAAAABqEiEgzgFIqqhbUoDwjMWE6UP8nd8/KYTzwZ2rhIgcqoXHAwVkjZr4AscylP3v7sEodkRAErumC2q44vdgJY096st5BQ==\n\
            \u{2014} witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==\n\
            \u{2014} remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==\n\
            \u{2014} witness.stagemole.eu Z/euoAAAAABqEiEgw0i+7g2ENfDAWHmtRzCfKTHSDwYDJA2NmKeGi9Y8FtEyOUvVr+AJmIY/2TUFucgKi7lI7cUiOvKFYe/TmN9DAg==\n";
        for key in [
            "transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM",
            "witness1.smartit.nu/witness1+a48c820f+BPSFWg9G6KPiO7QPryYO5Xq4oYJJ+kAvLKLSimDhoxMO",
            "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
            "witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv",
        ] {
            let key: WitnessKey = key.parse().expect("a key");
            let cosignature = key.verify(note).expect("a cosignature");
            assert_eq!(cosignature.at.as_second(), 0x6a12_2120);
            assert!(note.contains(&cosignature.line), "{}", cosignature.line);
            assert_eq!(
                key.verify(&note.replacen("1432088532", "1432088533", 1)),
                Err(CosignatureError::Forged)
            );
        }
        let log =
            "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f";
        assert_eq!(log.parse::<LogKey>().expect("a key").verify(note).expect("signed").size, 1_432_088_532);
    }
}
