//! The name of the report: `CENOTE_OUTPUT` with its placeholders.

use super::Rank;
use super::owner::file_name;

/// What stands for a value that there is none of, such as `%r` outside of a distributed job.
const NONE: &str = "none";

/// What may follow a percent sign, in words.
const PLACEHOLDERS: &str = "%p %e %h %t %r %l %w %j %q{NAME} %%";

/// The values for the placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a> {
    /// `%p`
    pub pid: u32,
    /// `%e` is its file name.
    pub executable: &'a str,
    /// `%h`
    pub host: &'a str,
    /// `%t`, in seconds.
    pub started_unix_ns: u64,
    /// `%r`, `%l`, `%w`.
    pub rank: Option<&'a Rank>,
}

impl Template<'_> {
    /// Fills the placeholders of `template`; `variable` looks up `%q{NAME}` and `%j` (`SLURM_JOB_ID`). What is no placeholder
    /// stays as it is.
    ///
    /// ```
    /// let values = cenote::report::Template {
    ///     pid: 7, executable: "/usr/bin/python3", host: "node1", started_unix_ns: 0, rank: None,
    /// };
    /// let path = values.expand("%q{HOME}/%h/%e-%p-100%%.json", |name| Some(format!("/{name}")));
    /// assert_eq!(path, "/HOME/node1/python3-7-100%.json");
    /// ```
    pub fn expand(&self, template: &str, variable: impl Fn(&str) -> Option<String>) -> String {
        let mut path = String::with_capacity(template.len() + 32);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('%') {
            path.push_str(before);
            rest = self.placeholder(after, &variable, &mut path);
        }
        path.push_str(rest);
        path
    }

    /// One line for each placeholder in `template` that there is none of.
    pub fn problems(template: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut rest = template;
        while let Some((_, after)) = rest.split_once('%') {
            let letter = after.chars().next();
            let is_known = match letter {
                Some('q') => after.starts_with("q{") && after.contains('}'),
                Some(letter) => letter == '%' || PLACEHOLDERS.contains(&format!("%{letter} ")),
                None => false,
            };
            if !is_known {
                let name = letter.map(String::from).unwrap_or_default();
                problems.push(format!(
                    "unknown placeholder \"%{name}\" in CENOTE_OUTPUT: it takes {PLACEHOLDERS}"
                ));
            }
            rest = &after[letter.map_or(0, char::len_utf8)..];
        }
        problems
    }

    /// Writes the value of the placeholder that `text` begins with; what follows it is returned.
    fn placeholder<'t>(
        &self,
        text: &'t str,
        variable: &impl Fn(&str) -> Option<String>,
        path: &mut String,
    ) -> &'t str {
        let number =
            |number: Option<u32>| number.map_or_else(|| NONE.to_owned(), |n| n.to_string());
        let rank = self.rank;
        let mut after = text.chars();
        let value = match after.next() {
            Some('p') => self.pid.to_string(),
            Some('e') => part(file_name(self.executable)),
            Some('h') => part(self.host),
            Some('t') => (self.started_unix_ns / 1_000_000_000).to_string(),
            Some('r') => number(rank.map(|rank| rank.global)),
            Some('l') => number(rank.and_then(|rank| rank.local)),
            Some('w') => number(rank.and_then(|rank| rank.world)),
            Some('j') => part(&variable("SLURM_JOB_ID").unwrap_or_default()),
            Some('%') => "%".to_owned(),
            Some('q') => {
                let name = text.strip_prefix("q{").and_then(|rest| rest.split_once('}'));
                let Some((name, rest)) = name else {
                    path.push('%');
                    return text;
                };
                // Not made one part of a path: people put folders into variables.
                path.push_str(&variable(name).unwrap_or_else(|| NONE.to_owned()));
                return rest;
            }
            _ => {
                path.push('%');
                return text;
            }
        };
        path.push_str(&value);
        after.as_str()
    }
}

/// A value that must not make a folder of its own.
fn part(value: &str) -> String {
    if value.is_empty() { NONE.to_owned() } else { value.replace(['/', '\0'], "_") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_placeholder_is_named() {
        for known in ["", "a/%p-%e-%h-%t-%r-%l-%w-%j-%q{X}-%%.json"] {
            assert!(Template::problems(known).is_empty(), "{known}");
        }
        for (template, name) in
            [("%z.json", "%z"), ("%q{X", "%q"), ("a%", "%"), ("%p%é", "%é"), ("% p", "% ")]
        {
            let problems = Template::problems(template);
            assert_eq!(problems.len(), 1, "{template}");
            assert!(problems[0].starts_with(&format!(
                "unknown placeholder \"{name}\" in CENOTE_OUTPUT: it takes %p "
            )));
        }
    }

    #[test]
    fn placeholders() {
        let rank = Rank { global: 3, local: Some(1), world: None, source: "RANK".to_owned() };
        let values = Template {
            pid: 12,
            executable: "/opt/train",
            host: "a/b",
            started_unix_ns: 5_999_999_999,
            rank: Some(&rank),
        };
        let expand = |template| values.expand(template, |name| (name == "X").then(|| "x/y".into()));
        for (template, path) in [
            ("cenote-%e-%p.json", "cenote-train-12.json"),
            ("%h/%t", "a_b/5"),
            ("%r-%l-%w", "3-1-none"),
            ("%j", "none"),
            ("%q{X}.%q{Y}", "x/y.none"),
            ("%q{X", "%q{X"),
            ("100%%p", "100%p"),
            ("%z%", "%z%"),
            ("%é", "%é"),
            ("", ""),
        ] {
            assert_eq!(expand(template), path, "{template}");
        }
    }
}
