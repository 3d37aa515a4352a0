// The end of a step of a search: every row takes over the states of the row that it continues. A block owns a row.
//
// Constants from the host: WARPS.

constexpr int THREADS = WARPS * 32, MAX_STATES = 8;

struct Follow {
    const char* from[MAX_STATES];  // [rows, bytes], from a boundary of 16 bytes on
    char* into[MAX_STATES];
    long long bytes[MAX_STATES];
    const long long* came_from;  // [rows]
    long long* length;           // [], the number of tokens, which becomes one more
    long long states;
};

template <typename Unit> INLINE void copy_row(const char* from, char* into, long long bytes) {
    for (long long i = thread_number(); i < bytes / static_cast<long long>(sizeof(Unit)); i += THREADS)
        reinterpret_cast<Unit*>(into)[i] = reinterpret_cast<const Unit*>(from)[i];
}

KERNEL follow(const Follow a) {
    const long long row = block_number(), parent = a.came_from[row];
    if (row == 0 && thread_number() == 0) *a.length += 1;
    UNROLL for (int i = 0; i < MAX_STATES; ++i) {
        if (i >= a.states) return;
        const long long bytes = a.bytes[i];
        const char* from = a.from[i] + parent * bytes;
        if (bytes % 16 == 0) copy_row<Words>(from, a.into[i] + row * bytes, bytes);
        else copy_row<char>(from, a.into[i] + row * bytes, bytes);
    }
}
