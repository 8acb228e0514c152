//! The scenarios: what is compared, and what is aimed at.

mod pairs;

use clap::ValueEnum;

use crate::Failure;
use crate::bench::Bench;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// acquire and release without contention
    Pairs,
}

impl Scenario {
    /// All that run unless others are asked for.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Its name, and what it is.
    pub(crate) fn title(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        format!("{}: {help}", value.get_name())
    }

    pub(crate) async fn run(self, bench: &mut Bench) -> Result<(), Failure> {
        match self {
            Self::Pairs => pairs::run(bench, self.title()).await,
        }
    }
}
