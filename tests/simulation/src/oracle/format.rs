//! How the parts of a lock are written, as docs/keys.md says. It shares no code with the client.

/// The bytes of a request's id, and of a client's.
pub(super) const ID: usize = 34;
pub(crate) const CLIENT: usize = 22;

/// The scores of marks are this and the time until which they count, below zero.
pub(super) const MARKS: i64 = 1_000_000_000_000_000;

/// Stands where there is no request.
pub(super) const NOBODY: &[u8; ID] = &[b'-'; ID];

/// A record of at least 87 bytes, with a known kind and state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    /// `None` for a value of another shape: it is somebody else's.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let is_ours =
            bytes.len() >= 87 && b"MESR".contains(&bytes[0]) && b"HOKF".contains(&bytes[1]);
        is_ours.then_some(Self(bytes))
    }

    pub(super) fn kind(self) -> u8 {
        self.0[0]
    }

    pub(super) fn state(self) -> u8 {
        self.0[1]
    }

    pub(super) fn id(self) -> &'a [u8] {
        &self.0[2..36]
    }

    /// The limit that the last permit of a held semaphore was counted against.
    pub(super) fn limit(self) -> Option<u32> {
        let digits = self.id().iter().position(|byte| *byte != b'-')?;
        u32::try_from(number(&self.id()[digits..])?).ok()
    }

    pub(super) fn token(self) -> u64 {
        number(&self.0[36..52]).unwrap_or(0)
    }

    pub(super) fn may_have_waiters(self) -> bool {
        self.0[52] != b'0'
    }

    pub(super) fn ended(self) -> &'a [u8] {
        &self.0[53..87]
    }

    /// The mark of a mutex whose client may keep it without using it.
    pub(super) fn mark(self) -> Option<u8> {
        self.0.get(87).copied().filter(|mark| b"~!".contains(mark))
    }

    /// The owner and the note of a mutex's holder, as they stand there.
    pub(super) fn suffix(self) -> &'a [u8] {
        &self.0[87 + usize::from(self.mark().is_some())..]
    }

    /// What docs/keys.md does not list.
    pub(super) fn problem(self) -> Option<String> {
        let (kind, state) = (self.kind(), self.state());
        let names_one = kind == b'M' && state != b'F';
        let has_limit = kind == b'S' && state == b'H' && self.limit().is_some();
        let is_right = match self.id() {
            id if names_one => is_id(id),
            id => id == NOBODY || has_limit,
        };
        let suffix = self.suffix();
        let problems = [
            (kind != b'M' && b"OK".contains(&state), "such a lock is never in this state"),
            (!is_right, "a wrong request id"),
            (number(&self.0[36..52]).is_none(), "a token that is no number"),
            (names_one && self.token() == 0, "a mutex without a token"),
            (!b"01".contains(&self.0[52]), "a wrong flag"),
            (self.ended() != NOBODY && !is_id(self.ended()), "a wrong ended request"),
            (state == b'O' && self.mark().is_some(), "an offer with a mark"),
            ((kind != b'M' || b"KF".contains(&state)) && self.0.len() > 87, "it is too long"),
            (!suffix.is_empty() && !b"@\n".contains(&suffix[0]), "a wrong owner"),
        ];
        problems.iter().find(|(is_so, _)| *is_so).map(|(_, what)| (*what).to_owned())
    }
}

/// How a member of the set of holders holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Alone,
    Reentrant,
    Permit,
    Reader,
    Writer,
}

impl Mode {
    /// The letter of its kind of lock.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Alone => b'M',
            Self::Reentrant => b'E',
            Self::Permit => b'S',
            Self::Reader | Self::Writer => b'R',
        }
    }
}

/// A holder's name: its request, and how it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder<'a> {
    pub(super) id: &'a [u8],
    pub(super) mode: Mode,
    pub(super) weight: u32,
    pub(super) owner: Option<&'a [u8]>,
    pub(super) note: Option<&'a [u8]>,
}

impl<'a> Holder<'a> {
    /// Reads a member of the set, or an argument of a script.
    pub(super) fn read(name: &'a [u8]) -> Option<Self> {
        let (id, how) = name.split_at_checked(ID).filter(|(id, _)| is_id(id))?;
        Self::of(id, how)
    }

    /// Reads how a mutex is held.
    pub(super) fn of_mutex(id: &'a [u8], suffix: &'a [u8]) -> Option<Self> {
        let holder = Self::of(id, suffix)?;
        (holder.mode == Mode::Permit && holder.weight == 1)
            .then_some(Self { mode: Mode::Alone, ..holder })
    }

    /// Reads what stands behind the id.
    pub(super) fn of(id: &'a [u8], how: &'a [u8]) -> Option<Self> {
        let (how, note) = split(how, b'\n');
        let (how, owner) = split(how, b'@');
        let (mode, weight) = match how {
            b"" => (Mode::Permit, 1),
            b"e" => (Mode::Reentrant, 1),
            b"r" => (Mode::Reader, 1),
            b"w" => (Mode::Writer, 1),
            _ => (Mode::Permit, number(how.strip_prefix(b":")?)?),
        };
        let is_right = !owner.is_some_and(<[u8]>::is_empty) && !note.is_some_and(<[u8]>::is_empty);
        let weight = u32::try_from(weight).ok()?;
        (is_right && weight > 0).then_some(Self { id, mode, weight, owner, note })
    }
}

/// A member of the set of holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member<'a> {
    Holder(Holder<'a>),
    /// The sum of all weights, less the number of holders.
    Excess,
    /// How many holders belong to an owner.
    Owner(&'a [u8]),
    WriterEnds,
    /// Since when a request holds the lock.
    Since(&'a [u8]),
    Mark {
        client: &'a [u8],
        is_recalled: bool,
    },
}

impl<'a> Member<'a> {
    pub(super) fn read(name: &'a [u8], score: i64) -> Option<Self> {
        if score >= 0 {
            return Holder::read(name).map(Self::Holder);
        }
        Some(match name.split_first()? {
            (b'+', []) => Self::Excess,
            (b'!', []) => Self::WriterEnds,
            (b'@', owner @ [_, ..]) => Self::Owner(owner),
            (b'^', id) if is_id(id) => Self::Since(id),
            (mark @ (b'~' | b'!'), client) if client.len() == CLIENT && score <= -MARKS => {
                Self::Mark { client, is_recalled: *mark == b'!' }
            }
            _ => return None,
        })
    }
}

/// The longest that a waiter counts as alive.
pub(super) const LIVE_MOST_MS: i64 = 15_000;

/// A waiter's last ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    /// Until when the waiter counts as alive.
    pub(super) until_ms: i64,
    /// The letter of its kind.
    pub(super) kind: u8,
    pub(super) limit: Option<u32>,
    /// It waits for work that is to succeed once.
    pub(super) is_once: bool,
    /// How it will hold the lock, as behind a holder's id.
    pub(super) how: &'a [u8],
}

impl<'a> Ask<'a> {
    /// A waiter counts as alive until its heartbeat ends. One from a clock that was ahead does not.
    pub(super) fn is_live(&self, now_ms: i64) -> bool {
        (now_ms + 1..=now_ms + LIVE_MOST_MS).contains(&self.until_ms)
    }

    pub(super) fn read(said: &'a [u8]) -> Option<Self> {
        let (until, rest) = said.split_at_checked(13)?;
        let (_secret, rest) = rest.split_at_checked(CLIENT)?;
        let (kind, demand) = rest.split_first().filter(|(kind, _)| b"MESR".contains(kind))?;
        let digits = demand.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (limit, rest) = demand.split_at(digits);
        let limit = if limit.is_empty() { None } else { Some(u32::try_from(number(limit)?).ok()?) };
        let how = rest.strip_prefix(b"=").filter(|_| *kind == b'M');
        Some(Self {
            until_ms: i64::try_from(number(until)?).ok()?,
            kind: *kind,
            limit,
            is_once: how.is_some(),
            how: how.unwrap_or(rest),
        })
    }

    /// The holder that the waiter would be.
    pub(super) fn holder(&self, id: &'a [u8]) -> Option<Holder<'a>> {
        if self.kind == b'M' { Holder::of_mutex(id, self.how) } else { Holder::of(id, self.how) }
            .filter(|holder| holder.mode.kind() == self.kind)
    }
}

/// A number in digits alone.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

pub(super) fn is_id(id: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    id.len() == ID && id[..CLIENT].iter().all(is_letter) && id[CLIENT..].iter().all(is_digit)
}

/// What stands before and after a byte.
fn split(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "AAAAAAAAAAAAAAAAAAAAAA00000000000a";

    #[test]
    fn members_are_read() {
        let holder = |how: &str| {
            let name = format!("{ONE}{how}");
            Holder::read(name.as_bytes()).map(|it| {
                let text =
                    |part: Option<&[u8]>| part.map(|it| String::from_utf8_lossy(it).into_owned());
                (it.mode, it.weight, text(it.owner), text(it.note))
            })
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(holder(""), Some((Mode::Permit, 1, None, None)));
        assert_eq!(holder(":3@o\nn@x"), Some((Mode::Permit, 3, some("o"), some("n@x"))));
        assert_eq!(holder("w@o"), Some((Mode::Writer, 1, some("o"), None)));
        for bad in ["x", ":0", ":", "r@", "e@o\n"] {
            assert_eq!(holder(bad), None, "{bad}");
        }
        assert_eq!(Member::read(b"+", -2), Some(Member::Excess));
        assert_eq!(Member::read(b"?", -2), None);
        assert_eq!(Member::read(b"~AAAAAAAAAAAAAAAAAAAAAA", -2), None, "it is no mark's score");
    }

    #[test]
    fn records_are_as_the_page_says() {
        let record = |text: String| Record::read(text.as_bytes()).map(Record::problem);
        let (token, nobody) = ("1767225600000000", "-".repeat(34));
        assert_eq!(record(format!("MH{ONE}{token}0{nobody}")), Some(None));
        assert_eq!(record(format!("MH{ONE}{token}0{ONE}~@me\nwhy")), Some(None));
        assert_eq!(record(format!("SH{nobody}{}1{ONE}", "0".repeat(16))), Some(None));
        assert_eq!(record(format!("MF{nobody}{token}0{nobody}")), Some(None));
        for bad in [
            format!("SO{nobody}{token}0{nobody}"),
            format!("MH{nobody}{token}0{nobody}"),
            format!("MH{ONE}{}0{nobody}", "0".repeat(16)),
            format!("MH{ONE}{token}2{nobody}"),
            format!("MO{ONE}{token}0{nobody}~"),
            format!("MF{nobody}{token}0{nobody}@me"),
            format!("MH{ONE}{token}0{nobody}me"),
        ] {
            assert!(record(bad.clone()).expect("a record").is_some(), "{bad}");
        }
        assert!(record("MH".to_owned()).is_none());
    }
}
