//! What goes wrong, and which rules say nothing then. Those who let things go wrong say what effect that has;
//! one table says what each effect takes back from each rule.

use std::str::FromStr;

use crate::line::Nanos;

/// What a fault takes back from the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Somebody may have been unable to reach the server. Nothing is taken back, but waiting may
    /// take longer.
    Away,
    /// A process may hear nothing from a server, and can't know that yet.
    Deaf,
    /// Keys move from one server to another: a command takes longer, and is answered.
    Moves,
    /// The server refuses a command.
    Refuses,
    /// A process stands still.
    Still,
    /// The server may forget leases, or end them early, at any time of the fault.
    Forgets,
    /// Another server took over, which may lack some grants. `Line::Forgotten` names
    /// those with a token; all others may be forgotten.
    Replaced,
    /// The server's clock went back by the fault's amount.
    Behind,
}

impl Effect {
    const ALL: [Self; 8] = [
        Self::Away,
        Self::Deaf,
        Self::Moves,
        Self::Refuses,
        Self::Still,
        Self::Forgets,
        Self::Replaced,
        Self::Behind,
    ];
}

impl FromStr for Effect {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|effect| format!("{effect:?}") == text).ok_or(())
    }
}

/// When a rule says nothing because of an effect: meanwhile, and for some milliseconds after that.
#[derive(Clone, Copy, Debug)]
enum Excuse {
    /// It judges all the same.
    Never,
    /// It excuses the process that it happens to.
    Own(Nanos),
    /// It excuses every process.
    All(Nanos),
    /// From then on, of any process.
    Ever,
}

use Excuse::{All, Ever, Never, Own};

/// Who waits asks again every two seconds, and connects again before. So after three seconds all is as it
/// should be; a second more is for what is under way then. A refused subscription is asked for again after ten.
#[rustfmt::skip]
const EXCUSES: [(&[&str], [Excuse; 8]); 16] = [
    //               away         deaf         moves        refuses      still        forgets      replaced     behind
    // tests/history
    (&["loss"],
                    [Own(3_000),  Never,       All(3_000),  All(3_000),  Own(1_000),  All(3_000),  All(3_000),  All(3_000)]),
    (&["loss: sooner"],
                    [Never,       Never,       Never,       Never,       Never,       All(3_000),  All(3_000),  Never]),
    (&["order"],
                    [All(1_000),  Never,       All(1_000),  All(1_000),  Own(0),      All(1_000),  All(1_000),  All(1_000)]),
    (&["refusals"],
                    [All(5_000),  Never,       All(5_000),  All(5_000),  Own(5_000),  All(5_000),  All(5_000),  All(5_000)]),
    (&["turns"],
                    [Never,       Never,       Never,       Never,       Own(0),      Never,       Never,       Never]),
    (&["waiting"],
                    [All(0),      Never,       All(0),      Never,       Own(0),      All(0),      All(0),      Never]),
    // The worlds
    (&["asks again", "liveness", "orphans", "recalls"],
                    [Own(3_000),  Own(3_000),  All(3_000),  Own(3_000),  Own(3_000),  All(3_000),  All(3_000),  All(3_000)]),
    (&["listeners"],
                    [Own(3_000),  Own(3_000),  All(3_000),  All(11_000), Own(3_000),  All(3_000),  All(3_000),  All(3_000)]),
    // A client may find out later what a fault has done.
    (&["logs"],
                    [Own(5_000),  Own(5_000),  All(5_000),  Ever,        Own(5_000),  All(5_000),  All(5_000),  All(5_000)]),
    // A call that is late for its turn gets another.
    (&["rate order"],
                    [All(3_000),  Never,       All(3_000),  All(3_000),  Own(3_000),  All(3_000),  All(3_000),  All(3_000)]),
    (&["lasting"],
                    [Never,       Never,       Never,       All(1_000),  Never,       Never,       Never,       Never]),
    (&["in time", "renewed"],
                    [Own(4_000),  Own(4_000),  All(4_000),  Own(4_000),  Own(4_000),  All(4_000),  All(4_000),  All(4_000)]),
    (&["store"],
                    [Own(4_000),  Own(4_000),  Never,       Own(4_000),  Own(4_000),  All(4_000),  All(4_000),  All(4_000)]),
    // What had ended may count again.
    (&["shutdown"],
                    [Never,       Never,       Never,       Ever,        Never,       Never,       Ever,        Ever]),
    // A script that a server has cut short has told nobody what it did.
    (&["used rates"],
                    [Never,       Never,       Never,       Ever,        Never,       Never,       Never,       Never]),
    (&["belief", "catches up", "closed", "told losses"],
                    [Never,       Never,       Never,       Never,       Never,       Ever,        Ever,        Ever]),
];

fn excuses(rule: &str) -> [Excuse; 8] {
    let row = EXCUSES.iter().find(|(rules, _)| rules.contains(&rule));
    row.unwrap_or_else(|| panic!("{rule} is not in the table of excuses")).1
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) effect: Effect,
    /// The process that it happens to; `None` if that is any.
    pub(crate) whose: Option<String>,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    /// By how much a clock went back.
    pub(crate) amount: Nanos,
}

/// All that goes wrong.
#[derive(Debug, Default)]
pub struct Troubles(Vec<Trouble>);

impl Troubles {
    pub(crate) fn add(&mut self, trouble: Trouble) {
        let is_more = |it: &&mut Trouble| {
            it.effect == trouble.effect
                && it.whose == trouble.whose
                && it.amount == 0
                && trouble.amount == 0
                && it.from <= trouble.to
                && trouble.from <= it.to
        };
        match self.0.iter_mut().rev().find(is_more) {
            Some(it) => (it.from, it.to) = (it.from.min(trouble.from), it.to.max(trouble.to)),
            None => self.0.push(trouble),
        }
    }

    /// Those of an effect.
    pub(crate) fn of(&self, effect: Effect) -> impl Iterator<Item = &Trouble> {
        self.0.iter().filter(move |it| it.effect == effect)
    }

    /// The times of which a rule says nothing where a process is concerned.
    pub(crate) fn excused(
        &self,
        rule: &str,
        process: &str,
    ) -> impl Iterator<Item = (Nanos, Nanos)> {
        let excuses = excuses(rule);
        self.0.iter().filter_map(move |Trouble { effect, whose, from, to, amount }| {
            let over = |after: Nanos| Some((*from, to + amount + after * 1_000_000));
            match excuses[*effect as usize] {
                Own(after) if whose.as_ref().is_none_or(|it| it == process) => over(after),
                All(after) => over(after),
                Ever => Some((*from, Nanos::MAX)),
                Never | Own(_) => None,
            }
        })
    }

    /// True if a rule says nothing of what happened to a process in this time.
    #[must_use]
    pub fn excuse(&self, rule: &str, process: &str, (from, to): (Nanos, Nanos)) -> bool {
        self.excused(rule, process).any(|(begun, over)| begun <= to && from <= over)
    }

    /// For how long a process stood still in this time.
    #[must_use]
    pub fn stood_still(&self, process: &str, (from, to): (Nanos, Nanos)) -> Nanos {
        let own = self.of(Effect::Still).filter(|it| it.whose.as_deref() == Some(process));
        own.map(|it| it.to.min(to).saturating_sub(it.from.max(from))).sum()
    }
}
