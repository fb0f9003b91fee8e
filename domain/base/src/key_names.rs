//! The names of query parameters that contain secrets.

/// The ends of such names, without separators and in lower case.
const ENDS: [&str; 13] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "signature",
    "sig",
    "auth",
    "credential",
    "credentials",
    "appid",
    "jwt",
];

/// Whether a query parameter of this name probably contains a secret.
#[must_use]
pub fn is_key_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    ENDS.iter().any(|end| name.to_ascii_lowercase().ends_with(end))
}
