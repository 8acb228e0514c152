//! Reads the answers of the scripts that list the holders and the waiters of a lock.

#[cfg(test)]
mod hostile;
mod job;
mod record;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use self::job::part;
use self::record::Record;
use super::answer::{is_wrong_type, numbers, unreadable};
use super::encode::Encoder;
use super::encoded::Encoded;
use super::transport::Transport;
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::store::inspection::MOST;
use crate::store::job_info::JobNotes;
use crate::store::{
    ClientId, ClientInfo, Holder, LastSuccess, LockInfo, LockKind, RequestId, StoreError, Waiter,
};

/// A token this much ahead of the server's clock says that the clock was set back. A lock that goes from
/// task to task is ahead by its block, and a quorum's clocks may differ.
const AHEAD: Duration = Duration::from_secs(1);

/// Reads a lock, then the description of each client that holds it or waits for it.
pub(super) async fn inspect(
    transport: &dyn Transport,
    encoder: &Encoder,
    limit: Duration,
    key: &LockKey,
) -> Result<LockInfo, StoreError> {
    let answer = match transport.send(encoder.inspect(key, MOST as u64), limit).await {
        Err(error) if is_wrong_type(&error) => return Ok(foreign()),
        answer => answer?,
    };
    let lock = Inspection::read(&answer).ok_or_else(|| unreadable(&answer))?;
    let described = lock.clients().into_iter().map(async |id| {
        // It may be on another node than the lock. Without it the rest is still worth knowing.
        client(id, &transport.send(encoder.describe(id), limit).await.ok()?)
    });
    let described = join_all(described).await.into_iter().flatten();
    let clients = described.map(|known| (known.0.id, known)).collect();
    let (notes, holder) = (lock.notes(), lock.mutex_holder().map(|member| member.id));
    let info = lock.info(&clients);
    Ok(LockInfo { job: notes.info(holder.zip(info.holders.first())), ..info })
}

/// Sends the command until the answer is known: each call forgets only a few of the holds
/// that have ended.
pub(super) async fn is_held(
    transport: &dyn Transport,
    limit: Duration,
    command: &Encoded,
) -> Result<bool, StoreError> {
    loop {
        let answer = match transport.send(command.clone(), limit).await {
            Err(error) if is_wrong_type(&error) => return Ok(false),
            answer => answer?,
        };
        match *numbers(&answer) {
            [held @ (0 | 1)] => return Ok(held == 1),
            [2] => {}
            [3] => return Ok(false),
            _ => return Err(unreadable(&answer)),
        }
    }
}

/// A client, and how long ago it last said so.
type Known = (ClientInfo, Option<Duration>);

/// Reads a client's description; there is none if its process is no number.
fn client(id: ClientId, answer: &Value) -> Option<Known> {
    let [service, host, process, lasts, left] = array(answer) else { return None };
    let process = text(process).parse().ok()?;
    let info = ClientInfo { id, service: text(service), host: text(host), process };
    let heard = number(lasts).zip(number(left)).and_then(|(lasts, left)| lasts.checked_sub(left));
    Some((info, heard.map(Duration::from_millis)))
}

/// The answer of the script that looks at a lock.
struct Inspection {
    /// The server's time in microseconds.
    now: u64,
    record: Vec<u8>,
    left: Duration,
    held: u64,
    /// Each with its deadline, in the server's milliseconds.
    holders: Vec<(Member, u64)>,
    waiting: u64,
    /// Each with its position in the queue, in the server's microseconds.
    waiters: Vec<(Member, u64)>,
    /// Since when each holder has held the lock, in the server's milliseconds.
    since: Vec<Option<u64>>,
    /// The clients that may keep a lease without using it, each after its mark.
    marks: Vec<Vec<u8>>,
    /// The mark of done work; see `lua/include/done.lua`.
    done: String,
    /// The runs since then; see `lua/include/runs.lua`.
    runs: String,
    /// Who asked for another run; see `lua/mutex/run_again.lua`.
    again: String,
    /// Who took it by force; see `lua/include/force.lua`.
    freed: String,
}

/// A holder or a waiter.
struct Member {
    id: RequestId,
    /// As it is stored.
    text: String,
    weight: u32,
    /// The limit that a waiter for a semaphore goes by.
    limit: Option<u32>,
    is_writer: bool,
    owner: Option<String>,
    note: Option<String>,
}

impl Member {
    /// Reads how a request holds; see `lua/include/holders.lua`.
    fn new(id: RequestId, how: &[u8]) -> Self {
        let how = String::from_utf8_lossy(how);
        let text = format!("{id:?}{how}");
        let split = |text: &'_ str, at| match text.split_once(at) {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (text.to_owned(), None),
        };
        let (how, note) = split(&how, '\n');
        let (how, owner) = split(&how, '@');
        let weight = how.strip_prefix(':').and_then(|weight| weight.parse().ok()).unwrap_or(1);
        Self { id, text, weight, limit: None, is_writer: how == "w", owner, note }
    }

    fn read(member: &[u8]) -> Option<Self> {
        let (id, how) = member.split_at_checked(RequestId::LENGTH)?;
        Some(Self::new(RequestId::read(id)?, how))
    }
}

impl Inspection {
    fn read(answer: &Value) -> Option<Self> {
        let [
            now,
            record,
            left,
            held,
            holders,
            waiting,
            waiters,
            fields,
            marks,
            since,
            done,
            runs,
            again,
            freed,
        ] = array(answer)
        else {
            return None;
        };
        let Value::BulkString(record) = record else { return None };
        let holders = array(holders).chunks_exact(2).map(|pair| {
            let Value::BulkString(member) = &pair[0] else { return None };
            Some((Member::read(member)?, number(&pair[1])?))
        });
        let since = array(since).iter().map(|since| text(since).strip_prefix('-')?.parse().ok());
        let waiters = array(waiters).chunks_exact(2).zip(array(fields)).map(|(pair, fields)| {
            let (Value::BulkString(id), Value::BulkString(fields)) = (&pair[0], fields) else {
                return None;
            };
            // Until when it is known to live, the letter of its kind, and a limit.
            let how = fields.get(14..).unwrap_or_default();
            let (limit, how) =
                how.split_at(how.iter().take_while(|byte| byte.is_ascii_digit()).count());
            let limit = str::from_utf8(limit).ok().and_then(|limit| limit.parse().ok());
            let member = Member { limit, ..Member::new(RequestId::read(id)?, how) };
            Some((member, number(&pair[1])?))
        });
        Some(Self {
            now: number(now)?,
            record: record.clone(),
            left: Duration::from_millis(number(left).unwrap_or_default()),
            held: number(held)?,
            holders: holders.collect::<Option<_>>()?,
            waiting: number(waiting)?,
            waiters: waiters.collect::<Option<_>>()?,
            since: since.collect(),
            marks: array(marks).iter().filter_map(bytes).collect(),
            done: text(done),
            runs: text(runs),
            again: text(again),
            freed: text(freed),
        })
    }

    /// The last success, by the three times of the mark.
    fn last_success(&self) -> Option<LastSuccess> {
        let done = |at: usize| part(&self.done, at);
        Some(LastSuccess::new(done(0)?, done(13)?, done(26)?, self.now / 1000))
    }

    /// What is noted of a job.
    fn notes(&self) -> JobNotes {
        job::notes(self.now / 1000, &self.done, &self.runs, &self.again)
    }

    fn record(&self) -> Option<Record<'_>> {
        Record::read(&self.record)
    }

    /// The holder of a mutex.
    fn mutex_holder(&self) -> Option<Member> {
        let record = self.record().filter(|rec| rec.kind == b'M' && b"HO".contains(&rec.state))?;
        Some(Member::new(RequestId::read(record.id)?, record.owner))
    }

    /// All clients that hold the lock or wait for it, each once.
    fn clients(&self) -> Vec<ClientId> {
        let members = self.holders.iter().chain(&self.waiters).map(|(member, _)| member.id);
        let members = members.chain(self.mutex_holder().map(|member| member.id));
        let clients: std::collections::HashSet<_> = members.map(|id| id.client()).collect();
        clients.into_iter().collect()
    }

    fn info(self, clients: &HashMap<ClientId, Known>) -> LockInfo {
        let client = |id: RequestId| clients.get(&id.client()).map(|known| known.0.clone());
        let heard = |id: RequestId| clients.get(&id.client()).and_then(|known| known.1);
        let waiters = self.waiters.iter().map(|(member, position)| Waiter {
            client: client(member.id),
            owner: member.owner.clone(),
            note: member.note.clone(),
            is_writer: member.is_writer,
            weight: member.weight,
            limit: member.limit,
            waiting_for: Duration::from_micros(self.now.saturating_sub(*position)),
        });
        // Its caller knows the name.
        let known = LockInfo {
            waiters: waiters.collect(),
            waiting: self.waiting,
            last_success: self.last_success(),
            last_forced: job::forced(&self.freed).map(Box::new),
            ..LockInfo::default()
        };
        let Some(record) = self.record() else {
            return if self.record.is_empty() { known } else { foreign() };
        };
        let kind = record.kind();
        let since_grant = self.now.checked_sub(record.token).map(Duration::from_micros);
        let ahead = Duration::from_micros(record.token.saturating_sub(self.now));
        let (marks, mutex_lingers) = (&self.marks, record.lingers());
        let may_be_idle = |id: RequestId| {
            mutex_lingers || marks.iter().any(|mark| mark[1..] == *id.client().as_bytes())
        };
        let millis_since =
            |since: u64| Duration::from_millis((self.now / 1000).saturating_sub(since));
        // A lock that lost its record has lost its token too.
        let has_token = |is_fenced| is_fenced && record.token > 0;
        let held_for = |is_fenced: bool, since: Option<u64>| match since {
            Some(since) => Some(millis_since(since)),
            None if has_token(is_fenced) && ahead < AHEAD => Some(since_grant.unwrap_or_default()),
            None => None,
        };
        // It lived when it was granted the lock, too.
        let heard = |id, held_for: Option<Duration>| {
            heard(id).map(|time| held_for.map_or(time, |held| held.min(time)))
        };
        let holder = |member: Member, remaining, is_fenced: bool, since: Option<u64>| {
            let held_for = held_for(is_fenced, since);
            Holder {
                client: client(member.id),
                id: format!("{:?}", member.id),
                member: member.text,
                owner: member.owner,
                note: member.note,
                is_writer: member.is_writer,
                weight: member.weight,
                fence: has_token(is_fenced).then(|| Fence::new(record.token)),
                held_for,
                heard: heard(member.id, held_for),
                remaining,
                may_be_idle: may_be_idle(member.id),
            }
        };
        let mutex = self.mutex_holder().map(|member| holder(member, self.left, true, None));
        let kept = (record.state == b'K').then_some(self.left);
        let last_limit = record.limit();
        let is_owned = kind == LockKind::ReentrantMutex;
        let others = self.holders.into_iter().zip(self.since).map(|((member, deadline), since)| {
            let remaining = Duration::from_millis(deadline.saturating_sub(self.now / 1000));
            let is_fenced = is_owned || member.is_writer;
            holder(member, remaining, is_fenced, since)
        });
        let held = self.held.saturating_add(u64::from(mutex.is_some()));
        let holders = mutex.into_iter().chain(others).collect();
        let clock_behind = Some(ahead).filter(|ahead| *ahead >= AHEAD);
        LockInfo { kind: Some(kind), holders, held, kept, clock_behind, last_limit, ..known }
    }
}

fn foreign() -> LockInfo {
    LockInfo { kind: Some(LockKind::Foreign), ..LockInfo::default() }
}

fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) if !bytes.is_empty() => Some(bytes.clone()),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

/// Reads a number, or its digits. No server writes scores of this size with an
/// exponent.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => text(value).parse().ok(),
    }
}
