//! Several locks on a real server.

use leasehold::{LockError, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::requests::sent_together;
use leasehold_tests::server::Server;

use super::{NAMES, are_free};

/// The number of locks does not matter.
#[tokio::test]
async fn free_locks_cost_one_command() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let names: Vec<_> = (0..64).map(|n| format!("n:{n}")).collect();
    // Loads the scripts into the server.
    locks.all(&names).lock().await.unwrap().release().await.unwrap();
    server.forget_stats().await;
    let leases = locks.all(&names).lock().await.unwrap();
    assert_eq!(server.script_calls().await, 1);
    sent_together(&server, leases.release()).await.unwrap();
    assert_eq!(server.script_calls().await, 1 + 5, "after the first, releases go 16 together");
    assert_eq!(server.stats("publish").await.0, 0);
}

/// The key of a name holds a foreign value.
#[tokio::test]
async fn a_foreign_key_is_reported() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = light_client(&server).await;
    // One of them looks like a record that is free.
    let alike = format!("{:0<64}", "0F");
    for (put, value, is_busy) in [("SET", "x", true), ("SET", &alike, true), ("RPUSH", "x", false)]
    {
        redis::cmd("DEL").arg("leasehold:lock:{b}").exec_async(&mut redis).await.unwrap();
        let mut put = redis::cmd(put);
        put.arg("leasehold:lock:{b}").arg(value).exec_async(&mut redis).await.unwrap();
        for refused in [locks.all(NAMES).try_lock().await, locks.all(["b", "c"]).try_lock().await] {
            match refused {
                Err(LockError::Busy { key, .. }) => assert!(is_busy && key.name() == "b"),
                Err(LockError::WrongKind { key, .. }) => assert!(!is_busy && key.name() == "b"),
                other => panic!("{other:?}"),
            }
        }
        redis::cmd("DEL").arg("leasehold:lock:{b}").exec_async(&mut redis).await.unwrap();
        while locks.mutex("a").try_lock().await.is_err() {
            tokio::task::yield_now().await;
        }
        locks.all(NAMES).wait(Wait::Forever).lock().await.unwrap().release().await.unwrap();
        are_free(&locks).await;
    }
}
