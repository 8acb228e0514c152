//! The commands on scripts.

use super::Server;
use super::command::{check_arity, is};
use super::core::Work;
use super::replication::Role;
use super::reply::Reply;

impl Server {
    pub(super) fn script_command(
        &mut self,
        database: u8,
        name: &str,
        args: &[Vec<u8>],
    ) -> Option<Reply> {
        let arity = if name == "SCRIPT" { -2 } else { -3 };
        if let Err(error) = check_arity(name, arity, args) {
            return Some(error);
        }
        let allowed = self.core.borrow().allow_name(name, false);
        if let Err(refusal) = allowed {
            self.note_refused(name, args);
            return Some(refusal);
        }
        if self.core.borrow().condition.work == Work::Loads {
            return Some(Reply::error("LOADING Redis is loading the dataset in memory"));
        }
        Some(match name {
            "EVAL" => match self.scripts.load(&args[1]) {
                Ok(hash) => self.call(database, &hash, &args[2..]),
                Err(error) => error,
            },
            "EVALSHA" => {
                let hash = String::from_utf8_lossy(&args[1]);
                self.call(database, &hash, &args[2..])
            }
            _ if is(&args[1], "LOAD") && args.len() == 3 => {
                self.scripts.load(&args[2]).map_or_else(|error| error, Reply::text)
            }
            _ if is(&args[1], "FLUSH") => {
                self.scripts.forget_all();
                Reply::Ok
            }
            _ if is(&args[1], "KILL") && args.len() == 2 => {
                Reply::error("NOTBUSY No scripts in execution right now.")
            }
            _ if is(&args[1], "EXISTS") && args.len() > 2 => {
                let is_known = |hash| self.scripts.knows(&String::from_utf8_lossy(hash));
                Reply::Array(
                    args[2..].iter().map(|it| Reply::Int(i64::from(is_known(it)))).collect(),
                )
            }
            _ => return None,
        })
    }

    /// Lets the oracle judge a call that is refused before its script runs.
    pub(super) fn note_refused(&mut self, name: &str, args: &[Vec<u8>]) {
        if let (Some(oracle), "EVALSHA", [_, hash, rest @ ..]) = (&mut self.oracle, name, args) {
            let hash = String::from_utf8_lossy(hash);
            oracle.refused(self.core.borrow().now_us, &hash, rest);
        }
    }

    /// Runs a script that it knows. The oracle looks on.
    fn call(&mut self, database: u8, hash: &str, rest: &[Vec<u8>]) -> Reply {
        // A replica only refuses.
        let is_master = self.core.borrow().role == Role::Master;
        let is_judged = is_master && self.scripts.knows(hash);
        let Some(oracle) = self.oracle.as_mut().filter(|_| is_judged) else {
            return self.scripts.call(database, hash, rest);
        };
        let before = oracle.before(&self.core.borrow(), (database, hash), rest);
        let reply = self.scripts.call(database, hash, rest);
        if let Some(before) = before {
            oracle.after(&self.core.borrow(), &before, &reply);
        }
        reply
    }
}
