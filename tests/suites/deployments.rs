//! Deployments, and the errors of connecting. Every error is typed, says what to do, and repeats no
//! password.

#[cfg(feature = "servers")]
mod errors;
#[cfg(feature = "servers")]
mod flags;
#[cfg(feature = "servers")]
mod herd;
#[cfg(feature = "servers")]
mod lazy;
#[cfg(feature = "servers")]
mod limits;
#[cfg(feature = "servers")]
mod on_servers;
#[cfg(feature = "servers")]
mod ping;
#[cfg(feature = "servers")]
mod pools;
#[cfg(feature = "servers")]
mod replicas;
#[cfg(feature = "servers")]
mod rights;
#[cfg(feature = "servers")]
mod secrets;
#[cfg(feature = "servers")]
mod sentinel;
#[cfg(feature = "servers")]
mod servers;
#[cfg(feature = "servers")]
mod tls;
#[cfg(feature = "servers")]
mod unusable;

use std::time::Duration;

use leasehold::{LockError, Locks, Step};

const CANARY: &str = "canary-password";

/// Checks that an error or a client does not show the password.
fn assert_no_secret(shown: &dyn std::fmt::Debug) {
    assert!(!format!("{shown:?} {shown:#?}").contains(CANARY), "{shown:?}");
}

fn assert_error_has(error: &LockError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    assert!(!text.contains(CANARY), "{text}");
    assert_no_secret(error);
}

#[tokio::test]
async fn an_invalid_url_is_refused_without_repeating_it() {
    for url in
        ["", "localhost", "http://u:canary-password@host/", "redis://:canary-password@host:x/"]
    {
        let error = Locks::connect(url).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { option: "url", .. }), "{error}");
        assert_error_has(&error, &["redis://host:port"]);
    }
}

#[tokio::test]
async fn a_prefix_that_would_split_the_slots_is_refused() {
    for prefix in ["", "a{b}", "a\n"] {
        let error =
            Locks::builder().prefix(prefix).connect("redis://127.0.0.1:1/").await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { option: "prefix", .. }), "{error}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_named_without_the_password() {
    let port = leasehold_tests::server::free_port();
    let url = format!("redis://user:{CANARY}@127.0.0.1:{port}/");
    let error = Locks::connect(&url).await.unwrap_err();
    assert!(matches!(error, LockError::Store { step: Step::Connect, .. }), "{error}");
    assert_error_has(&error, &[&format!("127.0.0.1:{port}"), "is the server running"]);
}

#[tokio::test]
async fn a_server_that_never_answers_fails_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("redis://:{CANARY}@{address}/");
    let connecting = tokio::time::timeout(Duration::from_secs(60), Locks::connect(&url));
    let error = connecting.await.expect("it gives up by itself").unwrap_err();
    assert!(matches!(error, LockError::Store { step: Step::Connect, .. }), "{error}");
    assert_error_has(&error, &[&address.to_string()]);
}

/// What listens there answers the first bytes in its own protocol, or says something first.
#[tokio::test]
async fn something_else_than_redis_is_called_that() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n<p>no</p>\r\n", "SSH-2.0-OpenSSH_9.2\r\n"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let _ = client.read(&mut [0; 1024]).await;
                let _ = client.write_all(answer.as_bytes()).await;
            }
        });
        let error = Locks::connect(&format!("redis://:{CANARY}@{address}")).await.unwrap_err();
        assert_error_has(&error, &[&address.to_string(), "no Redis server", "host and the port"]);
        assert!(!error.to_string().contains("xpected"), "a parser's words: {error}");
        let error = Locks::connect(&format!("rediss://{address}")).await.unwrap_err();
        assert_error_has(&error, &["does not speak TLS", "redis://"]);
    }
}

/// A plain server waits for the end of a line that never comes, or closes.
#[tokio::test]
async fn a_silent_port_is_not_only_called_overloaded() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    for (scheme, word) in [("redis", "needs rediss://"), ("rediss", "write redis://")] {
        let error = Locks::connect(&format!("{scheme}://{address}")).await.unwrap_err();
        assert_error_has(&error, &[&address.to_string(), "no answer in time", word]);
    }
}

#[tokio::test]
async fn invalid_options_are_refused() {
    let locks = Locks::in_memory();
    let day = Duration::from_secs(24 * 60 * 60);
    for ttl in
        [Duration::ZERO, Duration::from_millis(99), day + Duration::from_millis(1), Duration::MAX]
    {
        let errors = [
            locks.mutex("a").ttl(ttl).lock().await.unwrap_err(),
            locks.mutex("a").ttl(ttl).try_lock().await.unwrap_err(),
            locks.semaphore("a", 2).ttl(ttl).acquire().await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, LockError::InvalidOption { option: "ttl", .. }), "{error}");
            assert_error_has(&error, &["100ms", "24h"]);
        }
    }
    let error = locks.mutex("a").hold_at_least(Duration::MAX).lock().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "hold_at_least", .. }), "{error}");
    for error in [
        locks.semaphore("a", 0).acquire().await.unwrap_err(),
        locks.semaphore("a", 0).try_acquire().await.unwrap_err(),
    ] {
        assert!(matches!(error, LockError::InvalidOption { option: "permits", .. }), "{error}");
    }
}

#[tokio::test]
async fn absurd_waits_do_not_overflow() {
    let locks = Locks::in_memory();
    let day = Duration::from_secs(24 * 60 * 60);
    let lease = locks.mutex("a").wait(Duration::MAX).ttl(day).lock().await.unwrap();
    assert!(lease.remaining() > day / 2);
    let permit = locks.semaphore("s", u32::MAX).wait(Duration::MAX).acquire().await.unwrap();
    assert!(permit.is_held());
}

#[tokio::test]
async fn names_that_are_not_allowed_are_refused() {
    let locks = Locks::in_memory();
    for name in [String::new(), "x".repeat(513), "a\0".to_owned()] {
        for error in [
            locks.mutex(&name).lock().await.unwrap_err(),
            locks.semaphore(&name, 2).acquire().await.unwrap_err(),
        ] {
            assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn in_memory_clients_need_no_server_and_share_nothing() {
    let (one, other) = (Locks::in_memory(), Locks::in_memory());
    let _lease = one.mutex("a").lock().await.unwrap();
    let _other = other.mutex("a").try_lock().await.unwrap();
    assert!(one.clone().mutex("a").try_lock().await.is_err());
}
