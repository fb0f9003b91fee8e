//! What crosses a network without encryption.

use hyper::Uri;
use std::net::IpAddr;

/// Whether a host is this machine: what is sent there crosses no network.
pub(crate) fn is_local(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether a URL bears a user or a password, which would be shown wherever the URL is.
pub(crate) fn has_login(url: &str) -> bool {
    let authority = url.split_once("//").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Whether what is sent to this URL crosses a network without encryption.
pub(crate) fn is_cleartext(url: &str) -> bool {
    let url = url.parse::<Uri>().unwrap_or_default();
    url.scheme_str() == Some("http") && !url.host().is_some_and(is_local)
}
