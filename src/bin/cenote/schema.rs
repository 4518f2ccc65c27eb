//! `cenote schema`: the JSON Schema of a report.

use cenote::report::Report;

use crate::exit::Outcome;

/// Print the JSON Schema of a report.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

pub(crate) fn schema(_: &Options) -> anyhow::Result<Outcome> {
    Outcome::json(&schemars::schema_for!(Report))
}
