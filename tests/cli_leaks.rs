//! What `cenote leaks` and `cenote frag` tell of a report: suspects, thresholds, and the free memory of the pool.

mod cli;

use cli::{cenote, fixture, of_changed, run};

#[test]
fn leaks_come_suspects_first() {
    let (status, text, _) = run(cenote().arg("leaks").arg(fixture("train.json")));
    assert_eq!(status, 0);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in\n{text}"));
    assert!(at("suspects hold 800.00 MiB in 2 sites") < at("Growing: 760.00 MiB"));
    assert!(at("Growing: ") < at("Never freed: ") && at("Never freed: ") < at("Start-up: "));
    assert!(at("Start-up: ") < at("Held by a cache: 58.00 GiB"));
    at("in 8 of 8 parts of\n    the run, 190 of 190 blocks ever allocated there");
    at("the process ran out of memory: live blocks may be in use; see cenote summary");
}

#[test]
fn a_threshold_counts_suspects_only() {
    let fail_on =
        |size: &str| run(cenote().args(["leaks", "--fail-on", size]).arg(fixture("train.json"))).0;
    assert_eq!(fail_on("800MiB"), 0);
    assert_eq!(fail_on("799MiB"), 123);
    assert_eq!(fail_on("heaps"), 2);
}

#[test]
fn a_threshold_does_not_pass_where_nothing_is_known() {
    for name in ["recovered.json", "unseen.json"] {
        let (status, _, error) =
            run(cenote().args(["leaks", "--fail-on", "1GiB"]).arg(fixture(name)));
        assert!(status == 123 && error.contains("does not tell what was live at exit"), "{error}");
        for verb in ["leaks", "summary"] {
            let (_, text, _) = run(cenote().args([verb, "--json"]).arg(fixture(name)));
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(json[0].as_object().unwrap()["suspects_bytes"].is_null(), "{verb}: {text}");
        }
    }
}

#[test]
fn a_report_that_saw_nothing_or_too_little_never_says_no_leaks() {
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("unseen.json")));
    assert!(text.contains("saw no call") && !text.contains("nothing was live"), "{text}");
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("recovered.json")));
    assert!(text.contains("not from the end") && !text.contains("nothing was live"), "{text}");
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("clean.json")));
    assert!(text.contains("nothing was live at exit"), "{text}");
}

#[test]
fn memory_that_waits_is_no_fragmentation() {
    let waits = |json: &mut serde_json::Value| {
        let free = 50 << 20;
        json["devices"][0]["fragmentation"] = serde_json::json!({
            "internal_ratio": 0.0, "external_ratio": 1.0, "free_bytes": free, "largest_free_bytes": 0,
            "stranded": { "pinned_by_live_bytes": 0, "waiting_bytes": free, "exported_bytes": 0 },
        });
    };
    for verb in ["summary", "frag"] {
        let text = of_changed(verb, "train.json", waits);
        assert!(text.contains("50.00 MiB free waits for work in flight"), "{text}");
        assert!(!text.contains("100.0%"), "{text}");
    }
}

#[test]
fn a_pool_that_was_off_is_not_shown() {
    let observe = |json: &mut serde_json::Value| {
        json["coverage"]["mode"] = "observe".into();
        json["devices"][0]["pool"]["allocations"] = 0.into();
        json["devices"][0]["pool"]["peak_reserved_bytes"] = 0.into();
    };
    for verb in ["summary", "frag"] {
        let text = of_changed(verb, "clean.json", observe);
        assert!(text.contains("served nothing (mode:observe)"), "{text}");
        assert!(!text.contains("largest free"), "{text}");
    }
}

#[test]
fn fragmentation_has_a_map() {
    let (_, text, _) = run(cenote().arg("frag").arg(fixture("train.json")));
    let map = format!("[{}{}w] 64.00 KiB slots\n", "L".repeat(20), "f".repeat(19));
    assert!(text.contains(&map), "{text}");
    assert!(text.contains("and 1 full segment of 512.00 MiB"), "{text}");
    let (_, all, _) = run(cenote().args(["frag", "--all"]).arg(fixture("train.json")));
    assert!(all.contains(&format!("[{}]", "L".repeat(40))), "{all}");
    let (_, both, _) =
        run(cenote().arg("frag").args([fixture("train.json"), fixture("clean.json")]));
    assert!(both.starts_with(&text) && both[text.len()..].starts_with('\n'), "{both}");
    assert!(
        text.contains("largest request that needs nothing from the driver: 2.00 GiB"),
        "{text}"
    );
}
