//! The origin that a credential may be sent to. Anyone who registers a pipeline chooses its endpoint. A
//! configured secret must not be sent to an arbitrary address that way.

use super::credential::UpstreamCredential;
use reqwest::Url;
use std::fmt;
use std::str::FromStr;

/// Scheme, host and port of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlOrigin(String);

/// The text is not an origin. The error does not contain the text, because it can contain a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "allowed: https://host or https://host:port, without a path; http:// only for a numeric address, or with --allow-cleartext"
)]
pub struct UrlOriginError;

/// A credential, and the origin that it may be sent to.
#[derive(Debug)]
pub struct BoundCredential {
    /// The origin of the endpoints that the credential is for.
    pub origin: UrlOrigin,
    pub credential: UpstreamCredential,
}

impl FromStr for UrlOrigin {
    type Err = UrlOriginError;

    fn from_str(text: &str) -> Result<Self, UrlOriginError> {
        let url = Url::parse(text).map_err(|_| UrlOriginError)?;
        let of_web = ["https", "http"].contains(&url.scheme());
        let origin = url.origin().ascii_serialization();
        // anything beyond the origin would be after it, or before the host
        if of_web && url.as_str().strip_suffix('/') == Some(origin.as_str()) {
            Ok(Self(origin))
        } else {
            Err(UrlOriginError)
        }
    }
}

impl fmt::Display for UrlOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl UrlOrigin {
    /// Whether `url` has this origin.
    pub(super) fn is_origin_of(&self, url: &Url) -> bool {
        url.origin().ascii_serialization() == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_normalized_to_scheme_host_and_port() {
        for (text, origin) in [
            ("https://Example.org", "https://example.org"),
            ("https://example.org:443/", "https://example.org"),
            ("https://example.org:8443", "https://example.org:8443"),
            ("http://127.1:80", "http://127.0.0.1"),
            ("https://[2606:4700::1111]:1", "https://[2606:4700::1111]:1"),
            ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example"),
        ] {
            assert_eq!(text.parse::<UrlOrigin>().expect("a valid origin").to_string(), origin);
        }
        for text in [
            "",
            "example.org",
            "https://",
            "ftp://example.org",
            "data:,x",
            "https://u:s3cret@example.org",
            "https://example.org/a",
            "https://example.org?a",
            "https://example.org#a",
        ] {
            assert_eq!(text.parse::<UrlOrigin>(), Err(UrlOriginError), "{text}");
        }
    }

    #[test]
    fn is_of_matches_only_urls_of_the_same_origin() {
        let origin: UrlOrigin = "https://example.org".parse().expect("a valid origin");
        let is_of = |url: &str| origin.is_origin_of(&Url::parse(url).expect("a valid URL"));
        assert!(is_of("https://example.org/a?b") && is_of("https://EXAMPLE.org:443/"));
        for other in [
            "http://example.org/",
            "https://example.org:444/",
            "https://example.org.evil.example/",
            "https://a.example.org/",
        ] {
            assert!(!is_of(other), "{other}");
        }
    }
}
