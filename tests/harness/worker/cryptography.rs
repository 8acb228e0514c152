//! The cryptography of TLS. An installed provider is for the whole process.

use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Locks;
use leasehold_tests::kinds::hand_over_each;
use leasehold_tests::server::free_port;
use rustls::crypto::{CryptoProvider, GetRandomFailed, SecureRandom, ring};

use super::Failure;

/// Hands over a lock of each kind from one client to another, before and after the program
/// installs a provider of its own.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn each(url: &str) -> Result<(), Failure> {
    let nobody = format!("rediss://127.0.0.1:{}", free_port());
    Locks::connect(&nobody).await.expect_err("nobody listens there");
    hand_over(url).await?;
    assert!(CryptoProvider::get_default().is_none(), "one was installed for the program");

    let own = CryptoProvider { secure_random: &Counting, ..ring::default_provider() };
    own.install_default().map_err(|_| "another was installed before")?;
    hand_over(url).await?;
    assert!(USES.load(Ordering::Relaxed) > 0, "the program's own was not used");
    println!("each was handed over");
    Ok(())
}

async fn hand_over(url: &str) -> Result<(), Failure> {
    let (first, second) = (Locks::connect(url).await?, Locks::connect(url).await?);
    hand_over_each(&first, &second).await;
    Ok(())
}

static USES: AtomicUsize = AtomicUsize::new(0);

/// The program's own provider: ring's, with a count of its calls.
#[derive(Debug)]
struct Counting;

impl SecureRandom for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        USES.fetch_add(1, Ordering::Relaxed);
        ring::default_provider().secure_random.fill(bytes)
    }
}
