// The highest values of each row by rising place; among equals those at the smallest places. A block owns a row.
//
// Each round finds the highest value that is left. Only the thread that gave it looks for its next one, so a row is
// read once, and a part of it again for each round.
//
// Constants from the host: WARPS, SHARED_BYTES.

constexpr int THREADS = WARPS * 32, MOST = 32;
constexpr int AT_ONCE = 8;  // values that are loaded together

struct Likeliest {
    float* scores;            // [rows, pitch]; -inf overwrites what is barred
    const long long* length;  // [], the number of tokens so far
    const int* barred;        // [bars, 2]: a token, and the length from which it is allowed
    float* values;            // [rows, count]
    int* ids;                 // [rows, count]
    long long pitch, words;
    int count, bars;
    int end;         // the token that a row takes at its own score if it may take no other; -1: none
    float smallest;  // the lowest score that the end token has then
};

// Orders values; among equals, that at the smallest place is highest. NaN is above all numbers, the key 0 below them.
typedef unsigned long long Key;

struct Shared {
    Key meeting[WARPS], chosen[MOST];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the host and the kernel disagree about shared memory");

INLINE Key key_of(float value, int place) {
    const word bits = as_word(value + 0.0f);  // -0 becomes 0
    const word order = value != value ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<Key>(order) << 32 | (0xffffffffu - place);
}
INLINE int place_of(Key key) { return 0xffffffffu - static_cast<word>(key); }
INLINE float value_of(Key key) {
    const word order = key >> 32;
    return as_float(order >> 31 ? order ^ 0x80000000u : ~order);
}

INLINE Key highest_below(Key limit, const float* scores, int words) {
    Key highest = 0;
    for (int first = thread_number(); first < words; first += AT_ONCE * THREADS) {
        float held[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * THREADS < words) held[i] = scores[first + i * THREADS];
        UNROLL for (int i = 0; i < AT_ONCE; ++i) {
            const Key key = first + i * THREADS < words ? key_of(held[i], first + i * THREADS) : 0;
            if (key < limit && key > highest) highest = key;
        }
    }
    return highest;
}

INLINE Key across(Key key, int distance) {
    const word high = as_word(across_lanes(as_float(key >> 32), distance));
    const word low = as_word(across_lanes(as_float(static_cast<word>(key)), distance));
    return static_cast<Key>(high) << 32 | low;
}

KERNEL likeliest(const Likeliest a) {
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes());
    const float nothing = as_float(0xff800000u);  // minus infinity
    const long long row = block_number();
    float* scores = a.scores + row * a.pitch;
    const float at_end = a.end < 0 ? nothing : scores[a.end];
    join_block();  // before it is barred
    for (int i = thread_number(); i < a.bars; i += THREADS)
        if (*a.length < a.barred[2 * i + 1]) scores[a.barred[2 * i]] = nothing;
    join_block();
    Key own = highest_below(~Key(0), scores, a.words);
    for (int round = 0; round < a.count; ++round) {
        Key key = own;
        UNROLL for (int distance = 16; distance > 0; distance /= 2) {
            const Key other = across(key, distance);
            key = other > key ? other : key;
        }
        if (thread_number() % 32 == 0) shared.meeting[thread_number() / 32] = key;
        join_block();
        UNROLL for (int warp = 0; warp < WARPS; ++warp)
            key = shared.meeting[warp] > key ? shared.meeting[warp] : key;
        if (thread_number() == 0) shared.chosen[round] = key;
        if (key == own && round + 1 < a.count) own = highest_below(key, scores, a.words);
        join_block();  // all have read the meeting
    }
    const int mine = thread_number();
    if (mine >= a.count) return;
    const Key key = shared.chosen[mine];
    const bool stuck = a.end >= 0 && value_of(shared.chosen[0]) == nothing;
    int place = 0;
    for (int i = 0; i < a.count; ++i) place += place_of(shared.chosen[i]) < place_of(key);
    const float least = at_end < a.smallest ? a.smallest : at_end;
    a.values[row * a.count + place] = !stuck ? value_of(key) : mine ? nothing : least;
    a.ids[row * a.count + place] = stuck && !mine ? a.end : place_of(key);
}
