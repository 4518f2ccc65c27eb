//! The program of a job, as the shell finds it.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::render::quote;

/// Why a program can't be started, and what to do about it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) text: String,
    pub(crate) remedy: String,
}

/// The file of a program.
pub(crate) fn find(program: &str) -> Result<PathBuf, Problem> {
    let name = quote(program);
    let problem = |what: &str, remedy: String| {
        Err(Problem { text: format!("can't start {name}: {what}"), remedy })
    };
    if !program.contains('/') {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path)
            .map(|folder| folder.join(program))
            .find(|path| is_program(path));
        return match found {
            Some(path) => Ok(path),
            None if is_program(Path::new(program)) => {
                problem("it is in no folder of PATH", format!("write ./{name}"))
            }
            None => problem("it is in no folder of PATH", "check its name and PATH".to_owned()),
        };
    }
    match fs::metadata(program) {
        Err(error) => problem(&error.to_string(), "check its name".to_owned()),
        Ok(file) if file.is_dir() => problem("it is a folder", "name a program in it".to_owned()),
        Ok(_) if !is_program(Path::new(program)) => problem(
            "it is not executable",
            format!("chmod +x {name}, or name its interpreter before it"),
        ),
        Ok(_) => Ok(PathBuf::from(program)),
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
