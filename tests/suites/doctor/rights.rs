//! Users that lack rights: what they lack is named, with the command that grants it.

use leasehold::Locks;
use leasehold::Severity::{Problem, Warning};
use leasehold_tests::cluster::Cluster;

use super::server::{good, good_with, mend, run};
use super::{nothing, only};

/// Makes a user with these rights, and diagnoses as that user. Returns what was found, after it
/// was mended.
async fn lacking(rights: &str, check: &str, severity: leasehold::Severity) -> leasehold::Finding {
    let server = good();
    let mut redis = server.redis().await;
    run(&mut redis, &format!("ACL SETUSER app on >p {rights}")).await;
    let locks = Locks::builder().connect_lazy(&server.url_as("app:p@")).unwrap();
    let finding = only(&locks.diagnose().await, check, severity);
    let told = format!("{finding:?}");
    assert!(!told.contains(":p@"), "{told}");
    mend(&mut redis, &finding).await;
    nothing(&locks.diagnose().await);
    finding
}

#[tokio::test]
async fn rights_that_locks_need_are_a_problem() {
    let finding = lacking("~* &* +@all -get -zadd", "rights", Problem).await;
    assert_eq!(finding.found, "the user lacks +get +zadd");
    let finding = lacking("~* &* +@all -@scripting", "rights", Problem).await;
    assert!(finding.remedy.contains("`ACL SETUSER app +eval +evalsha`"), "{finding:#?}");
    let finding = lacking("~other:* &* +@all", "rights", Problem).await;
    assert_eq!(finding.found, "the user lacks ~leasehold:*");
}

#[tokio::test]
async fn rights_for_messages_and_connections_are_a_warning() {
    let finding = lacking("~* resetchannels +@all", "rights", Warning).await;
    assert_eq!(finding.found, "the user lacks &leasehold:wake:*");
    let finding = lacking("~* &* +@all -subscribe -client|kill", "rights", Warning).await;
    assert_eq!(finding.found, "the user lacks +subscribe +client|kill");
}

#[tokio::test]
async fn what_is_not_checked_is_a_warning() {
    for (rights, words) in [
        ("~* &* +@all -config", "save points"),
        ("~* &* +@all -info", "eviction"),
        ("~* &* +@all -scan", "without an expiry"),
        ("~* &* +@all -info -config -scan", "keys without an expiry"),
    ] {
        let finding = lacking(rights, "not-checked", Warning).await;
        assert!(finding.meaning.contains(words), "{finding:#?}");
    }
}

/// The rights are learned without `ACL`.
#[tokio::test]
async fn no_right_for_acl_is_needed() {
    let server = good();
    let user = "ACL SETUSER app on >p ~* &* +@all -acl";
    run(&mut server.redis().await, user).await;
    let locks = Locks::connect(&server.url_as("app:p@")).await.unwrap();
    nothing(&locks.diagnose().await);
    run(&mut server.redis().await, "ACL SETUSER app -hset").await;
    only(&locks.diagnose().await, "rights", Problem);
}

/// Where the provider has removed `CONFIG`, nothing mends that, so it is a fact. What it forbids
/// to ask is found by other ways.
#[tokio::test]
async fn a_server_without_config_is_diagnosed() {
    let server = good_with(
        &[
            ["--rename-command", "CONFIG", ""],
            ["--maxmemory-policy", "allkeys-lru", "--maxmemory"],
            ["1gb", "--min-replicas-to-write", "1"],
        ]
        .concat(),
    );
    let locks = Locks::connect(&server.url()).await.unwrap();
    let diagnosis = locks.diagnose().await;
    let found: Vec<_> = diagnosis.findings.iter().map(|it| it.check).collect();
    assert_eq!(found, ["min-replicas", "eviction"], "{diagnosis:#?}");
    let left_out = diagnosis.facts.iter().find(|fact| fact.name == "not-checked").unwrap();
    assert!(left_out.value.contains("no CONFIG GET here"), "{left_out:?}");
}

#[tokio::test]
async fn a_server_without_info_is_diagnosed() {
    let server = good_with(&["--rename-command", "INFO", "", "--min-replicas-to-write", "1"]);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let diagnosis = locks.diagnose().await;
    let finding = only(&diagnosis, "min-replicas", Problem);
    let left_out = diagnosis.facts.iter().find(|fact| fact.name == "not-checked").unwrap();
    assert!(left_out.value.contains("no INFO here"), "{left_out:?}");
    mend(&mut server.redis().await, &finding).await;
    nothing(&locks.diagnose().await);
}

#[tokio::test]
async fn rights_on_a_cluster_are_checked_on_each_master() {
    let cluster = Cluster::start().await;
    let but = ["", "-spublish -ssubscribe", "-cluster|slots -hget"];
    for (node, but) in cluster.nodes().iter().zip(but) {
        let mut redis = node.redis().await;
        run(&mut redis, "CONFIG SET appendonly yes").await;
        run(&mut redis, &format!("ACL SETUSER app on >p ~* &* +@all {but}")).await;
    }
    let locks = Locks::connect(&cluster.url_as("app:p@")).await.unwrap();
    let diagnosis = locks.diagnose().await;
    let [worse, other] = &diagnosis.findings[..] else { panic!("{diagnosis:#?}") };
    assert_eq!((worse.severity, other.severity), (Problem, Warning), "{diagnosis:#?}");
    assert_eq!(worse.found, "the user lacks +hget +cluster|slots");
    assert_eq!(other.found, "the user lacks +spublish +ssubscribe");
    let ports = [worse, other].map(|it| it.server.rsplit(':').next().unwrap().to_owned());
    assert_eq!(ports, [2, 1].map(|nth| cluster.nodes()[nth].port().to_string()));
    mend(&mut cluster.nodes()[2].redis().await, worse).await;
    mend(&mut cluster.nodes()[1].redis().await, other).await;
    nothing(&locks.diagnose().await);
}
