//! The errors of an attempt to connect, in words that name the cause and the cure.

use redis::{ErrorKind, RedisError};

/// What no server has said on a new connection.
pub(super) fn no_answer(is_tls: bool) -> RedisError {
    let text = if is_tls {
        "no answer in time; if the server does not speak TLS there, write redis:// instead of \
         rediss://; otherwise, is it overloaded, or cut off?"
    } else {
        "no answer in time; is the server overloaded, or cut off, or is this the port of \
         something else? A port for TLS needs rediss://"
    };
    std::io::Error::new(std::io::ErrorKind::TimedOut, text).into()
}

/// The error of an attempt to connect. What is no Redis server, or speaks another protocol, is
/// called that: the text of a parser helps nobody.
pub(super) fn explained(error: RedisError, is_tls: bool) -> RedisError {
    let is_no_redis = matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType);
    if is_no_redis && error.code().is_none() {
        let text = "what answers there is no Redis server; correct the host and the port in the \
                    URL; a port for TLS needs rediss://";
        return (ErrorKind::Parse, text).into();
    }
    // rustls says so of an answer that is no TLS; the driver has no kind for it.
    let is_no_tls = error.to_string().contains("InvalidContentType");
    if is_tls && is_no_tls {
        let text = "what answers there does not speak TLS; write redis:// instead of rediss://, or \
                    give the server's port for TLS";
        return (ErrorKind::Io, text).into();
    }
    error
}
