//! `cenote env`: the environment that `cenote run` would set, for where no wrapper fits; and the table of settings.

use std::path::PathBuf;

use cenote::conf::{KEYS, VARIABLES};
use serde_json::json;

use crate::exit::Outcome;
use crate::library::{self, Environment};
use crate::render::{HEADING, paint, quote, table};

/// Print the export lines for a batch script or a Dockerfile.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the reports go (CENOTE_OUTPUT).
    #[arg(short, long)]
    output: Option<String>,
    /// A setting; repeat it for more (CENOTE_CONF).
    #[arg(short, long = "conf", value_name = "KEY:VALUE")]
    conf: Vec<String>,
    /// The library, if not the one that is installed with this program.
    #[arg(long, env = "CENOTE_LIBRARY")]
    library: Option<PathBuf>,
    /// Instead, list every key and variable with its default.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn env(options: &Options) -> anyhow::Result<Outcome> {
    if options.list {
        return if options.json { list_json() } else { Ok(list()) };
    }
    let library = library::find(options.library.as_deref())?;
    let environment = Environment::new(&library, &options.conf, options.output.as_deref())?;
    environment.warn_of_problems()?;
    if options.json {
        return Outcome::json(
            &environment.variables().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        );
    }
    let export = |(name, value): (&str, String)| format!("export {name}={}\n", quote(&value));
    Ok(Outcome::of(environment.variables().into_iter().map(export).collect()))
}

fn list() -> Outcome {
    let keys = KEYS
        .iter()
        .map(|key| [key.name, key.default, key.kind.takes(), key.doc].map(str::to_owned).to_vec());
    let variables = VARIABLES.iter().map(|variable| {
        [variable.name, variable.default, variable.doc].map(str::to_owned).to_vec()
    });
    let text = format!(
        "{}\n{}\n{}\n{}",
        paint(HEADING, "Keys of CENOTE_CONF"),
        table(&["key", "default", "takes", "what it does"], &[], keys.collect()),
        paint(HEADING, "Environment variables"),
        table(&["variable", "default", "what it does"], &[], variables.collect()),
    );
    Outcome::of(text)
}

fn list_json() -> anyhow::Result<Outcome> {
    let keys = KEYS.iter().map(|key| {
        let takes = key.kind.takes();
        json!({ "name": key.name, "default": key.default, "takes": takes, "doc": key.doc })
    });
    let variables = VARIABLES.iter().map(|variable| {
        json!({ "name": variable.name, "default": variable.default, "doc": variable.doc })
    });
    let (keys, variables): (Vec<_>, Vec<_>) = (keys.collect(), variables.collect());
    Outcome::json(&json!({ "keys": keys, "variables": variables }))
}
