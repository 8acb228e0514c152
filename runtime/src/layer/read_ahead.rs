//! Reads the body of a waiting request ahead. An HTTP/1 server reads its connection no further than
//! somebody asks of the body, so otherwise it does not see that its client has gone.

use std::any::Any;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{io, iter, mem};

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{Request, Version};
use http_body::{Body as _, Frame, SizeHint};

use super::axum::{Body, BodyError};
use super::held_body::with_more;

/// A body, and what was read of it.
pub(super) struct ReadAhead {
    body: Body,
    /// A copy: a small part would otherwise keep the buffer that the server has read it into.
    data: BytesMut,
    /// What follows the data: trailers, an error, or the end.
    last: Option<Last>,
}

/// What the body of another type fails with.
type BoxError = Box<dyn Error + Send + Sync>;

/// A frame without data, an error, or the end.
type Last = Option<Result<Frame<Bytes>, BoxError>>;

impl ReadAhead {
    /// Takes the body of a request that waits. `None` if the server sees the end of the connection
    /// anyway, if the client asks first whether to send its body, or if a body of this type can't be
    /// put together again.
    pub(super) fn begin<A: 'static>(request: &mut Request<A>) -> Option<Box<Self>> {
        if request.version() > Version::HTTP_11 || request.headers().contains_key(EXPECT) {
            return None;
        }
        let body = body_of(request).filter(|body| !body.is_end_stream())?;
        Some(Box::new(Self { body: mem::take(body), data: BytesMut::new(), last: None }))
    }

    /// Gives the request its body back.
    pub(super) fn finish<A: 'static>(self, request: &mut Request<A>) {
        if let Some(body) = body_of(request) {
            *body = Body::new(self);
        }
    }

    /// Reads what has arrived, until there is so much of it. Returns true if the connection is broken.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, most: usize) -> bool {
        while self.last.is_none() && self.data.len() < most {
            let Poll::Ready(frame) = self.poll_next(cx) else { break };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.data.extend_from_slice(&data),
                Some(Ok(Err(trailers))) => self.last = Some(Some(Ok(trailers))),
                Some(Err(error)) => self.last = Some(Some(Err(error))),
                None => self.last = Some(None),
            }
        }
        matches!(&self.last, Some(Some(Err(error))) if is_of_connection(&**error))
    }

    /// The next that nobody has read. An error gets its box back with the body.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Last> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map(|frame| frame.map(|it| it.map_err(BodyError::into_inner)))
    }

    /// Reads what has arrived, and forgets it. Returns true if the connection is broken.
    pub(super) fn discard(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            self.data.clear();
            let is_broken = self.poll(cx, 1);
            if self.data.is_empty() {
                return is_broken;
            }
        }
    }
}

/// The body of a request, if it is of the one type that any other can be put into.
fn body_of<A: 'static>(request: &mut Request<A>) -> Option<&mut Body> {
    <dyn Any>::downcast_mut(request.body_mut())
}

/// Returns true if no more of the body can come. A handler must see the other errors, such as that of a
/// body that is too long: it knows the answer.
fn is_of_connection(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |&error| error.source()).any(<dyn Error>::is::<io::Error>)
}

impl http_body::Body for ReadAhead {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.data.is_empty() {
            let data = mem::take(&mut self.data).freeze();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        self.last.take().map_or_else(|| self.poll_next(cx), Poll::Ready)
    }

    fn is_end_stream(&self) -> bool {
        let is_end = match &self.last {
            Some(last) => last.is_none(),
            None => self.body.is_end_stream(),
        };
        is_end && self.data.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        with_more(self.body.size_hint(), self.data.len() as u64)
    }
}
