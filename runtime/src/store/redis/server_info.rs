//! What a server says of itself when a connection to it is made: who it is, since
//! when it is up, and what makes it a bad place for locks.

use std::time::{Duration, Instant};

/// One start of a server, as `INFO server` tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// Another after each start.
    run: String,
    up: Duration,
    version: Option<(u32, u32)>,
    pub(super) is_of_cluster: bool,
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl Server {
    /// Reads it off `INFO server`; what is not there is not known.
    pub(super) fn read(info: &str) -> Option<Self> {
        // Where its clock was put back the uptime is negative.
        let up = field(info, "uptime_in_seconds")?.parse::<i64>().ok()?;
        let version = field(info, "redis_version").and_then(|version| {
            let mut numbers = version.split('.').map_while(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        });
        Some(Self {
            run: field(info, "run_id")?.to_owned(),
            up: Duration::from_secs(up.max(0).unsigned_abs()),
            version,
            is_of_cluster: field(info, "redis_mode") == Some("cluster"),
        })
    }
}

/// A start of a server, as all connections that were made to it know it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    id: String,
    /// No earlier than it was.
    pub(super) up_since: Option<Instant>,
}

impl Run {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The start of the server that a connection was made to just now; `before` is the
    /// one that was known, and when it was last seen to answer.
    ///
    /// The uptime goes by the server's wall clock. Whichever way that was put, the later
    /// instant is the safe one; and if the server was started since it last answered, it
    /// was no earlier than that.
    pub(super) fn new(server: &Server, now: Instant, before: Option<(&Self, Instant)>) -> Self {
        // Two clocks of whole seconds are compared there, and it may say one too many. Who
        // is up for longer than this machine counts from now.
        let up = server.up.saturating_sub(Duration::from_secs(1));
        let by_clock = Some(now.checked_sub(up).unwrap_or(now));
        let up_since = match before {
            None => by_clock,
            Some((before, _)) if before.id == server.run => by_clock.max(before.up_since),
            Some((_, answered)) => by_clock.max(Some(answered)),
        };
        Self { id: server.run.clone(), up_since }
    }
}

/// What is wrong with a server for locks, in words; nothing is said of what it does not
/// let us ask.
pub(super) fn warnings(server: Option<&Server>, memory: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((major, minor)) = server.and_then(|server| server.version)
        && major < 7
    {
        warnings.push(format!(
            "it is of version {major}.{minor}, and the scripts need Redis 7.0 or Valkey 7.2"
        ));
    }
    if let Some(policy) = field(memory, "maxmemory_policy").filter(|it| *it != "noeviction") {
        warnings.push(format!(
            "its maxmemory-policy is {policy}: when its memory is full, held locks are evicted \
             like anything else, and two may hold one; set it to noeviction, or give the locks a \
             server of their own"
        ));
    }
    warnings
}

/// The same where a restart is to be survived: `saves` is what `CONFIG GET save` answers.
pub(super) fn forgets(persistence: &str, saves: Option<&str>) -> Option<String> {
    let is_off = field(persistence, "aof_enabled") == Some("0") && saves == Some("");
    is_off.then(|| {
        "it keeps nothing on disk (appendonly no, and no save points): whenever it is started \
         anew its locks are gone, and it grants none until it counts again"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n\
        run_id:abc\r\nuptime_in_seconds:12\r\n";

    #[test]
    fn a_server_is_read() {
        let server = Server::read(INFO).unwrap();
        assert_eq!((&*server.run, server.up.as_secs(), server.version), ("abc", 12, Some((6, 2))));
        assert!(!server.is_of_cluster);
        assert!(Server::read(&INFO.replace("standalone", "cluster")).unwrap().is_of_cluster);
        assert_eq!(Server::read(&INFO.replace("12", "-3")).unwrap().up, Duration::ZERO);
        let odd = Server::read(&INFO.replace("6.2.14", "unstable")).unwrap();
        assert_eq!(odd.version, None);
        for gone in ["run_id", "uptime_in_seconds"] {
            assert_eq!(Server::read(&INFO.replace(gone, "x")), None);
        }
    }

    #[test]
    fn the_younger_of_two_guesses_counts() {
        let server = |run: &str, up| Server {
            run: run.to_owned(),
            up: Duration::from_secs(up),
            ..Server::default()
        };
        let start = Instant::now();
        let now = start + Duration::from_secs(10_000);
        let ago = |seconds: u64| Some(start + Duration::from_secs(10_000 - seconds));
        let first = Run::new(&server("a", 100), now, None);
        assert_eq!(first.up_since, ago(99));
        let answered = ago(7).unwrap();
        for (run, up, up_since) in [
            ("a", 100, ago(99)),
            // Its clock was put on, or back.
            ("a", 3600, ago(99)),
            ("a", 5, ago(4)),
            ("a", 0, ago(0)),
            // Another start; its clock was put on.
            ("b", 3, ago(2)),
            ("b", 3600, ago(7)),
        ] {
            let next = Run::new(&server(run, up), now, Some((&first, answered)));
            assert_eq!(next.up_since, up_since, "{run} {up}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_server_is_said() {
        let old = Server::read(INFO);
        let new = Server::read(&INFO.replace("6.2.14", "7.0.0"));
        let policy = |policy| format!("# Memory\r\nmaxmemory_policy:{policy}\r\n");
        assert!(warnings(new.as_ref(), &policy("noeviction")).is_empty());
        assert!(warnings(None, "").is_empty());
        assert!(warnings(old.as_ref(), "")[0].contains("Redis 7.0"));
        assert!(warnings(None, &policy("allkeys-lru"))[0].contains("allkeys-lru"));
        let aof = |enabled: u8| format!("aof_enabled:{enabled}\r\n");
        assert!(forgets(&aof(0), Some("")).is_some());
        for (persistence, saves) in [(aof(1), Some("")), (aof(0), Some("60 1")), (aof(0), None)] {
            assert_eq!(forgets(&persistence, saves), None);
        }
    }
}
