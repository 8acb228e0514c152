//! The clock that the cases go by.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_tests::server::Server;
use leasehold_tests::waiting::pass;
use redis::aio::MultiplexedConnection;

async fn time(redis: &mut MultiplexedConnection) -> Duration {
    let (seconds, micros) = redis::cmd("TIME").query_async(redis).await.expect("TIME");
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

async fn left_ms(redis: &mut MultiplexedConnection) -> i64 {
    redis::cmd("PTTL").arg("k").query_async(redis).await.expect("PTTL")
}

#[tokio::test]
async fn a_servers_clock_goes_as_the_test_says() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = Server::start_skewed();
    let mut redis = server.redis().await;
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(time(&mut redis).await >= real, "it begins with the real time");

    redis::cmd("SET").arg("k").arg(1).arg("EX").arg(60).exec_async(&mut redis).await.unwrap();
    server.jump(Duration::from_secs(50));
    assert!((1..=10_000).contains(&left_ms(&mut redis).await));
    server.jump_back(HOUR);
    assert!(left_ms(&mut redis).await > 3_600_000);
    server.jump(HOUR + Duration::from_secs(11));
    assert_eq!(left_ms(&mut redis).await, -2, "it ended");

    server.stop_clock();
    let stopped = time(&mut redis).await;
    pass(Duration::from_millis(5), "the real clock goes on, and that of the server must not").await;
    assert_eq!(time(&mut redis).await, stopped);
    server.jump(HOUR);
    assert_eq!(time(&mut redis).await, stopped + HOUR);
}
