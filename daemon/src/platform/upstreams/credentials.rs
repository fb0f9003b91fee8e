//! The configured credentials of pipelines and live sources.

use crate::platform::config::{
    ConfigError, ConfiguredCredential as Configured, ConfiguredSecrets, DaemonConfig, SecretOrigin,
    is_cleartext, redact_url,
};
use crate::platform::secret::{SecretDigests, read_secret_file, read_variable};
use oracled_actors::ground::pull::{BoundCredential, UpstreamCredential};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The credentials in `table` of the configuration, by pipeline or source.
///
/// # Errors
/// If a secret is missing or cannot be used.
pub(super) fn read_credentials<K: Ord + Clone + Display>(
    table: &str,
    configured: &BTreeMap<K, Configured>,
    digests: &mut SecretDigests,
) -> Result<BTreeMap<K, BoundCredential>, ConfigError> {
    let read = |(id, configured): (&K, &Configured)| {
        let (origin, key) = (configured.origin.clone(), format!("{table}.{id}"));
        Ok((
            id.clone(),
            BoundCredential { origin, credential: read_credential(&key, &configured.proof, digests)? },
        ))
    };
    configured.iter().map(read).collect()
}

/// The credential at the key `of` of the configuration.
fn read_credential(
    of: &str,
    proof: &ConfiguredSecrets,
    digests: &mut SecretDigests,
) -> Result<UpstreamCredential, ConfigError> {
    let key = match proof {
        ConfiguredSecrets::ApiKey { header, key } => {
            UpstreamCredential::api_key(header, read_secret(of, "key", key, digests)?)
        }
        ConfiguredSecrets::Token(token) => {
            UpstreamCredential::token(read_secret(of, "token", token, digests)?)
        }
        ConfiguredSecrets::Client { token_url, client_id, client_secret, scope } => {
            let client_secret = read_secret(of, "client_secret", client_secret, digests)?;
            Ok(UpstreamCredential::client(token_url.clone(), client_id.clone(), client_secret, scope.clone()))
        }
        ConfiguredSecrets::Certificate { certificate_file, key_file } => {
            let mut read = |name, file| {
                let secret = read_secret_file(&format!("`{of}.{name}`"), file)?;
                digests.record(format!("{of}.{name}"), &secret);
                Ok(secret)
            };
            let certificate = read("certificate_file", certificate_file)?;
            UpstreamCredential::certificate(certificate.expose_secret(), &read("key_file", key_file)?)
        }
    };
    key.map_err(|error| unusable_error(of, error))
}

/// Reads the secret. `name` is the stem of its keys, `{name}_file` and `{name}_env`.
fn read_secret(
    of: &str,
    name: &str,
    from: &SecretOrigin,
    digests: &mut SecretDigests,
) -> Result<SecretString, ConfigError> {
    let (key, secret) = match from {
        SecretOrigin::File(file) => {
            let key = format!("{of}.{name}_file");
            let secret = read_secret_file(&format!("`{key}`"), file)?;
            (key, secret)
        }
        SecretOrigin::Variable(variable) => {
            let key = format!("{of}.{name}_env");
            let secret = read_variable(&format!("`{key}`"), variable)?.ok_or_else(|| {
                unusable_error(&key, "the environment variable that this key names is not set or is empty")
            })?;
            (key, secret)
        }
    };
    digests.record(key, &secret);
    Ok(secret)
}

/// One error for each credential that would cross a network in clear text.
pub(super) fn cleartext_faults(config: &DaemonConfig) -> Vec<ConfigError> {
    let (pipelines, sources) = (&config.ingestion.credentials, &config.verification.credentials);
    let of_pipelines = pipelines.iter().map(|(id, held)| (format!("ingestion.credentials.{id}"), held));
    let of_sources = sources.iter().map(|(id, held)| (format!("verification.credentials.{id}"), held));
    let mut faults = Vec::new();
    for (of, Configured { origin, proof }) in of_pipelines.chain(of_sources) {
        let mut check = |name, url: &str, what| {
            if is_cleartext(url, |ip| config.ingestion.is_allowed(ip)) {
                let (key, given) = (format!("{of}.{name}"), redact_url(url));
                let remedy = "use https://, or a numeric address within `ingestion.allow_local`";
                faults.push(ConfigError::Cleartext { key, given, what, remedy });
            }
        };
        check("origin", &origin.to_string(), "the credential");
        if let ConfiguredSecrets::Client { token_url, .. } = proof {
            check("token_url", token_url, "the client's secret");
        }
    }
    faults
}

fn unusable_error(of: &str, why: impl Display) -> ConfigError {
    ConfigError::NotUnderstood(format!("`{of}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(proof: ConfiguredSecrets) -> Result<BTreeMap<String, BoundCredential>, ConfigError> {
        let origin = "https://example.org".parse().expect("a valid origin");
        read_credentials(
            "ingestion.credentials",
            &[("wb".to_owned(), Configured { origin, proof })].into(),
            &mut SecretDigests::default(),
        )
    }

    fn read_error(proof: ConfiguredSecrets) -> String {
        read_one(proof).expect_err("the credential is invalid").to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, text).expect("the file is written");
        (dir, path)
    }

    #[test]
    fn unusable_credential_is_reported_by_key_without_its_secret() {
        let (_kept, path) = file("s3cret\n");
        let key = SecretOrigin::File(path.clone());
        let good = ConfiguredSecrets::ApiKey { header: "X-Key".into(), key: key.clone() };
        let read = read_one(good).expect("the credentials are valid");
        assert!(read.len() == 1 && !format!("{read:?}").contains("s3cret"), "{read:?}");

        let error = read_error(ConfiguredSecrets::ApiKey { header: "X Key".into(), key });
        assert!(
            error.contains("`ingestion.credentials.wb`: `header` is not the name of a header; allowed: "),
            "{error}"
        );
        let (_kept, two) = file("s3cret\nand more");
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::File(two)));
        assert!(error.contains("visible ASCII characters") && !error.contains("s3cret"), "{error}");
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::File("/no/such".into())));
        assert!(
            error.contains("`ingestion.credentials.wb.token_file`: ") && !error.contains("/no/such"),
            "{error}"
        );
        let error = read_error(ConfiguredSecrets::Token(SecretOrigin::Variable("NO_SUCH_VARIABLE".into())));
        assert!(
            error.contains("`ingestion.credentials.wb.token_env`: the environment variable that this key names is not set"),
            "{error}"
        );
        let error =
            read_error(ConfiguredSecrets::Certificate { certificate_file: path.clone(), key_file: path });
        assert!(
            error.contains("the certificate and its key cannot be used: ") && !error.contains("s3cret"),
            "{error}"
        );
    }
}
