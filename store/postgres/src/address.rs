//! The address of a server: a URL or keywords of libpq, with its options for TLS.
//!
//! The client does not support `sslrootcert` and the modes that verify, so both are removed here. An error never quotes the
//! address, which can have a password.

use crate::{failed, refused};
use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::{Host, SslMode};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use std::error::Error as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use store_log::SharedLogError;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The value of `sslrootcert` that names the certificates of the system.
const SYSTEM: &str = "system";
/// The port of a server whose port the URL does not name.
const PORT: u16 = 5432;
/// The name of the protocol in a handshake of TLS.
const ALPN: &[u8] = b"postgresql";

/// The servers of a URL, and whether a connection to them uses TLS.
#[derive(Debug)]
pub(crate) struct ServerAddress {
    config: Config,
    /// Whether all of its hosts are this one.
    is_local: bool,
    uses_tls: bool,
    /// The file with the certificates that sign the server's, or those of the system.
    roots: Option<PathBuf>,
}

/// Whether a connection to this address would cross a network in clear text. Only `sslmode=disable` with a host that is not local does.
///
/// `require`, `verify-ca` and `verify-full` all verify the certificate and the name of the host. `prefer`, or no mode, is `verify-full`
/// if the host is not local. Local are loopback addresses, `localhost` and the folders of Unix sockets, which never use TLS.
///
/// # Errors
/// The address is invalid.
pub fn crosses_network_in_cleartext(url: &str) -> Result<bool, String> {
    let address = ServerAddress::parse(url)?;
    Ok(!address.uses_tls && !address.is_local)
}

impl ServerAddress {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let options = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            TlsOptions::of_url(url)
        } else {
            TlsOptions::of_keywords(url)
        };
        let options = options.ok_or("its URL has not the form of one")?;
        let mut config: Config = options.rest.parse().map_err(|error| described(&error))?;
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        if hosts.is_empty() && addresses.is_empty() {
            return Err("its URL names no host".to_owned());
        }
        let (hosts_count, addresses_count, ports_count) =
            (hosts.len(), addresses.len(), config.get_ports().len());
        if hosts_count > 0 && addresses_count > 0 && hosts_count != addresses_count {
            return Err(format!(
                "its URL has `hostaddr` for {addresses_count} of {hosts_count} servers; give one for each, or none"
            ));
        }
        let servers = hosts_count.max(addresses_count);
        if ports_count > 1 && ports_count != servers {
            return Err(format!(
                "its URL has {ports_count} ports for {servers} servers; give one for each, or one for all"
            ));
        }
        // an address is used instead of the name
        let is_local =
            if addresses.is_empty() { hosts.iter().all(is_local) } else { addresses.iter().all(is_loopback) };
        let is_socket = addresses.is_empty() && hosts.iter().all(|host| matches!(host, Host::Unix(_)));
        let uses_tls = match options.mode.as_deref() {
            Some("disable") => false,
            None | Some("prefer") => !is_local,
            Some("require" | "verify-ca" | "verify-full") => !is_socket,
            Some(_) => {
                return Err(
                    "its `sslmode` is not disable, prefer, require, verify-ca or verify-full".to_owned()
                );
            }
        };
        config.ssl_mode(if uses_tls { SslMode::Require } else { SslMode::Disable });
        let roots = options.roots.filter(|file| file != SYSTEM).map(PathBuf::from);
        Ok(Self { config, is_local, uses_tls, roots })
    }

    /// Each server with its name, in the order of the URL.
    pub(crate) fn servers(&self) -> Vec<(String, Config)> {
        let (hosts, addresses, ports) =
            (self.config.get_hosts(), self.config.get_hostaddrs(), self.config.get_ports());
        let server = |place: usize| {
            let port = ports.get(place).or(ports.first()).copied().unwrap_or(PORT);
            let mut config = self.without_servers();
            config.port(port);
            if let Some(address) = addresses.get(place) {
                config.hostaddr(*address);
            }
            let name = match hosts.get(place) {
                Some(Host::Tcp(name)) => {
                    config.host(name);
                    format!("{name}:{port}")
                }
                Some(Host::Unix(folder)) => {
                    config.host_path(folder);
                    folder.display().to_string()
                }
                None => addresses.get(place).map(|address| format!("{address}:{port}")).unwrap_or_default(),
            };
            (name, config)
        };
        (0..hosts.len().max(addresses.len())).map(server).collect()
    }

    /// The options of the URL that do not name its servers. Those that each connection sets are missing.
    fn without_servers(&self) -> Config {
        let mut config = Config::new();
        if let Some(user) = self.config.get_user() {
            config.user(user);
        }
        if let Some(password) = self.config.get_password() {
            config.password(password);
        }
        if let Some(name) = self.config.get_dbname() {
            config.dbname(name);
        }
        if let Some(options) = self.config.get_options() {
            config.options(options);
        }
        config.ssl_mode(self.config.get_ssl_mode()).ssl_negotiation(self.config.get_ssl_negotiation());
        config.channel_binding(self.config.get_channel_binding()).keepalives(self.config.get_keepalives());
        config.load_balance_hosts(self.config.get_load_balance_hosts());
        config
    }

    /// How TLS begins; `None` if the connection uses none.
    pub(crate) fn tls(&self) -> Result<Option<MakeRustlsConnect>, SharedLogError> {
        if !self.uses_tls {
            return Ok(None);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let builder = match &self.roots {
            None => builder.with_platform_verifier().map_err(failed)?,
            Some(file) => {
                let unusable =
                    |cause: String| refused(format_args!("its `sslrootcert` {}: {cause}", file.display()));
                let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
                let certificates: Vec<_> = certificates.map_err(|error| unusable(error.to_string()))?;
                let mut roots = RootCertStore::empty();
                for certificate in certificates {
                    roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(unusable("it has no certificate".to_owned()));
                }
                builder.with_root_certificates(roots)
            }
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

/// The error of the client about an address, without a part of it.
fn described(error: &postgres::Error) -> String {
    let cause = error.source().map(ToString::to_string);
    // it names options of its own there
    match cause.filter(|cause| cause.starts_with("invalid value for option `")) {
        Some(cause) => format!("its URL is invalid: {cause}"),
        None => "its URL is invalid, or has an option that this client does not know".to_owned(),
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address| is_loopback(&address))
        }
        Host::Unix(_) => true,
    }
}

const fn is_loopback(address: &IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The options of an address for TLS, and the address without them.
#[derive(Debug, Default)]
struct TlsOptions {
    mode: Option<String>,
    roots: Option<String>,
    rest: String,
}

impl TlsOptions {
    fn of_url(url: &str) -> Option<Self> {
        // as the client reads it: the password ends at the first `@`
        let password_end = url.find('@').unwrap_or_default();
        let (credentials, server) = url.split_at(password_end);
        let Some((server, query)) = server.split_once('?') else {
            return Some(Self { rest: url.to_owned(), ..Self::default() });
        };
        let (mut options, mut kept) = (Self::default(), Vec::new());
        for option in query.split('&') {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let decoded = |text| percent_decode_str(text).decode_utf8().ok().map(String::from);
            if !options.take(&decoded(key)?, || decoded(value))? {
                kept.push(option);
            }
        }
        options.rest = format!("{credentials}{server}");
        if !kept.is_empty() {
            options.rest += &format!("?{}", kept.join("&"));
        }
        Some(options)
    }

    fn of_keywords(text: &str) -> Option<Self> {
        let (mut options, mut text) = (Self::default(), text.trim());
        while !text.is_empty() {
            let (key, value) = text.split_at(text.find(|c: char| c == '=' || c.is_whitespace())?);
            let value = value.trim_start().strip_prefix('=')?.trim_start();
            let end = end_of_value(value)?;
            let (value, rest) = value.split_at(end);
            if !options.take(key, || Some(plain(value)))? {
                options.rest += &format!("{key}={value} ");
            }
            text = rest.trim_start();
        }
        Some(options)
    }

    /// Takes an option for TLS. `Some(false)` for any other.
    fn take(&mut self, key: &str, value: impl FnOnce() -> Option<String>) -> Option<bool> {
        let option = match key {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.roots,
            _ => return Some(false),
        };
        *option = Some(value()?);
        Some(true)
    }
}

/// The end of the value of a keyword with which the text begins: a quote or a space that no backslash precedes.
fn end_of_value(text: &str) -> Option<usize> {
    let is_quoted = text.starts_with('\'');
    let mut characters = text.char_indices().skip(usize::from(is_quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '\'' if is_quoted => return Some(at + 1),
            _ if !is_quoted && character.is_whitespace() => return Some(at),
            _ => {}
        }
    }
    (!is_quoted && !text.is_empty()).then_some(text.len())
}

/// A value of a keyword without its quotes and backslashes.
fn plain(value: &str) -> String {
    let inner = value.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\''));
    let (mut characters, mut plain) = (inner.unwrap_or(value).chars(), String::new());
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (bool, bool, Option<PathBuf>) {
        let address = ServerAddress::parse(url).expect(url);
        let mode = if address.uses_tls { SslMode::Require } else { SslMode::Disable };
        assert_eq!(address.config.get_ssl_mode(), mode, "{url}");
        (address.uses_tls, crosses_network_in_cleartext(url).expect(url), address.roots)
    }

    #[test]
    fn address_uses_tls_unless_it_is_local_or_says_so() {
        for (hosts, is_local) in [
            ("localhost", true),
            ("127.0.0.2", true),
            ("[::1]", true),
            ("localhost,127.0.0.1", true),
            ("db.example", false),
            ("10.0.0.1", false),
            ("localhost,db.example", false),
            ("localhost.db.example", false),
        ] {
            for (mode, uses_tls) in [
                ("", !is_local),
                ("?sslmode=prefer", !is_local),
                ("?sslmode=disable", false),
                ("?sslmode=require", true),
                ("?sslmode=verify-ca", true),
                ("?sslmode=verify-full", true),
                ("?sslmode=disable&ssl%6Dode=verify-full", true),
            ] {
                let url = format!("postgres://me:p%3Fss@{hosts}:5432/db{mode}");
                assert_eq!(parsed(&url), (uses_tls, !uses_tls && !is_local, None), "{url}");
            }
        }
        for url in ["host=/run/postgresql sslmode=require", "postgresql:///db?host=/run/postgresql"] {
            assert_eq!(parsed(url), (false, false, None), "{url}");
        }
        // the address decides, not the name
        assert_eq!(parsed("host=localhost hostaddr=10.0.0.1 sslmode=disable"), (false, true, None));
        assert_eq!(parsed("host=localhost hostaddr=10.0.0.1"), (true, false, None));
        assert_eq!(parsed("host=db.example hostaddr=127.0.0.1"), (false, false, None));
    }

    #[test]
    fn options_for_tls_are_taken_out_of_both_forms() {
        let roots = |file: &str| Some(PathBuf::from(file));
        let file = "postgres://me@db.example/db?sslrootcert=%2Fetc%2Fca%20one.pem&connect_timeout=3";
        assert_eq!(parsed(file), (true, false, roots("/etc/ca one.pem")));
        assert_eq!(parsed("host=db.example sslrootcert=system"), (true, false, None));
        let text =
            r"host = db.example password='it\'s sslmode=disable' sslrootcert = '/etc/c\\a.pem' user=a\ b";
        assert_eq!(parsed(text), (true, false, roots(r"/etc/c\a.pem")));
        let config = ServerAddress::parse(text).expect("an address").config;
        assert_eq!(config.get_password(), Some(&b"it's sslmode=disable"[..]));
        assert_eq!(config.get_user(), Some("a b"));
        let config =
            ServerAddress::parse("postgres://me:a?sslmode=disable@db.example?sslmode=require&user=b");
        let config = config.expect("an address").config;
        assert_eq!((config.get_password(), config.get_user()), (Some(&b"a?sslmode=disable"[..]), Some("b")));
    }

    #[test]
    fn each_server_has_its_name_and_the_options_of_the_url() {
        let names = |url: &str| {
            let servers = ServerAddress::parse(url).expect(url).servers();
            for (name, config) in &servers {
                assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("db")), "{name}");
                assert_eq!(config.get_password(), Some(&b"secret"[..]), "{name}");
                assert_eq!(config.get_hosts().len().max(config.get_hostaddrs().len()), 1, "{name}");
            }
            servers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("postgres://me:secret@db-1,db-2:6432/db"), ["db-1:5432", "db-2:6432"]);
        let text = "user=me password=secret dbname=db";
        assert_eq!(names(&format!("{text} host=db-1,db-2 port=6432")), ["db-1:6432", "db-2:6432"]);
        assert_eq!(names(&format!("{text} host=db-1 hostaddr=10.0.0.1")), ["db-1:5432"]);
        assert_eq!(names(&format!("{text} hostaddr=10.0.0.1,10.0.0.2")), ["10.0.0.1:5432", "10.0.0.2:5432"]);
        assert_eq!(names(&format!("{text} host=/run/postgresql")), ["/run/postgresql"]);
    }

    #[test]
    fn invalid_address_is_refused_without_being_quoted() {
        for url in [
            "",
            "user=me",
            "secret",
            "host=db.example sslmode=allow",
            "host=db-1,db-2 hostaddr=10.0.0.1",
            "host=db-1,db-2,db-3 port=1,2",
            "host=db.example secret=secret",
            "host=db.example password='secret",
            "host=db.example password=se secret=",
            "postgres://me:secret@db.example?a&secret=1",
            "postgres://me:secret@db.example:secret",
            "postgres://me:secret@db.example?sslmode=%ff",
            "postgres://me:secret@db.example?sslcert=a.pem",
        ] {
            let refused = ServerAddress::parse(url).map(|_| ()).expect_err(url);
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("ca.pem");
        let address = ServerAddress::parse(&format!("host=db.example sslrootcert={}", file.display()));
        let address = address.expect("an address");
        assert!(address.tls().is_err(), "there is no file");
        std::fs::write(&file, "no certificate").expect("it is written");
        assert!(address.tls().is_err());
    }
}
