//! The configured credentials of pipelines and live sources.

use crate::platform::config::{
    Config, ConfigError, Credential as Configured, Proof, SecretFrom, is_cleartext, shown_url,
};
use crate::platform::secret::{of_file, of_variable};
use oracled_actors::ground::pull::{Bound, Credential};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The credentials in `table` of the configuration, by pipeline or source.
///
/// # Errors
/// If a secret is missing or cannot be used.
pub(super) fn credentials<K: Ord + Clone + Display>(
    table: &str,
    configured: &BTreeMap<K, Configured>,
) -> Result<BTreeMap<K, Bound>, ConfigError> {
    let read = |(id, configured): (&K, &Configured)| {
        let (origin, key) = (configured.origin.clone(), format!("{table}.{id}"));
        Ok((id.clone(), Bound { origin, credential: credential(&key, &configured.proof)? }))
    };
    configured.iter().map(read).collect()
}

/// The credential at the key `of` of the configuration.
fn credential(of: &str, proof: &Proof) -> Result<Credential, ConfigError> {
    let key = match proof {
        Proof::ApiKey { header, key } => Credential::api_key(header, secret(of, "key", key)?),
        Proof::Token(token) => Credential::token(secret(of, "token", token)?),
        Proof::Client { token_url, client_id, client_secret, scope } => {
            let client_secret = secret(of, "client_secret", client_secret)?;
            Ok(Credential::client(token_url.clone(), client_id.clone(), client_secret, scope.clone()))
        }
        Proof::Certificate { certificate_file, key_file } => {
            let read = |name, file| of_file(&format!("`{of}.{name}`"), file);
            let certificate = read("certificate_file", certificate_file)?;
            Credential::certificate(certificate.expose_secret(), &read("key_file", key_file)?)
        }
    };
    key.map_err(|error| unusable(of, error))
}

/// Reads the secret. `name` is the stem of its keys, `{name}_file` and `{name}_env`.
fn secret(of: &str, name: &str, from: &SecretFrom) -> Result<SecretString, ConfigError> {
    match from {
        SecretFrom::File(file) => of_file(&format!("`{of}.{name}_file`"), file),
        SecretFrom::Variable(variable) => {
            let found = of_variable(&format!("`{of}.{name}_env`"), variable)?;
            found.ok_or_else(|| {
                unusable(
                    &format!("{of}.{name}_env"),
                    "the environment variable that this key names is not set or is empty",
                )
            })
        }
    }
}

/// One error for each credential that would cross a network in clear text.
pub(super) fn cleartext(config: &Config) -> Vec<ConfigError> {
    let (pipelines, sources) = (&config.ingestion.credentials, &config.verification.credentials);
    let of_pipelines = pipelines.iter().map(|(id, held)| (format!("ingestion.credentials.{id}"), held));
    let of_sources = sources.iter().map(|(id, held)| (format!("verification.credentials.{id}"), held));
    let mut faults = Vec::new();
    for (of, Configured { origin, proof }) in of_pipelines.chain(of_sources) {
        let mut check = |name, url: &str, what| {
            if is_cleartext(url, |ip| config.ingestion.is_allowed(ip)) {
                let (key, given) = (format!("{of}.{name}"), shown_url(url));
                let remedy = "use https://, or a numeric address within `ingestion.allow_local`";
                faults.push(ConfigError::Cleartext { key, given, what, remedy });
            }
        };
        check("origin", &origin.to_string(), "the credential");
        if let Proof::Client { token_url, .. } = proof {
            check("token_url", token_url, "the client's secret");
        }
    }
    faults
}

fn unusable(of: &str, why: impl Display) -> ConfigError {
    ConfigError::NotUnderstood(format!("`{of}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(proof: Proof) -> Result<BTreeMap<String, Bound>, ConfigError> {
        let origin = "https://example.org".parse().expect("it is one");
        credentials("ingestion.credentials", &[("wb".to_owned(), Configured { origin, proof })].into())
    }

    fn refused(proof: Proof) -> String {
        read(proof).expect_err("it cannot be used").to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, text).expect("it is written");
        (dir, path)
    }

    #[test]
    fn unusable_credential_is_reported_by_key_without_its_secret() {
        let (_kept, path) = file("s3cret\n");
        let key = SecretFrom::File(path.clone());
        let good = Proof::ApiKey { header: "X-Key".into(), key: key.clone() };
        let read = read(good).expect("they can be used");
        assert!(read.len() == 1 && !format!("{read:?}").contains("s3cret"), "{read:?}");

        let error = refused(Proof::ApiKey { header: "X Key".into(), key });
        assert!(
            error.contains("`ingestion.credentials.wb`: `header` is not the name of a header; allowed: "),
            "{error}"
        );
        let (_kept, two) = file("s3cret\nand more");
        let error = refused(Proof::Token(SecretFrom::File(two)));
        assert!(error.contains("visible ASCII characters") && !error.contains("s3cret"), "{error}");
        let error = refused(Proof::Token(SecretFrom::File("/no/such".into())));
        assert!(
            error.contains("`ingestion.credentials.wb.token_file`: ") && !error.contains("/no/such"),
            "{error}"
        );
        let error = refused(Proof::Token(SecretFrom::Variable("NO_SUCH_VARIABLE".into())));
        assert!(
            error.contains("`ingestion.credentials.wb.token_env`: the environment variable that this key names is not set"),
            "{error}"
        );
        let error = refused(Proof::Certificate { certificate_file: path.clone(), key_file: path });
        assert!(
            error.contains("the certificate and its key cannot be used: ") && !error.contains("s3cret"),
            "{error}"
        );
    }
}
