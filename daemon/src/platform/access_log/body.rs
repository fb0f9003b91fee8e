//! The body of a response, whose end is the end of the request's record.

use super::RequestRecord;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::Method;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a response with the record of its request.
#[derive(Debug)]
pub struct RecordedBody {
    body: Body,
    record: RequestRecord,
}

impl RequestRecord {
    /// `response` with this record, which ends with its body.
    pub(crate) fn wrap_response(mut self, response: Response) -> Response<RecordedBody> {
        self.status = Some(response.status().as_u16());
        // hyper does not read the body of a response to HEAD
        self.is_complete = self.method == Method::HEAD;
        response.map(|body| RecordedBody { body, record: self })
    }
}

impl HttpBody for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.record.response_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Some(Err(_)) => {}
            None => self.record.is_complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        // hyper does not poll a body of known length to its end
        self.record.is_complete |= self.body.is_end_stream();
    }
}
