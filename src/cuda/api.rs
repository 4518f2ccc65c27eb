//! The one list of driver functions: what is hooked, and what is only called.

/// Hands the list to the macro `$with`. A line is `name(argument: type, ...);`, as `cuda.h` declares it, with handles as integers.
///
/// | part | the preload |
/// | --- | --- |
/// | `lookups` | answers for them before anything else of cenote is awake |
/// | `launches` | looks at the first launch of each kernel; in brackets stands the argument that is the kernel |
/// | `starts` | looks whether PyTorch is there once they are done |
/// | `hooked` | answers for them |
/// | `called` | only calls them |
///
/// The names without `_v2` of functions that have one are the 32-bit ABI or older semantics; where the signature is the same
/// (`cuIpcOpenMemHandle`, the primary context), both are hooked.
macro_rules! driver_api {
    ($with:ident) => {
        $with! {
            lookups {
                cuGetProcAddress(symbol: *const c_char, pfn: *mut usize, version: c_int, flags: u64);
                cuGetProcAddress_v2(symbol: *const c_char, pfn: *mut usize, version: c_int, flags: u64, status: *mut c_int);
            }
            launches {
                cuLaunchKernel[function](function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: StreamHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void);
                cuLaunchKernel_ptsz[function](function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: StreamHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void);
                cuLaunchCooperativeKernel[function](function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: StreamHandle, parameters: *mut *mut c_void);
                cuLaunchCooperativeKernel_ptsz[function](function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: StreamHandle, parameters: *mut *mut c_void);
                cuLaunchKernelEx[function](configuration: *const c_void, function: usize, parameters: *mut *mut c_void, extra: *mut *mut c_void);
                cuLaunchKernelEx_ptsz[function](configuration: *const c_void, function: usize, parameters: *mut *mut c_void, extra: *mut *mut c_void);
            }
            starts {
                cuInit(flags: c_uint);
            }
            hooked {
                cuMemAlloc_v2(pointer: *mut DevicePtr, bytes: usize);
                cuMemAllocPitch_v2(pointer: *mut DevicePtr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
                cuMemAllocManaged(pointer: *mut DevicePtr, bytes: usize, flags: c_uint);
                cuMemFree_v2(pointer: DevicePtr);
                cuMemGetAddressRange_v2(base: *mut DevicePtr, bytes: *mut usize, pointer: DevicePtr);
                cuMemGetInfo_v2(free: *mut usize, total: *mut usize);

                cuMemAllocAsync(pointer: *mut DevicePtr, bytes: usize, stream: StreamHandle);
                cuMemAllocAsync_ptsz(pointer: *mut DevicePtr, bytes: usize, stream: StreamHandle);
                cuMemAllocFromPoolAsync(pointer: *mut DevicePtr, bytes: usize, pool: usize, stream: StreamHandle);
                cuMemAllocFromPoolAsync_ptsz(pointer: *mut DevicePtr, bytes: usize, pool: usize, stream: StreamHandle);
                cuMemFreeAsync(pointer: DevicePtr, stream: StreamHandle);
                cuMemFreeAsync_ptsz(pointer: DevicePtr, stream: StreamHandle);

                cuMemCreate(handle: *mut u64, bytes: usize, properties: *const AllocationProp, flags: u64);
                cuMemRelease(handle: u64);
                cuMemMap(pointer: DevicePtr, bytes: usize, offset: usize, handle: u64, flags: u64);
                cuMemUnmap(pointer: DevicePtr, bytes: usize);

                cuMemHostAlloc(pointer: *mut usize, bytes: usize, flags: c_uint);
                cuMemAllocHost_v2(pointer: *mut usize, bytes: usize);
                cuMemFreeHost(pointer: usize);

                cuIpcGetMemHandle(handle: *mut IpcHandle, pointer: DevicePtr);
                cuIpcOpenMemHandle(pointer: *mut DevicePtr, handle: IpcHandle, flags: c_uint);
                cuIpcOpenMemHandle_v2(pointer: *mut DevicePtr, handle: IpcHandle, flags: c_uint);
                cuIpcCloseMemHandle(pointer: DevicePtr);

                cuCtxDestroy_v2(context: ContextHandle);
                cuCtxFromGreenCtx(context: *mut ContextHandle, green: usize);
                cuGreenCtxDestroy(green: usize);
                cuCtxEnablePeerAccess(peer: ContextHandle, flags: c_uint);
                cuDevicePrimaryCtxRelease(device: c_int);
                cuDevicePrimaryCtxRelease_v2(device: c_int);
                cuDevicePrimaryCtxReset(device: c_int);
                cuDevicePrimaryCtxReset_v2(device: c_int);

                cuStreamBeginCapture(stream: StreamHandle);
                cuStreamBeginCapture_ptsz(stream: StreamHandle);
                cuStreamBeginCapture_v2(stream: StreamHandle, mode: c_uint);
                cuStreamBeginCapture_v2_ptsz(stream: StreamHandle, mode: c_uint);
                cuStreamBeginCaptureToGraph(stream: StreamHandle, graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: c_uint);
                cuStreamBeginCaptureToGraph_ptsz(stream: StreamHandle, graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: c_uint);
                cuStreamEndCapture(stream: StreamHandle, graph: *mut usize);
                cuStreamEndCapture_ptsz(stream: StreamHandle, graph: *mut usize);

                cuModuleLoad(module: *mut usize, path: *const c_char);
                cuModuleLoadData(module: *mut usize, image: *const c_void);
                cuModuleLoadDataEx(module: *mut usize, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut *mut c_void);
                cuModuleLoadFatBinary(module: *mut usize, image: *const c_void);
                cuLibraryLoadData(library: *mut usize, image: *const c_void, options: *mut c_int, values: *mut *mut c_void, count: c_uint, library_options: *mut c_int, library_values: *mut *mut c_void, library_count: c_uint);
                cuLibraryLoadFromFile(library: *mut usize, path: *const c_char, options: *mut c_int, values: *mut *mut c_void, count: c_uint, library_options: *mut c_int, library_values: *mut *mut c_void, library_count: c_uint);
                cuLibraryGetModule(module: *mut usize, library: usize);
                cuKernelGetFunction(function: *mut usize, kernel: usize);
                cuFuncLoad(function: usize);
                cuGraphInstantiateWithFlags(graph_exec: *mut usize, graph: usize, flags: u64);
                cuGraphInstantiateWithParams(graph_exec: *mut usize, graph: usize, parameters: *mut c_void);
                cuArrayCreate_v2(array: *mut usize, descriptor: *const c_void);
                cuArray3DCreate_v2(array: *mut usize, descriptor: *const c_void);
                cuMipmappedArrayCreate(array: *mut usize, descriptor: *const c_void, levels: c_uint);

                cuStreamCreate(stream: *mut StreamHandle, flags: c_uint);
                cuStreamCreateWithPriority(stream: *mut StreamHandle, flags: c_uint, priority: c_int);
                cuStreamDestroy_v2(stream: StreamHandle);
                cuEventCreate(event: *mut usize, flags: c_uint);
                cuEventDestroy_v2(event: usize);

                cuCtxSynchronize();
                cuCtxSynchronize_v2(context: ContextHandle);
                cuStreamSynchronize(stream: StreamHandle);
                cuStreamSynchronize_ptsz(stream: StreamHandle);
                cuEventSynchronize(event: usize);
            }
            called {
                cuDriverGetVersion(version: *mut c_int);
                cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int);
                cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
                cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
                cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
                cuDevicePrimaryCtxRetain(context: *mut ContextHandle, device: c_int);
                cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int);
                cuCtxGetCurrent(context: *mut ContextHandle);
                cuCtxPushCurrent_v2(context: ContextHandle);
                cuCtxPopCurrent_v2(context: *mut ContextHandle);
                cuCtxGetDevice(device: *mut c_int);
                cuCtxGetId(context: ContextHandle, id: *mut u64);
                cuCtxRecordEvent(context: ContextHandle, event: usize);
                cuEventRecord(event: usize, stream: StreamHandle);
                cuEventQuery(event: usize);
                cuStreamGetCtx(stream: StreamHandle, context: *mut ContextHandle);
                cuStreamIsCapturing(stream: StreamHandle, status: *mut c_uint);
                cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
                cuMemAddressReserve(pointer: *mut DevicePtr, bytes: usize, alignment: usize, wish: DevicePtr, flags: u64);
                cuMemAddressFree(pointer: DevicePtr, bytes: usize);
                cuMemSetAccess(pointer: DevicePtr, bytes: usize, access: *const AccessDesc, count: usize);
                cuMemExportToShareableHandle(shareable: *mut c_int, handle: u64, kind: c_uint, flags: u64);
                cuMemImportFromShareableHandle(handle: *mut u64, shareable: usize, kind: c_uint);
            }
        }
    };
}
