//! A participant of a contest, and the process that works for it.

use std::process::Command;

use crate::contender::Contender;
use crate::crew::ourselves;
use crate::failure::Failure;
use crate::foreign::Program;
use crate::worker::Sections;

/// A participant of a contest.
#[derive(Clone, Debug)]
pub(crate) enum Participant {
    Contender(Contender),
    /// A program in another language.
    Foreign(Program),
}

impl Participant {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Contender(contender) => contender.name(),
            Self::Foreign(program) => program.name.to_owned(),
        }
    }

    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Contender(Contender::Ours | Contender::OursLingering))
    }

    /// The process that does this work.
    pub(crate) fn command(&self, work: &Sections) -> Result<Command, Failure> {
        let mut command = match self {
            Self::Contender(contender) => {
                let mut command = ourselves("sections")?;
                command.args(["--contender", &contender.name()]);
                command
            }
            Self::Foreign(program) => program.command(),
        };
        command.args(work.arguments());
        Ok(command)
    }
}
