"""Builds the CUDA programs, all at once."""

import concurrent.futures
import pathlib
import shutil
import subprocess
import sysconfig
import time

from lab import CUDA

# These are built with the shared runtime too.
SHARED_TOO = {"loop"}


def targets():
    for source in sorted(CUDA.glob("*.cu")):
        yield source.stem, source, "static"
        if source.stem in SHARED_TOO:
            yield source.stem + "_shared", source, "shared"


def runtime_folder():
    """Where the runtime lies: beside nvcc, or, where CUDA came as Python packages, among those."""
    nvcc = shutil.which("nvcc")
    roots = [pathlib.Path(nvcc).resolve().parents[1]] if nvcc else []
    roots.append(pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13")
    folders = [root / name for root in roots for name in ("lib64", "lib", "targets/x86_64-linux/lib")]
    return next((folder for folder in folders if list(folder.glob("libcudart.so*"))), None)


def link_names(lab, folder):
    """Python packages bring libcudart.so.13 alone: gives it the name that the linker looks for."""
    own = lab.programs / "lib"
    own.mkdir(exist_ok=True)
    library = min(folder.glob("libcudart.so*"), key=lambda path: len(path.name))
    for name in ("libcudart.so", "libcudart.so.13"):
        (own / name).symlink_to(library.resolve())


def command(lab, name, source, runtime, arch, folder):
    argv = ["nvcc", "-O2", "-std=c++17", f"-arch={arch}", "-cudart", runtime]
    if runtime == "shared":
        argv += ["-L", str(lab.programs / "lib"), "-Xlinker", f"-rpath={lab.programs / 'lib'}"]
    if folder:
        argv += ["-L", str(folder)]
    return [*argv, "-o", str(lab.programs / name), str(source)]


def build(lab, capability):
    """Returns what went wrong, by program."""
    arch = "sm_" + capability.replace(".", "") if capability[:1].isdigit() else "sm_90"
    failed, begin, folder = {}, time.monotonic(), runtime_folder()
    if folder:
        link_names(lab, folder)

    def one(target):
        try:
            argv = command(lab, *target, arch, folder)
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            failed[target[0]] = str(error)
            return
        if done.returncode:
            failed[target[0]] = done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(one, targets()))
    lab.note(f"### built in {time.monotonic() - begin:.1f} s, {len(failed)} failed")
    for name, text in failed.items():
        lab.note(f"{name}:\n{text}")
    return failed
