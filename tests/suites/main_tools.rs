//! What an operator uses: the tool, the console and the diagnosis.

#[cfg(all(feature = "servers", unix))]
mod command_line;
mod console;
mod doctor;
