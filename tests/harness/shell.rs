//! A server's process, under a shell of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::skew::Clock;

/// Makes a folder and runs the server in it. The shell's input ends with this process, however that
/// ends. Then the shell kills the server and removes the folder. Only the server holds the log
/// open, so the log ends if the server does not start.
const SCRIPT: &str = r#"
trap '' INT
folder=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-server.XXXXXX") && cd "$folder" || exit 1
printf '%s\n' "$LEASEHOLD_TEST_CONFIG" > server.conf
"${LEASEHOLD_REDIS_SERVER:-redis-server}" server.conf "$@" &
echo "pid $!"
exec >/dev/null
read -r _
kill -9 $!
wait
cd / && rm -rf "$folder"
"#;

/// A server that runs until this is dropped. Its files are removed then.
#[derive(Debug)]
pub(crate) struct Shell {
    shell: Child,
    pid: String,
}

impl Shell {
    /// Starts `redis-server`, or the program that `LEASEHOLD_REDIS_SERVER` names. `None` if it
    /// fails to start.
    pub(crate) fn start(config: &str, arguments: &[String], clock: Option<&Clock>) -> Option<Self> {
        let mut command = Command::new("sh");
        if let Some(clock) = clock {
            clock.govern(&mut command);
        }
        let mut shell = command
            .args(["-c", SCRIPT, "sh"])
            .args(arguments)
            .env("LEASEHOLD_TEST_CONFIG", config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let log = shell.stdout.take().expect("it is piped");
        let mut server = Self { shell, pid: String::new() };
        let mut log = BufReader::new(log);
        let mut is_ready = false;
        // The lines of the shell and of the server come in any order.
        for line in log.by_ref().lines().map_while(Result::ok) {
            if let Some(pid) = line.strip_prefix("pid ") {
                pid.clone_into(&mut server.pid);
            }
            // A sentinel prints its id when it listens.
            is_ready |= ["Ready to accept connections", "Sentinel ID is"]
                .iter()
                .any(|sign| line.contains(sign));
            if is_ready && !server.pid.is_empty() {
                // The server must never block on its log.
                thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return Some(server);
            }
        }
        None
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> &str {
        &self.pid
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
