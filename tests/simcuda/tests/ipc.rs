//! Two processes, forked before `cuInit`, share an allocation by its handle.

mod driver;
use driver::*;

#[test]
fn memory_is_shared_until_it_is_freed() {
    let folder = std::env::temp_dir().join(format!("simcuda-ipc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    set("SIMCUDA_SHARED", folder.to_str().unwrap());
    let (handles, answers) = (Pipe::new(), Pipe::new());

    let exporter = in_child(|| {
        start();
        let base = alloc(4096);
        cuMemsetD8_v2(base, 5, 4096);
        let (mut of_base, mut of_inside) = (Handle([1; 64]), Handle([2; 64]));
        assert_eq!(cuIpcGetMemHandle(&mut of_base, base), 0);
        assert_eq!(cuIpcGetMemHandle(&mut of_inside, base + 100), 0);
        assert_eq!((of_base.0 == of_inside.0, &of_base.0[56..]), (true, &[0; 8][..]));
        assert_eq!(cuIpcOpenMemHandle_v2(&mut 0, of_base, 1), 201);
        let twin = alloc(4096);
        assert_eq!(cuIpcGetMemHandle(&mut of_inside, twin), 0);
        assert!(of_base.0 != of_inside.0);
        assert_eq!(simcuda_check(base, 4096, 5), 1);
        handles.send(of_base.0);
        assert_eq!(answers.receive(), *b"written");
        assert_eq!(simcuda_check(base, 100, 6), 1);
        assert_eq!(cuMemFree_v2(base), 0);
        handles.send(*b"freed");
        assert_eq!(answers.receive(), *b"looked");
        simcuda_violations() == 0
    });
    let importer = in_child(|| {
        start();
        let handle = Handle(handles.receive());
        let (mut first, mut second) = (0, 0);
        let mut carrying = handle;
        carrying.0[56..].copy_from_slice(&[9; 8]);
        assert_eq!(cuIpcOpenMemHandle_v2(&mut first, carrying, 1), 0);
        assert_eq!(cuIpcOpenMemHandle_v2(&mut second, handle, 1), 0);
        assert_eq!(first, second);
        let mut damaged = handle;
        damaged.0[20] ^= 1;
        assert_eq!((cuIpcOpenMemHandle_v2(&mut second, damaged, 1), second), (1, 0));
        assert_eq!(simcuda_check(first, 4096, 5), 1);
        assert_eq!(cuMemFree_v2(first), 1);
        cuMemsetD8_v2(first, 6, 100);
        assert_eq!((simcuda_check(first, 100, 6), simcuda_violations()), (1, 0));
        answers.send(*b"written");
        assert_eq!(handles.receive(), *b"freed");
        assert_eq!(cuIpcOpenMemHandle_v2(&mut second, handle, 1), 400);
        assert_eq!(simcuda_kernel(0, 1, first, 1, 7), 700);
        assert_eq!([(); 3].map(|()| cuIpcCloseMemHandle(first)), [0, 0, 1]);
        answers.send(*b"looked");
        simcuda_violations() == 1
    });

    assert!(succeeded(importer));
    assert!(succeeded(exporter));
    std::fs::remove_dir_all(&folder).unwrap();
}
