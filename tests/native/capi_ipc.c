// Blocks of the engine in another process: opened by ticket. LIBRARY pair|ended|codes|files|capture|peers
#include "capi.h"
#include "pair.h"

#include <dirent.h>
#include <sys/wait.h>

enum { ROOM = 4096 };

// What goes from the producer to the consumer.
typedef struct {
    unsigned char bytes[ROOM];
    size_t size;
    uint64_t offset;
} Ticket;

static Ticket exported(void *block) {
    Ticket ticket = {{0}, ROOM, 0};
    CHECK(ipc.export(block, ticket.bytes, &ticket.size, &ticket.offset));
    return ticket;
}

static CUdeviceptr opened(const Ticket *ticket, void **base) {
    CHECK(ipc.open(ticket->bytes, ticket->size, 0, base));
    return at(*base) + ticket->offset;
}

// Two small blocks of one page and a large one: what is written on one side is read on the other.
static const size_t sizes[] = {1000, 70000, 50 * MiB};

static void consume(void) {
    Peer producer = the_producer();
    Ticket tickets[3];
    void *bases[3], *again;
    start(0);
    hear(producer, tickets, sizeof tickets);
    unsigned long long right = 0;
    for (int i = 0; i < 3; i++) {
        CUdeviceptr block = opened(&tickets[i], &bases[i]);
        right += (unsigned long long)simcuda_check(block, sizes[i], i + 1);
        CHECK(simcuda_kernel(0, 1, block, sizes[i], i + 11));
    }
    say("right", right);
    opened(&tickets[2], &again);
    say("same", again == bases[2]);
    CHECK(cuCtxSynchronize());
    tell_turn(producer);
    // Closed while work runs: it stays until that is done.
    CHECK(simcuda_kernel(0, 5000, at(bases[2]) + tickets[2].offset, sizes[2], 13));
    CHECK(ipc.close(again));
    CHECK(ipc.close(bases[2]));
    EXPECT(CENOTE_INVALID_VALUE, ipc.close(bases[2]));
    say("kept", simcuda_calls("cuMemUnmap"));
    CHECK(cuCtxSynchronize());
    CHECK(ipc.close(bases[1]));
    CHECK(ipc.close(bases[0]));
    api.trim();
    say("unmapped", simcuda_calls("cuMemUnmap"));
    tell_turn(producer);
    await_turn(producer);
    // What the producer has given back can't be opened, whatever has its place now.
    say("gone", (unsigned long long)ipc.open(tickets[2].bytes, tickets[2].size, 0, &again));
}

static int pair(char **argv) {
    if (!strcmp(argv[0], "consumer")) {
        consume();
        return 0;
    }
    Peer consumer = start_consumer(argv, getenv("LD_PRELOAD") != NULL);
    start(0);
    void *blocks[3];
    Ticket tickets[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = get(sizes[i], NULL);
        CHECK(simcuda_kernel(0, 1, at(blocks[i]), sizes[i], i + 1));
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < 3; i++) tickets[i] = exported(blocks[i]);
    tell(consumer, tickets, sizeof tickets);
    await_turn(consumer);
    unsigned long long written = 0;
    for (int i = 0; i < 3; i++) written += (unsigned long long)simcuda_check(at(blocks[i]), sizes[i], i + 11);
    say("written", written);
    await_turn(consumer);
    CHECK(api.free(blocks[2]));
    api.trim();
    blocks[2] = get(sizes[2], NULL);
    Ticket other = exported(blocks[2]);
    REQUIRE(other.size != tickets[2].size || memcmp(other.bytes, tickets[2].bytes, other.size));
    tell_turn(consumer);
    return end_of(consumer);
}

// The process that exports is the one that was started, and ends.
static int ended(char **argv) {
    Ticket ticket;
    void *base;
    if (!strcmp(argv[0], "consumer")) {
        start(0);
        ticket = exported(get(3 * MiB, NULL));
        tell(the_producer(), &ticket, sizeof ticket);
        await_turn(the_producer());
        return 0;
    }
    Peer exporter = start_consumer(argv, getenv("LD_PRELOAD") != NULL);
    start(0);
    hear(exporter, &ticket, sizeof ticket);
    opened(&ticket, &base);
    CHECK(ipc.close(base));
    tell_turn(exporter);
    CHECK(end_of(exporter));
    say("ended", (unsigned long long)ipc.open(ticket.bytes, ticket.size, 0, &base));
    return 0;
}

static void codes(void) {
    unsigned char handle[ROOM] = {0};
    size_t size = ROOM;
    uint64_t offset;
    void *base = &base;
    start(0);
    EXPECT(CENOTE_INVALID_VALUE, ipc.export(&base, handle, &size, &offset));
    void *block = get(3 * MiB, NULL);
    int code = ipc.export(block, handle, &size, &offset);
    say("export", (unsigned long long)code);
    if (code) return;
    size_t needed = size, less = size - 1;
    EXPECT(CENOTE_INVALID_VALUE, ipc.export(block, handle, &less, &offset));
    REQUIRE(less == needed);
    EXPECT(CENOTE_INVALID_VALUE, ipc.open(handle, needed - 1, 0, &base));
    REQUIRE(!base);
    EXPECT(CENOTE_INVALID_DEVICE, ipc.open(handle, needed, 7, &base));
    // Another secret is answered by nobody.
    handle[10] ^= 1;
    EXPECT(CENOTE_OPERATING_SYSTEM, ipc.open(handle, needed, 0, &base));
    EXPECT(CENOTE_INVALID_VALUE, ipc.close(block));
    CHECK(api.free(block));
}

static unsigned long long open_files(void) {
    // The thread that sent some may not have closed them yet.
    usleep(200000);
    unsigned long long count = 0;
    DIR *folder = opendir("/proc/self/fd");
    REQUIRE(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

// A hundred exports and openings, in one process: no descriptor stays.
static void files(void) {
    start(0);
    void *block = get(200 * MiB, NULL), *base;
    Ticket ticket = exported(block);
    opened(&ticket, &base);
    CHECK(ipc.close(base));
    const unsigned long long before = open_files();
    for (int i = 0; i < 100; i++) {
        Ticket next = exported(block);
        REQUIRE(next.size == ticket.size && next.offset == ticket.offset && !memcmp(next.bytes, ticket.bytes, ticket.size));
        opened(&next, &base);
        CHECK(ipc.close(base));
    }
    say("before", before);
    say("after", open_files());
    CHECK(api.free(block));
}

// Closed while a stream captures: that goes on, and the memory goes later. In a forked child nothing hangs.
static void capture(void) {
    start(0);
    CUstream stream;
    CUgraph graph;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *block = get(3 * MiB, NULL), *base;
    Ticket ticket = exported(block);
    opened(&ticket, &base);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(ipc.close(base));
    say("during", simcuda_calls("cuMemUnmap"));
    CHECK(cuStreamEndCapture(stream, &graph));
    opened(&ticket, &base);
    say("afterwards", simcuda_calls("cuMemUnmap"));
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        void *other;
        const int export = ipc.export(block, ticket.bytes, &ticket.size, &ticket.offset);
        const int open = ipc.open(ticket.bytes, ticket.size, 0, &other);
        _exit(export && open && ipc.close(base) == CENOTE_OK ? 0 : 5);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("child", (unsigned long long)status);
    CHECK(ipc.close(base));
}

// Another device uses what is there and what comes.
static void peers(void) {
    CUcontext contexts[2];
    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    CHECK(cuCtxSetCurrent(contexts[0]));
    void *blocks[4];
    for (int i = 0; i < 3; i++) blocks[i] = get((size_t)(i + 1) * 5 * MiB, NULL);
    CHECK(api.free(blocks[1]));
    EXPECT(CENOTE_INVALID_DEVICE, ipc.allow_peer(0, 2));
    CHECK(ipc.allow_peer(0, 1));
    const uint64_t calls = simcuda_calls("cuMemSetAccess");
    CHECK(ipc.allow_peer(0, 1));
    REQUIRE(simcuda_calls("cuMemSetAccess") == calls);
    blocks[1] = get(20 * MiB, NULL);
    blocks[3] = get(40 * MiB, NULL);
    CHECK(cuCtxSetCurrent(contexts[1]));
    for (int i = 0; i < 4; i++) CHECK(simcuda_kernel(0, 1, at(blocks[i]), 5 * MiB, i + 1));
    CHECK(cuCtxSynchronize());
    unsigned long long right = 0;
    for (int i = 0; i < 4; i++) right += (unsigned long long)simcuda_check(at(blocks[i]), 5 * MiB, i + 1);
    say("right", right);
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    open_api(argv[1]);
    open_ipc(argv[1]);
    if (!strcmp(argv[2], "pair")) return pair(argv);
    if (!strcmp(argv[2], "ended")) return ended(argv);
    if (!strcmp(argv[2], "codes")) codes();
    if (!strcmp(argv[2], "files")) files();
    if (!strcmp(argv[2], "capture")) capture();
    if (!strcmp(argv[2], "peers")) peers();
    return 0;
}
