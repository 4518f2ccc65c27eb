// Two processes of one program joined by pipes. CUDA does not survive a fork, so the child is forked before the first
// CUDA call and executes the program anew; its LD_PRELOAD is chosen apart from the parent's.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct Peer {
    int in = -1, out = -1;
    pid_t child = 0;

    void send(const void *data, size_t bytes) const {
        const char *at = static_cast<const char *>(data);
        while (bytes) {
            const ssize_t sent = ::write(out, at, bytes);
            if (sent <= 0) die("write");
            at += sent;
            bytes -= size_t(sent);
        }
    }
    void receive(void *data, size_t bytes) const {
        char *at = static_cast<char *>(data);
        while (bytes) {
            const ssize_t got = ::read(in, at, bytes);
            if (got <= 0) die("peer went away");
            at += got;
            bytes -= size_t(got);
        }
    }
    template <typename Value> void put(const Value &value) const { send(&value, sizeof value); }
    template <typename Value> Value get() const {
        Value value;
        receive(&value, sizeof value);
        return value;
    }
    // The same, but false when the peer has gone.
    template <typename Value> bool try_get(Value &value) const {
        char *at = reinterpret_cast<char *>(&value), *end = at + sizeof value;
        while (at < end) {
            const ssize_t got = ::read(in, at, size_t(end - at));
            if (got <= 0) return false;
            at += got;
        }
        return true;
    }
    int wait() const {
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    [[noreturn]] static void die(const char *what) {
        std::perror(what);
        std::_Exit(4);
    }
};

// `preload`: "same" as this process, "none", or a path.
inline Peer start_peer(const char *program, const std::string &preload) {
    int down[2], up[2];
    if (pipe(down) || pipe(up)) Peer::die("pipe");
    Peer peer;
    peer.child = fork();
    if (peer.child == 0) {
        close(down[1]);
        close(up[0]);
        if (preload == "none") unsetenv("LD_PRELOAD");
        else if (preload != "same") setenv("LD_PRELOAD", preload.c_str(), 1);
        const std::string in = std::to_string(down[0]), out = std::to_string(up[1]);
        execl(program, program, "peer", in.c_str(), out.c_str(), static_cast<char *>(nullptr));
        Peer::die("exec");
    }
    close(down[0]);
    close(up[1]);
    peer.in = up[0];
    peer.out = down[1];
    return peer;
}

inline bool is_peer(int argc, char **argv, Peer &peer) {
    if (argc < 4 || std::strcmp(argv[1], "peer")) return false;
    peer.in = std::atoi(argv[2]);
    peer.out = std::atoi(argv[3]);
    return true;
}
