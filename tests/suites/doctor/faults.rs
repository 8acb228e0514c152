//! Faults of one server: each is planted, found, and mended by the remedy of its finding.

use std::time::Duration;

use leasehold::Severity::{self, Problem, Warning};
use leasehold::{Finding, Locks};
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{self, work_for};
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::server::{SOON, good, good_with, mend, run, until, until_all};
use super::{nothing, only};

/// Plants a fault by commands, checks that it is found and nothing else, mends it by the remedy,
/// and checks that it is gone.
async fn planted(server: &Server, commands: &[&str], check: &str, severity: Severity) -> Finding {
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    nothing(&locks.diagnose().await);
    for command in commands {
        run(&mut redis, command).await;
    }
    let finding = only(&locks.diagnose().await, check, severity);
    assert_eq!(finding.server, format!("127.0.0.1:{}", server.port()), "{finding:#?}");
    mend(&mut redis, &finding).await;
    nothing(&until(&locks, 0).await);
    finding
}

/// Faults that commands plant, and that the remedies mend.
const FAULTS: &[(&[&str], &str, Severity, &str)] = &[
    (
        &["CONFIG SET maxmemory 1gb", "CONFIG SET maxmemory-policy allkeys-lru"],
        "eviction",
        Problem,
        "allkeys-lru",
    ),
    (&["CONFIG SET maxmemory-policy volatile-ttl"], "eviction", Warning, "volatile-ttl"),
    (&["CONFIG SET appendonly no"], "persistence", Warning, "keeps nothing on disk"),
    (
        &["CONFIG SET appendonly no", "CONFIG SET save \"3600 1\""],
        "persistence",
        Warning,
        "snapshots alone",
    ),
    (&["CONFIG SET min-replicas-to-write 1"], "min-replicas", Problem, "0 replicas follow"),
    (&["REPLICAOF 127.0.0.1 1"], "role", Problem, "a replica of 127.0.0.1:1"),
    (&["CONFIG SET timeout 10"], "idle-timeout", Warning, "10 s"),
    (
        &["CONFIG SET client-output-buffer-limit \"pubsub 900000 0 0\""],
        "pubsub-buffer",
        Warning,
        "900000",
    ),
    (&["SET leasehold:lock:{a} x"], "no-expiry", Warning, "leasehold:lock:{a}"),
    (&["CLIENT PAUSE 100000 WRITE"], "paused", Problem, "a write"),
];

#[tokio::test]
async fn each_planted_fault_is_found_and_mended() {
    let run = FAULTS.iter().map(async |(commands, check, severity, words)| {
        let finding = planted(&good(), commands, check, *severity).await;
        assert!(finding.found.contains(words), "{finding:#?}");
    });
    futures_util::future::join_all(run).await;
}

#[tokio::test]
async fn a_full_memory_is_found() {
    for (percent, severity) in [(200, Problem), (95, Warning)] {
        let server = good();
        run(&mut server.redis().await, "SETRANGE filler 20000000 x").await;
        run(&mut server.redis().await, "CONFIG RESETSTAT").await; // that was slow
        let used = server.info("memory", "used_memory").await;
        let limit = format!("CONFIG SET maxmemory {}", used * 100 / percent);
        planted(&server, &[&limit], "memory", severity).await;
    }
}

#[tokio::test]
async fn evicted_keys_are_found() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    run(&mut redis, "CONFIG SET maxmemory-policy allkeys-lru").await;
    run(&mut redis, "SETRANGE filler 3000000 x").await;
    run(&mut redis, "CONFIG SET maxmemory 2mb").await;
    let evicted = async || server.info("stats", "evicted_keys").await;
    waiting::until("the filler is evicted", async || evicted().await > 0).await;
    let found = locks.diagnose().await.findings;
    let checks: Vec<_> = found.iter().map(|it| (it.check, it.severity)).collect();
    assert_eq!(checks, [("eviction", Problem), ("evicted-keys", Problem)], "{found:#?}");
    run(&mut redis, "CONFIG SET maxmemory 0").await;
    mend(&mut redis, &found[0]).await;
    let left = only(&locks.diagnose().await, "evicted-keys", Warning);
    mend(&mut redis, &left).await;
    nothing(&locks.diagnose().await);
}

#[tokio::test]
async fn a_snapshot_that_failed_is_found() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    run(&mut redis, "CONFIG SET save \"3600 1\"").await;
    let mut get = redis::cmd("CONFIG");
    let folder: (String, String) = get.arg("GET").arg("dir").query_async(&mut redis).await.unwrap();
    // A file can't take the place of a folder.
    let in_the_way = std::path::Path::new(&folder.1).join("dump.rdb");
    std::fs::create_dir(&in_the_way).unwrap();
    run(&mut redis, "BGSAVE").await;
    let finding = only(&until(&locks, 1).await, "saving", Problem);
    locks.mutex("a").try_lock().await.expect_err("it refuses writes");
    std::fs::remove_dir(in_the_way).unwrap();
    mend(&mut redis, &finding).await;
    nothing(&until(&locks, 0).await);
}

#[tokio::test]
async fn connections_without_room_are_found() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    let connected = server.info("clients", "connected_clients").await - 1;
    run(&mut redis, &format!("CONFIG SET maxclients {connected}")).await;
    let finding = only(&locks.diagnose().await, "max-clients", Problem);

    // A client that comes now learns why it has no locks. The system may drop the server's last
    // word when that closes the connection.
    let other = Locks::connect_lazy(&server.url()).unwrap();
    let findings = other.diagnose().await.findings;
    assert!(["max-clients", "unreachable"].contains(&findings[0].check), "{findings:#?}");
    assert!(findings[0].remedy.contains("maxclients"), "{findings:#?}");
    drop(other);
    mend(&mut redis, &finding).await;
    let finding = only(&locks.diagnose().await, "rejected-connections", Warning);
    mend(&mut redis, &finding).await;
    nothing(&locks.diagnose().await);
}

#[tokio::test]
async fn slow_commands_of_others_are_found() {
    let server = good_with(&["--enable-debug-command", "yes"]);
    let sleeps = ["DEBUG SLEEP 0.1"; 3];
    let finding = planted(&server, &sleeps, "slow-commands", Warning).await;
    assert!(finding.found.contains("3 calls of DEBUG took"), "{finding:#?}");
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_found() {
    let server = good_with(&["--enable-debug-command", "yes"]);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (mut redis, mut loads) = (server.redis().await, server.redis().await);
    run(&mut redis, "DEBUG POPULATE 50000").await;
    run(&mut redis, "CONFIG SET key-load-delay 100").await;
    run(&mut redis, "CONFIG SET loading-process-events-interval-bytes 1024").await;
    run(&mut redis, "CONFIG RESETSTAT").await;
    let loading =
        tokio::spawn(async move { redis::cmd("DEBUG").arg("RELOAD").exec_async(&mut loads).await });
    only(&until(&locks, 1).await, "loading", Problem);
    let other = Locks::connect_lazy(&server.url()).unwrap();
    until_all(&other, "loading", 1).await;
    loading.abort();
}

#[tokio::test]
async fn a_script_that_does_not_end_is_found() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (mut redis, mut endless) = (server.redis().await, server.redis().await);
    run(&mut redis, "CONFIG SET busy-reply-threshold 50").await;
    let endless = tokio::spawn(async move {
        let mut eval = redis::cmd("EVAL");
        eval.arg("while true do end").arg(0).exec_async(&mut endless).await
    });
    waiting::until("it is busy", async || {
        let answer = redis::cmd("PING").exec_async(&mut redis).await;
        answer.is_err_and(|error| error.code() == Some("BUSY"))
    })
    .await;
    let finding = only(&locks.diagnose().await, "busy-script", Problem);
    // A client that comes now can't even connect.
    let other = Locks::connect_lazy(&server.url()).unwrap();
    only(&other.diagnose().await, "busy-script", Problem);
    mend(&mut redis, &finding).await;
    endless.await.unwrap().expect_err("it was killed");
    run(&mut redis, "CONFIG RESETSTAT").await; // it was slow, too
    nothing(&locks.diagnose().await);
}

#[tokio::test]
async fn scripts_that_were_removed_are_found() {
    let server = good_with(&["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""]);
    let locks = Locks::builder().connect_lazy(&server.url()).unwrap();
    let finding = only(&locks.diagnose().await, "scripts", Problem);
    assert!(finding.remedy.contains("rename-command"), "{finding:#?}");
}

#[tokio::test]
async fn a_removed_command_is_found() {
    let server = good_with(&["--rename-command", "RENAME", ""]);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let finding = only(&locks.diagnose().await, "rights", Problem);
    assert!(finding.found.ends_with("does not know RENAME"), "{finding:#?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_wrong_clock_is_found() {
    let server = Server::start_skewed();
    run(&mut server.redis().await, "CONFIG SET appendonly yes").await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    nothing(&locks.diagnose().await);
    server.jump(Duration::from_secs(10));
    let finding = only(&locks.diagnose().await, "clock", Warning);
    assert!(finding.found.contains("ms ahead of"), "{finding:#?}");
    server.jump_back(Duration::from_secs(20));
    let finding = only(&locks.diagnose().await, "clock", Warning);
    assert!(finding.found.contains("ms behind"), "{finding:#?}");
    server.jump(Duration::from_secs(10));
    nothing(&locks.diagnose().await);
}

/// Carries bytes to the server and back, the answers later by this time.
async fn slow_way(to: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let ((mut asks, mut hears), (mut says, mut takes)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut asks, &mut takes).await });
            let (late, mut due) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = says.read(&mut bytes).await {
                    let _ = late.send((Instant::now() + delay, bytes[..count].to_vec()));
                }
            });
            tokio::spawn(async move {
                while let Some((at, bytes)) = due.recv().await {
                    work_for(at.saturating_duration_since(Instant::now())).await;
                    if hears.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_slow_way_is_found() {
    let server = good();
    let long = Duration::from_secs(10);
    for (limit, delay, severity) in [(10_000, 100, Warning), (1_000, 600, Problem)] {
        let (limit, delay) = (Duration::from_millis(limit), Duration::from_millis(delay));
        let port = slow_way(server.port(), delay).await;
        let builder = Locks::builder().command_timeout(limit).connect_timeout(long);
        let locks = builder.connect(&format!("redis://127.0.0.1:{port}")).await.unwrap();
        let diagnosis = locks.diagnose().await;
        let of_latency: Vec<_> =
            diagnosis.findings.iter().filter(|it| it.check == "latency").collect();
        assert_eq!(of_latency.len(), 1, "{diagnosis:#?}");
        assert_eq!(of_latency[0].severity, severity, "{diagnosis:#?}");
        // With the shorter limit, answers may come too late as well.
        if severity == Warning {
            only(&diagnosis, "latency", Warning);
        }
    }
}

/// What a server says of itself reaches nobody in full length, nor as several lines.
#[tokio::test]
async fn a_server_that_speaks_nonsense_is_a_finding() {
    let listener = TcpListener::bind(("127.0.0.1", free_port())).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = client.read(&mut bytes).await {
                    // One answer for each command, and each is the same.
                    let commands = bytes[..count].split(|byte| *byte == b'*').count() - 1;
                    let text = format!("redis\r\n\u{7}{}", "x".repeat(5_000));
                    let answer = format!("${}\r\n{text}\r\n", text.len()).repeat(commands.max(1));
                    if client.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let locks = Locks::connect_lazy(&format!("redis://127.0.0.1:{port}")).unwrap();
    let diagnosis = timeout(SOON, locks.diagnose()).await.expect("it is bounded");
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
    let found = &diagnosis.findings[0].found;
    assert!(found.chars().count() <= 301 && !found.contains(char::is_control), "{found}");
}

/// A look at very many keys is bounded, and says that it saw a part of them.
#[tokio::test]
async fn of_many_locks_some_are_looked_at() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut all = redis::pipe();
    for nth in 0..5_000 {
        let key = format!("leasehold:lock:{{order:{nth}}}");
        all.cmd("SET").arg(key).arg("x").arg("PX").arg(600_000).ignore();
    }
    let () = all.query_async(&mut server.redis().await).await.unwrap();
    server.forget_stats().await;
    let diagnosis = locks.diagnose().await;
    nothing(&diagnosis);
    let records = diagnosis.facts.iter().find(|it| it.name == "records").unwrap();
    assert!(records.value.contains("(a sample)"), "{records:?}");
    let (asked, _) = server.stats("pttl").await;
    assert!((250..2_500).contains(&asked), "{asked}");
    // Without an expiry each of them is a fault, but there is one finding.
    let mut all = redis::pipe();
    for nth in 0..5_000 {
        all.cmd("PERSIST").arg(format!("leasehold:lock:{{order:{nth}}}")).ignore();
    }
    let () = all.query_async(&mut server.redis().await).await.unwrap();
    only(&locks.diagnose().await, "no-expiry", Warning);
}

/// Clients of odd prefixes.
#[tokio::test]
async fn odd_prefixes_are_diagnosed() {
    let server = good();
    let mut redis: MultiplexedConnection = server.redis().await;
    for prefix in ["*", "a channel", "x\\y[z]?", "ünï"] {
        let locks = Locks::builder().prefix(prefix).connect(&server.url()).await.unwrap();
        nothing(&locks.diagnose().await);
        let held = locks.mutex("held").lock().await.unwrap();
        let diagnosis = locks.diagnose().await;
        let records = diagnosis.facts.iter().find(|it| it.name == "records").unwrap();
        assert!(records.value.contains("1 of these in use"), "{records:?}");
        held.release().await.unwrap();
        let mut set = redis::cmd("SET");
        let key = format!("{prefix}:lock:{{odd}}");
        set.arg(&key).arg("x").exec_async(&mut redis).await.unwrap();
        only(&locks.diagnose().await, "no-expiry", Warning);
        redis::cmd("DEL").arg(key).exec_async(&mut redis).await.unwrap();
    }
}
