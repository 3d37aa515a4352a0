// What a softmax says of a label, row by row, and the gradient of that in the place of the logits: one read, one write.
//
// A block owns a row and keeps it in registers, VECTORS times 16 bytes a thread. There are 64 registers, so that while
// one block waits for its row another computes.
//
// Constants from the host: KIND, WARPS, VECTORS, ERRORS (whether the gradient is wanted), SHARED_BYTES.

constexpr int THREADS = WARPS * 32;
static_assert(WARPS * 4 == SHARED_BYTES, "the host and the kernel disagree about shared memory");

struct Softmax {
    char* scores;              // [rows, pitch], from a boundary of 16 bytes on, as each row
    const long long* targets;  // [rows], or `ignored`: the row has no surprisal and no gradient
    float* surprisals;         // [rows]
    float* at_target;          // the logit, [rows]
    long long pitch, words;    // past the words a row is padding, whose gradient is zero
    long long ignored;
    float evenly, off;         // what label smoothing takes from each error, and what is taken at the target
};

KERNEL_BESIDE(32 / WARPS) softmax(const Softmax a) {
    const float nothing = as_float(0xff800000u);  // minus infinity
    float* meeting = reinterpret_cast<float*>(shared_bytes());
    const int row = block_number(), words = a.words, target = a.targets[row];
    char* scores = a.scores + row * a.pitch * ELEMENT;
    Words* own = reinterpret_cast<Words*>(scores);
    if (a.targets[row] == a.ignored) {
        if (thread_number() == 0) a.at_target[row] = a.surprisals[row] = 0.0f;
        for (int at = thread_number(); ERRORS && at * EACH < a.pitch; at += THREADS) own[at] = {0, 0, 0, 0};
        return;
    }
    if (a.targets[row] < 0 || a.targets[row] >= a.words) give_up();
    const float at_target = load_pair(scores, target / 2 * 2).v[target % 2];
    Words held[VECTORS];
    UNROLL for (int i = 0; i < VECTORS; ++i) {
        const int at = i * THREADS + thread_number();
        if (at * EACH < words) held[i] = own[at];
    }
    float highest = nothing;
    UNROLL for (int i = 0; i < VECTORS; ++i) {
        const int first = (i * THREADS + thread_number()) * EACH;
        Values values = unpacked(held[i]);
        if (first + EACH > words) {  // what is no word has no share in anything
            UNROLL for (int e = 0; e < EACH; ++e)
                if (first + e >= words) values.v[e] = nothing;
            held[i] = repacked(values);
        }
        UNROLL for (int e = 0; e < EACH; ++e) highest = Highest()(highest, values.v[e]);
    }
    highest = over_block(meeting, highest, Highest());
    float total = 0.0f;
    UNROLL for (int i = 0; i < VECTORS; ++i) {
        const Values values = unpacked(held[i]);
        UNROLL for (int e = 0; e < EACH; ++e) total += exponential(values.v[e] - highest);
    }
    total = over_block(meeting, total, Sum());
    if (thread_number() == 0) a.at_target[row] = at_target, a.surprisals[row] = logf(total) - (at_target - highest);
    if (!ERRORS) return;
    const float share = 1.0f / total;
    UNROLL for (int i = 0; i < VECTORS; ++i) {
        const int first = (i * THREADS + thread_number()) * EACH;
        if (first >= a.pitch) continue;
        Values values = unpacked(held[i]);
        UNROLL for (int e = 0; e < EACH; ++e) values.v[e] = exponential(values.v[e] - highest) * share - a.evenly;
        if (first == target / EACH * EACH || first + EACH > words) {
            UNROLL for (int e = 0; e < EACH; ++e) {
                if (first + e == target) values.v[e] -= a.off;
                if (first + e >= words) values.v[e] = 0.0f;
            }
        }
        own[i * THREADS + thread_number()] = repacked(values);
    }
}
