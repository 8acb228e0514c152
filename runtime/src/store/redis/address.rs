//! What a user gives to connect, and what is said when it won't do.

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError};

use super::fault;
use crate::store::StoreError;
use crate::{LockError, Step};

pub(super) fn check_prefix(prefix: &str) -> Result<(), LockError> {
    if prefix.is_empty() || prefix.contains(['{', '}']) || prefix.contains(char::is_control) {
        return Err(LockError::InvalidOption {
            option: "prefix",
            problem: format!("{prefix:?} is empty, or has a brace or a control character in it"),
        });
    }
    Ok(())
}

pub(super) fn not_connected(what: String, error: RedisError) -> LockError {
    let StoreError { outcome, source, .. } = fault::not_run(error);
    LockError::Store { step: Step::Connect, what, outcome, source }
}

/// Reads a URL, and never repeats it in an error: it may hold a password.
pub(super) fn connection_info(url: &str) -> Result<ConnectionInfo, LockError> {
    let info = url.into_connection_info().map_err(|error| LockError::InvalidOption {
        option: "url",
        problem: format!(
            "{}; write redis://host:port, redis://user:password@host, rediss://host (with the \
             feature `tls`) or redis+unix:///path",
            error.category()
        ),
    })?;
    #[cfg(feature = "tls")]
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        // The driver takes the process's cryptography, and panics without one.
        // Where the program has chosen its own, that stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    // By RESP3 hints come on the same connection, unless the URL says otherwise:
    // the driver's own default is RESP2.
    let options = url.split_once('?').map_or("", |(_, options)| options).split(['&', '#']);
    let is_resp2 = options.into_iter().any(|it| matches!(it, "protocol=2" | "protocol=resp2"));
    let protocol = if is_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 };
    let settings = info.redis_settings().clone().set_protocol(protocol);
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp).set_redis_settings(settings))
}
