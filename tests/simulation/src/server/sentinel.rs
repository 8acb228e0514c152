//! Sentinels: what they say of a master. The world decides what they know, and when.

use super::command::{Answer, check_arity};
use super::core::Channel;
use super::reply::Reply;
use super::{Server, Settings};

/// Host and port of a server.
pub type Address = (String, u16);

/// What a sentinel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    pub id: String,
    /// The master's name.
    pub name: String,
    pub master: Address,
    pub replicas: Vec<Address>,
    /// The other sentinels.
    pub others: Vec<Address>,
    /// How many sentinels must find the master dead.
    pub quorum: usize,
}

impl Sentinel {
    /// A sentinel of a master. It knows neither replicas nor other sentinels.
    #[must_use]
    pub fn of(name: &str, master: Address) -> Self {
        Self {
            id: "5".repeat(40),
            name: name.to_owned(),
            master,
            replicas: Vec::new(),
            others: Vec::new(),
            quorum: 2,
        }
    }
}

/// What a server is there for.
#[derive(Debug)]
pub(super) enum Kind {
    /// For keys.
    Data,
    Sentinel(Sentinel),
}

impl Server {
    /// As it says itself.
    pub(super) fn mode(&self) -> &'static str {
        match self.kind {
            Kind::Data if self.core.borrow().cluster.is_some() => "cluster",
            Kind::Data => "standalone",
            Kind::Sentinel(_) => "sentinel",
        }
    }

    /// Starts a sentinel. It has no keys.
    #[must_use]
    pub fn start_sentinel(settings: Settings, now_us: i64, sentinel: Sentinel) -> Self {
        Self { kind: Kind::Sentinel(sentinel), ..Self::new(settings, now_us) }
    }

    /// What a sentinel knows; `None` of any other server.
    #[must_use]
    pub fn as_sentinel(&mut self) -> Option<&mut Sentinel> {
        match &mut self.kind {
            Kind::Data => None,
            Kind::Sentinel(sentinel) => Some(sentinel),
        }
    }

    /// As a sentinel: from now on the master is the server at this address, and the former one its
    /// replica. It tells those that have subscribed to `+switch-master`.
    pub fn switch_master(&mut self, to: &Address) {
        let Some(sentinel) = self.as_sentinel().filter(|it| it.master != *to) else { return };
        let from = std::mem::replace(&mut sentinel.master, to.clone());
        sentinel.replicas.retain(|it| it != to);
        let message = format!("{} {} {} {} {}", sentinel.name, from.0, from.1, to.0, to.1);
        sentinel.replicas.push(from);
        let channel = Channel { is_sharded: false, name: b"+switch-master".to_vec() };
        self.core.borrow_mut().deliver(&channel, message.as_bytes());
        self.deliver();
    }
}

/// Returns true if a sentinel has this command of other servers.
pub(super) fn has(name: &str) -> bool {
    matches!(
        name,
        "AUTH"
            | "CLIENT"
            | "HELLO"
            | "INFO"
            | "PING"
            | "PUBLISH"
            | "QUIT"
            | "ROLE"
            | "SUBSCRIBE"
            | "UNSUBSCRIBE"
    )
}

/// A command that a sentinel answers in its own way.
pub(super) fn run(sentinel: &Sentinel, name: &str, args: &[Vec<u8>]) -> Option<Answer> {
    match name {
        "SENTINEL" => Some(about(sentinel, args)),
        "ROLE" => {
            let names = Reply::Array(vec![Reply::text(sentinel.name.clone())]);
            Some(Ok(Reply::Array(vec![Reply::text("sentinel"), names])))
        }
        "PUBLISH" => {
            let text = "ERR Only HELLO messages are accepted by Sentinel instances.";
            Some(Err(Reply::error(text)))
        }
        _ => None,
    }
}

fn about(sentinel: &Sentinel, args: &[Vec<u8>]) -> Answer {
    check_arity("SENTINEL", -2, args)?;
    let given = String::from_utf8_lossy(&args[1]).into_owned();
    let subcommand = given.to_uppercase();
    let of_master = || {
        check_arity(&format!("sentinel|{given}"), 3, args)?;
        let is_known = args[2] == sentinel.name.as_bytes();
        Ok::<_, Reply>(is_known)
    };
    let known = || {
        let unknown = || Reply::error("ERR No such master with that name");
        of_master()?.then_some(()).ok_or_else(unknown)
    };
    match subcommand.as_str() {
        "GET-MASTER-ADDR-BY-NAME" => {
            let (host, port) = &sentinel.master;
            let address = [host.clone(), port.to_string()].map(Reply::text).to_vec();
            Ok(if of_master()? { Reply::Array(address) } else { Reply::NilArray })
        }
        "MASTER" => {
            known()?;
            Ok(master(sentinel))
        }
        "MASTERS" => Ok(Reply::Array(vec![master(sentinel)])),
        "REPLICAS" | "SLAVES" => {
            known()?;
            let replica = |(host, port): &Address| {
                let (of, at) = &sentinel.master;
                map(&[
                    ("name", &format!("{host}:{port}")),
                    ("ip", host),
                    ("port", &port.to_string()),
                    ("flags", "slave"),
                    ("master-link-status", "ok"),
                    ("master-host", of),
                    ("master-port", &at.to_string()),
                ])
            };
            Ok(Reply::Array(sentinel.replicas.iter().map(replica).collect()))
        }
        "SENTINELS" => {
            known()?;
            let other = |(host, port): &Address| {
                map(&[("ip", host), ("port", &port.to_string()), ("flags", "sentinel")])
            };
            Ok(Reply::Array(sentinel.others.iter().map(other).collect()))
        }
        "MYID" => Ok(Reply::text(sentinel.id.clone())),
        _ => {
            let text = format!("ERR unknown subcommand '{given}'. Try SENTINEL HELP.");
            Err(Reply::Error(text))
        }
    }
}

fn master(sentinel: &Sentinel) -> Reply {
    let (host, port) = &sentinel.master;
    map(&[
        ("name", &sentinel.name),
        ("ip", host),
        ("port", &port.to_string()),
        ("flags", "master"),
        ("num-slaves", &sentinel.replicas.len().to_string()),
        ("num-other-sentinels", &sentinel.others.len().to_string()),
        ("quorum", &sentinel.quorum.to_string()),
    ])
}

fn map(fields: &[(&str, &str)]) -> Reply {
    let fields = fields.iter().map(|(name, value)| (Reply::text(*name), Reply::text(*value)));
    Reply::Map(fields.collect())
}

/// The section `Sentinel` of `INFO`.
pub(super) fn info(sentinel: &Sentinel) -> String {
    let Sentinel { name, master: (host, port), replicas, others, .. } = sentinel;
    let (replicas, sentinels) = (replicas.len(), others.len() + 1);
    format!(
        "sentinel_masters:1\r\nsentinel_tilt:0\r\nmaster0:name={name},status=ok,\
         address={host}:{port},slaves={replicas},sentinels={sentinels}\r\n"
    )
}
