//! Who may use the console: one browser at a time, which has used the login link, and only from the console's own pages.

use super::ConsoleState;
use super::layout::{entry_page, text_page};
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use domain_base::text_form::visible_text;
use http_body_util::BodyExt;
use hyper::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName,
    HeaderValue, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The origin of the console in a browser.
///
/// A server that once had an origin can have left a script in the browser's cache, or a service worker. Both would run in the
/// console's pages later. So the host is a name that no server had before. Browsers resolve each name below `localhost` to the
/// loopback addresses, and send its cookie to no other host.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The host with the port, as browsers send it.
    authority: String,
    port: u16,
}

impl Origin {
    /// An origin with 128 random bits in its name.
    pub(crate) fn new(port: u16) -> Self {
        Self::of(&format!("{:032x}.localhost", u128::from_ne_bytes(random_bytes())), port)
    }

    /// The origin of the address 127.0.0.1, which another server may have had.
    pub(crate) fn of_ip(port: u16) -> Self {
        Self::of(&Ipv4Addr::LOCALHOST.to_string(), port)
    }

    fn of(host: &str, port: u16) -> Self {
        // browsers leave out the default port
        let authority = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
        Self { authority, port }
    }

    fn url(&self) -> String {
        format!("http://{}", self.authority)
    }
}

/// The digest of the current secret. The time of a comparison of digests does not show how much of a guess was right.
#[derive(Debug)]
enum Login {
    /// The link can be used.
    Link(Sha256Hex),
    /// The link was used; the browser has this cookie.
    Cookie(Sha256Hex),
}

#[derive(Debug)]
pub(crate) struct Access {
    origin: Origin,
    login: Mutex<Login>,
    /// Changes whenever a login ends.
    ended: watch::Sender<()>,
}

/// The end of a login.
#[derive(Debug, Clone)]
pub(crate) struct LoginEnd(watch::Receiver<()>);

impl LoginEnd {
    /// Waits until the login ends.
    pub(super) async fn wait(&mut self) {
        // without a sender, the console ends
        drop(self.0.changed().await);
    }
}

impl Access {
    pub(crate) fn new(origin: Origin) -> Self {
        let login = Mutex::new(Login::Link(Sha256Hex::of(new_secret().as_bytes())));
        Self { origin, login, ended: watch::Sender::new(()) }
    }

    /// A new login link. The earlier link and the current login end.
    pub(crate) fn new_link(&self) -> String {
        let secret = new_secret();
        self.set(Login::Link(Sha256Hex::of(secret.as_bytes())));
        format!("{}/login?secret={secret}", self.origin.url())
    }

    /// Ends the current login.
    pub(super) fn log_out(&self) {
        // this secret is not printed
        self.set(Login::Link(Sha256Hex::of(new_secret().as_bytes())));
    }

    fn set(&self, login: Login) {
        let mut current = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        *current = login;
        // within the lock, so that no request finds a login and misses its end
        self.ended.send_replace(());
    }

    /// The cookie's value, if `secret` is that of the link, which has not been used.
    fn use_link(&self, secret: &str) -> Option<String> {
        let mut login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = matches!(&*login, Login::Link(expected) if *expected == Sha256Hex::of(secret.as_bytes()));
        is_it.then(|| {
            let cookie = new_secret();
            *login = Login::Cookie(Sha256Hex::of(cookie.as_bytes()));
            cookie
        })
    }

    /// The end of the login that the request has; `None` without a login.
    pub(super) fn find_login(&self, headers: &HeaderMap) -> Option<LoginEnd> {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        let Login::Cookie(expected) = &*login else { return None };
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut cookies =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.split_once('='));
        let is_logged_in = cookies.any(|(given, value)| {
            given.trim() == name && *expected == Sha256Hex::of(value.trim().as_bytes())
        });
        is_logged_in.then(|| LoginEnd(self.ended.subscribe()))
    }

    /// A name of the current login, for what the browser keeps. It does not lead to the cookie.
    pub(super) fn login_name(&self) -> String {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        let (Login::Link(digest) | Login::Cookie(digest)) = &*login;
        Sha256Hex::of(format!("drafts {digest}").as_bytes()).to_string()
    }

    /// The name has the port, since a browser sends cookies to all ports of a host.
    fn cookie_name(&self) -> String {
        format!("oracled_console_{}", self.origin.port)
    }

    /// Why a request is not from a page of this console; `None` if it may be.
    fn find_fault(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<RequestFault> {
        let header = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        // an address or a name that others have, or a foreign name that resolves to this address
        if header(&HOST) != Some(&self.origin.authority) {
            return Some(RequestFault::OtherHost);
        }
        if header(&HeaderName::from_static("service-worker")).is_some() {
            return Some(RequestFault::ServiceWorker);
        }
        let is_own_origin = header(&ORIGIN).map(|origin| origin == self.origin.url());
        if is_own_origin == Some(false) || (method != Method::GET && is_own_origin.is_none()) {
            return Some(RequestFault::OtherPage);
        }
        // a page on another port is another origin, but the browser sends it the cookie; the link may be opened from anywhere
        let site = header(&HeaderName::from_static("sec-fetch-site"));
        let is_foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
        (is_foreign && path != "/login").then_some(RequestFault::OtherPage)
    }
}

/// Why a request is refused before its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestFault {
    OtherHost,
    OtherPage,
    /// A script that would stay in the browser.
    ServiceWorker,
}

impl IntoResponse for RequestFault {
    fn into_response(self) -> Response {
        let refused = |text: &str| text_page("Refused", text, StatusCode::FORBIDDEN);
        match self {
            // no page, because its script could be one that an earlier server of this address has left; no redirect, because the name of the console is secret
            Self::OtherHost => {
                let text = "The request was refused: the host in the address is not the console's. Open the link that oraclectl console \
                            printed.\n";
                (StatusCode::MISDIRECTED_REQUEST, text).into_response()
            }
            Self::OtherPage => refused("The request was refused: another page made it."),
            Self::ServiceWorker => refused("The request was refused: the console has no service worker."),
        }
    }
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // without randomness there is no access
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

fn new_secret() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(random_bytes::<SECRET_BYTES>())
}

/// The headers of each answer. No page may load anything from elsewhere, be shown in a frame, or be read by another origin.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; worker-src 'none'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // a stricter policy would also remove `Origin` from the console's own forms
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

#[derive(Debug, Deserialize)]
pub(super) struct LoginParams {
    #[serde(default)]
    secret: String,
}

/// Refuses requests of other pages, and adds the headers to each answer.
pub(super) async fn guard(State(console): State<ConsoleState>, request: Request, next: Next) -> Response {
    let fault = console.access.find_fault(request.method(), request.uri().path(), request.headers());
    let mut response = match fault {
        Some(fault) => fault.into_response(),
        None => show_foreign_text(next.run(request).await),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The same answer with escapes for characters that hide or reorder text, in pages and in events. A page has foreign text in
/// many places; the templates themselves have no such character.
fn show_foreign_text(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if ![&b"text/html"[..], b"text/plain", b"text/event-stream"].iter().any(|shown| kind.starts_with(shown)) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    // each frame is a whole page or a whole event
    let body = body.map_frame(|frame| {
        frame.map_data(|data| match visible_text(&String::from_utf8_lossy(&data)) {
            Cow::Borrowed(_) => data.clone(),
            Cow::Owned(shown) => Bytes::from(shown),
        })
    });
    Response::from_parts(head, Body::new(body))
}

/// Refuses requests without a login. A handler may extract its [`LoginEnd`](LoginEnd).
pub(super) async fn require_login(
    State(console): State<ConsoleState>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(login) = console.access.find_login(request.headers()) {
        request.extensions_mut().insert(login);
        return next.run(request).await;
    }
    let text = "This browser is not logged in. Open the link that oraclectl console printed. A link can be used once: press Enter in \
                the terminal for a new one.";
    text_page("Not logged in", text, StatusCode::UNAUTHORIZED)
}

pub(super) async fn log_in(
    State(console): State<ConsoleState>,
    Query(LoginParams { secret }): Query<LoginParams>,
) -> Response {
    let Some(cookie) = console.access.use_link(&secret) else {
        let text = "This login link was used already, or a newer one exists. Press Enter in the terminal of oraclectl console for a new \
                    one.";
        return text_page("Not logged in", text, StatusCode::UNAUTHORIZED);
    };
    let cookie = format!("{}={cookie}; HttpOnly; SameSite=Strict; Path=/", console.access.cookie_name());
    ([(SET_COOKIE, cookie)], entry_page()).into_response()
}

pub(super) async fn log_out(State(console): State<ConsoleState>) -> Response {
    console.access.log_out();
    let text = "You are logged out. Press Enter in the terminal of oraclectl console for a new login link.";
    text_page("Logged out", text, StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a valid value"))
        };
        given.iter().map(pair).collect()
    }

    #[test]
    fn requests_of_other_pages_are_refused() {
        use RequestFault::{OtherHost, OtherPage, ServiceWorker};
        let ip = "127.0.0.1:7627";
        for origin in [Origin::new(7627), Origin::of_ip(7627)] {
            let (authority, url) = (origin.authority.clone(), origin.url());
            let other_port = format!("{url}0");
            let (url, other_port) = (url.as_str(), other_port.as_str());
            let own = ("host", authority.as_str());
            let access = Access::new(origin);
            let of_ip = (authority != ip).then_some(OtherHost);
            for (method, path, given, fault) in [
                (Method::GET, "/", vec![own], None),
                (Method::GET, "/", vec![own, ("sec-fetch-site", "none")], None),
                (Method::GET, "/", vec![own, ("sec-fetch-site", "same-origin")], None),
                (Method::POST, "/logout", vec![own, ("origin", url)], None),
                (Method::GET, "/login", vec![own, ("sec-fetch-site", "cross-site")], None),
                (Method::GET, "/", vec![("host", ip)], of_ip),
                (Method::GET, "/login", vec![("host", ip)], of_ip),
                (Method::GET, "/", vec![], Some(OtherHost)),
                (Method::GET, "/", vec![("host", "localhost:7627")], Some(OtherHost)),
                (Method::GET, "/", vec![("host", "[::1]:7627")], Some(OtherHost)),
                (Method::GET, "/", vec![("host", "evil.example:7627")], Some(OtherHost)),
                (Method::GET, "/", vec![("host", "127.0.0.1")], Some(OtherHost)),
                (Method::GET, "/login", vec![("host", "evil.example:7627")], Some(OtherHost)),
                (
                    Method::GET,
                    "/assets/console.js",
                    vec![own, ("service-worker", "script")],
                    Some(ServiceWorker),
                ),
                (Method::GET, "/login", vec![own, ("service-worker", "script")], Some(ServiceWorker)),
                (Method::GET, "/", vec![own, ("sec-fetch-site", "cross-site")], Some(OtherPage)),
                (Method::GET, "/", vec![own, ("sec-fetch-site", "same-site")], Some(OtherPage)),
                (Method::GET, "/", vec![own, ("origin", "http://127.0.0.1:3000")], Some(OtherPage)),
                (Method::GET, "/", vec![own, ("origin", other_port)], Some(OtherPage)),
                (Method::POST, "/logout", vec![own], Some(OtherPage)),
                (Method::POST, "/logout", vec![own, ("origin", "null")], Some(OtherPage)),
                (Method::POST, "/logout", vec![own, ("origin", "http://localhost:7627")], Some(OtherPage)),
            ] {
                let found = access.find_fault(&method, path, &headers(&given));
                assert_eq!(found, fault, "{method} {path} {given:?}");
            }
        }
    }

    #[test]
    fn origin_of_each_start_has_a_name_with_128_random_bits() {
        let [first, second] = [(); 2].map(|()| Origin::new(7627).authority);
        assert_ne!(first, second);
        let label = first.strip_suffix(".localhost:7627").expect("a name below localhost");
        let is_hex = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
        assert!(label.len() == 32 && label.chars().all(is_hex), "{label}");
        // browsers leave out the port 80
        assert_eq!(Origin::of_ip(80).url(), "http://127.0.0.1");
    }

    #[test]
    fn link_is_used_once_and_a_new_one_ends_the_login() {
        let access = Access::new(Origin::new(7627));
        let secret = |link: &str| link.rsplit_once('=').expect("a secret").1.to_owned();
        let first = secret(&access.new_link());
        assert_eq!(access.use_link(""), None);
        let cookie = access.use_link(&first).expect("the link is valid");
        let login = access.login_name();
        assert!(login == access.login_name() && login != Sha256Hex::of(cookie.as_bytes()).to_string());
        assert_eq!(access.use_link(&first), None);
        let with = |name: &str| headers(&[("cookie", &format!("a=b; {name}={cookie}"))]);
        let is_logged_in = |name: &str| access.find_login(&with(name)).is_some();
        assert!(is_logged_in("oracled_console_7627") && !is_logged_in("oracled_console_1"));
        assert!(access.find_login(&headers(&[("cookie", "oracled_console_7627=guess")])).is_none());
        let second = secret(&access.new_link());
        assert!(!is_logged_in("oracled_console_7627"));
        assert_ne!(access.login_name(), login, "nothing that the browser keeps is for another login");
        assert_eq!(access.use_link(&first), None);
        assert!(access.use_link(&second).is_some());
    }

    #[tokio::test]
    async fn login_ends_for_all_of_its_requests() {
        let ends: [fn(&Access); 2] = [Access::log_out, |access| drop(access.new_link())];
        for end in ends {
            let access = Access::new(Origin::new(7627));
            let link = access.new_link();
            let cookie =
                access.use_link(link.rsplit_once('=').expect("a secret").1).expect("the link is valid");
            let request = headers(&[("cookie", &format!("oracled_console_7627={cookie}"))]);
            let mut logins = [(); 2].map(|()| access.find_login(&request).expect("a login"));
            assert!(logins.iter().all(|login| !login.0.has_changed().expect("the console runs")));
            end(&access);
            for login in &mut logins {
                login.wait().await;
            }
        }
    }
}
