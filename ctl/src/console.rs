//! `oraclectl console`: a web console for one user, on the loopback address. Parts of a page are rendered again while
//! the page is open, as server-sent events.

mod access;
mod by_rule;
mod catalog;
mod chart;
mod counts;
mod dead;
mod decisions;
mod delivery;
mod done;
mod facts;
mod forms;
mod history;
mod holds;
mod inbox;
mod items;
mod layout;
mod log;
mod notice;
mod opinions;
mod other_years;
mod overview;
mod parts;
mod recall;
mod resolve;
mod review;
mod rules;
mod run;
mod run_changes;
mod series;
mod session;
mod session_timeline;
mod several_items;
mod several_orders;
mod source;
mod timeline;
mod verdict;
mod webhooks;
mod what_if;

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, limit_each_request};
use crate::base::output::{print_json, print_note};
use crate::base::program::examples;
use crate::console::access::LoginEnd;
use crate::console::counts::{FrameState, NavCounts, try_read_counts};
use crate::console::layout::{PageError, PageResult};
use access::{Access, Origin};
use axum::Router;
use axum::body::Body;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::serve::Listener;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use maud::Markup;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use nix::unistd::geteuid;
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use serde_json::json;
use std::future::IntoFuture;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io, thread};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Serve a console for browsers on this machine
///
/// It prints a login link that can be used once. Enter prints a new one, and ends the current login. The console has your rights: it
/// uses the daemon's sockets. It accepts connections from your own processes on this machine only. It has another name at each
/// start, so that scripts of another server, which the browser still has, do not run in its pages. For another machine, forward the port:
/// `ssh -t -o ExitOnForwardFailure=yes -L 127.0.0.1:7627:127.0.0.1:7627 -L '[::1]:7627:127.0.0.1:7627' HOST oraclectl console`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl console", "oraclectl console --port 8080"]))]
pub(crate) struct ConsoleArgs {
    /// The TCP port on 127.0.0.1 and [::1]; 0 selects a free one
    #[arg(long, default_value_t = 7627)]
    port: u16,
    /// Use http://127.0.0.1:PORT, for a browser that does not find names below localhost. Scripts of another server of the port, which
    /// the browser still has, can run in the console then
    #[arg(long)]
    ip: bool,
    /// End when standard input ends, for a console that another process starts
    #[arg(long, hide = true)]
    until_eof: bool,
}

impl ConsoleArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let cannot_start = |message| CtlError::Verb { message, exit_code: 5, was_printed: false };
        let ips: &[IpAddr] = if self.ip { &LOOPBACK[..1] } else { &LOOPBACK };
        let listeners = LocalListener::bind_all(ips, self.port).await.map_err(|(address, error)| {
            cannot_start(format!("cannot listen on {address}: {error}; choose another port with --port"))
        })?;
        listeners.iter().try_for_each(LocalListener::check_kernel).map_err(|error| {
            cannot_start(format!(
                "the kernel does not describe TCP connections: {error}; load its module: `modprobe tcp_diag`"
            ))
        })?;
        let port = listeners.first().map_or(self.port, |listener| listener.own.port());
        let origin = if self.ip { Origin::of_ip(port) } else { Origin::new(port) };
        let console = Console::new(options.clone(), Access::new(origin)).await?;
        if self.ip {
            print_note(&format!(
                "oraclectl: a script that an earlier server of 127.0.0.1:{port} has left in the browser can read these pages and act on \
                 them; open the link in a new private window"
            ));
        }
        let (sender, mut lines) = mpsc::channel(1);
        thread::spawn(move || {
            for _ in io::stdin().lines().map_while(Result::ok) {
                // the console has ended
                if sender.blocking_send(()).is_err() {
                    return;
                }
            }
        });
        print_link(&console, out)?;
        let mut servers = JoinSet::new();
        for listener in listeners {
            servers.spawn(axum::serve(listener, router(console.clone())).into_future());
        }
        let mut is_open = true;
        loop {
            tokio::select! {
                Some(ended) = servers.join_next() => return Ok(ended.map_err(io::Error::other)??),
                line = lines.recv(), if is_open => match line {
                    Some(()) => print_link(&console, out)?,
                    None if self.until_eof => return Ok(()),
                    None => is_open = false,
                },
            }
        }
    }
}

fn print_link(console: &Console, out: &mut dyn Write) -> Result<(), CtlError> {
    let link = console.access.new_link();
    if console.options.json {
        print_json(out, &json!({"link": link}))?;
    } else {
        writeln!(out, "{link}")?;
    }
    Ok(out.flush()?)
}

fn router(console: ConsoleState) -> Router {
    let mut pages = Router::new()
        .route("/", get(overview::page))
        .route("/find", get(session::find))
        .route("/inbox", get(inbox::page))
        .route(by_rule::PATH, get(by_rule::page).post(by_rule::resolve))
        .route("/events/inbox", get(inbox::events))
        .route("/events/reviews", get(review::list_events))
        .route("/events/reviews/{review_id}", get(review::events))
        .route("/events/orders/{session_id}", get(verdict::events))
        .route("/orders", get(session::list_page))
        .route(several_orders::PATH, get(several_orders::page).post(several_orders::act))
        .route("/sessions/{session_id}", get(session::page))
        .route("/sessions/{session_id}/order", post(session::change_order))
        .route("/sessions/{session_id}/held", get(verdict::held_page))
        .route("/notices/{session_id}", get(notice::page).post(notice::act))
        .route("/events/notices/{session_id}", get(notice::events))
        .route("/reviews", get(review::list_page))
        .route("/reviews/{review_id}", get(review::page))
        .route("/reviews/{review_id}/resolve", post(review::resolve))
        .route("/reviews/{review_id}/revoke", post(review::revoke))
        .route("/reviews/{review_id}/dismiss", post(review::dismiss))
        .route("/reviews/{review_id}/comments", post(review::comment))
        .route("/logout", post(access::log_out));
    if !console.has_only_reviews {
        pages = pages
            .route("/events/overview", get(overview::events))
            .route("/events/log", get(log::events))
            .route("/events/runs/{run_id}", get(run::events))
            .route("/events/dead/{outbox}/{id}", get(dead::events))
            .route("/dead/{outbox}/{id}", get(dead::page).post(dead::act))
            .route("/sessions/{session_id}/verdict", get(verdict::delivered_page))
            .route("/sessions/{session_id}/card.html", get(verdict::card_file))
            .route("/sessions/{session_id}/erase", post(session::erase))
            .route("/sources", get(source::list_page))
            .route("/sources/{oracle_id}", get(source::page))
            .route("/sources/{oracle_id}/query", get(facts::page))
            .route("/sources/{oracle_id}/query.csv", get(facts::csv))
            .route("/sources/{oracle_id}/history", get(history::page))
            .route("/recalls", get(recall::page))
            .route("/webhooks", get(webhooks::page))
            .route(holds::PATH, get(holds::page))
            .route("/runs/{run_id}", get(run::page))
            .route("/runs/{run_id}/{action}", post(run::act))
            .route("/rules", get(rules::page).post(rules::check))
            .route("/what-if", get(what_if::page).post(what_if::calculate))
            .route("/log", get(log::page))
            .route("/log/{seq}", get(log::entry))
            .route("/log/{seq}/bundle.json", get(log::bundle));
    }
    pages
        .route_layer(from_fn_with_state(console.clone(), access::require_login))
        .route("/login", get(access::log_in))
        .route(layout::STYLE_PATH, get(layout::style))
        .route(layout::SCRIPT_PATH, get(layout::script))
        .fallback(layout::not_found)
        .layer(from_fn(forms::keep_reason))
        .layer(from_fn_with_state(console.clone(), layout::render_errors))
        .layer(from_fn_with_state(console.clone(), access::guard))
        .with_state(console)
}

/// Maximum number of pages that receive events at a time. Each of them sends requests to the daemon again and again. One browser
/// needs fewer: it opens at most six connections to the console, and its script opens none for a page that is hidden.
const STREAMS_MAX: usize = 16;

/// The state of the console.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) options: GlobalOptions,
    /// The name of this machine.
    host: String,
    /// Whether this user may use reviews, held orders and notices only.
    has_only_reviews: bool,
    pub(crate) access: Access,
    /// A permit for each page that receives events.
    streams: Arc<Semaphore>,
    frame: FrameState,
}

/// Whether the control socket that was given is the socket for reviewers, which has no status.
async fn is_reviewer_socket(options: &GlobalOptions) -> bool {
    let status = options.call_control(Method::GET, "/v1/status", None).await;
    let reviews = options.call_control(Method::GET, "/v1/reviews?limit=1", None).await;
    matches!(status, Err(CtlError::Problem { status: 404, .. })) && reviews.is_ok()
}

type ConsoleState = Arc<Console>;

impl Console {
    pub(crate) async fn new(options: GlobalOptions, access: Access) -> Result<ConsoleState, CtlError> {
        let has_only_reviews =
            options.reviewer_socket_path()? != options.control_path()? || is_reviewer_socket(&options).await;
        Ok(Arc::new(Self {
            options,
            host: std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
            has_only_reviews,
            access,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            frame: FrameState::default(),
        }))
    }
}

/// Limit for the kernel's answer, in bytes: a header and the description of one socket.
const ANSWER_MAX_BYTES: usize = 4096;
/// Time before the next attempt after a failed one, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The loopback addresses. A browser tries both for a name below `localhost`, so the console must have both: another user could
/// listen on the second one, and would get the browser's requests.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
/// The maximum number of free ports to try: a port that is free at one address can be in use at the other.
const FREE_PORTS_MAX: usize = 16;

/// Connections from the user's own processes on this machine, at one address.
///
/// A browser sends a cookie to each port of a host, so a server of another user may read the console's cookie. That user cannot use the
/// cookie, because the console accepts no connection from the user.
///
/// The kernel is asked for the one connection, by `sock_diag`: its list of all connections takes longer the more connections
/// other users open, so they could keep the console busy with them.
#[derive(Debug)]
struct LocalListener {
    listener: TcpListener,
    own: SocketAddr,
    /// The users whose processes may connect.
    uids: Vec<u32>,
}

impl LocalListener {
    /// Listens on one port of all these addresses.
    ///
    /// # Errors
    /// The port is in use or reserved at one of them, which is returned, too.
    async fn bind_all(ips: &[IpAddr], port: u16) -> Result<Vec<Self>, (SocketAddr, io::Error)> {
        let mut bound = Self::try_bind_all(ips, port).await;
        for _ in 1..FREE_PORTS_MAX {
            match bound {
                Err((_, error)) if port == 0 && error.kind() == io::ErrorKind::AddrInUse => {
                    bound = Self::try_bind_all(ips, port).await;
                }
                _ => break,
            }
        }
        bound
    }

    async fn try_bind_all(ips: &[IpAddr], mut port: u16) -> Result<Vec<Self>, (SocketAddr, io::Error)> {
        let mut listeners = Vec::new();
        for ip in ips {
            let address = SocketAddr::new(*ip, port);
            match Self::bind(address).await {
                Ok(listener) => {
                    port = listener.own.port();
                    listeners.push(listener);
                }
                // a host without IPv6: no other user can listen there, and a browser cannot connect
                Err(error) if ip.is_ipv6() && is_absent(&error) => {}
                Err(error) => return Err((address, error)),
            }
        }
        Ok(listeners)
    }

    async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let own = listener.local_addr()?;
        let user = geteuid();
        // with sudo, the browser runs as the user who called sudo
        let sudo = env::var("SUDO_UID").ok().filter(|_| user.is_root()).and_then(|uid| uid.parse().ok());
        Ok(Self { listener, own, uids: [user.as_raw()].into_iter().chain(sudo).collect() })
    }

    /// Checks that the kernel describes sockets: without that, no connection is accepted.
    ///
    /// # Errors
    /// The kernel does not find the console's own socket.
    fn check_kernel(&self) -> io::Result<()> {
        find_socket(self.own, self.own).map(drop)
    }

    fn is_permitted(&self, peer: SocketAddr) -> bool {
        find_socket(peer, self.own).is_ok_and(|InetResponseHeader { state, socket_id, uid, .. }| {
            // the kernel describes closed sockets with the user id 0, and a listening one if there is no connection
            let is_it = state == TCP_ESTABLISHED
                && SocketAddr::new(socket_id.source_address, socket_id.source_port) == peer
                && SocketAddr::new(socket_id.destination_address, socket_id.destination_port) == self.own;
            is_it && self.uids.contains(&uid)
        })
    }
}

/// Whether the host does not have an address, or no address of its family.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32)
}

impl Listener for LocalListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) if self.is_permitted(peer) => return (stream, peer),
                Ok(_) => {}
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The kernel's description of the socket at `from` that is connected to `to`, or that listens at `from`.
fn find_socket(from: SocketAddr, to: SocketAddr) -> io::Result<InetResponseHeader> {
    let (family, empty) =
        if from.is_ipv4() { (AF_INET, SocketId::new_v4()) } else { (AF_INET6, SocketId::new_v6()) };
    let socket_id = SocketId {
        source_port: from.port(),
        destination_port: to.port(),
        source_address: from.ip(),
        destination_address: to.ip(),
        // any socket
        cookie: [0xff; 8],
        ..empty
    };
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    // a socket for each question, so that no answer is taken for that of another one
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    sendto(kernel.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; ANSWER_MAX_BYTES];
    // the kernel has answered before `sendto` returns
    let size = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    let answer = answer.get(..size).unwrap_or_default();
    match NetlinkMessage::deserialize(answer).map_err(io::Error::other)?.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => Ok(found.header),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Time between two renderings.
const INTERVAL: Duration = Duration::from_secs(2);
/// The longest time for a request of a rendering. A page must not look live while the daemon hangs.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Number of renderings without a change after which a comment keeps the connection open.
const SILENT_MAX: u32 = 5;

/// Sends what `render` returns, and the counts of the navigation, whenever they have changed, until the login ends. An error is an
/// event of its own, since the page keeps what it shows.
pub(crate) fn stream<F>(
    console: &ConsoleState,
    mut login: LoginEnd,
    render: impl FnMut() -> F + Send + 'static,
) -> PageResult
where
    F: Future<Output = Result<Markup, PageError>> + Send,
{
    let permit = console.streams.clone().try_acquire_owned().map_err(|_| CtlError::Verb {
        message: "too many pages receive updates; close some".to_owned(),
        exit_code: 4,
        was_printed: false,
    })?;
    let (mut sender, body) = StreamedBody::new(1);
    let console = console.clone();
    tokio::spawn(async move {
        let _permit = permit;
        let has_login_ended = tokio::select! {
            () = send_renderings(&console, &mut sender, render) => false,
            () = login.wait() => true,
        };
        if has_login_ended {
            sender.finish();
        }
    });
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::new(body)).into_response())
}

/// Sends events until the page is closed.
async fn send_renderings<F>(console: &Console, sender: &mut StreamedBodySender, mut render: impl FnMut() -> F)
where
    F: Future<Output = Result<Markup, PageError>>,
{
    // a page has an empty part until there is something to show
    let (mut last, mut counts, mut silent) = (format_event("message", ""), NavCounts::default(), 0);
    loop {
        let rendered = limit_each_request(REQUEST_MAX, render_with_counts(console, render())).await;
        let mut event = match &rendered {
            Ok((markup, _)) => format_event("message", &markup.0),
            Err(error) => format_event("fault", &error.render().0),
        };
        silent += 1;
        if event == last {
            event.clear();
        } else {
            last.clone_from(&event);
        }
        if let Ok((_, now)) = rendered
            && now != counts
        {
            event.push_str(&format_event("counts", &serde_json::to_string(&now).unwrap_or_default()));
            counts = now;
        }
        if event.is_empty() && silent > SILENT_MAX {
            event.push_str(":\n\n");
        }
        if !event.is_empty() {
            silent = 0;
            if sender.send(event.into()).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = sender.wait_until_dropped() => return,
        }
    }
}

/// A rendering with the counts of the navigation. A daemon that does not answer their request hangs, even if the rendering needed no
/// answer.
async fn render_with_counts(
    console: &Console,
    rendering: impl Future<Output = Result<Markup, PageError>>,
) -> Result<(Markup, NavCounts), PageError> {
    let markup = rendering.await?;
    match try_read_counts(console).await {
        Ok(counts) => Ok((markup, counts)),
        Err(error @ CtlError::Client(_)) => Err(error.into()),
        Err(_) => Ok((markup, NavCounts::default())),
    }
}

/// An event with `text` as its data.
fn format_event(name: &str, text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    [format!("event: {name}\n")].into_iter().chain(lines).chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::format_event;
    use access::Access;
    use axum::body::Body;
    use axum::response::Response;
    use http_body_util::BodyExt;
    use hyper::header::{COOKIE, HOST, REFERER, SET_COOKIE};
    use hyper::{Request, StatusCode};
    use std::net::{TcpListener as StdListener, TcpStream as StdStream};
    use std::path::PathBuf;
    use std::sync::Arc;
    use tokio::sync::Semaphore;
    use tower::ServiceExt;

    fn console(has_only_reviews: bool) -> ConsoleState {
        let socket = Some(PathBuf::from("/nonexistent"));
        let options = GlobalOptions { socket: socket.clone(), control_socket: socket, json: false };
        let streams = Arc::new(Semaphore::new(1));
        let host = "shop-1".to_owned();
        let (access, frame) = (Access::new(Origin::of_ip(7627)), FrameState::default());
        Arc::new(Console { options, host, has_only_reviews, access, streams, frame })
    }

    async fn get(console: &ConsoleState, path: &str, cookie: &str) -> Response {
        let request = Request::get(path).header(HOST, "127.0.0.1:7627").header(COOKIE, cookie);
        let request = request.body(Body::empty()).expect("a valid request");
        router(console.clone()).oneshot(request).await.expect("the router answers")
    }

    /// The cookie after a login.
    async fn log_in(console: &ConsoleState) -> String {
        let link = console.access.new_link();
        let path = link.strip_prefix("http://127.0.0.1:7627").expect("the console's own address");
        get(console, path, "").await.headers()[SET_COOKIE].to_str().expect("text").to_owned()
    }

    #[tokio::test]
    async fn event_streams_end_with_the_login() {
        let console = console(false);
        let cookie = log_in(&console).await;
        let mut stream = get(&console, "/events/overview", &cookie).await.into_body();
        // there is no daemon
        let event = stream.frame().await.expect("an event").expect("an event").into_data().expect("data");
        assert!(String::from_utf8_lossy(&event).contains("Error"), "{event:?}");
        console.access.log_out();
        assert!(stream.collect().await.expect("the stream does not break").to_bytes().is_empty());
        assert_eq!(get(&console, "/events/overview", &cookie).await.status(), StatusCode::UNAUTHORIZED);
    }

    async fn text(response: Response) -> String {
        let bytes = response.into_body().collect().await.expect("a page").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn failed_pages_have_navigation_and_name_no_change_after_a_read() {
        let console = console(false);
        let cookie = log_in(&console).await;
        for (path, status) in
            [("/orders", 502), ("/no/such/page", 404), ("/log/x", 400), ("/sessions/a/erase", 405)]
        {
            let page = get(&console, path, &cookie).await;
            assert_eq!(page.status(), status, "{path}");
            let page = text(page).await;
            assert!(page.contains("<nav") && page.contains("href=\"/inbox\""), "{path}: {page}");
            assert!(!page.contains("Nothing was changed") && !page.contains("before you repeat"), "{page}");
            assert!(!page.contains("<span>0</span>"), "no number was read: {page}");
        }
        assert!(!text(get(&console, "/no/such/page", "").await).await.contains("<nav"));
    }

    #[tokio::test]
    async fn refused_filter_of_the_log_is_shown_in_its_form() {
        let console = console(false);
        let cookie = log_in(&console).await;
        let page = get(&console, "/log?session=cs_1&event=order_placed&since=soon", &cookie).await;
        assert_eq!(page.status(), StatusCode::BAD_REQUEST);
        let page = text(page).await;
        for part in [
            "<code>Since</code>",
            "Filter the entries",
            "value=\"cs_1\"",
            "value=\"soon\"",
            "value=\"order_placed\" selected",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[tokio::test]
    async fn pages_and_events_show_foreign_text_as_escapes() {
        let hostile = "\u{202e}\u{200b}\u{9b}\u{2066}\u{e0041}";
        let socket = Some(PathBuf::from(format!("/nonexistent/{hostile}")));
        let options = GlobalOptions { socket: socket.clone(), control_socket: socket, json: false };
        let streams = Arc::new(Semaphore::new(1));
        let console = Arc::new(Console {
            options,
            host: "shop-1".to_owned(),
            has_only_reviews: false,
            access: Access::new(Origin::of_ip(7627)),
            streams,
            frame: FrameState::default(),
        });
        let cookie = log_in(&console).await;
        for path in [
            "/",
            "/orders",
            "/inbox",
            "/inbox/rule",
            "/orders/several",
            "/sessions/a",
            "/sessions/a/held",
            "/sessions/a/verdict",
            "/reviews",
            "/reviews/a",
            "/sources",
            "/sources/a",
            "/sources/a/query",
            "/sources/a/history",
            "/runs/a",
            "/rules",
            "/log",
            "/log/1",
        ] {
            let page = text(get(&console, path, &cookie).await).await;
            assert!(page.contains(r"\u{202e}\u{200b}\u{9b}\u{2066}\u{e0041}"), "{path}: {page}");
            assert!(!page.contains(domain_base::text_form::is_hiding), "{path}: {page}");
        }
        let mut stream = get(&console, "/events/overview", &cookie).await.into_body();
        let event = stream.frame().await.expect("an event").expect("an event").into_data().expect("data");
        assert!(String::from_utf8_lossy(&event).contains(r"\u{202e}"), "{event:?}");
    }

    #[tokio::test]
    async fn reviewers_have_only_reviews_and_held_orders() {
        for has_only_reviews in [true, false] {
            let console = console(has_only_reviews);
            let cookie = log_in(&console).await;
            // pages that exist fail, because there is no daemon
            for path in [
                "/orders",
                "/orders/several",
                "/inbox",
                "/inbox/rule",
                "/sessions/cs_1",
                "/reviews",
                "/reviews/v-1",
            ] {
                assert_eq!(get(&console, path, &cookie).await.status(), StatusCode::BAD_GATEWAY, "{path}");
            }
            let other = if has_only_reviews { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY };
            for path in [
                "/sources",
                "/sources/a",
                "/runs/a",
                "/log",
                "/log/1",
                "/rules",
                "/holds",
                "/webhooks",
                "/sessions/a/card.html",
            ] {
                assert_eq!(get(&console, path, &cookie).await.status(), other, "{path}");
            }
            let first = if has_only_reviews { StatusCode::SEE_OTHER } else { StatusCode::BAD_GATEWAY };
            assert_eq!(get(&console, "/", &cookie).await.status(), first);
        }
    }

    #[tokio::test]
    async fn refused_and_failed_answers_have_the_headers_of_pages() {
        let console = console(false);
        let cookie = log_in(&console).await;
        let own = ("host", "127.0.0.1:7627");
        let with_cookie = [own, ("cookie", cookie.as_str())];
        let post = [own, ("cookie", cookie.as_str()), ("origin", "http://127.0.0.1:7627")];
        let form = ("content-type", "application/x-www-form-urlencoded");
        let too_large = "a".repeat(3 * 1024 * 1024);
        for (status, method, path, headers, body) in [
            (421, "GET", "/", vec![("host", "localhost:7627")], ""),
            (421, "GET", "/login?secret=x", vec![], ""),
            (403, "GET", "/assets/console.js", vec![own, ("service-worker", "script")], ""),
            (403, "GET", "/", vec![own, ("sec-fetch-site", "cross-site")], ""),
            (403, "POST", "/logout", vec![own], ""),
            (401, "GET", "/", vec![own], ""),
            (401, "GET", "/login", vec![own], ""),
            (400, "GET", "/log/x", with_cookie.to_vec(), ""),
            (400, "GET", "/sessions/%ff", with_cookie.to_vec(), ""),
            (400, "GET", "/login?secret=a&secret=b", vec![own], ""),
            (404, "GET", "/no/such/page", vec![own], ""),
            (405, "GET", "/logout", with_cookie.to_vec(), ""),
            (413, "POST", "/logout", post.to_vec(), too_large.as_str()),
            (415, "POST", "/sessions/a/order", post.to_vec(), "a=b"),
            (502, "POST", "/sessions/a/order", [&post[..], &[form]].concat(), "action=fail&reason=x"),
            (502, "GET", "/orders", with_cookie.to_vec(), ""),
            (200, "GET", "/assets/console.js", vec![own], ""),
        ] {
            let request =
                headers.iter().fold(Request::builder().method(method).uri(path), |request, (name, value)| {
                    request.header(*name, *value)
                });
            let request = request.body(Body::from(body.to_owned())).expect("a valid request");
            let answer = router(console.clone()).oneshot(request).await.expect("the router answers");
            assert_eq!(answer.status(), status, "{method} {path}");
            let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let policy = header("content-security-policy").expect("a policy");
            for part in ["default-src 'none'", "worker-src 'none'", "frame-ancestors 'none'"] {
                assert!(policy.contains(part), "{method} {path}: {policy}");
            }
            for (name, value) in [
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(header(name), Some(value), "{method} {path}");
            }
            // a page at another server's address would run scripts that this server has left
            let is_page = header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
            assert!(status != 421 || (!is_page && header("location").is_none()), "{method} {path}");
        }
    }

    #[tokio::test]
    async fn failed_page_leads_to_the_page_before() {
        let console = console(false);
        let request = Request::get("/sessions/a").header(HOST, "127.0.0.1:7627");
        let request = request.header(COOKIE, log_in(&console).await);
        let request = request.header(REFERER, "http://127.0.0.1:7627/inbox?kind=dispute");
        let request = request.body(Body::empty()).expect("a valid request");
        let page = router(console.clone()).oneshot(request).await.expect("the router answers");
        let page = text(page).await;
        assert!(page.contains("href=\"/inbox?kind=dispute\">Back"), "{page}");
    }

    #[tokio::test]
    async fn peer_is_permitted_while_its_user_is_connected() {
        let listeners = LocalListener::bind_all(&LOOPBACK, 0).await.expect("a free port");
        assert_eq!(listeners.len(), if StdListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() { 2 } else { 1 });
        for mut listener in listeners {
            listener.check_kernel().expect("the kernel describes sockets");
            let client = StdStream::connect(listener.own).expect("it listens");
            let peer = client.local_addr().expect("a connected socket");
            assert!(listener.is_permitted(peer), "{peer}");
            let uids = std::mem::replace(&mut listener.uids, vec![geteuid().as_raw() + 1]);
            assert!(!listener.is_permitted(peer), "{peer}: another user");
            // closed sockets have the user id 0, which may be that of this test
            listener.uids = uids.into_iter().chain([0]).collect();
            drop(client);
            assert!(!listener.is_permitted(peer), "{peer}: closed");
            // a listening socket of the same user is no connection
            let other = StdListener::bind((listener.own.ip(), 0)).expect("a free port");
            let other = other.local_addr().expect("it listens");
            assert!(!listener.is_permitted(other), "{other}: not connected");
        }
    }

    #[tokio::test]
    async fn console_listens_at_no_address_of_a_port_that_is_taken_at_one() {
        for ip in LOOPBACK {
            // a host can lack IPv6
            let Ok(other) = StdListener::bind((ip, 0)) else { continue };
            let taken = other.local_addr().expect("it listens");
            let fault = LocalListener::bind_all(&LOOPBACK, taken.port()).await;
            let (address, error) = fault.expect_err("the port is in use");
            assert_eq!((address, error.kind()), (taken, io::ErrorKind::AddrInUse));
        }
    }

    #[tokio::test]
    async fn console_starts_on_a_host_without_ipv6() {
        // for documentation, so no host has it
        let absent = "2001:db8::1".parse().expect("an address");
        let listeners = LocalListener::bind_all(&[LOOPBACK[0], absent], 0).await.expect("a free port");
        assert_eq!(listeners.iter().map(|listener| listener.own.ip()).collect::<Vec<_>>(), [LOOPBACK[0]]);
        assert!(is_absent(&io::Error::from_raw_os_error(Errno::EAFNOSUPPORT as i32)));
        // without IPv4, browsers that know no other address could not connect
        let absent = "192.0.2.1".parse().expect("an address");
        let (_, error) = LocalListener::bind_all(&[absent], 0).await.expect_err("the host lacks the address");
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn event_has_one_data_line_for_each_line_of_its_text() {
        let event = format_event("message", "a\nevent: x\rb");
        assert_eq!(event, "event: message\ndata: a\ndata: event: x\ndata: b\n\n");
    }
}
