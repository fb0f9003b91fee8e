//! A scripted HTTP server for tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// A server that answers each connection with the next of its scripts, and repeats the last one.
pub struct ScriptedServer {
    pub port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

/// A function that builds an answer from the head of the request.
type ReplyBuilder = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A step of a script, which runs once the request was read. After the last step the connection is closed.
pub enum ServerStep {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send the result of this function, called with the request's head in lower case.
    Reply(ReplyBuilder),
    Wait(Duration),
}

pub fn send_text(text: &str) -> Vec<ServerStep> {
    vec![ServerStep::Send(text.into())]
}

/// A complete answer of status 200, with additional headers.
pub fn complete_reply(headers: &str, body: &str) -> Vec<ServerStep> {
    send_text(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()))
}

pub fn status(status: u16, headers: &str) -> Vec<ServerStep> {
    send_text(&format!("HTTP/1.1 {status} Whatever\r\nContent-Length: 6\r\n{headers}\r\ns3cret"))
}

impl ScriptedServer {
    pub async fn start(ip: &str, scripts: Vec<Vec<ServerStep>>) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        let port = listener.local_addr().expect("the listener has an address").port();
        Self::serve(listener, port, scripts)
    }

    pub fn serve(listener: TcpListener, port: u16, scripts: Vec<Vec<ServerStep>>) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heads);
        tokio::spawn(async move {
            let last = scripts.len() - 1;
            for index in 0.. {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let request = read_request(&mut socket).await;
                noted.lock().expect("the lock is not poisoned").push(request.clone());
                for step in scripts.get(index.min(last)).into_iter().flatten() {
                    match step {
                        // the client may have closed the connection already
                        ServerStep::Send(bytes) => drop(socket.write_all(bytes).await),
                        ServerStep::Reply(reply) => drop(socket.write_all(&reply(&request)).await),
                        ServerStep::Wait(time) => sleep(*time).await,
                    }
                }
            }
        });
        Self { port, heads }
    }

    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the lock is not poisoned").clone()
    }
}

/// Reads a request and returns its head in lower case, followed by its body.
async fn read_request(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let n = socket.read(&mut piece).await.unwrap_or(0);
        text.extend_from_slice(piece.get(..n).unwrap_or_default());
        let text = String::from_utf8_lossy(&text);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let length =
            head.to_lowercase().split("content-length: ").nth(1).map_or(0, |rest| {
                rest.split("\r\n").next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
            });
        if n == 0 || (text.contains("\r\n\r\n") && body.len() >= length) {
            return format!("{}\r\n\r\n{body}", head.to_lowercase());
        }
    }
}
