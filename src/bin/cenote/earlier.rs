//! The last report of a process that was killed after it: its events, and what else the page does not hold.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use cenote::page::PageLayout;
use cenote::report::{self, Event, Holder, Note, Reason, Report, Site};

use crate::render::duration;

/// The report that the process of a page has written, if it can still be read.
pub(crate) fn of(page: &PageLayout) -> Option<Report> {
    let report = report::read(Path::new(&page.report_path.get_string())).ok()?;
    let process = &report.process;
    let is_its_own = process.pid == page.pid.load(Relaxed)
        && process.started_unix_ns == page.started_unix_ns.load(Relaxed);
    is_its_own.then_some(report)
}

/// Adds what `earlier` tells beyond the numbers.
pub(crate) fn add(report: &mut Report, earlier: Report) {
    let frames = add_frames(report, &earlier);
    for event in &earlier.events {
        let holders = event.holders.iter();
        let holders = holders.filter_map(|holder| {
            let site = earlier.sites.get(holder.site as usize)?;
            Some(Holder { site: add_site(report, site, &frames), ..holder.clone() })
        });
        let event = Event {
            holders: holders.collect(),
            stack: renumbered(&event.stack, &frames),
            allocated_at: renumbered(&event.allocated_at, &frames),
            freed_at: renumbered(&event.freed_at, &frames),
            ..event.clone()
        };
        report.events.push(event);
    }
    for device in &mut report.devices {
        if let Some(known) = earlier.devices.iter().find(|known| known.ordinal == device.ordinal) {
            (device.name, device.uuid) = (known.name.clone(), known.uuid.clone());
        }
    }
    add_notes(report, &earlier);
    report.truncated.events += earlier.truncated.events;
    report.coverage = earlier.coverage;
    report.configuration = earlier.configuration;
    report.process.rank = earlier.process.rank;
    report.process.environment = earlier.process.environment;
}

/// For each frame of `earlier`, its index in the report.
fn add_frames(report: &mut Report, earlier: &Report) -> Vec<u32> {
    let place = |frame: &report::Frame| (frame.module.clone(), frame.offset.clone());
    let mut index: HashMap<_, _> = report.frames.iter().map(place).zip(0..).collect();
    let frames = earlier.frames.iter().map(|frame| {
        *index.entry(place(frame)).or_insert_with(|| {
            report.frames.push(frame.clone());
            (report.frames.len() - 1) as u32
        })
    });
    frames.collect()
}

/// The index of the same site in the report. One that was cut there comes back, with its earlier numbers.
fn add_site(report: &mut Report, site: &Site, frames: &[u32]) -> u32 {
    let stack = renumbered(&site.stack, frames);
    let is_same = |known: &Site| {
        known.kind == site.kind && known.device == site.device && known.stack == stack
    };
    let at = report.sites.iter().position(is_same).unwrap_or_else(|| {
        report.sites.push(Site { stack: stack.clone(), ..site.clone() });
        report.sites.len() - 1
    });
    at as u32
}

fn renumbered(stack: &[u32], frames: &[u32]) -> Vec<u32> {
    stack.iter().filter_map(|&at| frames.get(at as usize).copied()).collect()
}

fn add_notes(report: &mut Report, earlier: &Report) {
    let why = match earlier.reason {
        Reason::OutOfMemory => " when an allocation was refused",
        Reason::Request => " on request",
        Reason::Interval => " at an interval",
        Reason::Recovered | Reason::Exit | Reason::ImmediateExit | Reason::Abort => "",
    };
    let text = format!(
        "events, coverage and environment are from the report that the process wrote{why}, {} after its first CUDA call",
        duration(earlier.process.duration_ns)
    );
    report.notes.push(Note { code: "earlier_report".to_owned(), text, count: 1 });
    for note in &earlier.notes {
        if report.notes.iter().all(|known| known.code != note.code) {
            report.notes.push(note.clone());
        }
    }
}
