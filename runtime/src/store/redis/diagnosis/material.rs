//! What was collected from one server, for the checks to judge.

use std::collections::HashMap;
use std::time::Duration;

use redis::RedisError;

use super::super::script_errors;
use super::commands::Right;
use super::info::Info;
use crate::store::short;

/// The answer to a question.
#[derive(Clone, Debug)]
pub(super) enum Reply<T> {
    Got(T),
    Refused(Refusal),
    /// None came in time, or the question was not asked.
    Missing,
}

/// Why a server refuses a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The first word, such as `NOPERM`.
    pub(super) code: String,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(error: &RedisError) -> Self {
        let code = error.code().unwrap_or_default().to_owned();
        Self { code, text: error.detail().unwrap_or_default().to_owned() }
    }

    /// The user may not.
    pub(super) fn is_no_right(&self) -> bool {
        self.code == "NOPERM"
    }

    /// The command was removed or renamed.
    pub(super) fn is_unknown(&self) -> bool {
        self.code == "ERR" && self.text.to_lowercase().starts_with("unknown ")
    }

    /// The server takes no flags of scripts.
    pub(super) fn is_of_flags(&self) -> bool {
        script_errors::is_refusal_of_flags(&self.code, &self.text)
    }
}

impl<T> Reply<T> {
    pub(super) fn got(&self) -> Option<&T> {
        match self {
            Self::Got(answer) => Some(answer),
            _ => None,
        }
    }

    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns true if the server refuses with this code.
    pub(super) fn is_refused_with(&self, code: &str) -> bool {
        self.refusal().is_some_and(|refusal| refusal.code == code)
    }

    pub(super) fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Reply<U> {
        match self {
            Self::Got(answer) => read(answer).map_or(Reply::Missing, Reply::Got),
            Self::Refused(refusal) => Reply::Refused(refusal),
            Self::Missing => Reply::Missing,
        }
    }
}

/// What the server is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Deployment {
    #[default]
    One,
    Sentinel,
    Cluster,
    /// A quorum.
    Quorum,
}

/// What the client itself is like.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) prefix: String,
    /// The user of the URL; `None` with a pool.
    pub(super) user: Option<String>,
    pub(super) command_timeout: Duration,
    pub(super) deployment: Deployment,
    /// A server that starts again grants nothing for this time.
    pub(super) counts_after: Option<Duration>,
    pub(super) sync_replicas: Option<usize>,
    /// Its connection carries hints, by RESP3.
    pub(super) can_subscribe: bool,
}

impl Client {
    /// The command that gives the user these rights.
    pub(super) fn grant(&self, rights: &[String]) -> String {
        let user = match self.user.as_deref() {
            Some(user) => short(user),
            None => "THE-USER".to_owned(),
        };
        format!("`ACL SETUSER {user} {}`, and the same in its ACL file", rights.join(" "))
    }
}

/// The clock of a server against that of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSample {
    /// How many microseconds the server is ahead.
    pub(super) ahead: i64,
    /// The difference is known to this precision.
    pub(super) within: Duration,
}

/// What a look at some of the stored keys showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// Keys of the prefix.
    pub(super) seen: u64,
    /// The records of locks among these keys.
    pub(super) locks: u64,
    /// Locks that are held, kept or waited for.
    pub(super) in_use: u64,
    /// The keys that are records by their name and have no expiry.
    pub(super) lasting: Vec<String>,
    /// All keys were looked at.
    pub(super) is_all: bool,
}

/// Everything that was collected from one server.
#[derive(Debug)]
pub(super) struct Material {
    /// `host:port`, or the name of the sentinels' master.
    pub(super) server: String,
    pub(super) client: Client,
    pub(super) info: Reply<Info>,
    pub(super) config: Reply<HashMap<String, String>>,
    pub(super) round_trips: Vec<Duration>,
    pub(super) clock: Option<ClockSample>,
    /// A script that does nothing, in the form that the server takes.
    pub(super) script: Reply<()>,
    /// The server takes flags of scripts, as far as is known.
    pub(super) takes_flags: bool,
    /// A write that does nothing.
    pub(super) write: Reply<()>,
    /// Each command that the client needs, and how the server took it.
    pub(super) rights: Vec<(&'static Right, Reply<()>)>,
    pub(super) records: Reply<Records>,
    /// `CLUSTER INFO`, on a cluster.
    pub(super) cluster: Reply<Info>,
    /// `CLUSTER NODES`, on a cluster.
    pub(super) nodes: Reply<String>,
}

impl Material {
    /// A setting, if it is known.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.config.got()?.get(name).map(String::as_str)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The material of a server that said this.
    pub(in super::super) fn said(info: &str, config: &[(&str, &str)]) -> Material {
        let info = info.replace('\n', "\r\n");
        let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Material {
            server: "h:1".to_owned(),
            client: Client {
                prefix: "leasehold".to_owned(),
                user: Some("app".to_owned()),
                command_timeout: Duration::from_millis(500),
                ..Client::default()
            },
            info: Reply::Got(Info::new(info)),
            config: Reply::Got(config.collect()),
            round_trips: Vec::new(),
            clock: None,
            script: Reply::Got(()),
            takes_flags: true,
            write: Reply::Got(()),
            rights: Vec::new(),
            records: Reply::Missing,
            cluster: Reply::Missing,
            nodes: Reply::Missing,
        }
    }

    pub(in super::super) fn refused<T>(code: &str, text: &str) -> Reply<T> {
        Reply::Refused(Refusal { code: code.to_owned(), text: text.to_owned() })
    }
}
