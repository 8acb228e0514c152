use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_simulation::network::Host;
use leasehold_simulation::repeat::let_repeat;
use leasehold_simulation::server::Settings;
use tokio::time::sleep;

use super::{SECOND, World, address};

/// A client that can't release its lock gives up after a while, and waits for no other clock than its
/// own: where the system's stands still, it would wait for ever.
#[test]
fn a_client_ends_without_its_server() {
    let mut world = World::new();
    world.add(address(1), Host::start(1, Settings::default()));
    world.start(|notes| async move {
        let locks = Locks::connect("redis://10.0.0.1:6379").await.expect("the server is there");
        let lease = locks.mutex("a").lock().await.unwrap();
        sleep(Duration::from_secs(2)).await;
        drop((lease, locks));
        notes.add("dropped");
        sleep(Duration::from_secs(60)).await;
        notes.add("ended");
    });
    world.run(SECOND);
    world.network.borrow_mut().stop(address(1));
    world.run(70 * SECOND);
    assert!(world.notes.has("dropped") && world.notes.has("ended"));
}

#[test]
fn a_client_ends_while_the_system_s_clock_stands_still() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let_repeat(&mut command);
    command.args(["a_client_ends_without_its_server", "--test-threads", "1"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let (begun, most) = (Instant::now(), Duration::from_secs(60));
    while begun.elapsed() < most {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it does not end");
}
