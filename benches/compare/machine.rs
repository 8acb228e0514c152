//! Where and when the benches ran.

use std::fs;
use std::process::Command;

use crate::failure::Failure;

/// The head of the results: command, machine and date.
pub(crate) fn describe() -> String {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|part| part != "--bench").collect();
    let cores = std::thread::available_parallelism().map_or(0, Into::into);
    let lines = [
        format!("- command: `cargo bench -p leasehold-benches -- {}`", arguments.join(" ")),
        format!("- processor: {}, {cores} cores", processor()),
        format!("- kernel: {}", said_by("uname", &["-sr"])),
        format!("- server: {}", said_by("redis-server", &["--version"])),
        format!("- date: {}", said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
    ];
    lines.join("\n")
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown", |(_, model)| model).to_owned()
}

/// The memory that this process has on the machine, in bytes: `VmRSS`, so with all that its
/// allocator and its stacks keep.
pub(crate) fn resident_memory() -> Result<usize, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib = line.trim().strip_suffix(" kB").ok_or("VmRSS is not in kB")?;
    Ok(kib.parse::<usize>()? * 1024)
}

/// The output of a program; `not there` without it.
pub(crate) fn said_by(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => "not there".to_owned(),
    }
}
