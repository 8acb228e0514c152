//! A lease on its way from one process to another.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
#[cfg(feature = "serde")]
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::error::LockError;
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::state::lease::LocalLease;
use crate::store::{Detached, Kind, Note, Owner, RequestId, Store};

/// A detached lease, as text for another process: [`Lease::detach`](crate::Lease::detach)
/// makes it, and [`Locks::adopt`](crate::Locks::adopt) takes it over, once, before its TTL
/// is over.
///
/// Put it into a message or a job's arguments with [`Display`](fmt::Display) and
/// [`FromStr`], or as a string with serde (feature `serde`). Parsing any other text fails with
/// [`LockError::InvalidOption`]. Anyone who has the ticket can take the lock, so treat it
/// as a password. `Debug` shows only the name of the lock.
///
/// # Examples
///
/// ```
/// use leasehold::{Locks, Ticket};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = Locks::in_memory();
/// let lease = locks.mutex("import:7").lock().await?;
/// lease.renew().await?; // the ticket has a whole TTL to get there
/// let message = lease.detach().await?.to_string();
///
/// // … in another process, with a client of the same server and prefix:
/// let ticket: Ticket = message.parse()?;
/// let lease = locks.adopt(ticket).await?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the lock stays held until the ticket is adopted, or its TTL is over"]
pub struct Ticket {
    pub(crate) key: LockKey,
    pub(crate) from: Detached,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<Owner>,
    pub(crate) note: Option<Note>,
    /// With what is left of the times that are counted from the grant.
    pub(crate) options: Options,
}

/// The version of the text's format.
const VERSION: &str = "1";

/// What is escaped in the owner and in the name. The period is, because it ends a field.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b':');

impl Ticket {
    /// Fails if there are no tickets for such a lease.
    pub(crate) fn check(local: &LocalLease, store: &dyn Store) -> Result<(), LockError> {
        if !store.has_queue() {
            return Err(LockError::Unsupported { what: "handing a lease to another process" });
        }
        if let Kind::Once(_) = local.request.kind {
            return Err(LockError::InvalidOption {
                option: "once",
                problem: "work that is to succeed once can't go to another process; complete it \
                          here, or leave out the option"
                    .to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn of(local: &LocalLease) -> Self {
        let request = &local.request;
        // The record has this token or a lower one, unless more tokens were reserved.
        let token = local.fence.filter(|_| !local.may_be_refilled());
        let most = token.map_or(u64::MAX, Fence::get);
        Self {
            key: request.key.clone(),
            from: Detached { id: request.id, most },
            kind: request.kind,
            owner: request.owner.clone(),
            note: request.note.clone(),
            options: local.remaining_options(),
        }
    }

    /// The name of the lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    fn read(text: &str) -> Option<Self> {
        let [VERSION, kind, id, token, ttl, keep, most, renew, owner, name] =
            *text.splitn(11, '.').collect::<Vec<_>>()
        else {
            return None;
        };
        let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
        let decoded = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8().ok()?.into_owned();
            (escaped(&decoded) == text).then_some(decoded)
        };
        let who = decoded(owner)?;
        let (owner, note) = who.split_once('\n').unwrap_or((&who, ""));
        let options = Options {
            ttl: millis(ttl)?,
            hold_at_least: millis(keep)?,
            max_hold: if most == "-" { None } else { Some(millis(most)?) },
            auto_renew: renew == "1",
            ..Options::default()
        };
        Some(Self {
            key: LockKey::new(decoded(name)?).ok()?,
            from: Detached {
                id: RequestId::read(id.as_bytes()).filter(|_| id.is_ascii())?,
                most: token.parse().ok()?,
            },
            kind: read_kind(kind)?,
            owner: if owner.is_empty() { None } else { Some(Owner::new(owner).ok()?) },
            note: Note::new(note),
            options,
        })
    }
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn read_kind(text: &str) -> Option<Kind> {
    Some(match text {
        "M" => Kind::Mutex,
        "E" => Kind::Reentrant,
        "R" => Kind::Read,
        "W" => Kind::Write,
        _ => {
            let (weight, limit) = text.strip_prefix('S')?.split_once('-')?;
            Kind::Semaphore { limit: limit.parse().ok()?, weight: weight.parse().ok()? }
        }
    })
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.")?;
        match self.kind {
            Kind::Mutex | Kind::Once(_) => f.write_str("M"),
            Kind::Reentrant => f.write_str("E"),
            Kind::Read => f.write_str("R"),
            Kind::Write => f.write_str("W"),
            Kind::Semaphore { limit, weight } => write!(f, "S{weight}-{limit}"),
        }?;
        let Options { ttl, hold_at_least, max_hold, auto_renew, .. } = self.options;
        let most = max_hold.map_or_else(|| "-".to_owned(), |most| most.as_millis().to_string());
        // A process that knows no notes refuses a ticket with one.
        let note = self.note.as_ref().map_or_else(String::new, |note| format!("\n{}", note.text()));
        let owner = self.owner.as_ref().map(Owner::name).unwrap_or_default().to_owned() + &note;
        write!(
            f,
            ".{:?}.{}.{}.{}.{most}.{}.{}.{}",
            self.from.id,
            self.from.most,
            ttl.as_millis(),
            hold_at_least.as_millis(),
            u8::from(auto_renew),
            escaped(&owner),
            escaped(self.key.name()),
        )
    }
}

impl FromStr for Ticket {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        Self::read(text).ok_or_else(|| LockError::InvalidOption {
            option: "ticket",
            problem: "it is not the text of a ticket, or it is one of another version".to_owned(),
        })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(feature = "serde")]
impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::locks::Locks;

    async fn tickets() -> Vec<Ticket> {
        let locks = Locks::in_memory();
        let second = Duration::from_secs(1);
        let all = [
            locks.mutex("a.b/ö").hold_at_least(second).max_hold(second * 9).lock().await,
            locks.reentrant_mutex("b").owner("x.y z").ttl(second * 7).lock().await,
            locks.semaphore("c", 8).note("d'\u{e9}").auto_renew(false).acquire_many(3).await,
            locks.rw_lock("d").owner("e").note("@f").read().await,
            locks.rw_lock("e").write().await,
        ];
        let mut tickets = Vec::new();
        for lease in all {
            tickets.push(lease.unwrap().detach().await.unwrap());
        }
        tickets
    }

    #[tokio::test(start_paused = true)]
    async fn a_written_ticket_can_be_read() {
        for ticket in tickets().await {
            let text = ticket.to_string();
            let read: Ticket = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!((&read.key, read.kind), (&ticket.key, ticket.kind));
            assert_eq!((read.from.id, read.from.most), (ticket.from.id, ticket.from.most));
            assert_eq!((&read.owner, &read.note), (&ticket.owner, &ticket.note));
            assert_eq!(format!("{:?}", read.options), format!("{:?}", ticket.options));
            assert!(
                !format!("{read:?}").contains(&format!("{:?}", read.from.id)),
                "it is a secret"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_tickets_are_refused() {
        for ticket in tickets().await {
            let text = ticket.to_string();
            for end in 0..text.len() {
                // The name may be shorter, and is then another lock's.
                let cut: Result<Ticket, _> = text[..end].parse();
                assert!(cut.is_err() || end > text.rfind('.').unwrap(), "{}", &text[..end]);
            }
            for wrong in [text.replacen('1', "2", 1), text.clone() + ".", format!(" {text}")] {
                assert!(wrong.parse::<Ticket>().is_err(), "{wrong}");
            }
        }
        for wrong in ["", "1", ".........", "1.S0.x.1.1.1.-.1..a", "ö.ö.ö.ö.ö.ö.ö.ö.ö."] {
            assert!(wrong.parse::<Ticket>().is_err(), "{wrong}");
        }
    }

    /// Texts that are no tickets, and tickets that nobody has made.
    mod hostile {
        use std::sync::LazyLock;

        use percent_encoding::percent_encode;
        use proptest::prelude::*;
        use tokio::runtime::{Builder, Runtime};

        use super::*;

        fn field() -> impl Strategy<Value = String> {
            prop_oneof![
                any::<u64>().prop_map(|number| number.to_string()),
                (0_u64..100_000).prop_map(|number| number.to_string()),
                prop::sample::select(vec![
                    "", "-", "0", "1", "+1", "-1", "a", "%2E", "%2e", "%", "é", "S1-", "S0-0"
                ])
                .prop_map(str::to_owned),
                "\\PC{0,6}",
            ]
        }

        fn encoded() -> impl Strategy<Value = String> {
            prop_oneof![
                any::<String>().prop_map(|text| escaped(&text)),
                "[a-z]{1,3}(\n\\PC{0,9})?".prop_map(|text| escaped(&text)),
                prop::collection::vec(any::<u8>(), 0..9)
                    .prop_map(|bytes| percent_encode(&bytes, ESCAPED).to_string()),
                field(),
            ]
        }

        /// Texts with the right number of fields. Each is mostly valid, so that many are read.
        fn nearly_a_ticket() -> impl Strategy<Value = String> {
            let time = || {
                let number = prop_oneof![0_u64..100_000, any::<u64>()];
                prop_oneof![9 => number.prop_map(|number| number.to_string()), 1 => field()]
            };
            let kind = prop_oneof![9 => "M|E|R|W|S[0-9]{1,9}-[0-9]{1,10}", 1 => field()];
            let id = prop_oneof![9 => "[0-9a-f]{34}", 1 => "\\PC{34}", 1 => field()];
            let times = (time(), time(), time(), prop_oneof![Just("-".to_owned()), time()]);
            (kind, id, times, "[01]", encoded(), encoded()).prop_map(
                |(kind, id, (token, ttl, keep, most), renew, owner, name)| {
                    format!(
                        "{VERSION}.{kind}.{id}.{token}.{ttl}.{keep}.{most}.{renew}.{owner}.{name}"
                    )
                },
            )
        }

        /// Who adopts them all: a runtime for each takes longer than what is tested.
        static ADOPTER: LazyLock<(Runtime, Locks)> = LazyLock::new(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let locks = runtime.block_on(async { Locks::in_memory() });
            (runtime, locks)
        });

        proptest! {
            #[test]
            fn no_text_makes_it_panic(text in any::<String>()) {
                let _ = text.parse::<Ticket>();
            }

            /// A ticket that is read can be written and read again, and nobody gets a lock by a ticket
            /// that nobody has made.
            #[test]
            fn no_ticket_makes_a_client_panic(text in nearly_a_ticket()) {
                let Ok(ticket) = text.parse::<Ticket>() else { return Ok(()) };
                let written = ticket.to_string();
                let again: Ticket = written.parse().expect("it was written");
                prop_assert_eq!(again.to_string(), written);
                let (runtime, locks) = &*ADOPTER;
                let adopted = runtime.block_on(locks.adopt(ticket));
                prop_assert!(adopted.is_err());
            }
        }
    }
}
