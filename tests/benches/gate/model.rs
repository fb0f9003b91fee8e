//! A model with a fixed response time. It has one thread for each connection, since the timers of a runtime
//! are too coarse for this measurement.

use crate::load::whole_length;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Starts a model that answers each request with `body` after `takes`. It runs until the program ends.
pub(crate) fn serve(body: &str, takes: Duration) -> io::Result<SocketAddr> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // the thread ends when its client disconnects
            spawn(move || drop(serve_connection(stream, &answer, takes)));
        }
    });
    Ok(address)
}

fn serve_connection(mut stream: TcpStream, answer: &[u8], takes: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut question, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        question.extend_from_slice(piece.get(..read).unwrap_or_default());
        if whole_length(&question).is_some_and(|length| length <= question.len()) {
            question.clear();
            sleep(takes);
            stream.write_all(answer)?;
        }
    }
}
