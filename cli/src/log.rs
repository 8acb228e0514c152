//! What the client logs, on stderr.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::args::{Cli, Command};
use super::text::plain;

/// Logs to stderr: warnings of commands that go on for long, and more if `--verbose` says so.
pub(super) fn start(cli: &Cli) {
    let goes_on = match &cli.command {
        #[cfg(unix)]
        Command::Run(_) => true,
        Command::Serve(_) => true,
        _ => false,
    };
    let level = match (cli.verbose, goes_on) {
        (0, false) => return,
        (0, true) => LevelFilter::WARN,
        (1, _) => LevelFilter::DEBUG,
        (_, _) => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(Harmless { json: cli.json })
        .init();
}

/// Stderr without what a terminal would obey: at debug, lines name locks. Or a line for a program.
#[derive(Clone, Copy)]
struct Harmless {
    json: bool,
}

impl<'a> MakeWriter<'a> for Harmless {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl io::Write for Harmless {
    /// One call writes one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut err = io::stderr().lock();
        let line_of_log = if self.json {
            serde_json::json!({ "log": text.trim_end() }).to_string()
        } else {
            plain(text.trim_end())
        };
        let _ = io::Write::write_all(&mut err, format!("{line_of_log}\n").as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
