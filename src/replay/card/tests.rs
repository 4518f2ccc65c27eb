use super::*;

const TWO: u64 = 2 * PAGE;

/// A card of 16 MiB with a range of 64 MiB.
fn card() -> (SimCard, u64) {
    let card = SimCard::new(8 * PAGE);
    let base = card.reserve(32 * PAGE, PAGE).unwrap();
    (card, base)
}

/// The first violation after some calls.
fn violation(calls: impl FnOnce(&SimCard, u64)) -> String {
    let (card, base) = card();
    calls(&card, base);
    card.violation().map(|violation| violation.to_string()).unwrap_or_default()
}

#[test]
fn every_rule_that_is_broken_is_named() {
    let mapped = |card: &SimCard, base: u64| {
        let handle = card.create(TWO).unwrap();
        card.map(base, TWO, handle).unwrap();
        handle
    };
    type Calls<'a> = &'a dyn Fn(&SimCard, u64);
    let cases: [(&str, Calls<'_>); 15] = [
        ("no whole pages", &|card, _| _ = card.create(PAGE + 512)),
        ("no whole pages", &|card, base| {
            _ = card.map(base + 512, PAGE, card.create(PAGE).unwrap())
        }),
        ("is no alignment", &|card, _| _ = card.reserve(PAGE, 3 * PAGE)),
        ("not reserved", &|card, base| _ = card.map(base - PAGE, PAGE, card.create(PAGE).unwrap())),
        ("there is no handle 7", &|card, base| _ = card.map(base, PAGE, 7)),
        ("of handle 1, which has", &|card, base| {
            _ = card.map(base, PAGE, card.create(TWO).unwrap())
        }),
        ("has a mapping at", &|card, base| {
            mapped(card, base);
            _ = card.map(base + PAGE, PAGE, card.create(PAGE).unwrap());
        }),
        ("handle 1 was released", &|card, base| {
            let handle = mapped(card, base);
            card.release(handle, TWO).unwrap();
            _ = card.map(base + TWO, TWO, handle);
        }),
        ("cuMemRelease: handle 1 was released", &|card, _| {
            let handle = card.create(PAGE).unwrap();
            card.release(handle, PAGE).unwrap();
            _ = card.release(handle, PAGE);
        }),
        ("cuMemUnmap: nothing is mapped", &|card, base| _ = card.unmap(base, PAGE)),
        ("cuMemUnmap: a part", &|card, base| {
            mapped(card, base);
            _ = card.unmap(base, PAGE);
        }),
        ("cuMemUnmap: a part", &|card, base| {
            mapped(card, base);
            _ = card.unmap(base + PAGE, PAGE);
        }),
        ("cuMemSetAccess: nothing", &|card, base| _ = card.enable(base, PAGE)),
        ("cuMemSetAccess: a part of a mapping, or a gap,", &|card, base| {
            mapped(card, base);
            _ = card.enable(base, TWO + PAGE);
        }),
        ("event 0 is not in use", &|card, _| {
            let event = card.record(0).unwrap();
            card.recycle(event);
            card.recycle(event);
        }),
    ];
    for (part, calls) in cases {
        let violation = violation(calls);
        assert!(violation.contains(part), "{part:?} is not in {violation:?}");
    }
}

#[test]
fn memory_counts_until_it_is_mapped_nowhere() {
    let (card, base) = card();
    let handle = card.create(TWO).unwrap();
    card.map(base, TWO, handle).unwrap();
    card.map(base + TWO, TWO, handle).unwrap();
    assert!(!card.is_usable(base, 512));
    card.enable(base, 2 * TWO).unwrap();
    assert!(card.is_usable(base + 512, 2 * TWO - 512));
    assert!(!card.is_usable(base + 512, 2 * TWO));
    card.release(handle, TWO).unwrap();
    card.unmap(base, TWO).unwrap();
    assert_eq!(card.used(), TWO);
    card.unmap(base + TWO, TWO).unwrap();
    assert_eq!((card.used(), card.peak(), card.violation()), (0, TWO, None));
}

#[test]
fn a_full_card_breaks_no_rule() {
    let (card, _) = card();
    card.create(7 * PAGE).unwrap();
    assert_eq!(card.create(TWO), Err(Failure::OutOfMemory));
    assert_eq!(card.reserve(1 << 47, PAGE), Err(CuResult::OUT_OF_MEMORY));
    assert_eq!(card.violation(), None);
}
