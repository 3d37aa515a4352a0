// A copy from page-locked memory of the host, which the threads read themselves, all vectors at the same time.
//
// A copy engine would have to be woken between two kernels and answer before the second may begin.
//
// Constants from the host: WARPS.

struct Upload {
    const Words* source;  // on the host
    Words* to;            // on the GPU
    long long vectors;    // of 16 bytes
};

KERNEL upload(const Upload a) {
    const long long at = block_number() * (32LL * WARPS) + thread_number();
    if (at < a.vectors) a.to[at] = load_words(a.source + at);
}
