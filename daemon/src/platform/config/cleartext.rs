//! URLs and hosts in the configuration: whether they are reached in clear text, and the part of a URL that is shown.

use super::{ConfigError, not_allowed_error};
use hyper::Uri;
use oracled_actors::upstream::web::origin_of;
use std::net::IpAddr;

/// The IP address that `host` contains, if it is not a name.
pub(super) fn parse_address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Whether a host is this machine, so that no network is crossed.
pub(crate) fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || parse_address(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether a URL contains a user or a password, which would be visible wherever the URL is shown.
pub(crate) fn has_login(url: &str) -> bool {
    let authority = url.split_once("//").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Checks that `url` is an http or https URL without a login. The error does not quote it.
pub(super) fn check_url(key: &str, url: &str) -> Result<(), ConfigError> {
    if has_login(url) {
        return Err(not_allowed_error(key, "a URL with a login", "a URL without one"));
    }
    let allowed = "http:// or https://, and a host";
    origin_of(url).map(drop).ok_or_else(|| not_allowed_error(key, "not an http or https URL", allowed))
}

/// The part of `url` that errors and outputs show. What follows the host and port is cut, because it can contain a key.
pub(crate) fn redact_url(url: &str) -> String {
    match origin_of(url) {
        Some(origin) if url.trim_end_matches('/').len() <= origin.len() => origin,
        Some(origin) => format!("{origin}/…"),
        None => "not a URL".into(),
    }
}

/// Whether requests to this URL cross a network without encryption. Addresses for which `is_allowed` is true
/// do not count.
pub(crate) fn is_cleartext(url: &str, is_allowed: impl FnOnce(IpAddr) -> bool) -> bool {
    let url = origin_of(url).and_then(|origin| origin.parse::<Uri>().ok()).unwrap_or_default();
    let host = url.host().unwrap_or_default();
    url.scheme_str() == Some("http") && !is_local(host) && !parse_address(host).is_some_and(is_allowed)
}
