//! The addresses that requests may reach: public ones, and those in local networks that the configuration
//! allows. The endpoint of a source, or a redirect, must not make the daemon send requests to systems that
//! only the daemon can reach.

use super::{URL_MAX_BYTES, WebAddressError};
use domain_base::payload::is_key_name;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::lookup_host;

/// A URL in an error message is cut to this many characters.
const SHOWN_MAX_CHARS: usize = 200;

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: u16, second: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0), prefix)
}

/// The IPv4 networks that are not public (IANA IPv4 Special-Purpose Address Registry).
const SPECIAL_V4: [(Ipv4Net, &str); 15] = [
    (v4(0, 0, 0, 0, 8), "unspecified"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarking"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// The IPv6 networks that are not public, by kind. All other addresses outside `2000::/3` are not public either.
const SPECIAL_V6: [(Ipv6Net, &str); 8] = [
    (v6(0xfc00, 0, 7), "unique-local"),
    (v6(0xfe80, 0, 10), "link-local"),
    (v6(0xfec0, 0, 10), "site-local"),
    (v6(0xff00, 0, 8), "multicast"),
    (v6(0x2001, 0, 23), "reserved"),
    (v6(0x2001, 0xdb8, 32), "documentation"),
    (v6(0x2002, 0, 16), "6to4"),
    (v6(0x3fff, 0, 20), "documentation"),
];
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);
/// The NAT64 prefix: its addresses contain IPv4 addresses, for networks with only IPv6.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 96);

/// The kind of `ip` if it is not public.
fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => SPECIAL_V4.iter().find(|(net, _)| net.contains(&ip)).map(|(_, kind)| *kind),
        IpAddr::V6(ip) if ip.is_loopback() => Some("loopback"),
        IpAddr::V6(ip) if ip.is_unspecified() => Some("unspecified"),
        IpAddr::V6(ip) if NAT64.contains(&ip) => {
            let [.., a, b, c, d] = ip.octets();
            special(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(ip) => {
            let named = SPECIAL_V6.iter().find(|(net, _)| net.contains(&ip)).map(|(_, kind)| *kind);
            named.or_else(|| (!GLOBAL_V6.contains(&ip)).then_some("reserved"))
        }
    }
}

/// The addresses that may be reached. As a DNS resolver it leaves out all others, so that a connection uses
/// only checked addresses.
#[derive(Debug, Clone)]
pub(super) struct AddressFilter {
    allowed: Arc<[IpNet]>,
}

impl AddressFilter {
    /// Allows public addresses, and those in `allowed`.
    pub(super) fn new(allowed: &[IpNet]) -> Self {
        Self { allowed: allowed.into() }
    }

    /// Parses `text` and checks the URL, without resolving its host name.
    pub(super) fn endpoint(&self, text: &str) -> Result<Url, WebAddressError> {
        if text.len() > URL_MAX_BYTES {
            return Err(WebAddressError::TooLong { size_bytes: text.len() });
        }
        let not_url = |error| WebAddressError::NotUrl { why: format!("{error}") };
        let url = Url::parse(text).map_err(not_url)?;
        if url.fragment().is_some() {
            return Err(WebAddressError::Fragment { url: url.origin().ascii_serialization() });
        }
        self.check(&url)?;
        Ok(url)
    }

    /// Resolves `location` from an answer of `from`, and checks the target. A fragment is removed, because it is never
    /// sent.
    pub(super) fn redirect(&self, from: &Url, location: &str) -> Result<Url, WebAddressError> {
        if location.len() > URL_MAX_BYTES {
            return Err(WebAddressError::TooLong { size_bytes: location.len() });
        }
        let not_url = |error| WebAddressError::NotUrl { why: format!("{error}") };
        let mut url = from.join(location).map_err(not_url)?;
        url.set_fragment(None);
        self.check(&url)?;
        if from.scheme() == "https" && url.scheme() != "https" {
            return Err(WebAddressError::Downgrade { url: format_url(&url) });
        }
        Ok(url)
    }

    fn check(&self, url: &Url) -> Result<(), WebAddressError> {
        if !is_http(url) {
            return Err(WebAddressError::Scheme { scheme: cut(url.scheme()) });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebAddressError::Login { url: url.origin().ascii_serialization() });
        }
        match literal(url) {
            Some(ip) => self.filter_addresses(&ip.to_string(), [SocketAddr::new(ip, 0)]).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the addresses of `host` that may be reached. The result is empty only if `addresses` is.
    fn filter_addresses(
        &self,
        host: &str,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, WebAddressError> {
        let (mut admitted, mut refused) = (Vec::new(), None);
        for address in addresses {
            // an IPv4-mapped IPv6 address reaches the same host as the IPv4 address
            let ip = address.ip().to_canonical();
            match special(ip) {
                Some(kind) if !self.is_allowed(ip) => {
                    refused = Some(WebAddressError::NotPublic { host: cut(host), ip, kind });
                }
                _ => admitted.push(address),
            }
        }
        refused.filter(|_| admitted.is_empty()).map_or(Ok(admitted), Err)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        self.allowed.iter().any(|net| net.contains(&ip))
    }

    /// Whether a request to `url` and its answer cannot be read or altered in transit: the URL is https, or
    /// has an allowed numeric address.
    pub(super) fn is_confidential(&self, url: &Url) -> bool {
        url.scheme() == "https" || literal(url).is_some_and(|ip| self.is_allowed(ip.to_canonical()))
    }
}

impl Resolve for AddressFilter {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.clone();
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(reach.filter_addresses(name.as_str(), found)?.into_iter()) as Addrs)
        })
    }
}

/// The numeric address in `url`, if it has one in place of a host name. The URL parser has already normalized
/// all notations of an address.
fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// `url` for display: without its query, which can contain a signature.
pub fn format_url(url: &Url) -> String {
    cut(&format!("{}{}", url.origin().ascii_serialization(), url.path()))
}

/// `url` for storage and logs: without the query parameters that look like keys.
#[must_use]
pub fn without_keys(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else { return url.to_owned() };
    let query = parsed.query().unwrap_or_default().to_owned();
    let mut is_not_key = |pair: &&str| {
        parsed.set_query(Some(pair));
        !parsed.query_pairs().any(|(name, _)| is_key_name(&name))
    };
    let remaining = query.split('&').filter(&mut is_not_key).collect::<Vec<_>>().join("&");
    if remaining == query {
        return url.to_owned();
    }
    parsed.set_query(Some(remaining.as_str()).filter(|remaining| !remaining.is_empty()));
    parsed.into()
}

/// Whether `url` has query parameters that look like keys.
pub(super) fn has_keys(url: &str) -> bool {
    without_keys(url) != url
}

/// The scheme, host and port of an http or https URL; `None` for any other text. The path and the query can
/// contain a key.
#[must_use]
pub fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| url.has_host() && is_http(url))?;
    Some(url.origin().ascii_serialization())
}

fn is_http(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme())
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(allowed: &[&str]) -> AddressFilter {
        let nets: Vec<IpNet> = allowed.iter().map(|net| net.parse().expect("a range")).collect();
        AddressFilter::new(&nets)
    }

    fn refused(text: &str) -> WebAddressError {
        reach(&[]).endpoint(text).expect_err("the call is rejected")
    }

    #[test]
    fn without_keys_removes_parameters_that_look_like_keys() {
        for (url, expected) in [
            ("https://a.org/x?country=MDA", "https://a.org/x?country=MDA"),
            ("https://a.org/x?api_key=s3cret&country=MDA&y=1+2", "https://a.org/x?country=MDA&y=1+2"),
            ("https://a.org/x?Access-Token=s3cret", "https://a.org/x"),
            ("https://a.org/x?a=b&X-Amz-Signature=s3cret&subscription%2Dkey=s3cret", "https://a.org/x?a=b"),
            (
                "https://a.org/x?keyword=honey&author=me&design=1",
                "https://a.org/x?keyword=honey&author=me&design=1",
            ),
            ("https://a.org/x?q=%20&&b", "https://a.org/x?q=%20&&b"),
        ] {
            assert_eq!(without_keys(url), expected);
        }
    }

    #[test]
    fn only_public_addresses_are_reached() {
        for (text, kind) in [
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "shared"),
            ("169.254.169.254", "link-local"),
            ("192.0.0.8", "reserved"),
            ("192.0.2.1", "documentation"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("198.19.0.1", "benchmarking"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("[::1]", "loopback"),
            ("[::]", "unspecified"),
            ("[::2]", "reserved"),
            ("[::7f00:1]", "reserved"),
            ("[::ffff:127.0.0.1]", "loopback"),
            ("[::ffff:a9fe:a9fe]", "link-local"),
            ("[64:ff9b::127.0.0.1]", "loopback"),
            ("[64:ff9b:1::1]", "reserved"),
            ("[fc00::1]", "unique-local"),
            ("[fdff::1]", "unique-local"),
            ("[fe80::1]", "link-local"),
            ("[fec0::1]", "site-local"),
            ("[ff02::1]", "multicast"),
            ("[2001::1]", "reserved"),
            ("[2001:db8::1]", "documentation"),
            ("[2002:7f00:1::]", "6to4"),
            ("[3fff::1]", "documentation"),
            ("[4000::1]", "reserved"),
        ] {
            let error = refused(&format!("http://{text}:8080/x"));
            assert!(
                matches!(&error, WebAddressError::NotPublic { kind: found, .. } if *found == kind),
                "{text}: {error}"
            );
        }
        for public in [
            "1.1.1.1",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "[2606:4700::1111]",
            "[2001:4860::8888]",
        ] {
            reach(&[]).endpoint(&format!("https://{public}/")).expect("the address is public");
        }
        for public in ["[::ffff:1.1.1.1]", "[64:ff9b::1.1.1.1]"] {
            reach(&[]).endpoint(&format!("https://{public}/")).expect("the address is public");
        }
    }

    #[test]
    fn loopback_address_is_refused_in_any_notation() {
        for text in
            ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "%31%32%37.0.0.1", "①②⑦.0.0.1"]
        {
            let error = refused(&format!("http://{text}/"));
            assert!(
                matches!(&error, WebAddressError::NotPublic { ip, kind: "loopback", .. } if *ip == Ipv4Addr::LOCALHOST),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn only_configured_local_addresses_are_reached() {
        let some = reach(&["127.0.0.1/32", "fd00::/8"]);
        for good in ["http://127.0.0.1:1/", "http://[::ffff:127.0.0.1]/", "http://[fd00::1]/"] {
            some.endpoint(good).expect("the address is allowed");
        }
        for bad in ["http://127.0.0.2/", "http://[::1]/", "http://[fc00::1]/"] {
            some.endpoint(bad).expect_err("it is not");
        }
    }

    #[test]
    fn host_name_is_reached_only_at_its_allowed_addresses() {
        let at = |text: &str| SocketAddr::new(text.parse().expect("an address"), 0);
        let all = [at("10.0.0.1"), at("1.1.1.1"), at("::1")];
        assert_eq!(reach(&[]).filter_addresses("a.example", all), Ok(vec![at("1.1.1.1")]));
        let error = reach(&[]).filter_addresses("a.example", [at("10.0.0.1")]).expect_err("the call fails");
        let (host, ip) = ("a.example".to_owned(), at("10.0.0.1").ip());
        assert_eq!(error, WebAddressError::NotPublic { host, ip, kind: "private" });
        assert_eq!(
            reach(&["10.0.0.0/8"]).filter_addresses("a.example", [at("10.0.0.1")]),
            Ok(vec![at("10.0.0.1")])
        );
    }

    #[test]
    fn endpoint_requires_http_without_login_or_fragment() {
        for text in ["", "/data.json", "https://"] {
            let error = refused(text);
            assert!(matches!(error, WebAddressError::NotUrl { .. }), "{text}: {error}");
        }
        let scheme = |scheme: &str| WebAddressError::Scheme { scheme: scheme.to_owned() };
        let url = || "https://example.org".to_owned();
        for (text, expected) in [
            ("ftp://example.org/", scheme("ftp")),
            ("file:///etc/passwd", scheme("file")),
            ("data:,x", scheme("data")),
            ("https://user@example.org/", WebAddressError::Login { url: url() }),
            ("https://:s3cret@example.org/", WebAddressError::Login { url: url() }),
            ("https://example.org/?q=a#b", WebAddressError::Fragment { url: url() }),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        let long = format!("https://example.org/{}", "x".repeat(URL_MAX_BYTES));
        assert_eq!(refused(&long), WebAddressError::TooLong { size_bytes: 8212 });
        assert!(refused(&format!("x{}", "é".repeat(4000))).to_string().len() < 500);
        reach(&[]).endpoint("https://example.org:8443/a?b=c").expect("any port will do");
    }

    #[test]
    fn redirect_may_be_relative_but_not_from_https_to_http() {
        let from = Url::parse("https://example.org/a/b?c").expect("a valid URL");
        for (location, to) in [
            ("d", "https://example.org/a/d"),
            ("/e?f", "https://example.org/e?f"),
            ("//other.example/#g", "https://other.example/"),
            ("https://other.example:444/", "https://other.example:444/"),
        ] {
            let url = reach(&[]).redirect(&from, location).expect("the address is allowed");
            assert_eq!(url.as_str(), to);
        }
        let [downgrade, private, login, scheme, not_url] =
            ["http://example.org/", "//127.0.0.1/", "//u:p@example.org/", "file:///etc/passwd", "https://["]
                .map(|location| reach(&[]).redirect(&from, location).expect_err("the call is rejected"));
        assert_eq!(downgrade, WebAddressError::Downgrade { url: "http://example.org/".to_owned() });
        assert!(matches!(private, WebAddressError::NotPublic { kind: "loopback", .. }), "{private}");
        assert!(matches!(login, WebAddressError::Login { .. }), "{login}");
        assert_eq!(scheme, WebAddressError::Scheme { scheme: "file".to_owned() });
        assert!(matches!(not_url, WebAddressError::NotUrl { .. }), "{not_url}");
    }

    #[test]
    fn only_https_and_allowed_addresses_are_confidential() {
        let some = reach(&["127.0.0.1/32"]);
        for (url, confidential) in [
            ("https://example.org/", true),
            ("http://example.org/", false),
            ("http://127.0.0.1/", true),
            ("http://localhost/", false),
            ("http://1.1.1.1/", false),
        ] {
            assert_eq!(some.is_confidential(&Url::parse(url).expect("a valid URL")), confidential, "{url}");
        }
    }
}
