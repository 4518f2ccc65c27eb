// Allocation and free by every path, for the programs about limits and counts.
#pragma once
#include "cu.h"

enum { KINDS = 6 };
static const char *const kind_names[KINDS] = {"plain", "pitched", "managed", "async", "pool", "create"};

typedef struct {
    CUdeviceptr pointer;
    CUmemGenericAllocationHandle handle;
} Piece;

static CUmemoryPool user_pool;

static inline CUresult get(int kind, Piece *piece, size_t bytes) {
    CUmemAllocationProp prop = {0};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemPoolProps props = {0};
    size_t pitch = 0;
    CUresult code;
    prop.type = props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    switch (kind) {
    case 0: return cuMemAlloc_v2(&piece->pointer, bytes);
    // Rows of 64 KiB: the pitch is the width.
    case 1: return cuMemAllocPitch_v2(&piece->pointer, &pitch, 65536, bytes / 65536, 4);
    case 2: return cuMemAllocManaged(&piece->pointer, bytes, CU_MEM_ATTACH_GLOBAL);
    case 3: return cuMemAllocAsync(&piece->pointer, bytes, 0);
    case 4:
        if (!user_pool) CHECK(cuMemPoolCreate(&user_pool, &props));
        return cuMemAllocFromPoolAsync(&piece->pointer, bytes, user_pool, 0);
    default:
        CHECK(cuMemAddressReserve(&piece->pointer, bytes, 0, 0, 0));
        code = cuMemCreate(&piece->handle, bytes, &prop, 0);
        if (!code && (code = cuMemMap(piece->pointer, bytes, 0, piece->handle, 0))) CHECK(cuMemRelease(piece->handle));
        if (!code) CHECK(cuMemSetAccess(piece->pointer, bytes, &access, 1));
        if (code) {
            CHECK(cuMemAddressFree(piece->pointer, bytes));
            piece->pointer = 0;
        }
        return code;
    }
}

static inline CUresult put(int kind, Piece piece, size_t bytes) {
    switch (kind) {
    case 0:
    case 1:
    case 2: return cuMemFree_v2(piece.pointer);
    case 3:
    case 4: return cuMemFreeAsync(piece.pointer, 0);
    default:
        CHECK(cuMemUnmap(piece.pointer, bytes));
        CHECK(cuMemAddressFree(piece.pointer, bytes));
        return cuMemRelease(piece.handle);
    }
}

static inline int kind_of(const char *name) {
    for (int kind = 0; kind < KINDS; kind++)
        if (!strcmp(kind_names[kind], name)) return kind;
    fprintf(stderr, "no kind %s\n", name);
    exit(3);
}
