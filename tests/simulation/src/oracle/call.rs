//! A call of one of our scripts: what it does, to which locks, for which requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use leasehold::store::redis::{About, scripts};

use super::format::{CLIENT, Holder, ID, number};
use super::stored::Place;

/// The rule of a script: the kind of lock that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Mutex,
    Reentrant,
    Semaphore,
    Rw,
    /// It serves all of them.
    Any,
}

/// What a script does with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Acquire,
    AcquireOnce,
    AcquireAll,
    Vote,
    Renew,
    KeepOffer,
    Adopt,
    Release,
    Complete,
    Cancel,
    Linger,
    Repair,
    ForceRelease,
    RunAgain,
    /// It takes from a rate.
    Take,
    /// It gives back what was taken from a rate.
    GiveBack,
    /// It changes nothing of the lock, but may remove ended holders.
    Looks,
    /// It has no lock.
    Other,
}

impl Verb {
    fn of(name: &str) -> Option<Self> {
        Some(match name.rsplit('/').next()? {
            "acquire" => Self::Acquire,
            "acquire_once" => Self::AcquireOnce,
            "acquire_all" => Self::AcquireAll,
            "vote" => Self::Vote,
            "renew" => Self::Renew,
            "keep_offer" => Self::KeepOffer,
            "adopt" => Self::Adopt,
            "release" => Self::Release,
            "complete" => Self::Complete,
            "cancel" => Self::Cancel,
            "linger" => Self::Linger,
            "repair" => Self::Repair,
            "force_release" | "force_some" => Self::ForceRelease,
            "run_again" => Self::RunAgain,
            "take" => Self::Take,
            "give_back" => Self::GiveBack,
            "inspect" | "is_held_by" | "was_forced" => Self::Looks,
            "list" | "prefixes" | "introduce" | "describe" | "read" | "change" | "tell_all"
            | "tell_forced" => Self::Other,
            _ => return None,
        })
    }

    /// It may give a request a lease that it did not have.
    pub(super) fn grants(self) -> bool {
        use Verb::{Acquire, AcquireAll, AcquireOnce, Adopt, Repair, Vote};
        matches!(self, Acquire | AcquireOnce | AcquireAll | Vote | Adopt | Repair)
    }

    /// It may end the lease of its request.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Release | Self::Complete | Self::Cancel | Self::Linger)
    }
}

/// One of our scripts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) about: About,
    pub(super) verb: Verb,
    pub(super) rule: Rule,
}

impl Script {
    fn of(about: About) -> Self {
        let verb = Verb::of(about.name).expect("the oracle knows what each script does");
        let has = |include: &str| about.includes.contains(&include);
        let rule = match about.name.split('/').next() {
            Some("mutex") => Rule::Mutex,
            Some("reentrant") => Rule::Reentrant,
            Some("semaphore") => Rule::Semaphore,
            Some("multi_holder") if has("rule_reentrant") => Rule::Reentrant,
            Some("multi_holder") if has("rule_semaphore") => Rule::Semaphore,
            Some("rw" | "multi_holder") => Rule::Rw,
            _ => Rule::Any,
        };
        Self { about, verb, rule }
    }

    pub(super) fn has_tokens(&self) -> bool {
        self.about.keys.last() == Some(&"tokens")
    }
}

/// The script of a hash.
pub(super) fn script(hash: &str) -> Option<Script> {
    static ALL: LazyLock<BTreeMap<String, Script>> = LazyLock::new(by_hash);
    ALL.get(&hash.to_lowercase()).copied()
}

/// All scripts, by the hashes under which servers know them.
fn by_hash() -> BTreeMap<String, Script> {
    let each = |about: About| {
        let hash = |body: &str| sha1_smol::Sha1::from(body).digest().to_string();
        about.bodies.map(|body| (hash(body), Script::of(about)))
    };
    scripts().flat_map(each).collect()
}

/// A request of a call, with its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// The number of the lock, in the order of the keys.
    pub(super) nth: usize,
    /// The request, and how it holds where the script says so; or another argument of a script
    /// without requests.
    pub(super) name: &'a [u8],
    /// The arguments behind it.
    pub(super) rest: &'a [Vec<u8>],
    /// How long the lease lasts, of the scripts that take several locks.
    shared_ttl_ms: Option<i64>,
}

/// Locks and rates that are taken together, all or none, by their places in a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) requests: Range<usize>,
    pub(super) parts: Range<usize>,
}

impl<'a> Request<'a> {
    pub(super) fn id(&self) -> &'a [u8] {
        &self.name[..self.name.len().min(ID)]
    }

    pub(super) fn number(&self, nth: usize) -> Option<u64> {
        number(self.rest.get(nth)?)
    }

    /// The holders from which a lock is taken by force.
    pub(super) fn only(&self) -> Vec<String> {
        let only = self.rest.get(1).map(|only| String::from_utf8_lossy(only).into_owned());
        let only = only.unwrap_or_default();
        only.split_terminator('\0').map(str::to_owned).collect()
    }

    pub(super) fn ttl_ms(&self, verb: Verb) -> Option<i64> {
        let number = |nth| i64::try_from(self.number(nth)?).ok();
        match verb {
            Verb::AcquireAll => self.shared_ttl_ms,
            Verb::Adopt | Verb::Repair => number(1),
            Verb::Acquire | Verb::AcquireOnce | Verb::Vote | Verb::Renew | Verb::Linger => {
                number(0)
            }
            _ => None,
        }
    }

    /// The highest total weight that this request allows.
    pub(super) fn limit(&self, script: &Script) -> Option<u64> {
        match (script.verb, script.rule) {
            (Verb::AcquireAll, Rule::Any) => self.number(0).filter(|limit| *limit > 0),
            (Verb::Acquire, Rule::Semaphore) => self.number(1),
            _ => None,
        }
    }

    /// Its position in the queue, as it says; `None` if it does not wait.
    pub(super) fn position(&self, script: &Script, now_ms: i64) -> Option<i64> {
        if !matches!(script.verb, Verb::Acquire | Verb::AcquireOnce) {
            return None;
        }
        let waits = self.rest.get(if script.rule == Rule::Semaphore { 2 } else { 1 })?;
        let told = std::str::from_utf8(waits).ok()?.rsplit_once(' ')?.1.parse::<i64>().ok()?;
        Some(if told > 0 { told } else { now_ms * 1000 + told })
    }

    /// The request in whose place this one comes.
    pub(super) fn from(&self, verb: Verb) -> Option<&'a [u8]> {
        let from = self.rest.first().filter(|_| verb == Verb::Adopt)?;
        Some(&from[..from.len().min(ID)])
    }

    /// The holder that it would be.
    pub(super) fn holder(&self, script: &Script) -> Option<Holder<'a>> {
        let is_mutex = match script.verb {
            Verb::AcquireAll => self.limit(script).is_none(),
            _ => script.rule == Rule::Mutex,
        };
        if is_mutex {
            let (id, suffix) = self.name.split_at_checked(ID)?;
            return Holder::of_mutex(id, suffix);
        }
        Holder::read(self.name)
    }
}

/// A call, with its parts told apart.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub(super) script: Script,
    pub(super) keys: &'a [Vec<u8>],
    pub(super) args: &'a [Vec<u8>],
    /// The locks in the order of the keys; one may come twice.
    pub(super) places: Vec<Place>,
    pub(super) requests: Vec<Request<'a>>,
    /// What it takes from rates, behind the locks, or gives back.
    pub(super) parts: Vec<RatePart<'a>>,
    /// What is taken together, one after another.
    pub(super) sets: Vec<Set>,
}

/// A part of a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RatePart<'a> {
    pub(super) key: &'a [u8],
    pub(super) id: &'a [u8],
    pub(super) weight_us: u64,
    /// A part that is given back does not say it.
    pub(super) burst_us: u64,
    /// Earlier requests that it lets the server forget, one after another.
    pub(super) settled: &'a [u8],
    /// How long its request may wait.
    pub(super) wait_us: u64,
}

impl<'a> RatePart<'a> {
    fn read(key: &'a [u8], args: &'a [Vec<u8>]) -> Option<Self> {
        let burst_us = args.get(2).map_or(Some(u64::MAX), |it| number(it))?;
        let settled = args.get(3).map_or(&[][..], |it| it);
        let wait_us = args.get(4).map_or(Some(0), |it| number(it))?;
        let (id, weight_us) = (args.first()?, number(args.get(1)?)?);
        Some(Self { key, id, weight_us, burst_us, settled, wait_us })
    }
}

impl<'a> Call<'a> {
    /// `None` if the keys are not as the script's header says.
    pub(super) fn read(script: Script, keys: &'a [Vec<u8>], args: &'a [Vec<u8>]) -> Option<Self> {
        let mut call = Self {
            script,
            keys,
            args,
            places: Vec::new(),
            requests: Vec::new(),
            parts: Vec::new(),
            sets: Vec::new(),
        };
        if script.verb == Verb::Other {
            return Some(call);
        }
        let own = &keys[..keys.len().checked_sub(usize::from(script.has_tokens()))?];
        match script.verb {
            Verb::Take | Verb::GiveBack => call.add_parts(own, args)?,
            Verb::AcquireAll => call.add_sets(own, args)?,
            _ => {
                let roles = script.about.keys.len() - usize::from(script.has_tokens());
                call.add_requests(own, args, own.len() / roles.max(1), None)?;
            }
        }
        Some(call)
    }

    /// The sets, one after another.
    fn add_sets(&mut self, mut keys: &'a [Vec<u8>], mut args: &'a [Vec<u8>]) -> Option<()> {
        let has_rates = self.script.rule == Rule::Any;
        while !args.is_empty() {
            let (head, rest) = args.split_at_checked(if has_rates { 3 } else { 2 })?;
            let count = |nth: usize| usize::try_from(number(head.get(nth)?)?).ok();
            let ttl_ms = i64::try_from(number(head.first()?)?).ok()?;
            let (locks, rates) = (count(1)?, if has_rates { count(2)? } else { 0 });
            let (of_locks, of_rates, first) = (3 * locks, rates, self.requests.len());
            let (lock_keys, rest_keys) = keys.split_at_checked(of_locks)?;
            let (rate_keys, rest_keys) = rest_keys.split_at_checked(of_rates)?;
            let (lock_args, rest) =
                rest.split_at_checked(if has_rates { 2 * locks } else { locks })?;
            let (rate_args, rest) = rest.split_at_checked(5 * rates)?;
            let first_part = self.parts.len();
            self.add_requests(lock_keys, lock_args, locks, Some(ttl_ms))?;
            self.add_parts(rate_keys, rate_args)?;
            let (requests, parts) = (first..self.requests.len(), first_part..self.parts.len());
            self.sets.push(Set { requests, parts });
            (keys, args) = (rest_keys, rest);
        }
        keys.is_empty().then_some(())
    }

    /// So many requests, and a lock of each.
    fn add_requests(
        &mut self,
        keys: &'a [Vec<u8>],
        args: &'a [Vec<u8>],
        many: usize,
        shared_ttl_ms: Option<i64>,
    ) -> Option<()> {
        if many == 0 {
            return (keys.is_empty() && args.is_empty()).then_some(());
        }
        let script = self.script;
        let roles =
            &script.about.keys[..script.about.keys.len() - usize::from(script.has_tokens())];
        let (first, role) = (self.places.len(), roles.first()?);
        for keys in keys.chunks(roles.len()) {
            let place = Place::of(&keys[0], role)?;
            let is_right = roles.iter().zip(keys).all(|(role, key)| place.key(role) == *key);
            self.places.push(Some(place).filter(|_| is_right && keys.len() == roles.len())?);
        }
        let length = args.len() / many;
        if length == 0 || args.len() != length * many {
            return None;
        }
        for (nth, args) in args.chunks(length).enumerate() {
            let (name, rest) = args.split_first()?;
            self.requests.push(Request { nth: first + nth, name, rest, shared_ttl_ms });
        }
        Some(())
    }

    /// The set of a request, and its place in it.
    pub(super) fn set_of(&self, nth: usize) -> Option<(usize, usize)> {
        let set = self.sets.iter().position(|set| set.requests.contains(&nth))?;
        Some((set, nth - self.sets[set].requests.start))
    }

    /// The parts of rates: a key of each, and as many arguments.
    fn add_parts(&mut self, keys: &'a [Vec<u8>], args: &'a [Vec<u8>]) -> Option<()> {
        let length = if self.script.verb == Verb::GiveBack { 2 } else { 5 };
        if args.len() != keys.len() * length {
            return None;
        }
        for (key, args) in keys.iter().zip(args.chunks(length)) {
            self.parts.push(RatePart::read(key, args)?);
        }
        Some(())
    }

    /// The requests for a lock.
    pub(super) fn of(&self, place: &Place) -> impl Iterator<Item = &Request<'a>> {
        self.requests.iter().filter(move |it| self.places[it.nth] == *place)
    }

    /// The client that calls, if the script is for its own requests.
    pub(super) fn client(&self) -> Option<&'a [u8]> {
        use Verb::{
            Acquire, AcquireAll, AcquireOnce, Cancel, Complete, Linger, Release, Renew, Vote,
        };
        let is_own = matches!(
            self.script.verb,
            Acquire
                | AcquireAll
                | AcquireOnce
                | Cancel
                | Complete
                | Linger
                | Release
                | Renew
                | Vote
        );
        self.requests.first().filter(|_| is_own)?.name.get(..CLIENT)
    }

    /// The key in which the server notes the greatest token, where it does.
    pub(super) fn tokens_key(&self) -> Option<&'a [u8]> {
        let key = self.keys.last().filter(|_| self.script.has_tokens())?;
        (!key.contains(&b'{')).then_some(key)
    }
}
