//! A server on which somebody's script runs for too long.

use super::Server;
use super::command::is;
use super::core::Work;
use super::reply::Reply;
use super::session::SessionId;

const REFUSED: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// What it answers to a command instead of running it; `None` if it runs it all the same.
pub(super) fn refusal(
    server: &mut Server,
    id: SessionId,
    name: &str,
    args: &[Vec<u8>],
) -> Option<Reply> {
    match name {
        // Whether the user may call it is looked at first.
        _ if server.core.borrow().allow_name(name, false).is_err() => None,
        "AUTH" | "DISCARD" | "HELLO" | "MULTI" | "QUIT" | "RESET" => None,
        "SCRIPT" if args.len() == 2 && is(&args[1], "KILL") => {
            server.core.borrow_mut().condition.work = Work::None;
            Some(Reply::Ok)
        }
        "EXEC" => {
            server.session(id).transaction = None;
            Some(Reply::Error(format!("EXECABORT Transaction discarded because of: {REFUSED}")))
        }
        _ => Some(Reply::error(REFUSED)),
    }
}
