//! A server that answers oddly for a while, or what stands before it: a provider whose quota is used up,
//! a proxy that ends connections or spreads scripts, a node that sends its clients to the wrong place.

use fastrand::Rng;

use super::cluster::slot_of;
use super::command::is;
use super::command_keys;
use super::connection::Answered;
use super::reply::Reply;
use super::session::SessionId;
use super::{Server, connection};

/// What is odd.
#[derive(Clone, Debug, PartialEq)]
pub enum Oddity {
    /// It refuses each command, in these words.
    Refuses(String),
    /// It says these words on each new connection, and closes it.
    TurnsAway(String),
    /// It refuses this command, or all with this subcommand, in these words.
    Lacks { command: &'static str, subcommand: &'static str, text: String },
    /// It refuses the first commands of each connection, so many of them.
    RefusesFirst { count: u32, text: String },
    /// It answers the questions of a new connection by a value of another type.
    WrongType(Reply),
    /// It ends each connection after so many commands.
    EndsAfter { count: u32, ending: Ending },
    /// It ends each connection that is idle for so many microseconds.
    EndsIdle(i64),
    /// It knows no script by its hash, in so many of ten calls.
    ForgetsScripts(u32),
    /// It says this of the slot of each command, in so many of ten cases.
    Redirects { often: u32, to: Redirect },
    /// It answers this to `CLUSTER SLOTS`.
    Slots(Reply),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After the answer to the last command.
    Answered,
    /// When the next command comes, which does not run.
    NotRun,
    /// When the next command has run, whose answer is lost.
    Unanswered,
}

/// Where a node sends a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    Moved(String),
    Ask(String),
    /// To the right place of another slot.
    OtherSlot(String),
    /// Nowhere, in these words.
    Refused(&'static str),
}

/// An oddity that lasts.
#[derive(Debug)]
pub(super) struct Odd {
    oddity: Oddity,
    /// How often it has changed something.
    count: u64,
    rng: Rng,
}

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

impl Server {
    /// From now on, it answers oddly.
    pub fn begin_oddity(&mut self, oddity: Oddity, rng: Rng) {
        self.odd.push(Odd { oddity, count: 0, rng });
    }

    /// This is odd no more. Returns how often it has changed something.
    pub fn end_oddity(&mut self, oddity: &Oddity) -> u64 {
        let at = self.odd.iter().position(|it| it.oddity == *oddity);
        at.map_or(0, |at| self.odd.remove(at).count)
    }

    /// Nothing is odd any more.
    pub fn end_oddities(&mut self) {
        self.odd.clear();
    }

    /// Refuses a new connection, if it does so.
    pub(super) fn turn_away(&mut self, id: SessionId) {
        let away = self.odd.iter_mut().find_map(|odd| match &odd.oddity {
            Oddity::TurnsAway(text) => {
                odd.count += 1;
                Some(text.clone())
            }
            _ => None,
        });
        if let Some(text) = away {
            let session = self.session(id);
            session.reply(&Reply::Error(text));
            session.is_closed = true;
        }
    }

    /// Its odd answer to a command, which does not run then.
    pub(super) fn odd_answer(
        &mut self,
        id: SessionId,
        name: &str,
        args: &[Vec<u8>],
    ) -> Option<Answered> {
        // A command runs before some of them are said.
        let mut all = std::mem::take(&mut self.odd);
        let answer = all.iter_mut().find_map(|odd| {
            let answer = odd.answer(self, id, name, args)?;
            odd.count += 1;
            // What a proxy says may pass at once, and is repeated sooner.
            if matches!(&odd.oddity, Oddity::Refuses(text) if text.starts_with("ERR")) {
                self.note_refused(name, args);
            }
            Some(answer)
        });
        self.odd = all;
        answer
    }

    /// Ends a connection after its last command.
    pub(super) fn end_oddly(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("it has sent a command");
        for Odd { oddity, count, .. } in &mut self.odd {
            let Oddity::EndsAfter { count: most, ending } = oddity else { continue };
            let is_last = session.commands >= *most + u32::from(*ending != Ending::Answered);
            if session.is_closed || !is_last {
                continue;
            }
            if *ending == Ending::Unanswered {
                session.output.clear();
            }
            session.is_closed = true;
            *count += 1;
        }
    }

    /// Ends the connections that are idle.
    pub(super) fn end_idle(&mut self) {
        let now_us = self.core.borrow().now_us;
        for Odd { oddity, count, .. } in &mut self.odd {
            let Oddity::EndsIdle(most_us) = oddity else { continue };
            for session in self.sessions.values_mut().filter(|it| !it.is_closed) {
                if now_us - session.active_us > *most_us {
                    session.is_closed = true;
                    *count += 1;
                }
            }
        }
    }
}

impl Odd {
    fn answer(
        &mut self,
        server: &mut Server,
        id: SessionId,
        name: &str,
        args: &[Vec<u8>],
    ) -> Option<Answered> {
        let sub = args.get(1).map_or(&[][..], Vec::as_slice);
        let commands = server.session(id).commands;
        let error = |text: &str| Some(Answered::Reply(Reply::error(text)));
        let mut is_one_of_ten = |often: u32| self.rng.u32(..10) < often;
        match &self.oddity {
            Oddity::Refuses(text) => error(text),
            Oddity::RefusesFirst { count, text } if commands <= *count => error(text),
            Oddity::Lacks { command, subcommand, text } => {
                let is_it = name == *command && (subcommand.is_empty() || is(sub, subcommand));
                is_it.then(|| Answered::Reply(Reply::error(text)))
            }
            Oddity::WrongType(value) => match name {
                "HELLO" => {
                    // The protocol is the one that was asked for.
                    connection::run(server, id, name, args)?;
                    Some(Answered::Reply(value.clone()))
                }
                "INFO" | "ROLE" | "CONFIG" => Some(Answered::Reply(value.clone())),
                "CLIENT" if !is(sub, "KILL") => Some(Answered::Reply(value.clone())),
                _ => None,
            },
            Oddity::EndsAfter { count, ending: Ending::NotRun } if commands > *count => {
                Some(Answered::Messages)
            }
            Oddity::ForgetsScripts(often) if name == "EVALSHA" && is_one_of_ten(*often) => {
                error(NO_SCRIPT)
            }
            Oddity::Slots(value) if name == "CLUSTER" && is(sub, "SLOTS") => {
                Some(Answered::Reply(value.clone()))
            }
            Oddity::Redirects { often, to } => {
                let slot = slot_of(command_keys::keys(name, args).first()?);
                is_one_of_ten(*often).then(|| Answered::Reply(to.said(slot)))
            }
            _ => None,
        }
    }
}

impl Redirect {
    fn said(&self, slot: u16) -> Reply {
        Reply::Error(match self {
            Self::Moved(to) => format!("MOVED {slot} {to}"),
            Self::Ask(to) => format!("ASK {slot} {to}"),
            Self::OtherSlot(to) => format!("MOVED {} {to}", slot ^ 1),
            Self::Refused(text) => (*text).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    /// What a new connection is answered to these commands, and whether it is still open then.
    fn said(oddity: &Oddity, commands: &[&str]) -> (String, bool) {
        let mut server = Server::new(Settings::default(), 0);
        server.begin_oddity(oddity.clone(), Rng::with_seed(1));
        let id = server.connect(text("h:1"));
        for command in commands {
            let words: Vec<_> = command.split(' ').collect();
            let lines = words.iter().map(|it| format!("${}\r\n{it}\r\n", it.len()));
            let bytes = format!("*{}\r\n{}", words.len(), lines.collect::<String>());
            server.receive(id, bytes.as_bytes());
        }
        server.set_clock(1_000);
        server.tick();
        let answers = server.take_output(id).unwrap_or_default();
        assert!(server.end_oddity(oddity) > 0, "{oddity:?} has changed nothing");
        (String::from_utf8(answers).unwrap(), server.take_output(id).is_some())
    }

    #[test]
    fn commands_are_refused() {
        let (quota, full) = (text("ERR quota"), text("ERR full"));
        let refused = |answer: &str| (format!("-{answer}\r\n"), true);
        assert_eq!(said(&Oddity::Refuses(quota), &["PING"]), refused("ERR quota"));
        assert_eq!(said(&Oddity::TurnsAway(full), &["PING"]), (text("-ERR full\r\n"), false));
        let first = Oddity::RefusesFirst { count: 1, text: text("LOADING") };
        assert_eq!(said(&first, &["PING", "PING"]), (text("-LOADING\r\n+PONG\r\n"), true));
        let lacks = |subcommand| Oddity::Lacks { command: "CLIENT", subcommand, text: text("ERR") };
        assert_eq!(said(&lacks(""), &["CLIENT ID"]), refused("ERR"));
        assert_eq!(said(&lacks("INFO"), &["CLIENT ID", "CLIENT INFO"]).0, ":1\r\n-ERR\r\n");
    }

    #[test]
    fn first_answers_are_of_a_wrong_type() {
        let number = Oddity::WrongType(Reply::Int(7));
        let (answers, _) = said(&number, &["HELLO 3", "ROLE", "PING", "GET a"]);
        assert_eq!(answers, ":7\r\n:7\r\n+PONG\r\n_\r\n", "it speaks the protocol all the same");
    }

    #[test]
    fn connections_end() {
        let ends = |ending| Oddity::EndsAfter { count: 1, ending };
        let twice = ["SET a 1", "GET a"];
        assert_eq!(said(&ends(Ending::Answered), &twice), (text("+OK\r\n"), false));
        assert_eq!(said(&ends(Ending::NotRun), &twice), (text("+OK\r\n"), false));
        assert_eq!(said(&ends(Ending::Unanswered), &twice), (text(""), false));
        assert_eq!(said(&Oddity::EndsIdle(999), &["PING"]), (text("+PONG\r\n"), false));
    }

    #[test]
    fn scripts_are_forgotten_and_slots_are_elsewhere() {
        let call = ["EVALSHA 0123 1 123456789"];
        let answer = said(&Oddity::ForgetsScripts(10), &call).0;
        assert_eq!(answer, format!("-{NO_SCRIPT}\r\n"));
        for (to, answer) in [
            (Redirect::Moved(text("h:2")), "-MOVED 12739 h:2\r\n"),
            (Redirect::Ask(text("h:2")), "-ASK 12739 h:2\r\n"),
            (Redirect::OtherSlot(text("h:2")), "-MOVED 12738 h:2\r\n"),
            (Redirect::Refused("TRYAGAIN"), "-TRYAGAIN\r\n"),
        ] {
            assert_eq!(said(&Oddity::Redirects { often: 10, to }, &call).0, answer);
        }
        assert_eq!(said(&Oddity::Slots(Reply::Array(vec![])), &["CLUSTER SLOTS"]).0, "*0\r\n");
    }
}
