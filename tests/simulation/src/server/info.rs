//! The answers to `INFO`.

use super::core::Work;
use super::sentinel::Kind;
use super::{Server, replication, sentinel};

/// The sections that a client asked for; all if it named none.
pub(super) fn info(server: &Server, sections: &[Vec<u8>]) -> String {
    let core = server.core.borrow();
    let uptime = (core.now_us - server.started_us).div_euclid(1_000_000);
    let (settings, condition) = (&server.settings, &core.condition);
    let config = |name: &str| settings.config.get(name).map_or("", String::as_str);
    let mode = server.mode();
    let is_on = |is_on| u8::from(is_on);
    let parts = [
        (
            "Server",
            format!(
                "redis_version:{}\r\nredis_mode:{mode}\r\nrun_id:{}\r\ntcp_port:{}\r\n\
                 uptime_in_seconds:{uptime}\r\n",
                settings.version, settings.run_id, settings.port
            ),
        ),
        ("Clients", format!("connected_clients:{}\r\n", server.sessions.len())),
        (
            "Memory",
            format!(
                "used_memory:1000000\r\nmaxmemory:{}\r\nmaxmemory_policy:{}\r\n",
                config("maxmemory"),
                config("maxmemory-policy")
            ),
        ),
        (
            "Persistence",
            format!(
                "loading:{}\r\naof_enabled:{}\r\nrdb_bgsave_in_progress:0\r\n",
                is_on(condition.work == Work::Loads),
                is_on(config("appendonly") == "yes")
            ),
        ),
        ("Replication", replication::info(server)),
        ("Stats", "evicted_keys:0\r\nexpired_keys:0\r\n".to_owned()),
        ("Cluster", format!("cluster_enabled:{}\r\n", is_on(core.cluster.is_some()))),
    ];
    let own = match &server.kind {
        Kind::Data => Vec::new(),
        Kind::Sentinel(known) => vec![("Sentinel", sentinel::info(known))],
    };
    let is_had = |name: &str| own.is_empty() || matches!(name, "Server" | "Clients" | "Stats");
    let is_asked = |name: &str| {
        sections.is_empty()
            || sections.iter().any(|it| {
                it.eq_ignore_ascii_case(name.as_bytes())
                    || it.eq_ignore_ascii_case(b"all")
                    || it.eq_ignore_ascii_case(b"everything")
            })
    };
    let had = parts.iter().filter(|(name, _)| is_had(name)).chain(&own);
    let asked = had.filter(|(name, _)| is_asked(name));
    let sections: Vec<_> = asked.map(|(name, text)| format!("# {name}\r\n{text}\r\n")).collect();
    sections.concat()
}
