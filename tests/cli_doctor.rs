//! What a job would meet, and what there is to set: `cenote doctor`, `cenote env` and `cenote schema`.

mod cli;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cli::{cenote, doctor, harmless_library, run};
use tempfile::TempDir;

#[test]
fn the_doctor_finds_a_program_well() {
    let folder = TempDir::new().unwrap();
    let (status, text) = doctor(&folder, "sh");
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("driver/libcuda.so.1") && text.contains("it can be preloaded"), "{text}");
}

#[test]
fn the_doctor_follows_scripts() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("train");
    fs::write(&script, "#!/usr/bin/env -S sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, text) = doctor(&folder, script.to_str().unwrap());
    assert!(status == 0 && text.contains("is a script, run by /usr/bin/env -S sh"), "{text}");
    fs::write(&script, "#!/nowhere/python\n").unwrap();
    let (status, text) = doctor(&folder, script.to_str().unwrap());
    assert!(status == 1 && text.contains("can't start /nowhere/python"), "{text}");
}

#[test]
fn the_doctor_knows_what_can_not_be_preloaded() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_cenote"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let (status, text) = doctor(&folder, program.to_str().unwrap());
    assert!(status == 1 && text.contains("setuid"), "{text}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    forget_the_loader(&program);
    let (status, text) = doctor(&folder, program.to_str().unwrap());
    assert!(status == 1 && text.contains("linked statically"), "{text}");
    let (status, text) = doctor(&folder, "no-such-program");
    assert!(status == 1 && text.contains("can't start no-such-program"), "{text}");
}

/// Makes a dynamic program look like a static one.
fn forget_the_loader(program: &Path) {
    const INTERPRETER: u32 = 3;
    let mut elf = fs::read(program).unwrap();
    let headers = u64::from_le_bytes(elf[0x20..0x28].try_into().unwrap()) as usize;
    let size = u16::from_le_bytes(elf[0x36..0x38].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(elf[0x38..0x3a].try_into().unwrap()) as usize;
    for header in (0..count).map(|n| headers + n * size) {
        if elf[header..header + 4] == INTERPRETER.to_le_bytes() {
            elf[header..header + 4].fill(0);
        }
    }
    fs::write(program, elf).unwrap();
}

#[test]
fn the_doctor_names_what_surrounds_a_job() {
    let mut command = cenote();
    command.args(["doctor", "--json", "--library", "/nowhere/lib.so"]);
    command.env("CENOTE_CONF", "limti:1").env("PYTORCH_CUDA_ALLOC_CONF", "backend:native");
    let (status, text, _) = run(&mut command);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &json[0]["level"]), (1, &"fail".into()));
    assert!(
        text.contains("did you mean") && text.contains("PYTORCH_CUDA_ALLOC_CONF=backend:native"),
        "{text}"
    );
}

#[test]
fn env_prints_what_run_would_set() {
    let library = harmless_library();
    let (status, text, _) = run(cenote().args([
        "env",
        "--library",
        &library,
        "-c",
        "limit:1GiB",
        "-o",
        "/x y/%p.json",
    ]));
    assert_eq!(status, 0);
    let library = fs::canonicalize(library).unwrap();
    let expected = format!(
        "export LD_PRELOAD={}\nexport CENOTE_CONF=limit:1GiB\nexport CENOTE_OUTPUT='/x y/%p.json'\n",
        library.display()
    );
    assert_eq!(text, expected);
}

#[test]
fn env_lists_every_setting() {
    let (_, text, _) = run(cenote().args(["env", "--list"]));
    let names = cenote::conf::KEYS.iter().map(|key| key.name);
    for name in names.chain(cenote::conf::VARIABLES.iter().map(|variable| variable.name)) {
        assert!(text.contains(name), "{name}");
    }
    let (_, text, _) = run(cenote().args(["env", "--list", "--json"]));
    assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["keys"].is_array());
}

#[test]
fn the_schema_is_the_committed_one() {
    let (status, text, _) = run(cenote().arg("schema"));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/report.v1.json");
    assert_eq!(status, 0);
    assert!(text == fs::read_to_string(committed).unwrap());
}
