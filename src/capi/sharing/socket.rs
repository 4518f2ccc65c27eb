//! Sockets that carry file descriptors between processes, in the abstract namespace: nothing is left in any folder.

use std::io::{Error, Result};
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Descriptors in a message; the kernel takes 253.
pub(super) const MOST: usize = 64;
/// Bytes of the longest message: a secret and numbers.
pub(super) const LONGEST: usize = 16 + 8 * MOST;

/// Room for the descriptors of one message, aligned as the kernel's header wants it.
#[repr(C, align(8))]
struct Control([u8; 16 + size_of::<RawFd>() * MOST]);

/// An address in the abstract namespace, and its length.
type Address = (libc::sockaddr_un, libc::socklen_t);

fn address(name: &[u8]) -> Address {
    // SAFETY: all-zero is a valid address of no family.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + name.len();
    (address, length as libc::socklen_t)
}

fn check(answer: libc::c_int) -> Result<libc::c_int> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

fn new() -> Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers; the descriptor is ours alone.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Nothing waits longer for the other side than this, in either direction.
fn set_patience(socket: &OwnedFd, patience: Duration) -> Result<()> {
    let time = libc::timeval { tv_sec: patience.as_secs() as libc::time_t, tv_usec: 0 };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let size = size_of::<libc::timeval>() as libc::socklen_t;
        let value = (&raw const time).cast();
        // SAFETY: the value has the type and the size of the option.
        check(unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, size)
        })?;
    }
    Ok(())
}

/// A socket that others can reach under a name that the kernel chooses.
pub(super) fn listen() -> Result<(OwnedFd, Vec<u8>)> {
    let socket = new()?;
    let (mut bound, any) = address(b"");
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const bound).cast(), any) })?;
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: both are valid for the writes.
    check(unsafe {
        libc::getsockname(socket.as_raw_fd(), (&raw mut bound).cast(), &raw mut length)
    })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 128) })?;
    let length = (length as usize).saturating_sub(offset_of!(libc::sockaddr_un, sun_path));
    let name = bound.sun_path.iter().take(length).map(|&byte| byte as u8).collect();
    Ok((socket, name))
}

/// The next one that asks, of the same user.
pub(super) fn accept(listener: &OwnedFd, patience: Duration) -> Result<OwnedFd> {
    let (none, flags) = (std::ptr::null_mut(), libc::SOCK_CLOEXEC);
    // SAFETY: nobody asks for the address; the descriptor is ours alone.
    let fd =
        check(unsafe { libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags) })?;
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_patience(&socket, patience)?;
    require_same_user(&socket)?;
    Ok(socket)
}

/// A connection to the socket of that name, of the same user.
pub(super) fn connect(name: &[u8], patience: Duration) -> Result<OwnedFd> {
    let socket = new()?;
    set_patience(&socket, patience)?;
    let (address, length) = address(name);
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    require_same_user(&socket)?;
    Ok(socket)
}

/// Names in the abstract namespace are anybody's.
fn require_same_user(socket: &OwnedFd) -> Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: both are valid for the writes.
    check(unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut size)
    })?;
    // SAFETY: always succeeds.
    let own = unsafe { libc::geteuid() };
    if peer.uid == own { Ok(()) } else { Err(Error::from_raw_os_error(libc::EPERM)) }
}

/// Sends one message.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], files: &[OwnedFd]) -> Result<()> {
    let mut control = Control([0; _]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    let size = size_of::<RawFd>() * files.len().min(MOST);
    // SAFETY: all-zero is a valid message of nothing.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    if size > 0 {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: pure arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size as u32) } as usize;
        // SAFETY: the control buffer is aligned and has room for one header and the descriptors, so the header is not null.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size as u32) as usize;
            let mut place = libc::CMSG_DATA(header).cast::<RawFd>();
            for file in files.iter().take(MOST) {
                place.write_unaligned(file.as_raw_fd());
                place = place.add(1);
            }
        }
    }
    // SAFETY: the message refers to what lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    check(sent as libc::c_int).map(drop)
}

/// Receives one message, and the descriptors that came with it. Nothing where the other side has gone.
pub(super) fn receive(socket: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut bytes, mut control) = (vec![0u8; LONGEST], Control([0; _]));
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid message of nothing.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: the message refers to what lives until the call returns.
    let got =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    check(got as libc::c_int)?;
    bytes.truncate(got as usize);
    let mut files = Vec::new();
    // SAFETY: the kernel has filled the buffer with whole headers; the descriptors in it are new and ours alone.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let size = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            for at in 0..size / size_of::<RawFd>() {
                files.push(OwnedFd::from_raw_fd(place.add(at).read_unaligned()));
            }
        }
    }
    Ok((bytes, files))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn file(content: &[u8]) -> OwnedFd {
        // SAFETY: the name ends in a zero byte; the descriptor is ours alone.
        let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"x".as_ptr(), 0)) };
        file.write_all(content).unwrap();
        file.into()
    }

    #[test]
    fn files_arrive_with_their_message() {
        let (listener, name) = listen().unwrap();
        let asks = std::thread::spawn(move || {
            let socket = connect(&name, PATIENCE).unwrap();
            send(&socket, b"which?", &[]).unwrap();
            receive(&socket).unwrap()
        });
        let socket = accept(&listener, PATIENCE).unwrap();
        assert_eq!(receive(&socket).unwrap().0, b"which?");
        let files: Vec<_> = (0..MOST as u8).map(|number| file(&[number; 3])).collect();
        send(&socket, b"these", &files).unwrap();
        let (said, got) = asks.join().unwrap();
        assert_eq!((said.as_slice(), got.len()), (&b"these"[..], MOST));
        for (number, file) in (0..).zip(got) {
            let (mut file, mut content) = (File::from(file), Vec::new());
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content, [number; 3]);
        }
    }

    #[test]
    fn nobody_waits_for_one_who_says_nothing_or_is_not_there() {
        let (listener, name) = listen().unwrap();
        let _silent = connect(&name, PATIENCE).unwrap();
        let socket = accept(&listener, Duration::from_secs(1)).unwrap();
        assert!(receive(&socket).is_err());
        drop(listener);
        assert!(connect(&name, PATIENCE).is_err());
    }
}
