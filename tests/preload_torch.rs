//! How the adapter for PyTorch gets into a job: a stand-in for PyTorch's folder, and a stand-in for g++. The adapter itself is tested
//! with the real PyTorch, by `scripts/torch-sim`.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::Run;

/// What g++ is replaced by: it makes an adapter that says on stdout that it was put in, and counts its runs.
const COMPILER: &str = "#!/bin/sh
echo run >> \"$(dirname \"$0\")/runs\"
while [ $# -gt 0 ]; do if [ \"$1\" = -o ]; then out=$2; fi; shift; done
sleep 0.2
echo 'int puts(const char *); int cenote_adapter_install(void) { puts(\"installed\"); return 0; }' | gcc -shared -fPIC -x c -o \"$out\" -
";
const BROKEN: &str = "#!/bin/sh\necho 'no such class' >&2\nexit 1\n";

struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// A folder with what is looked for in PyTorch's, and a compiler.
    fn new(compiler: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let site = Site { folder };
        let torch = site.torch();
        for part in ["lib", "include"] {
            fs::create_dir_all(torch.join(part)).unwrap();
        }
        fs::write(torch.join("version.py"), "__version__ = '2.11.0+cu130'\n").unwrap();
        fs::write(torch.join("lib/libc10.so"), "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx11")
            .unwrap();
        let source = site.path("empty.c");
        fs::write(&source, "int nothing;\n").unwrap();
        let library = torch.join("lib/libc10_cuda.so");
        let made = Command::new("gcc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source)
            .status();
        assert!(made.unwrap().success());
        let toolkit = site.path("nvidia/cu13/include");
        fs::create_dir_all(&toolkit).unwrap();
        fs::write(toolkit.join("cuda_runtime_api.h"), "").unwrap();
        fs::write(site.compiler(), compiler).unwrap();
        fs::set_permissions(site.compiler(), fs::Permissions::from_mode(0o755)).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn torch(&self) -> PathBuf {
        self.path("torch")
    }

    fn compiler(&self) -> PathBuf {
        self.path("compiler")
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    fn compiled(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    fn run(&self, order: &str) -> Run {
        Run::new("torch_like")
            .arg(self.torch())
            .arg(order)
            .conf("torch:adapter")
            .env("CXX", self.compiler())
            .env("CENOTE_CACHE_DIR", self.cache())
    }
}

#[test]
fn the_adapter_is_compiled_once_and_put_in_whenever_pytorch_is_there() {
    let site = Site::new(COMPILER);
    for order in ["first", "late", "first"] {
        let outcome = site.run(order).run().ok();
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("installed\ndone\n", ""),
            "{order}"
        );
    }
    assert_eq!(site.compiled(), 1);
    let names: Vec<_> =
        fs::read_dir(site.cache()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 2, "the library and its lock: {names:?}");
}

#[test]
fn ranks_that_start_together_compile_once() {
    let site = Site::new(COMPILER);
    let ranks: Vec<_> = (0..4).map(|_| site.run("first").spawn()).collect();
    for rank in ranks {
        assert_eq!(rank.wait().ok().stdout, "installed\ndone\n");
    }
    assert_eq!(site.compiled(), 1);
}

/// Whatever is wrong, the job runs as it would, and one line says what to do.
#[test]
fn what_is_missing_is_said_and_the_job_goes_on() {
    let said = |site: &Site, run: Run, words: &[&str]| {
        let outcome = run.run().ok();
        assert_eq!(outcome.stdout, "done\n");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        for word in
            words.iter().chain(&["cenote: torch:adapter", "PyTorch keeps its own allocator"])
        {
            assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
        }
        let _ = site;
    };
    let site = Site::new(BROKEN);
    said(&site, site.run("first"), &["does not compile", "compiler.log"]);
    assert!(compiler_log(&site.cache()).contains("no such class"));

    let site = Site::new(COMPILER);
    said(&site, site.run("first").env("CXX", "/nowhere/g++"), &["/nowhere/g++", "install g++"]);
    fs::remove_dir_all(site.path("nvidia")).unwrap();
    said(
        &site,
        site.run("first").env("CUDA_HOME", "/nowhere"),
        &["headers of CUDA's runtime", "CUDA_HOME"],
    );

    let site = Site::new(COMPILER);
    fs::write(site.torch().join("version.py"), "__version__ = '2.5.1'\n").unwrap();
    said(&site, site.run("first"), &["2.5.1 is too old"]);

    let site = Site::new(COMPILER);
    fs::create_dir(site.cache()).unwrap();
    fs::set_permissions(site.cache(), fs::Permissions::from_mode(0o777)).unwrap();
    said(&site, site.run("first"), &["others can write there", "CENOTE_CACHE_DIR"]);
}

fn compiler_log(cache: &Path) -> String {
    let folders =
        fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path().join("compiler.log"));
    folders.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[test]
fn nothing_is_done_unasked() {
    let site = Site::new(COMPILER);
    for (name, value) in
        [("CENOTE_CONF", ""), ("CENOTE_CONF", "torch:adapter,mode:off"), ("CENOTE_DISABLE", "1")]
    {
        let outcome = site.run("first").env(name, value).run().ok();
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("done\n", ""),
            "{name}={value}"
        );
    }
    let outcome = site.run("first").env("PYTORCH_NO_CUDA_MEMORY_CACHING", "1").run().ok();
    assert_eq!(outcome.stdout, "done\n");
    assert!(
        outcome.stderr.contains("PYTORCH_NO_CUDA_MEMORY_CACHING asks for no cache"),
        "{}",
        outcome.stderr
    );
    assert_eq!(site.compiled(), 0);
}
