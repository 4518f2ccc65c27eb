// Tensors in other processes: torch.multiprocessing. PyTorch sends what `share` gives, and counts who has it; a block is freed when
// nobody does any more.
#pragma once

#include <memory>
#include <string>

#include "cenote_device.h"
#include "versions.h"

namespace cenote {

// A handle of the library's. No handle of PyTorch's own begins so, and PyTorch without the adapter refuses it, as one from a "future
// version of torch".
inline bool is_ours(const std::string &handle) { return handle.compare(0, 7, "\xff" "cenote") == 0; }

// The handle of a block, and where it begins in what the handle names. Nothing in it where the block is not the library's.
inline native::ShareableHandle share(const void *block) {
    native::ShareableHandle shared = {0, std::string(512, '\0')};
    uint64_t offset = 0;
    int code = CENOTE_OK;
    // The size is known after the first try.
    for (int attempt = 0; attempt < 2; attempt++) {
        const size_t room = shared.handle.size();
        size_t size = room;
        code = cenote_ipc_export(block, &shared.handle[0], &size, &offset);
        if (code == CENOTE_INVALID_VALUE && size == room) return {0, std::string()};
        shared.handle.resize(size);
        if (size <= room) break;
    }
    TORCH_CHECK(code != CENOTE_NOT_SUPPORTED,
                "cenote: the driver of this machine can't give the memory of tensors to other processes. Send a copy in host memory "
                "(tensor.cpu()), or run without torch:adapter.");
    TORCH_CHECK(code == CENOTE_OK, "cenote: this tensor can't be sent to another process: error ", code);
    shared.offset = ptrdiff_t(offset);
    return shared;
}

// The memory that a handle of another process names, on the current device. The library keeps what is open already at one address.
inline std::shared_ptr<void> open_shared(const std::string &handle, DeviceIndex device) {
    void *base = nullptr;
    const int code = cenote_ipc_open(handle.data(), handle.size(), device, &base);
    TORCH_CHECK(code != CENOTE_OPERATING_SYSTEM,
                "cenote: the process that sent this tensor can't be asked for its memory. It has ended (keep it until the tensor is "
                "received), is another user's, or is in another network namespace (start the containers with one: "
                "--network=container:NAME); or this process may open no more files (ulimit -n).");
    TORCH_CHECK(code != CENOTE_INVALID_HANDLE,
                "cenote: the process that sent this tensor has freed it. It has to keep the tensor until it is received.");
    TORCH_CHECK(code == CENOTE_OK, "cenote: the tensor of another process can't be opened: error ", code,
                ". Both processes need the same version of cenote.");
    // What the device still does with the memory is waited for in the library, and not here.
    return std::shared_ptr<void>(base, [](void *opened) { cenote_ipc_close(opened); });
}

}  // namespace cenote
