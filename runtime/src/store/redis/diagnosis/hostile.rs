//! Reports of servers that only speak the same protocol.

use std::time::Duration;

use proptest::prelude::*;

use super::super::hostile::digits;
use super::info::Info;
use super::judge;
use super::material::tests::{refused, said};
use super::material::{ClockSample, Deployment, Material, Reply};

const FIELDS: [&str; 28] = [
    "aof_enabled",
    "cluster_known_nodes",
    "cluster_slots_assigned",
    "cluster_slots_ok",
    "cluster_state",
    "cmdstat_get",
    "connected_clients",
    "connected_slaves",
    "db0",
    "evicted_keys",
    "loading",
    "master_failover_state",
    "master_repl_offset",
    "maxclients",
    "maxmemory",
    "maxmemory_policy",
    "mem_not_counted_for_evict",
    "min_slaves_good_slaves",
    "redis_mode",
    "redis_version",
    "rejected_connections",
    "role",
    "run_id",
    "slave0",
    "slave1",
    "uptime_in_seconds",
    "used_memory",
    "valkey_version",
];

const SETTINGS: [&str; 7] = [
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
    "min-replicas-to-write",
    "save",
    "stop-writes-on-bgsave-error",
    "timeout",
];

fn text() -> impl Strategy<Value = String> {
    let parts = [
        "calls=",
        "usec=",
        "keys=",
        "expires=",
        "offset=",
        "lag=",
        "ip=",
        "port=",
        "state=",
        ",",
        "online",
        "pubsub ",
        "normal ",
        " ",
        "ok",
        "fail",
        "master",
        "slave",
        "yes",
        "no",
        "7.0",
        "everysec",
        "noeviction",
        "allkeys-lru",
        "\u{1b}",
        "é",
    ];
    let part = prop_oneof![
        2 => prop::sample::select(parts.to_vec()).prop_map(str::to_owned),
        1 => digits(),
    ];
    let parts = prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat());
    prop_oneof![2 => digits(), 2 => (0_u64..20_000).prop_map(|it| it.to_string()), 3 => parts]
}

fn info() -> impl Strategy<Value = String> {
    let line = (prop::sample::select(FIELDS.to_vec()), text())
        .prop_map(|(name, value)| format!("{name}:{value}"));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

fn reply() -> impl Strategy<Value = Reply<()>> {
    let codes = vec!["NOPERM", "ERR", "CLUSTERDOWN", "MISCONF", "READONLY", "OOM", "NOREPLICAS"];
    prop_oneof![
        Just(Reply::Got(())),
        Just(Reply::Missing),
        (prop::sample::select(codes), text()).prop_map(|(code, text)| refused(code, &text)),
    ]
}

proptest! {
    #[test]
    fn no_report_makes_a_check_panic(
        (info, of_cluster, nodes) in (info(), info(), "([a-c:@, ?]|fail|\n){0,12}"),
        config in prop::collection::vec((prop::sample::select(SETTINGS.to_vec()), text()), 0..4),
        (script, write) in (reply(), reply()),
        (ahead, precision) in (any::<i64>(), any::<u64>()),
        round_trips in prop::collection::vec(any::<u64>(), 0..4),
        is_cluster in any::<bool>(),
    ) {
        let config: Vec<_> = config.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut material = Material {
            clock: Some(ClockSample { ahead, within: Duration::from_micros(precision) }),
            round_trips: round_trips.into_iter().map(Duration::from_micros).collect(),
            script,
            write,
            cluster: Reply::Got(Info::new(of_cluster)),
            nodes: Reply::Got(nodes),
            ..said(&info, &config)
        };
        if is_cluster {
            material.client.deployment = Deployment::Cluster;
        }
        for finding in judge(&material).findings {
            prop_assert!(!finding.found.is_empty() && !finding.remedy.is_empty());
        }
    }
}
