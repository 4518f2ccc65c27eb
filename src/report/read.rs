//! Reading a report, with messages that say what to do about it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Report, SCHEMA};

/// Why a file could not be read as a report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("can't read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no report.
    #[error("{path} is no cenote report: {what}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It says that it is a report, but a value is wrong.
    #[error("{path}: at {at}: {what}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Where in the JSON, as `devices[0].pool`.
        at: String,
        /// What is wrong there.
        what: String,
    },
    /// It has another version.
    #[error(
        "{path} has the format {schema}, and this is cenote {}, which reads {SCHEMA}: \
         install {}",
        env!("CARGO_PKG_VERSION"), writer(version.as_deref())
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        schema: String,
        /// The version that wrote it, if it says so.
        version: Option<String>,
    },
}

fn writer(version: Option<&str>) -> String {
    version.map_or_else(
        || "the version of cenote that wrote it".to_owned(),
        |version| format!("cenote {version}, which wrote it"),
    )
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Envelope {
    schema: String,
    #[serde(default)]
    cenote_version: Option<String>,
}

/// Reads the report in a file.
///
/// # Errors
/// If the file can't be read, is no report, or is one of another version.
pub fn read(path: &Path) -> Result<Report, ReadError> {
    let text = fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    parse(&text, path)
}

/// The report that a text is; `path` is in the messages.
///
/// # Errors
/// If it is no report, or one of another version.
pub fn parse(text: &[u8], path: &Path) -> Result<Report, ReadError> {
    let foreign = |what: String| ReadError::Foreign { path: path.to_owned(), what };
    let envelope: Envelope = serde_json::from_slice(text).map_err(|error| {
        foreign(if text.is_empty() { "it is empty".to_owned() } else { error.to_string() })
    })?;
    if !envelope.schema.starts_with("cenote.report/") {
        return Err(foreign(format!("its schema is \"{}\"", envelope.schema)));
    }
    if envelope.schema != SCHEMA {
        let version = envelope.cenote_version;
        return Err(ReadError::Version { path: path.to_owned(), schema: envelope.schema, version });
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| ReadError::Value {
        path: path.to_owned(),
        at: error.path().to_string(),
        what: error.inner().to_string(),
    })
}
