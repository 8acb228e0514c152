//! The report of a server about itself: `INFO`. It is foreign input, so each field may be
//! missing, or be anything.

use std::str::FromStr;

use super::super::server_info::{ServerInfo, field};

/// The answer to `INFO all`.
#[derive(Clone, Debug, Default)]
pub(super) struct Info(String);

/// A replica, as its master reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) address: String,
    pub(super) state: String,
    /// How many bytes of the replication it has confirmed.
    pub(super) offset: Option<u64>,
    /// Seconds since it last confirmed anything.
    pub(super) lag: Option<u64>,
}

impl Info {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn all(&self) -> &str {
        &self.0
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        field(&self.0, name).filter(|it| !it.is_empty())
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// Returns true if the field is there and has this value.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name) == Some(value)
    }

    pub(super) fn server(&self) -> Option<ServerInfo> {
        ServerInfo::parse(&self.0)
    }

    /// The replicas that are connected, as `slave0:ip=…,port=…,state=…,offset=…,lag=…`.
    pub(super) fn replicas(&self) -> Vec<Replica> {
        let lines = self.0.lines().filter_map(|line| {
            let (number, values) = line.strip_prefix("slave")?.split_once(':')?;
            number.parse::<u32>().ok().map(|_| values.trim())
        });
        lines
            .map(|values| {
                let value = |name| part(values, name);
                Replica {
                    address: format!(
                        "{}:{}",
                        value("ip=").unwrap_or("?"),
                        value("port=").unwrap_or("?")
                    ),
                    state: value("state=").unwrap_or("?").to_owned(),
                    offset: value("offset=").and_then(|it| it.parse().ok()),
                    lag: value("lag=").and_then(|it| it.parse().ok()),
                }
            })
            .collect()
    }

    /// The commands, each with its calls and their time in microseconds.
    pub(super) fn commands(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.0.lines().filter_map(|line| {
            let (command, values) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let number = |name| part(values.trim(), name)?.parse().ok();
            Some((command, number("calls=")?, number("usec=")?))
        })
    }

    /// How many keys all databases have, and how many of these have an expiry.
    pub(super) fn keys(&self) -> (u64, u64) {
        let databases = self.0.lines().filter_map(|line| {
            let (number, values) = line.strip_prefix("db")?.split_once(':')?;
            let _: u32 = number.parse().ok()?;
            let count = |name| part(values.trim(), name)?.parse::<u64>().ok();
            Some((count("keys=")?, count("expires=")?))
        });
        databases.fold((0, 0), |sum, (keys, expires)| {
            (sum.0.saturating_add(keys), sum.1.saturating_add(expires))
        })
    }
}

/// A part of a line such as `a=1,b=2`.
fn part<'a>(values: &'a str, name: &str) -> Option<&'a str> {
    values.split(',').find_map(|part| part.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lines_and_nonsense_are_read() {
        let info = Info::new(
            "a:1\r\nslave0:ip=1.2.3.4,port=6,state=online,offset=9,lag=1\r\nslave_x:y\r\n\
             slave1:\r\nslaves:3\r\ncmdstat_get:calls=2,usec=9,x=y\r\ncmdstat_odd:calls=-1\r\n\
             db0:keys=3,expires=2,avg_ttl=1\r\ndb1:keys=1,expires=1\r\ndbx:keys=9\r\n"
                .to_owned(),
        );
        assert_eq!((info.number("a"), info.number::<u8>("b")), (Some(1_u8), None));
        let replicas = info.replicas();
        assert_eq!(replicas.len(), 2);
        assert_eq!((&*replicas[0].address, replicas[0].offset), ("1.2.3.4:6", Some(9)));
        assert_eq!((&*replicas[1].address, replicas[1].lag), ("?:?", None));
        assert_eq!(info.commands().collect::<Vec<_>>(), [("get", 2, 9)]);
        assert_eq!(info.keys(), (4, 3));
    }
}
