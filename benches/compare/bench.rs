//! One run of the benches: its size, and its results.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::contender::Contender;
use crate::failure::Failure;
use crate::foreign::Program;
use crate::machine;
use crate::participant::Participant;
use crate::table::Table;

pub(crate) struct Bench {
    /// Few, short rounds, and no peers that must be installed.
    pub(crate) is_quick: bool,
    /// Where files go.
    pub(crate) folder: PathBuf,
    /// Peers in other languages.
    pub(crate) foreign: Vec<Program>,
    tables: Vec<Table>,
    violations: Vec<String>,
}

impl Bench {
    pub(crate) fn new(is_quick: bool, folder: PathBuf) -> Result<Self, Failure> {
        fs::create_dir_all(&folder)?;
        let (tables, violations) = (Vec::new(), Vec::new());
        Ok(Self { is_quick, folder, foreign: Vec::new(), tables, violations })
    }

    /// Our mutex, and all peers that wait for a mutex.
    pub(crate) fn mutex_contenders(&self) -> Vec<Participant> {
        let contenders = [Contender::Ours].into_iter().chain(Contender::MUTEX_PEERS);
        let foreign = self.foreign.iter().cloned().map(Participant::Foreign);
        contenders.map(Participant::Contender).chain(foreign).collect()
    }

    /// Picks the value for a quick run or for a full one.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// The same for a number of milliseconds.
    pub(crate) fn millis(&self, quick: u64, full: u64) -> Duration {
        Duration::from_millis(self.pick(quick, full))
    }

    /// Shows a table, and keeps it for the files.
    pub(crate) fn add(&mut self, table: Table) -> Result<(), Failure> {
        println!("{table}");
        self.tables.push(table);
        self.write()
    }

    /// Notes that ours let in more than it may. The run then fails at its end.
    pub(crate) fn violated(&mut self, what: String) {
        println!("VIOLATED: {what}\n");
        self.violations.push(what);
    }

    /// True if ours never let in more than it may.
    pub(crate) fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    fn write(&self) -> Result<(), Failure> {
        let head = machine::describe();
        let texts: Vec<_> = self.tables.iter().map(ToString::to_string).collect();
        fs::write(self.folder.join("results.txt"), format!("{head}\n\n{}", texts.join("\n")))?;
        let tables: Vec<_> = self.tables.iter().map(Table::to_markdown).collect();
        let mut text = format!("# Results\n\n{head}\n\n{}", tables.join("\n"));
        for violation in &self.violations {
            writeln!(text, "\n**Violated: {violation}**")?;
        }
        Ok(fs::write(self.folder.join("results.md"), text)?)
    }
}

/// Reports progress on stderr.
macro_rules! progress {
    ($($what:tt)*) => {
        eprintln!("   {}", format_args!($($what)*))
    };
}
pub(crate) use progress;
