//! What an operator's program reads of a lock as JSON.

use std::time::Duration;

use leasehold::{LockInfo, Locks};
use serde_json::{Value, json};

/// As JSON, without what differs from run to run.
fn json(info: &LockInfo) -> Value {
    let mut json = serde_json::to_value(info).unwrap();
    for who in ["holders", "waiters"] {
        for one in json[who].as_array_mut().unwrap() {
            let id = one.as_object_mut().unwrap().remove("id");
            assert_eq!(id.is_some(), who == "holders", "{one}");
            let limit = one.as_object_mut().unwrap().remove("limit");
            assert_eq!(limit, (who == "waiters").then_some(Value::Null), "{one}");
            let client = one.as_object_mut().unwrap().remove("client").unwrap();
            assert_eq!(client["id"].as_str().unwrap().len(), 22, "{client}");
            assert!(client["service"].is_string() && client["host"].is_string(), "{client}");
            assert_eq!(client["process"], std::process::id(), "{client}");
        }
    }
    json
}

#[tokio::test(start_paused = true)]
async fn durations_are_seconds_and_tokens_are_numbers() {
    let locks = Locks::in_memory();
    let nightly = || locks.mutex("nightly").ttl(Duration::from_secs(30)).owner("worker-7");
    let lease = nightly().note("TICKET-7 <b>").lock().await.unwrap();
    let waiter = nightly().wait(Duration::from_secs(60));
    let waits = tokio::spawn(async move { waiter.lock().await });
    tokio::time::sleep(Duration::from_millis(1_500)).await;

    let info = locks.inspect("nightly").await.unwrap();
    assert_eq!(
        json(&info),
        json!({
            "name": "nightly",
            "kind": "mutex",
            "clock_behind_seconds": null,
            "last_forced": null,
            "holders": [{
                "owner": "worker-7",
                "note": "TICKET-7 <b>",
                "is_writer": false,
                "weight": 1,
                "fence": lease.fence().unwrap().get(),
                "held_for_seconds": 1.5,
                "remaining_seconds": 28.5,
                "heard_seconds_ago": null,
                "may_be_idle": false,
            }],
            "held": 1,
            "kept_seconds": null,
            "last_limit": null,
            "limit": null,
            "waiters": [{
                "owner": "worker-7",
                "note": null,
                "is_writer": false,
                "weight": 1,
                "waiting_for_seconds": 1.5,
            }],
            "waiting": 1,
            "last_success": null,
            "job": null,
        })
    );
    lease.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn times_of_the_servers_clock_are_text() {
    let locks = Locks::in_memory();
    let mail = locks.mutex("mail").once_per(Duration::from_secs(60));
    mail.lock().await.unwrap().complete().await.unwrap();

    let success = &json(&locks.inspect("mail").await.unwrap())["last_success"];
    let text = |field: &str| success[field].as_str().unwrap().to_owned();
    let (tick, until, completed) = (text("tick"), text("until"), text("completed"));
    // RFC 3339 sorts as time does.
    assert!(tick <= completed && completed < until, "{success}");
    assert!(tick.ends_with(":00.000Z") && until.ends_with(":00.000Z"), "{success}");
    assert!(success["counts_for_seconds"].as_f64().unwrap() <= 60.0, "{success}");
}

#[cfg(feature = "servers")]
#[tokio::test]
async fn a_diagnosis_is_json() {
    let server = leasehold_tests::server::Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let diagnosis = serde_json::to_value(locks.diagnose().await).unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    assert_eq!(
        diagnosis["findings"],
        json!([{
            "severity": "warning",
            "check": "persistence",
            "server": address,
            "found": "it keeps nothing on disk (appendonly no, no save points)",
            "meaning": "A restart loses its locks. Then two clients may hold the same one.",
            "remedy": "`CONFIG SET appendonly yes`, and the same in its configuration file.",
        }])
    );
    let facts = diagnosis["facts"].as_array().unwrap();
    assert!(facts.contains(&json!({"name": "role", "server": address, "value": "master"})));
    let severity = leasehold::Severity::Problem;
    assert_eq!(serde_json::to_value(severity).unwrap(), json!("problem"));
}
