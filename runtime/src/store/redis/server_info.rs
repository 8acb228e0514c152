//! The report of a server about itself on a new connection: which start of it this is, since
//! when it is up, and which of its settings are unsafe for locks.

use std::fmt;
use std::time::{Duration, Instant};

/// The answer to `INFO server`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// A new one after each start.
    run_id: String,
    uptime: Duration,
    version: Option<(u32, u32)>,
    pub(super) is_cluster_node: bool,
}

/// A field of an answer to `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl ServerInfo {
    /// Reads the answer, or nothing if it lacks the start or the uptime.
    pub(super) fn parse(info: &str) -> Option<Self> {
        // The uptime is negative after the clock was set back.
        let uptime = field(info, "uptime_in_seconds")?.parse::<i64>().ok()?;
        let version = field(info, "redis_version").and_then(|version| {
            let mut numbers = version.split('.').map_while(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        });
        Some(Self {
            run_id: field(info, "run_id")?.to_owned(),
            uptime: Duration::from_secs(uptime.max(0).unsigned_abs()),
            version,
            is_cluster_node: field(info, "redis_mode") == Some("cluster"),
        })
    }
}

/// One start of a server, as all connections since then know it.
#[derive(Clone, Debug)]
pub(super) struct ServerRun {
    id: String,
    /// The latest time at which it may have started.
    pub(super) up_since: Option<Instant>,
}

impl ServerRun {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The start that a new connection leads to. `before` is the last known one, and when it
    /// last answered.
    ///
    /// The server counts its uptime by its wall clock. Whichever way that clock was set, the
    /// later time is the safe one. And if the server has started since it last answered, it
    /// has not started before that.
    pub(super) fn new(server: &ServerInfo, now: Instant, before: Option<(&Self, Instant)>) -> Self {
        // The server compares two clocks of whole seconds, so its uptime may be a second too
        // long. If it is longer than this machine's, the time now has to do.
        let up = server.uptime.saturating_sub(Duration::from_secs(1));
        let by_clock = Some(now.checked_sub(up).unwrap_or(now));
        let up_since = match before {
            None => by_clock,
            Some((before, _)) if before.id == server.run_id => by_clock.max(before.up_since),
            Some((_, answered)) => by_clock.max(Some(answered)),
        };
        Self { id: server.run_id.clone(), up_since }
    }
}

/// A setting that puts locks at risk: for the log, and for the diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Risk {
    pub(super) found: String,
    pub(super) meaning: &'static str,
    pub(super) remedy: &'static str,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, meaning, remedy } = self;
        write!(f, "{found}: {meaning}; {remedy}")
    }
}

/// A version without commands that the scripts call, such as `ZRANGE` by score.
pub(super) fn version_risk(server: &ServerInfo) -> Option<Risk> {
    let (major, minor) = server.version.filter(|version| *version < (6, 2))?;
    Some(Risk {
        found: format!("its version is {major}.{minor}"),
        meaning: "the scripts need Redis 6.2 or Valkey 7.2",
        remedy: "install one of these",
    })
}

/// A policy that evicts keys with an expiry, as all keys of locks are. `memory` is the answer to
/// `INFO memory`.
pub(super) fn eviction_risk(memory: &str) -> Option<Risk> {
    let policy = field(memory, "maxmemory_policy").filter(|it| *it != "noeviction")?;
    Some(Risk {
        found: format!("its maxmemory-policy is {policy}"),
        meaning: "when its memory is full it evicts held locks, and then two clients may hold the \
                  same one",
        remedy: "set it to noeviction, or give the locks a server of their own",
    })
}

/// The risk of a server that forgets its locks in a restart. `saves` is the answer to
/// `CONFIG GET save`.
pub(super) fn persistence_risk(persistence: &str, saves: Option<&str>) -> Option<Risk> {
    let is_off = field(persistence, "aof_enabled") == Some("0") && saves == Some("");
    is_off.then(|| Risk {
        found: "it keeps nothing on disk (appendonly no, no save points)".to_owned(),
        meaning: "a restart loses its locks",
        remedy: "set appendonly to yes",
    })
}

/// The warnings for the log about a server's settings. There is none about what it does not let
/// us ask.
pub(super) fn warnings(server: Option<&ServerInfo>, memory: &str) -> Vec<String> {
    let risks = server.and_then(version_risk).into_iter().chain(eviction_risk(memory));
    risks.map(|risk| risk.to_string()).collect()
}

/// The warning for a member of a quorum that forgets its locks in a restart.
pub(super) fn persistence_warning(persistence: &str, saves: Option<&str>) -> Option<String> {
    let risk = persistence_risk(persistence, saves)?;
    let (found, meaning) = (risk.found, risk.meaning);
    Some(format!("{found}: {meaning}, and it grants none until it counts again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n\
        run_id:abc\r\nuptime_in_seconds:12\r\n";

    #[test]
    fn server_info_is_parsed() {
        let server = ServerInfo::parse(INFO).unwrap();
        assert_eq!(
            (&*server.run_id, server.uptime.as_secs(), server.version),
            ("abc", 12, Some((6, 2)))
        );
        assert!(!server.is_cluster_node);
        assert!(ServerInfo::parse(&INFO.replace("standalone", "cluster")).unwrap().is_cluster_node);
        assert_eq!(ServerInfo::parse(&INFO.replace("12", "-3")).unwrap().uptime, Duration::ZERO);
        let odd = ServerInfo::parse(&INFO.replace("6.2.14", "unstable")).unwrap();
        assert_eq!(odd.version, None);
        for gone in ["run_id", "uptime_in_seconds"] {
            assert_eq!(ServerInfo::parse(&INFO.replace(gone, "x")), None);
        }
    }

    #[test]
    fn the_later_of_two_start_times_counts() {
        let server = |run: &str, up| ServerInfo {
            run_id: run.to_owned(),
            uptime: Duration::from_secs(up),
            ..ServerInfo::default()
        };
        let start = Instant::now();
        let now = start + Duration::from_secs(10_000);
        let ago = |seconds: u64| Some(start + Duration::from_secs(10_000 - seconds));
        let first = ServerRun::new(&server("a", 100), now, None);
        assert_eq!(first.up_since, ago(99));
        let answered = ago(7).unwrap();
        for (run, up, up_since) in [
            ("a", 100, ago(99)),
            // Its clock was set forward, or back.
            ("a", 3600, ago(99)),
            ("a", 5, ago(4)),
            ("a", 0, ago(0)),
            // Another start; its clock was set forward.
            ("b", 3, ago(2)),
            ("b", 3600, ago(7)),
        ] {
            let next = ServerRun::new(&server(run, up), now, Some((&first, answered)));
            assert_eq!(next.up_since, up_since, "{run} {up}");
        }
    }

    #[test]
    fn unsafe_settings_give_warnings() {
        let old = ServerInfo::parse(&INFO.replace("6.2.14", "6.0.20"));
        let new = ServerInfo::parse(INFO);
        let policy = |policy| format!("# Memory\r\nmaxmemory_policy:{policy}\r\n");
        assert!(warnings(new.as_ref(), &policy("noeviction")).is_empty());
        assert!(warnings(None, "").is_empty());
        assert!(warnings(old.as_ref(), "")[0].contains("Redis 6.2"));
        assert!(warnings(None, &policy("allkeys-lru"))[0].contains("allkeys-lru"));
        let aof = |enabled: u8| format!("aof_enabled:{enabled}\r\n");
        assert!(persistence_warning(&aof(0), Some("")).is_some());
        for (persistence, saves) in [(aof(1), Some("")), (aof(0), Some("60 1")), (aof(0), None)] {
            assert_eq!(persistence_warning(&persistence, saves), None);
        }
    }
}
