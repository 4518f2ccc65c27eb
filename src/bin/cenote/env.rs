//! `cenote env`: the environment that `cenote run` would set, for where no wrapper fits; and the table of settings.

use std::path::PathBuf;

use cenote::conf::{KEYS, VARIABLES};
use serde_json::json;

use crate::exit::Outcome;
use crate::library::{self, Environment};
use crate::render::{HEADING, paint, quote};

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
    let mut text = format!("{}\n", paint(HEADING, "Keys of CENOTE_CONF, with their defaults"));
    for key in KEYS {
        text.push_str(&entry(key.name, key.default, key.doc));
        text.push_str(&format!("      takes {}\n", key.kind.takes()));
    }
    text.push_str(&format!("\n{}\n", paint(HEADING, "Environment variables, with their defaults")));
    for variable in VARIABLES {
        text.push_str(&entry(variable.name, variable.default, variable.doc));
    }
    Outcome::page(&text)
}

/// What it does is below its name: it is long.
fn entry(name: &str, default: &str, doc: &str) -> String {
    let first = format!("  {name:30}{default}");
    format!("{}\n      {doc}\n", first.trim_end())
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
