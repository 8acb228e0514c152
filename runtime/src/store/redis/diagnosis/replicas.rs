//! Whether the server is a master, and whether its replicas follow it.

use super::info::{Info, Replica};
use super::material::{Deployment, Material};
use super::names;
use super::report::{Report, bytes, config_set};

/// A replica that has not confirmed anything for this many seconds lags. It does so every
/// second.
const LATE: u64 = 5;

/// A replica that lacks this many bytes of the replication lags.
const BEHIND: u64 = 1 << 20;

pub(super) fn check(material: &Material, report: &mut Report) {
    let is_replica = material.info.got().is_some_and(|info| info.is("role", "slave"));
    if is_replica || material.write.is_refused_with("READONLY") {
        return replica(material.info.got(), report);
    }
    let refuses = material.write.is_refused_with("NOREPLICAS");
    let Some(info) = material.info.got() else {
        if refuses {
            too_few(report, "fewer replicas follow than its min-replicas-to-write", "0");
        }
        return;
    };
    let replicas = info.replicas();
    let written: u64 = info.number("master_repl_offset").unwrap_or(0);
    if info.text("connected_slaves").is_some() {
        facts(&replicas, written, report);
    }
    let wanted: usize =
        material.setting("min-replicas-to-write").and_then(|count| count.parse().ok()).unwrap_or(0);
    let good: Option<usize> = info.number("min_slaves_good_slaves");
    if refuses || good.is_some_and(|good| good < wanted) {
        let good = good.unwrap_or(0);
        let found = format!("{good} replicas follow, and its min-replicas-to-write is {wanted}");
        too_few(report, &found, &good.to_string());
    }
    let online = replicas.iter().filter(|replica| replica.state == "online").count();
    if let Some(count) = material.client.sync_replicas.filter(|count| online < *count) {
        report.problem(
            names::SYNC_REPLICAS,
            format!("{online} replicas follow, and this client's sync_replicas is {count}"),
            "A grant counts only once so many replicas have it, so this client acquires no lock.",
            "Start a replica: `REPLICAOF` there; or lower sync_replicas.",
        );
    }
    if material.client.deployment == Deployment::Sentinel && replicas.is_empty() {
        report.warning(
            names::REPLICAS,
            "no replica is connected to the master that the sentinels name",
            "The sentinels have no server to fail over to. Without this one there are no locks.",
            "Start one, or repair the connection between the two: `INFO replication` on the \
             replica.",
        );
    }
    following(&replicas, written, report);
    if let Some(state) = info.text("master_failover_state").filter(|it| *it != "no-failover") {
        report.problem(
            names::FAILOVER,
            format!("a failover is under way ({state})"),
            "The server takes no writes until a replica is the master.",
            "Wait. If it does not end: `FAILOVER ABORT`",
        );
    }
}

fn replica(info: Option<&Info>, report: &mut Report) {
    let field = |name| info.and_then(|info| info.text(name)).unwrap_or("?");
    let (host, port) = (field("master_host"), field("master_port"));
    let link = field("master_link_status");
    report.problem(
        names::ROLE,
        format!("it is a replica of {host}:{port}; its link to that is {link}"),
        "It is read-only: it grants, renews and releases nothing.",
        "Give this client the address of the master, or of the sentinels. If it is to be the \
         master: `REPLICAOF NO ONE`",
    );
}

fn too_few(report: &mut Report, found: &str, value: &str) {
    let remedy = format!("Start a replica, or {}", config_set("min-replicas-to-write", value));
    let meaning = "The server refuses all writes (NOREPLICAS): no lock is granted, renewed or \
                   released.";
    report.problem(names::MIN_REPLICAS, found, meaning, remedy);
}

fn facts(replicas: &[Replica], written: u64, report: &mut Report) {
    if replicas.is_empty() {
        return report.fact("replicas", "none");
    }
    for Replica { address, state, offset, lag } in replicas.iter().take(16) {
        let behind = offset.map_or("?".to_owned(), |at| bytes(written.saturating_sub(at)));
        let lag = lag.map_or("?".to_owned(), |lag| lag.to_string());
        let value = format!("{address} {state}, {behind} behind, confirmed {lag} s ago");
        report.fact("replicas", value);
    }
}

fn following(replicas: &[Replica], written: u64, report: &mut Report) {
    const MEANING: &str = "After a failover, the locks that it lacks may be granted again.";
    const REMEDY: &str = "Look at that replica: its load, its network and its log; `INFO \
                          replication` there.";
    for Replica { address, state, offset, lag } in replicas {
        let behind = offset.map_or(0, |at| written.saturating_sub(at));
        if state != "online" {
            let found = format!("the replica {address} is not in step ({state})");
            report.warning(names::REPLICAS, found, MEANING, REMEDY);
        } else if lag.is_some_and(|lag| lag >= LATE) || behind >= BEHIND {
            let found = format!(
                "the replica {address} is {} behind, and last confirmed {} s ago",
                bytes(behind),
                lag.unwrap_or(0)
            );
            report.warning(names::REPLICA_LAG, found, MEANING, REMEDY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::{refused, said};
    use super::super::material::{Deployment, Material};
    use crate::store::Severity::{self, Problem, Warning};

    fn checks(material: &Material) -> Vec<(&'static str, Severity)> {
        judge(material).findings.iter().map(|it| (it.check, it.severity)).collect()
    }

    fn master(replica: &str) -> Material {
        said(
            &format!("role:master\nconnected_slaves:1\n{replica}\nmaster_repl_offset:2000000\n"),
            &[],
        )
    }

    #[test]
    fn replicas_that_lag_are_found() {
        let with = |rest: &str| checks(&master(&format!("slave0:ip=a,port=1,{rest}")));
        assert_eq!(with("state=online,offset=1999000,lag=4"), []);
        assert_eq!(with("state=online,offset=1999000,lag=5"), [("replica-lag", Warning)]);
        assert_eq!(with("state=online,offset=900000,lag=0"), [("replica-lag", Warning)]);
        assert_eq!(with("state=wait_bgsave,offset=0,lag=0"), [("replicas", Warning)]);
        assert_eq!(with("state=online,offset=x,lag=-"), []);
    }

    #[test]
    fn too_few_replicas_are_found() {
        let mut sentinel = master("");
        sentinel.client.deployment = Deployment::Sentinel;
        assert_eq!(checks(&sentinel), [("replicas", Warning)]);
        sentinel.client.sync_replicas = Some(1);
        assert_eq!(checks(&sentinel), [("sync-replicas", Problem), ("replicas", Warning)]);
        let least =
            said("role:master\nmin_slaves_good_slaves:1\n", &[("min-replicas-to-write", "2")]);
        assert_eq!(checks(&least), [("min-replicas", Problem)]);
        let mut silent = said("", &[]);
        silent.write = refused("NOREPLICAS", "Not enough good replicas to write.");
        assert_eq!(checks(&silent), [("min-replicas", Problem)]);
    }

    #[test]
    fn a_replica_and_a_failover_are_found() {
        assert_eq!(checks(&said("role:slave\n", &[])), [("role", Problem)]);
        let failing = "role:master\nmaster_failover_state:waiting-for-sync\n";
        assert_eq!(checks(&said(failing, &[])), [("failover", Problem)]);
    }
}
