//! A shared log in a PostgreSQL with TLS. Without PostgreSQL, these tests do nothing.

use crate::shared_log::{OWN, assert_refused, settings};
use oracled_tests::postgres::{PostgresServer, USER};
use postgres::{Client, NoTls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use store_log::{SharedLog, SharedTail};
use store_postgres::{ClusterMembership, PostgresLog, PostgresSettings};

/// The name in the certificate of the server.
const NAME: &str = "db.example";

/// An authority whose certificate is in a file of `dir`.
fn authority(dir: &Path, name: &str) -> (Issuer<'static, KeyPair>, PathBuf) {
    let mut params = CertificateParams::new(Vec::new()).expect("no name is invalid");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (key, file) = (KeyPair::generate().expect("a key"), dir.join(name));
    let own = params.self_signed(&key).expect("the certificate signs itself");
    fs::write(&file, own.pem()).expect("the file is written");
    (Issuer::new(params, key), file)
}

#[test]
fn certificate_and_name_of_the_server_are_verified() {
    let (own, dir) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (issuer, roots) = authority(own.path(), "roots.pem");
    let (_, other_roots) = authority(own.path(), "others.pem");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
    let certificate = certificate.signed_by(&key, &issuer).expect("the certificate is signed");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("the system reports the value").port();
    drop(listener);
    let server = PostgresServer::start_with_tls(dir.path(), port, &certificate.pem(), &key.serialize_pem());
    let Some(server) = server.expect("the server starts") else { return };
    let keywords = format!("hostaddr=127.0.0.1 port={port} user={USER} dbname=postgres");
    let log_at = |url: String| PostgresLog::new(PostgresSettings { url, ..settings(&server, 0) });
    let rooted = |host: &str, mode: &str, roots: &Path| {
        log_at(format!("{keywords} host={host} sslmode={mode} sslrootcert='{}'", roots.display()))
    };
    let mut log = rooted(NAME, "verify-full", &roots);
    log.create(OWN, false, None).expect("the server is verified");
    let mut client = Client::connect(&format!("{keywords} host={NAME} sslmode=disable"), NoTls)
        .expect("the server also takes clients without TLS");
    let mut uses_tls = || {
        let own = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
            WHERE application_name = 'oracled'";
        client.query_one(own, &[]).expect("the view exists").get::<_, Option<bool>>(0)
    };
    assert_eq!(uses_tls(), Some(true));
    let mut membership = ClusterMembership::new(PostgresSettings {
        url: format!("{keywords} host={NAME} sslmode=verify-full sslrootcert={}", roots.display()),
        ..settings(&server, 0)
    });
    membership.enter(false).expect("it uses the same address");
    assert_eq!(uses_tls(), Some(true));
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(rooted(NAME, mode, &roots).connect(OWN), Ok(SharedTail::Follows(OWN.entries)), "{mode}");
        assert_refused(rooted(NAME, mode, &other_roots).connect(OWN), "invalid peer certificate");
        assert_refused(rooted("localhost", mode, &roots).connect(OWN), "not valid for name");
    }
    let system = log_at(format!("{keywords} host={NAME} sslmode=require")).connect(OWN);
    assert_refused(system, "invalid peer certificate");
    drop((log, membership));
    // the address is local, so a mode is needed for TLS
    let mut log = log_at(format!("{keywords} host={NAME}"));
    assert_eq!(log.connect(OWN), Ok(SharedTail::Follows(OWN.entries)));
    while uses_tls() != Some(false) {
        // the earlier connections are closed by their threads
        std::thread::yield_now();
    }
}
