//! The configuration: one string of `key:value` pairs, and a few environment variables.
//!
//! The grammar is that of `PYTORCH_CUDA_ALLOC_CONF`, and keys that mean the same carry the same name. One table
//! ([`KEYS`]) gives the parser, `cenote env`, the documentation and the list in the report, so they cannot drift.
//!
//! A wrong key or value never stops a job: it is named together with the nearest valid one, and the rest of the string
//! counts. Only `strict:true` makes `cenote run` refuse to start.
//!
//! # Not here
//! Nothing in this module reads the environment; the preload and the command line hand the strings in.

mod divisions;
mod keys;
mod pytorch;
mod value;

pub use divisions::Divisions;
pub use keys::{KEYS, Key, Mode, Settings, Stacks, Torch, VARIABLES, Variable};
pub use pytorch::parse_with;
pub use value::{Kind, parse_bytes};

/// The settings that `text` asks for, and one line for each part of it that could not be used.
///
/// ```
/// let (settings, problems) = cenote::conf::parse("limit:8GiB,retian:1GiB");
/// assert_eq!(settings.limit, Some(8 << 30));
/// assert_eq!(problems, ["unknown key \"retian\" in CENOTE_CONF: did you mean \"retain\"?"]);
/// ```
pub fn parse(text: &str) -> (Settings, Vec<String>) {
    let mut settings = Settings::default();
    let mut problems = Vec::new();
    for pair in trimmed(text) {
        if let Err(problem) = apply(&mut settings, pair) {
            problems.push(problem);
        }
    }
    (settings, problems)
}

/// The parts between commas, those in brackets left out. A bracket that is never closed hides no comma: the rest counts.
fn pairs(text: &str) -> impl Iterator<Item = &str> {
    let is_closed = text.matches('[').count() == text.matches(']').count();
    let mut depth = 0i32;
    text.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && (depth <= 0 || !is_closed)
    })
}

fn trimmed(text: &str) -> impl Iterator<Item = &str> {
    pairs(text).map(str::trim).filter(|pair| !pair.is_empty())
}

fn apply(settings: &mut Settings, pair: &str) -> Result<(), String> {
    let (name, text) = pair
        .split_once(':')
        .ok_or_else(|| format!("\"{pair}\" in CENOTE_CONF has no value: write {pair}:VALUE"))?;
    let (name, text) = (name.trim(), text.trim());
    let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown(name))?;
    (key.set)(settings, text).map_err(|wanted| {
        format!("\"{text}\" is no value for {name} in CENOTE_CONF: it takes {wanted}; ignored")
    })
}

fn unknown(name: &str) -> String {
    let nearest = KEYS
        .iter()
        .map(|key| (strsim::damerau_levenshtein(name, key.name), key.name))
        .min()
        .filter(|&(distance, key)| distance <= 2 + key.len() / 5);
    match nearest {
        Some((_, key)) => format!("unknown key \"{name}\" in CENOTE_CONF: did you mean \"{key}\"?"),
        None => {
            let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
            format!("unknown key \"{name}\" in CENOTE_CONF: the keys are {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_in_the_table_is_the_default_of_the_settings() {
        for key in KEYS {
            let mut settings = Settings::default();
            if key.default != "none" {
                (key.set)(&mut settings, key.default).unwrap();
            }
            assert_eq!(settings, Settings::default(), "{}", key.name);
        }
    }

    #[test]
    fn the_rest_counts_after_a_bracket_that_is_not_closed() {
        let (settings, problems) = parse("roundup_power2_divisions:[256:1,limit:8GiB");
        assert_eq!((settings.limit, problems.len()), (Some(8 << 30), 1), "{problems:?}");
    }

    #[test]
    fn the_rest_counts_when_a_part_is_wrong() {
        let (settings, problems) =
            parse("mode:pol, limit:1GiB ,nonsense,garbage_collection_threshold:1.5,");
        assert_eq!(settings.limit, Some(1 << 30));
        assert_eq!(settings.mode, Mode::Pool);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("pool, observe, off"), "{problems:?}");
        assert!(problems[1].contains("nonsense:VALUE"), "{problems:?}");
        assert!(problems[2].contains("between 0 and 1"), "{problems:?}");
    }

    #[test]
    fn a_list_has_commas_of_its_own() {
        let (settings, problems) = parse("roundup_power2_divisions:[256:1,512:2,>:8],slack:0.5");
        assert_eq!((settings.slack, problems.len()), (0.5, 0), "{problems:?}");
        assert_eq!(settings.roundup_power2_divisions.round(600 << 20), Some(768 << 20));
        let (_, problems) = parse("roundup_power2_divisions:3,slack:7");
        assert!(problems[0].contains("a power of two such as 4") && problems.len() == 2);
    }

    #[test]
    fn a_key_like_none_lists_all() {
        assert!(parse("quux:1").1[0].contains("the keys are mode, "));
    }
}
