// The surprisal of the tags of a sentence under a linear-chain CRF, and its gradients: one launch each way.
//
// A block takes one row after another, and each of its threads some of the tags. Step by step the log-sums over all
// sequences that end in a tag pass through shared memory, forward and then backward; each log-sum is taken relative to
// its highest term, so that none overflows or vanishes. What the rows of a block add to the gradients of the
// transitions lies in memory of its own, so that the sum over all blocks is the same each time.
//
// Constants from the host: WARPS, SHARED_BYTES.

constexpr int THREADS = WARPS * 32;

struct Chain {
    long long steps, batch, tags, blocks;
    const float* scores;        // [T, B, S]
    const long long* path;      // [T, B], the tags of the sentences
    const long long* lengths;   // [B]
    const float* transitions;   // [S, S], that of j after i at [i, j]
    const float* turned;        // the same at [j, i]
    const float* ends;          // [2, S], the scores of a tag as the first and as the last
    float* reached;             // [T, B, S], the log-sums of all sequences to a tag
    float* partitions;          // [B], those of whole sequences
    float* surprisals;          // [B]
    // Backward alone.
    const float* outer;         // [B], the gradients of the surprisals
    float* d_scores;            // [T, B, S]
    float* d_weights;           // [blocks, S + 2, S], of `turned` and of the ends, zeros at first
};

INLINE float higher(float a, float b) { return a > b || a != a ? a : b; }  // NaN stays NaN

// The highest of all `held` + `at`, where the tags of `at` lie S apart.
INLINE float highest_of(const Chain& a, const float* held, const float* at) {
    float highest = held[0] + at[0];
    for (int i = 1; i < a.tags; ++i) highest = higher(held[i] + at[i * a.tags], highest);
    return highest;
}

// A term relative to the highest; where all are minus infinity, so is their sum.
INLINE float share(float term, float highest) {
    return highest == as_float(0xff800000u) ? 0.0f : expf(term - highest);
}

INLINE float score(const Chain& a, int t, int row, int length, int tag) {
    float found = a.scores[(t * a.batch + row) * a.tags + tag];
    if (t == 0) found += a.ends[tag];
    if (t == length - 1) found += a.ends[a.tags + tag];
    return found;
}

// The score of the given tags; each lane of a warp adds up some steps, and all find the sum.
INLINE float score_path(const Chain& a, int row, int length) {
    float total = 0.0f;
    for (int t = thread_number(); t < length; t += 32) {
        const int tag = a.path[t * a.batch + row];
        total += score(a, t, row, length, tag);
        if (t > 0) total += a.transitions[a.path[(t - 1) * a.batch + row] * a.tags + tag];
    }
    UNROLL for (int distance = 16; distance > 0; distance /= 2) total += across_lanes(total, distance);
    return total;
}

// The log-sum of values in shared memory, by one warp.
INLINE float log_sum(const float* held, int count) {
    float highest = as_float(0xff800000u), total = 0.0f;
    for (int i = thread_number(); i < count; i += 32) highest = higher(held[i], highest);
    UNROLL for (int distance = 16; distance > 0; distance /= 2) highest = higher(across_lanes(highest, distance), highest);
    for (int i = thread_number(); i < count; i += 32) total += share(held[i], highest);
    UNROLL for (int distance = 16; distance > 0; distance /= 2) total += across_lanes(total, distance);
    return highest + logf(total);
}

KERNEL chain_forward(const Chain a) {
    float* held[2] = {reinterpret_cast<float*>(shared_bytes()), reinterpret_cast<float*>(shared_bytes()) + a.tags};
    for (int row = block_number(); row < a.batch; row += a.blocks) {
        const int length = a.lengths[row];
        join_block();  // the row before has been read
        for (int t = 0; t < length; ++t) {
            for (int j = thread_number(); j < a.tags; j += THREADS) {
                float own = score(a, t, row, length, j);
                if (t > 0) {
                    const float* before = held[(t + 1) % 2];
                    const float highest = highest_of(a, before, a.transitions + j);
                    float total = 0.0f;
                    for (int i = 0; i < a.tags; ++i)
                        total += share(before[i] + a.transitions[i * a.tags + j], highest);
                    own += highest + logf(total);
                }
                held[t % 2][j] = own;
                a.reached[(t * a.batch + row) * a.tags + j] = own;
            }
            join_block();
        }
        if (thread_number() >= 32) continue;
        const float partition = length ? log_sum(held[(length + 1) % 2], a.tags) : 0.0f;
        const float own = length ? score_path(a, row, length) : 0.0f;
        if (thread_number() == 0) a.partitions[row] = partition, a.surprisals[row] = partition - own;
    }
}

KERNEL chain_backward(const Chain a) {
    float* held[2] = {reinterpret_cast<float*>(shared_bytes()), reinterpret_cast<float*>(shared_bytes()) + a.tags};
    float* d_turned = a.d_weights + block_number() * (a.tags + 2) * a.tags;
    float* d_ends = d_turned + a.tags * a.tags;
    for (int row = block_number(); row < a.batch; row += a.blocks) {
        const int length = a.lengths[row];
        const float outer = a.outer[row], partition = a.partitions[row];
        join_block();  // the row before has been read
        for (int t = a.steps - 1; t >= 0; --t) {
            const float* after = held[(t + 1) % 2];  // the score of the next tag, and all sequences from there
            for (int i = thread_number(); i < a.tags; i += THREADS) {
                const long long at = (t * a.batch + row) * a.tags + i;
                if (t >= length) {
                    a.d_scores[at] = 0.0f;
                    continue;
                }
                const bool own = a.path[t * a.batch + row] == i;
                float rest = 0.0f;  // the log-sum of all sequences after this tag
                if (t < length - 1) {
                    const float highest = highest_of(a, after, a.turned + i);
                    const float factor = outer * expf(a.reached[at] + highest - partition);
                    float total = 0.0f;
                    for (int j = 0; j < a.tags; ++j) {
                        const float part = share(after[j] + a.turned[j * a.tags + i], highest);
                        total += part, d_turned[j * a.tags + i] += factor * part;
                    }
                    rest = highest + logf(total);
                    if (own) d_turned[a.path[(t + 1) * a.batch + row] * a.tags + i] -= outer;
                }
                const float found = outer * (expf(a.reached[at] + rest - partition) - (own ? 1.0f : 0.0f));
                a.d_scores[at] = found;
                if (t == 0) d_ends[i] += found;
                if (t == length - 1) d_ends[a.tags + i] += found;
                held[t % 2][i] = score(a, t, row, length, i) + rest;
            }
            if (t < length) join_block();
        }
    }
}
