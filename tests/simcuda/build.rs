//! Gives the shared object the driver's name, and makes its references to its own functions its own.
//!
//! Without `-Bsymbolic` a preloaded `cuMemAlloc_v2` would also capture the addresses that
//! `cuGetProcAddress` takes inside this library, which the real driver does not allow.

fn main() {
    for flag in ["-soname,libcuda.so.1", "-Bsymbolic", "-z,nodelete"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{flag}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
