//! Two processes, forked before `cuInit`, share VMM memory by a file descriptor.

mod driver;
use driver::*;
use std::os::fd::IntoRawFd;

const SIZE: usize = 4 << 20;

#[repr(C)]
struct Prop {
    kind: u32,
    handle_types: u32,
    location: [i32; 2],
    win32: usize,
    flags: u64,
}

unsafe extern "C" {
    safe fn cuMemCreate(handle: &mut u64, size: usize, prop: &Prop, flags: u64) -> u32;
    safe fn cuMemRelease(handle: u64) -> u32;
    safe fn cuMemAddressReserve(
        at: &mut u64,
        size: usize,
        align: usize,
        wish: u64,
        flags: u64,
    ) -> u32;
    safe fn cuMemMap(at: u64, size: usize, offset: usize, handle: u64, flags: u64) -> u32;
    safe fn cuMemUnmap(at: u64, size: usize) -> u32;
    safe fn cuMemSetAccess(at: u64, size: usize, access: &[i32; 3], count: usize) -> u32;
    safe fn cuMemExportToShareableHandle(file: &mut i32, handle: u64, kind: u32, flags: u64)
    -> u32;
    safe fn cuMemImportFromShareableHandle(handle: &mut u64, file: usize, kind: u32) -> u32;
}

fn create(handle_types: u32) -> u64 {
    let prop = Prop { kind: 1, handle_types, location: [1, 0], win32: 0, flags: 0 };
    let mut handle = 0;
    assert_eq!(cuMemCreate(&mut handle, SIZE, &prop, 0), 0);
    handle
}

fn mapped(handle: u64) -> u64 {
    let mut at = 0;
    assert_eq!(cuMemAddressReserve(&mut at, SIZE, 0, 0, 0), 0);
    assert_eq!(cuMemMap(at, SIZE, 0, handle, 0), 0);
    assert_eq!(cuMemSetAccess(at, SIZE, &[1, 0, 3], 1), 0);
    at
}

/// A descriptor of this process for one of another.
fn of_peer(text: [u8; 24]) -> usize {
    let path = std::str::from_utf8(&text).unwrap().trim_end();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    file.into_raw_fd() as usize
}

fn name_of(file: i32) -> [u8; 24] {
    let path = format!("{:<24}", format!("/proc/{}/fd/{file}", std::process::id()));
    path.into_bytes().try_into().unwrap()
}

#[test]
fn memory_lives_as_long_as_anybody_has_it() {
    let folder = std::env::temp_dir().join(format!("simcuda-fd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    set("SIMCUDA_SHARED", folder.to_str().unwrap());
    let (names, answers) = (Pipe::new(), Pipe::new());

    let exporter = in_child(|| {
        start();
        let (mut file, mut again) = (-1, -1);
        assert_eq!(cuMemExportToShareableHandle(&mut file, create(0), 1, 0), 1, "not made for it");
        let handle = create(1);
        let at = mapped(handle);
        cuMemsetD8_v2(at, 5, SIZE);
        assert_eq!(simcuda_check(at, SIZE as u64, 5), 1);
        assert_eq!(cuMemExportToShareableHandle(&mut file, handle, 1, 0), 0);
        assert_eq!(cuMemExportToShareableHandle(&mut again, handle, 1, 0), 0);
        assert_ne!(file, again);
        let mut own = 0;
        assert_eq!(cuMemImportFromShareableHandle(&mut own, again as usize, 1), 0);
        assert_eq!((own, cuMemRelease(own)), (handle, 0));
        names.send(name_of(file));
        assert_eq!(answers.receive(), *b"written");
        assert_eq!(simcuda_check(at, 100, 6), 1);
        assert_eq!((cuMemRelease(handle), cuMemUnmap(at, SIZE)), (0, 0));
        names.send(*b"released");
        assert_eq!(answers.receive(), *b"looked");
        simcuda_violations() == 0
    });
    let importer = in_child(|| {
        start();
        let file = of_peer(names.receive());
        let (mut handle, mut same) = (0, 0);
        assert_eq!(cuMemImportFromShareableHandle(&mut handle, file, 1), 0);
        assert_eq!(cuMemImportFromShareableHandle(&mut same, file, 1), 0);
        assert_eq!((same, cuMemRelease(same)), (handle, 0));
        assert_eq!(cuMemImportFromShareableHandle(&mut same, 9999, 1), 1);
        let at = mapped(handle);
        assert_eq!((simcuda_check(at, SIZE as u64, 5), cuMemRelease(handle)), (1, 0));
        cuMemsetD8_v2(at, 6, 100);
        assert_eq!(simcuda_check(at, 100, 6), 1);
        answers.send(*b"written");
        assert_eq!(names.receive(), *b"released");
        assert_eq!(simcuda_check(at, 100, 6), 1, "the mapping holds the memory");
        assert_eq!(cuMemUnmap(at, SIZE), 0);
        answers.send(*b"looked");
        simcuda_violations() == 0
    });

    assert!(succeeded(importer));
    assert!(succeeded(exporter));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no file is left");
    std::fs::remove_dir_all(&folder).unwrap();
}
