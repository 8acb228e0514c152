//! `completions` and `man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;
use super::failure::Failure;

pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut command = Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "leasehold", &mut script);
    io::stdout().write_all(&script)?;
    Ok(0)
}

/// Prints the tool's page, or writes it and one for each command into a folder.
pub(super) fn man(out: Option<&Path>) -> Result<u8, Failure> {
    let command = Cli::command();
    if let Some(folder) = out {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
    }
    Ok(0)
}
