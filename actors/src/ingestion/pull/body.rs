//! A payload as it comes: piece by piece, within bounds, and whole.

use super::address::shown;
use super::error::PullError;
use super::{CODING_MAX_CHARS, PullSettings};
use crate::upstream::http::root_cause;
use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderName, TRANSFER_ENCODING};
use reqwest::{Response, Url};
use std::io;
use tokio::time::timeout;

/// How much of a payload came, and how much was to come where that is known, in bytes.
#[derive(Debug, Default)]
pub(super) struct Progress {
    received_bytes: u64,
    promised_bytes: Option<u64>,
}

impl Progress {
    /// The payload did not come whole, since `why`.
    pub(super) const fn cut(&self, why: String) -> PullError {
        let Self { received_bytes, promised_bytes } = *self;
        PullError::Cut { received_bytes, promised_bytes, why }
    }
}

/// Whether the payload that `response` brings can be read as it is, and will be known to be whole.
pub(super) fn measure(url: &Url, response: &Response) -> Result<(), PullError> {
    let coded = |header, coding, allowed| PullError::Coded { url: shown(url), header, coding, allowed };
    let headers = response.headers();
    if let Some(coding) = codings(headers, CONTENT_ENCODING).find(|coding| *coding != "identity") {
        return Err(coded("Content-Encoding", cut(&coding), "identity, which was asked for"));
    }
    let transfer: Vec<String> = codings(headers, TRANSFER_ENCODING).collect();
    if let Some(coding) = transfer.iter().find(|coding| *coding != "chunked") {
        return Err(coded("Transfer-Encoding", cut(coding), "chunked"));
    }
    // without either, the connection's end would be the payload's, and so would a cut
    if transfer.is_empty() && response.content_length().is_none() {
        return Err(PullError::Endless { url: shown(url) });
    }
    Ok(())
}

/// The codings that a header lists, in lower case.
fn codings(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let lists = values.map(|value| value.to_ascii_lowercase());
    let words = lists.flat_map(|list| list.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>());
    words.filter(|word| !word.is_empty())
}

fn cut(coding: &str) -> String {
    coding.chars().take(CODING_MAX_CHARS).collect()
}

/// Reads the payload, handing each piece to `keep`. Gives its length in bytes.
pub(super) async fn read(
    settings: &PullSettings,
    mut response: Response,
    progress: &mut Progress,
    mut keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
) -> Result<u64, PullError> {
    let PullSettings { max_payload_bytes: max_bytes, idle, .. } = *settings;
    progress.promised_bytes = response.content_length();
    let promised_bytes = progress.promised_bytes;
    if promised_bytes.is_some_and(|promised| promised > max_bytes) {
        return Err(PullError::TooLarge { promised_bytes, max_bytes });
    }
    loop {
        let Ok(piece) = timeout(idle, response.chunk()).await else {
            let idle_s = idle.as_secs_f64();
            return Err(progress.cut(format!("nothing came for {idle_s} s (`ingestion.idle_s`)")));
        };
        let Some(piece) = piece.map_err(|error| progress.cut(root_cause(&error)))? else { break };
        progress.received_bytes = progress.received_bytes.saturating_add(piece.len() as u64);
        if progress.received_bytes > max_bytes {
            return Err(PullError::TooLarge { promised_bytes, max_bytes });
        }
        keep(piece).await.map_err(PullError::Keep)?;
    }
    // fewer bytes than were promised are an error of the client's, and more it does not read
    Ok(progress.received_bytes)
}
