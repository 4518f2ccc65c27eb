//! The kinds of value that a key takes, and their parsers. Each parser says on failure what it would have taken.

use std::time::Duration;

/// What a key takes, in words; for help texts and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A size: `2MiB`, `2M`, `2097152`.
    Bytes,
    /// A whole number of MiB, as PyTorch's `_mb` keys.
    Mebibytes,
    /// A number above 0, up to 1.
    Ratio,
    /// The same, or 0.
    RatioOrZero,
    /// `30s`, `5m`, `1h` or plain seconds.
    Duration,
    /// Parts of the way from one power of two to the next: `4`, or a list by MiB.
    Divisions,
    /// The name of a file, without commas.
    File,
    /// `true` or `false`.
    Flag,
    /// One of a list of words.
    Word(&'static str),
}

impl Kind {
    /// What the kind takes, as a message ends: "it takes ...".
    pub const fn takes(self) -> &'static str {
        match self {
            Kind::Bytes => "a size such as 512MiB, 8G or 1073741824",
            Kind::Mebibytes => "a whole number of MiB above 0",
            Kind::Ratio => "a number between 0 and 1",
            Kind::RatioOrZero => "0 or a number between 0 and 1",
            Kind::Duration => "a time such as 30s, 5m or 1h",
            Kind::Divisions => {
                "a power of two such as 4, or a list by MiB such as [256:1,512:2,>:8]"
            }
            Kind::File => "the name of a file such as job-%p.trz",
            Kind::Flag => "true or false",
            Kind::Word(words) => words,
        }
    }
}

/// Bytes from `2MiB`, `2M`, `2MB`, `2m` (all 2 × 2^20) or a plain number.
///
/// # Errors
/// None where `text` is no size, or more than 2^64 - 1 bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift);
    }
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

pub(super) fn file(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn mebibytes(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|&n| n > 0)?.checked_mul(1 << 20)
}

pub(super) fn ratio(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|&ratio| ratio > 0.0 && ratio <= 1.0)
}

pub(super) fn ratio_or_zero(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("2MiB", Some(2 << 20)),
            ("2m", Some(2 << 20)),
            ("1.5G", Some(3 << 29)),
            ("16 GiB", Some(16 << 30)),
            ("17179869184g", None),
            ("-1", None),
            ("1 parsec", None),
            ("", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn ratios() {
        for (text, above_zero, or_zero) in [
            ("0.5", Some(0.5), Some(0.5)),
            ("1", Some(1.0), Some(1.0)),
            ("0", None, Some(0.0)),
            ("-0.1", None, None),
            ("1.01", None, None),
            ("nan", None, None),
        ] {
            assert_eq!((ratio(text), ratio_or_zero(text)), (above_zero, or_zero), "{text:?}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
        assert_eq!(duration("7"), Some(Duration::from_secs(7)));
        assert_eq!(duration("7d"), None);
        assert_eq!(duration("1e400s"), None);
    }
}
