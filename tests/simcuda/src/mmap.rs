//! Host address space: device addresses are reserved there, so that the host cannot use them by
//! accident, and pinned and managed memory lies there.

/// Maps fresh memory: at `fixed`, which must then be memory of ours, or anywhere if that is 0.
pub(crate) fn map_anonymous(fixed: u64, len: usize, access: i32) -> Option<u64> {
    let place = if fixed == 0 { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | place;
    // SAFETY: without a fixed address nothing existing is touched; with one, the caller owns the
    // whole range, which is part of a device's reservation.
    let base = unsafe { libc::mmap(fixed as *mut libc::c_void, len, access, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base as u64)
}

/// Unmaps what [`map_anonymous`] gave.
pub(crate) fn unmap(base: u64, len: usize) {
    // SAFETY: the caller owns the range, and nothing refers to it any more.
    unsafe { libc::munmap(base as *mut libc::c_void, len) };
}

/// Reserves host addresses, which nothing may touch, at an alignment.
pub(crate) fn reserve_aligned(len: u64, alignment: u64) -> Option<u64> {
    let wide = len.checked_add(alignment)?;
    let start = map_anonymous(0, wide as usize, libc::PROT_NONE)?;
    let base = start.next_multiple_of(alignment);
    let (before, after) = (base - start, start + wide - (base + len));
    if before > 0 {
        unmap(start, before as usize);
    }
    if after > 0 {
        unmap(base + len, after as usize);
    }
    Some(base)
}

/// Reserves host addresses at a place, if nothing lies there.
pub(crate) fn reserve_at(base: u64, len: u64) -> bool {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel refuses the place if anything is mapped there.
    let got = unsafe {
        libc::mmap(base as *mut libc::c_void, len as usize, libc::PROT_NONE, flags, -1, 0)
    };
    if got == libc::MAP_FAILED {
        return false;
    }
    if got as u64 != base {
        unmap(got as u64, len as usize);
    }
    got as u64 == base
}
