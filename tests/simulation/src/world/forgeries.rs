//! Messages that somebody forges who may publish, and knows more than that: which clients listen, which
//! requests hold and wait, and the tokens and heartbeats that the scripts would say. What such a person does
//! not know is the secret of a client.

use fastrand::Rng;

use super::jobs::JOB;
use super::wishes::PROBES;
use crate::oracle::{CLIENT, Known, known};
use crate::server::Server;

/// A message that could be one of ours, to somebody who listens.
pub(super) fn forge(server: &mut Server, rng: &mut Rng) {
    let Some(channel) = rng.choice(server.channels()) else { return };
    if channel.ends_with(b"limits") || channel.ends_with(b"limits}") {
        server.publish(&channel, to_all(rng));
        return;
    }
    let client = channel[channel.len().saturating_sub(CLIENT)..].to_vec();
    let known = known(&server.core().borrow());
    let of_client = known.into_iter().filter(|it| it.id.starts_with(&client));
    let message = match rng.choice(of_client.collect::<Vec<_>>()) {
        Some(known) if rng.u8(..4) > 0 => fitting(&known, rng),
        _ => guessed(client, rng),
    };
    server.publish(&channel, message);
}

/// One to all clients: that work may run again, that limits have changed, or nothing that is known.
fn to_all(rng: &mut Rng) -> Vec<u8> {
    let (lock, _) = PROBES[rng.usize(..PROBES.len())];
    match rng.u8(..6) {
        0 => b"limits".to_vec(),
        1 => b"again ".to_vec(),
        2 => (0..rng.usize(..60)).map(|_| rng.u8(..)).collect(),
        3 => format!("again leasehold:lock:{{{lock}}}").into_bytes(),
        _ => format!("again leasehold:lock:{{{JOB}}}").into_bytes(),
    }
}

/// One that fits a request which waits or holds.
fn fitting(known: &Known, rng: &mut Rng) -> Vec<u8> {
    let Known { id, record_key, token, until_ms } = known;
    let text = |rest: String| [id.as_slice(), rest.as_bytes()].concat();
    match rng.u8(..6) {
        0 => id.clone(),
        1 => text("F".to_owned()),
        2 => [id.as_slice(), b"R".as_slice(), record_key.as_slice()].concat(),
        3 => text(format!("{token:016}{until_ms:013}00000{:020x}", rng.u64(..))),
        4 => text(format!("{:016}{until_ms:013}01000{:020x}", token + 64, rng.u64(..))),
        // Without its proof.
        _ => text(format!("{token:016}{until_ms:013}01000")),
    }
}

/// One for a request that may not be there.
fn guessed(client: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let (lock, _) = PROBES[rng.usize(..PROBES.len())];
    let lock = format!("leasehold:lock:{{{lock}}}");
    let counter = format!("{:012x}", rng.u64(..400));
    let token = [0_u64, 1_767_225_600_000_000, 9_999_999_999_999_999][rng.usize(..3)];
    let rest = match rng.u8(..5) {
        0 => counter,
        1 => format!("000000000000R{lock}"),
        2 => format!("{counter}F"),
        3 => format!("{counter}F{lock}"),
        _ => format!("{counter}{token:016}176722570000001000{:020x}", rng.u64(..)),
    };
    [client, rest.into_bytes()].concat()
}
