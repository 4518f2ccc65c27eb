//! The C API called from within this program, on the stand-in driver, so that a sanitizer sees both sides of every call:
//! `scripts/sanitize address`. What the library does as a library is in `capi`.

mod harness;

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use cenote::capi::api::*;
use cenote::capi::torch::*;
use cenote::capi::{cenote_count, cenote_stats};
use harness::{MIB, stage};

const THREADS: usize = 8;
const ROUNDS: usize = 400;

/// A block on its way to whoever frees it.
struct Handed(*mut c_void);

// SAFETY: device memory, which nobody reads here; any thread may free it.
unsafe impl Send for Handed {}

struct Driver(usize);

impl Driver {
    /// The stand-in driver, initialised, with the primary context of device 0.
    fn get() -> &'static Driver {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        DRIVER.get_or_init(|| {
            let path = CString::new(stage().join("sim/libcuda.so.1").to_str().unwrap()).unwrap();
            // SAFETY: the library has no constructor that minds.
            let library =
                unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            assert!(!library.is_null());
            let driver = Driver(library as usize);
            let mut context = 0usize;
            // SAFETY: the types are those of cuda.h.
            unsafe {
                let init: extern "C" fn(u32) -> c_int = std::mem::transmute(driver.at(c"cuInit"));
                assert_eq!(init(0), 0);
                let retain: extern "C" fn(*mut usize, c_int) -> c_int =
                    std::mem::transmute(driver.at(c"cuDevicePrimaryCtxRetain"));
                assert_eq!(retain(&mut context, 0), 0);
                let make_current: extern "C" fn(usize) -> c_int =
                    std::mem::transmute(driver.at(c"cuCtxSetCurrent"));
                assert_eq!(make_current(context), 0);
            }
            driver
        })
    }

    fn at(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library stays open.
        let at = unsafe { libc::dlsym(self.0 as *mut c_void, name.as_ptr()) };
        assert!(!at.is_null(), "{name:?}");
        at
    }
}

fn get(bytes: usize, stream: usize) -> *mut c_void {
    let mut out = null_mut();
    // SAFETY: `out` is valid; the stream's name is never looked into by the stand-in, except for 0.
    assert_eq!(unsafe { cenote_alloc(bytes, 0, stream as *mut c_void, &mut out) }, CENOTE_OK);
    out
}

fn give(block: *mut c_void) {
    // SAFETY: no work uses it.
    assert_eq!(unsafe { cenote_free(block) }, CENOTE_OK);
}

fn stats() -> cenote_stats {
    let mut stats = cenote_stats { size: size_of::<cenote_stats>(), ..Default::default() };
    // SAFETY: valid for its size.
    assert_eq!(unsafe { cenote_stats(0, &mut stats) }, CENOTE_OK);
    stats
}

fn hammer(seed: u64, handed: &Mutex<Vec<Handed>>) {
    let (mut state, mut mine) = (seed | 1, Vec::new());
    for round in 0..ROUNDS {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = 1usize << (state >> 40 & 21);
        // SAFETY: as for `get` and `give`; null is no stream but the default one.
        unsafe {
            match state >> 33 & 7 {
                0..3 => mine.push(get(bytes, 0)),
                3 => mine.push(cenote_torch_alloc(bytes, 0, null_mut())),
                4 if !mine.is_empty() => {
                    let block = mine.swap_remove(round % mine.len());
                    assert_eq!(cenote_record_use(block, null_mut()), CENOTE_OK);
                    handed.lock().unwrap().push(Handed(block));
                }
                5 => {
                    let other = handed.lock().unwrap().pop();
                    other.into_iter().for_each(|Handed(block)| give(block));
                }
                6 if !mine.is_empty() => {
                    cenote_torch_free(mine.swap_remove(0), bytes, 0, null_mut())
                }
                _ if !mine.is_empty() => give(mine.swap_remove(round % mine.len())),
                _ => {}
            }
        }
    }
    mine.into_iter().for_each(give);
}

static ASKED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn free_one(device: c_int, _size: usize, user: *mut c_void) -> c_int {
    assert_eq!(device, 0);
    ASKED.fetch_add(1, Relaxed);
    // SAFETY: whoever set the callback passed a list that outlives it.
    let blocks = unsafe { &*user.cast::<Mutex<Vec<Handed>>>() };
    let block = blocks.lock().unwrap().pop();
    block.map_or(0, |Handed(block)| {
        give(block);
        1
    })
}

/// One test, since the library has one engine for a device.
#[test]
fn every_entry_point() {
    Driver::get();
    threads_that_end();
    stats_of_any_size();
    a_callback_with_memory_of_its_own();
    what_pytorch_calls();
    cenote_trim();
    let last = stats();
    assert_eq!((last.allocated_bytes.current, last.reserved_bytes.current), (0, 0));
}

fn threads_that_end() {
    let handed = Mutex::default();
    for wave in 0..3 {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (handed, seed) = (&handed, (wave * THREADS + thread) as u64 * 77 + 1);
                scope.spawn(move || hammer(seed, handed));
            }
        });
    }
    handed.into_inner().unwrap().into_iter().for_each(|Handed(block)| give(block));
    let now = stats();
    assert_eq!((now.allocated_bytes.current, now.blocks.current), (0, 0));
    assert!(now.blocks.allocated > 1000, "{now:?}");
}

/// Structs of older and newer headers, each at the very end of its memory.
fn stats_of_any_size() {
    let whole = size_of::<cenote_stats>();
    let older = offset_of!(cenote_stats, requested_bytes) + size_of::<cenote_count>();
    for (size, written) in
        [(8, 8), (older, older), (whole - 8, whole - 8), (whole, whole), (whole + 64, whole)]
    {
        let mut room = vec![usize::MAX; size / 8].into_boxed_slice();
        room[0] = size;
        // SAFETY: valid for as many bytes as it says.
        assert_eq!(unsafe { cenote_stats(0, room.as_mut_ptr().cast()) }, CENOTE_OK, "{size}");
        assert_eq!(room[0], written);
        assert!(room[written / 8..].iter().all(|&word| word == usize::MAX), "{size}");
    }
    let mut short = 7usize;
    // SAFETY: it says that it has too few bytes.
    let code = unsafe { cenote_stats(0, (&raw mut short).cast()) };
    assert_eq!(code, CENOTE_INVALID_VALUE);
}

fn a_callback_with_memory_of_its_own() {
    cenote_trim();
    assert_eq!(cenote_set_limit(0, 64 * MIB), CENOTE_OK);
    let blocks: Box<Mutex<Vec<Handed>>> = Box::default();
    blocks.lock().unwrap().extend((0..4).map(|_| Handed(get(16 << 20, 0))));
    // SAFETY: the list lives until the callback is taken away.
    unsafe { cenote_on_oom(Some(free_one), (&raw const *blocks).cast_mut().cast()) };
    give(get(40 << 20, 0));
    assert_eq!(ASKED.load(Relaxed), 3);
    // SAFETY: none is called any more.
    unsafe { cenote_on_oom(None, null_mut()) };
    blocks.into_inner().unwrap().into_iter().for_each(|Handed(block)| give(block));
    assert_eq!(cenote_set_limit(0, 0), CENOTE_OK);
}

fn what_pytorch_calls() {
    cenote_torch_init(1);
    let name = CString::new("a step").unwrap();
    // SAFETY: names end in a zero byte, or are null; sizes are valid or null; no work uses a block.
    unsafe {
        cenote_mark(name.as_ptr());
        cenote_mark(null());
        let block = cenote_torch_alloc(3000, 0, null_mut());
        let mut size = Box::new(0usize);
        let base = cenote_torch_base_alloc(block, &mut *size);
        assert!(base <= block && (base as usize + *size) > block as usize);
        assert_eq!(cenote_torch_base_alloc(block, null_mut()), base);
        cenote_torch_record_stream(block, null_mut());
        cenote_torch_begin_allocate_to_pool(0, 1, 2, null_mut());
        cenote_torch_end_allocate_to_pool(0, 1, 2);
        cenote_torch_release_pool(0, 1, 2);
        cenote_torch_free(block, 3000, 0, null_mut());
        cenote_stream_ends(null_mut());
        assert_eq!(CStr::from_ptr(cenote_version()).to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }
    cenote_torch_reset();
    assert_eq!(cenote_reset_peaks(0), CENOTE_OK);
}
