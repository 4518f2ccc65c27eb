//! How numbers, times, tables and long lines look in the terminal.

use std::fmt::Display;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, presets};

pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Text in a style. The streams strip it where there is no terminal.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// `1.25 GiB`; whole numbers under 1 KiB.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.996 would be shown as 1024.00.
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// The same with a sign where it is negative.
pub(crate) fn signed_bytes(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}

/// `12,345`
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 block`, `2 blocks`; `1 process`, `2 processes`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    let ending = match noun {
        _ if number == 1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(number))
}

/// `12.4%`
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// `45 ms`, `3.2 s`, `12 m 03 s`, `3 h 05 m`.
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", ns / 1_000_000),
        1..60 => format!("{:.1} s", ns as f64 / 1e9),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A table with two blanks before it and between columns; `right` names the columns of numbers.
pub(crate) fn table(header: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    table.add_rows(rows);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// A path as one types it in a shell.
pub(crate) fn shell(path: &Path) -> String {
    quote(&path.display().to_string())
}

/// A word as one types it in a shell.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Columns of a line where there is no terminal.
const COLUMNS: usize = 100;

/// A text whose long lines are broken at blanks, as wide as the terminal. What follows hangs below the last column that
/// begins in the first half of its line, else below its start. A line with the next command stays whole: it is there to
/// be copied.
pub(crate) fn wrap(text: &str) -> String {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = columns.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    wrap_at(text, columns.unwrap_or(COLUMNS))
}

fn wrap_at(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len() + text.len() / 50);
    for line in text.split_inclusive('\n') {
        if visible(line.trim_end()) <= columns || line.trim_start().starts_with("next:") {
            wrapped.push_str(line);
        } else {
            wrap_line(line, columns, &mut wrapped);
        }
    }
    wrapped
}

fn wrap_line(line: &str, columns: usize, wrapped: &mut String) {
    let hang = hang(line, columns / 2);
    let mut at = 0;
    let mut gap = 0;
    for (n, word) in line.split(' ').enumerate() {
        gap += usize::from(n > 0);
        let length = visible(word.trim_end());
        if length == 0 {
            wrapped.push_str(word);
            continue;
        }
        // A number takes its unit with it.
        let unit = if word.ends_with(|c: char| c.is_ascii_digit()) { " MiB,".len() } else { 0 };
        if at > hang && at + gap + length + unit > columns {
            wrapped.push('\n');
            (at, gap) = (0, hang);
        }
        wrapped.extend(std::iter::repeat_n(' ', gap));
        wrapped.push_str(word);
        at += gap + length;
        gap = 0;
    }
}

/// Where the lines after the first begin.
fn hang(line: &str, limit: usize) -> usize {
    let start = line.chars().take_while(|&c| c == ' ').count();
    let (mut hang, mut at, mut gap) = (start.max((start + 2).min(4)), 0, 0);
    for word in line.split(' ') {
        let length = visible(word);
        if length > 0 && gap > 1 && at > start && at <= limit {
            hang = at;
        }
        gap = if length > 0 { 1 } else { gap + 1 };
        at += length + 1;
    }
    hang
}

/// Columns of a text: its characters without the styles.
fn visible(text: &str) -> usize {
    let mut columns = 0;
    let mut in_style = false;
    for c in text.chars() {
        match c {
            '\x1b' => in_style = true,
            'm' if in_style => in_style = false,
            _ => columns += usize::from(!in_style),
        }
    }
    columns
}

/// At most `width` characters, the end cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut text: String = text.chars().take(width.saturating_sub(1)).collect();
    text.push('…');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_hang() {
        let red = |text: &str| paint(BAD, text);
        for (line, wrapped) in [
            ("short\n", "short\n"),
            ("  a   one two three four\n", "  a   one two\n      three four\n"),
            ("  one two three four five", "  one two three\n    four five"),
            ("      one two three four", "      one two\n      three four"),
            ("  stranded 16.00 MiB", "  stranded\n    16.00 MiB"),
            ("a_word_that_is_longer_than_a_line b", "a_word_that_is_longer_than_a_line\n  b"),
            ("next: cenote leaks a_long_path", "next: cenote leaks a_long_path"),
        ] {
            assert_eq!(wrap_at(line, 18), wrapped);
        }
        let styled = format!("  one {} six seven", red("two three four"));
        assert_eq!(wrap_at(&styled, 18), format!("  one {} six seven", red("two three\n    four")));
    }

    #[test]
    fn numbers() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1 << 20, "1.00 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (5 << 28, "1.25 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(signed_bytes(-1536), "-1.50 KiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "process"), "1 process");
        assert_eq!(plural(2, "process"), "2 processes");
        assert_eq!(duration(723_000_000_000), "12 m 03 s");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
