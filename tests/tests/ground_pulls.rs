//! Pulls from sources over TLS, with and without client certificates.

use oracled_tests::ground::{approve, example_documents, put_document, register_all, wait_for_run};
use oracled_tests::{DaemonWorld, at, document, post, problem};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::json;
use std::fs;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

const PAYLOAD: &str = "{\"number\": 1, \"size\": 2}\n";

/// A certificate authority.
struct CertificateAuthority {
    params: CertificateParams,
    key: KeyPair,
}

impl CertificateAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { params, key: KeyPair::generate().expect("a key") }
    }

    fn pem(&self) -> String {
        self.params.self_signed(&self.key).expect("the certificate signs itself").pem()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let own = self.params.self_signed(&self.key).expect("the certificate signs itself");
        roots.add(own.der().clone()).expect("a valid certificate");
        roots
    }

    /// A certificate for `name`, and its key.
    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> CertifiedKey<KeyPair> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.extended_key_usages = vec![usage];
        let signing_key = KeyPair::generate().expect("a key");
        let issuer = Issuer::from_params(&self.params, &self.key);
        let cert = params.signed_by(&signing_key, &issuer).expect("the certificate is signed");
        CertifiedKey { cert, signing_key }
    }

    /// Starts a source over TLS with a certificate of this authority and returns its URL. With `clients`, it requires
    /// a client certificate of that authority.
    async fn serve(&self, clients: Option<&Self>) -> String {
        let CertifiedKey { cert, signing_key } = self.issue("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().expect("at least one");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(clients.roots()), provider);
                config.with_client_cert_verifier(verifier.build().expect("the verifier has a root"))
            }
        };
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a valid key");
        let config =
            config.with_single_cert(vec![cert.der().clone()], key).expect("the regular expression matches");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the system reports the value");
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("the system permits the change");
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut request = [0; 4096];
                    let size = PAYLOAD.len();
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n{PAYLOAD}"
                    );
                    if stream.read(&mut request).await.is_ok() {
                        drop(stream.write_all(answer.as_bytes()).await);
                        drop(stream.shutdown().await);
                    }
                });
            }
        });
        format!("https://{address}/samples")
    }
}

/// A world that trusts `authority` and has the client certificate `certified` for the pipeline `member` and the
/// origin of `endpoint`.
fn world(authority: &CertificateAuthority, certified: &CertifiedKey<KeyPair>, endpoint: &str) -> DaemonWorld {
    let mut world = DaemonWorld::default();
    let files = [
        ("trusted.pem", authority.pem()),
        ("member.pem", certified.cert.pem()),
        ("member.key", certified.signing_key.serialize_pem()),
    ];
    let [trusted, certificate, key] = files.map(|(name, pem)| {
        let path = world.path(name);
        fs::write(&path, pem).expect("the write succeeds");
        path.to_str().expect("valid UTF-8").to_owned()
    });
    let origin = endpoint.trim_end_matches("/samples");
    world.config = format!(
        "[ingestion]\nallow_local = [\"127.0.0.0/8\"]\n[ingestion.credentials.member]\norigin = \"{origin}\"\n\
         certificate_file = \"{certificate}\"\nkey_file = \"{key}\"\n"
    );
    world.variables.push(("SSL_CERT_FILE".into(), trusted));
    world
}

#[tokio::test]
async fn tls_pull_requires_the_right_server_and_client_certificates() {
    let (trusted, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let certified = trusted.issue("oracled.test", ExtendedKeyUsagePurpose::ClientAuth);
    let members_only = trusted.serve(Some(&trusted)).await;
    let world = world(&trusted, &certified, &members_only);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (pipeline, endpoint, authentication, refused) in [
        ("open", trusted.serve(None).await, "none", None),
        ("impostor", other.serve(None).await, "none", Some("invalid peer certificate")),
        ("member", members_only.clone(), "mtls", None),
        ("stranger", members_only, "none", Some("CertificateRequired")),
    ] {
        let (ontology, source, mut definition) = example_documents(pipeline);
        definition["pipeline"]["retrieval"] = json!({"method": "api_pull", "endpoint": endpoint, "format": "ndjson",
            "authentication": authentication});
        register_all(control, &ontology, &source, &definition).await;
        approve(control, pipeline).await;
        let pulled = post(control, &format!("/v1/pipelines/{pipeline}/pull"), &json!({})).await;
        match refused {
            None => {
                assert_eq!(pulled.status, 200, "{pipeline}: {}", document(&pulled));
                let run_id = at(&pulled, "/run/run_id").as_str().expect("a run began").to_owned();
                assert_eq!(wait_for_run(control, &run_id).await["state"], "completed", "{pipeline}");
            }
            Some(cause) => {
                let detail = problem(&pulled, 502, "pull_failed").to_string();
                assert!(detail.contains(cause), "{pipeline}: {detail}");
            }
        }
    }
    // the right to register a pipeline must not suffice to send the certificate to another server
    let (_, _, mut definition) = example_documents("member");
    for endpoint in [other.serve(None).await, "https://example.org/samples".into()] {
        definition["pipeline"]["retrieval"] =
            json!({"method": "api_pull", "endpoint": endpoint, "format": "ndjson", "authentication": "mtls"});
        let refused = put_document(control, "/v1/documents/pipeline/member", &definition).await;
        let detail = problem(&refused, 400, "invalid_document").to_string();
        assert!(detail.contains("`member`") && detail.contains("https://127.0.0.1:"), "{detail}");
    }
    assert!(daemon.stop().success());
}
