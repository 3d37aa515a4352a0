// The likeliest words of each row by rising id; among equals those with the smallest ids. A block owns a row.
//
// Scores that lack the logarithm of their softmax are normalised on the way. The words are collected that are no less
// likely than a bound, which at first is the highest of several parts of the row; where these are too many to keep,
// those that were kept give a higher bound.
//
// Constants from the host: KIND (of the scores), WARPS, SHARED_BYTES.

constexpr int THREADS = WARPS * 32, MAX_ROWS = 32;
constexpr int AT_ONCE = 8;                        // values that are loaded together
constexpr int PART = 16, PARTS = THREADS / PART;  // lanes that share a part of the row
constexpr int KEPT = 256;                         // words that are collected

struct Likeliest {
    char* scores;             // [rows, pitch]; -inf overwrites what is barred
    const long long* length;  // [], the number of tokens so far
    const int* barred;        // [bars, 2]: a token, each only once, and the length from which it is allowed
    float* aside;             // [rows, bars], scores of what is barred
    float* values;            // [rows, count]
    int* ids;                 // [rows, count]
    long long pitch, words;
    int count, bars;
    int end;         // the token that a row takes at its own score if it may take no other; -1: none
    int normalise;   // whether the scores lack the logarithm of their softmax
    float smallest;  // the lowest score that the end token has then
};

// Orders values; among equals, that at the smallest place is highest. NaN is above all numbers, the key 0 below them.
typedef unsigned long long Key;

struct Shared {
    Key kept[KEPT], chosen[MAX_ROWS];
    float meeting[WARPS];
    int found;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "the host and the kernel disagree about shared memory");

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

INLINE float load_one(const char* scores, int place) {
    if constexpr (ELEMENT == 4) return reinterpret_cast<const float*>(scores)[place];
    else return pair_of({reinterpret_cast<const unsigned short*>(scores)[place], 0}).v[0];
}
INLINE void bar(char* scores, int place) {
    if constexpr (ELEMENT == 4) reinterpret_cast<word*>(scores)[place] = 0xff800000u;
    else reinterpret_cast<unsigned short*>(scores)[place] = KIND == BF16 ? 0xff80 : 0xfc00;
}

// Calls a function with every value of this thread and its place.
template <typename Visit> INLINE void visit(const char* scores, int words, const Visit& visit_one) {
    for (int first = thread_number(); first < words; first += AT_ONCE * THREADS) {
        float held[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * THREADS < words) held[i] = load_one(scores, first + i * THREADS);
        UNROLL for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * THREADS < words) visit_one(held[i], first + i * THREADS);
    }
}

INLINE Key across(Key key, int distance) {
    const word high = as_word(across_lanes(as_float(key >> 32), distance));
    const word low = as_word(across_lanes(as_float(static_cast<word>(key)), distance));
    return static_cast<Key>(high) << 32 | low;
}

// Sorts the highest of the keys that were kept into `chosen`.
INLINE void choose(Shared& shared, int kept, int count) {
    join_block();
    for (int i = thread_number(); i < kept; i += THREADS) {
        const Key key = shared.kept[i];
        int place = 0;
        for (int j = 0; j < kept; ++j) place += shared.kept[j] > key || (shared.kept[j] == key && j < i);
        if (place < count) shared.chosen[place] = key;
    }
    if (thread_number() == 0) shared.found = 0;
    join_block();
}

KERNEL_BESIDE(48 / WARPS) likeliest(const Likeliest a) {
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes());
    const float nothing = as_float(0xff800000u);  // minus infinity
    const long long row = block_number(), length = *a.length;
    const int mine = thread_number(), words = a.words;
    char* scores = a.scores + row * a.pitch * ELEMENT;
    float* aside = a.aside + row * a.bars;
    float at_end = a.end < 0 ? nothing : load_one(scores, a.end);
    join_block();  // before it is barred
    float highest = nothing, total = 0.0f, top = nothing;
    for (int i = mine; i < a.bars; i += THREADS) {
        const bool barred = length < a.barred[2 * i + 1];
        aside[i] = barred ? load_one(scores, a.barred[2 * i]) : nothing;
        if (barred) bar(scores, a.barred[2 * i]);
        highest = aside[i] > highest ? aside[i] : highest;
    }
    join_block();
    int at = -1;
    visit(scores, words, [&](float value, int place) {
        if (value > top) top = value, at = place;
    });
    if (a.normalise) {  // what is not a number makes the sum such
        highest = over_block(shared.meeting, top > highest ? top : highest, Highest());
        visit(scores, words, [&](float value, int) { total += expf(value - highest); });
        for (int i = mine; i < a.bars; i += THREADS)
            if (length < a.barred[2 * i + 1]) total += expf(aside[i] - highest);
        total = logf(over_block(shared.meeting, total, Sum()));
    } else {
        highest = total = 0.0f;
    }
    const auto normal = [&](float value) { return (value - highest) - total; };  // in the order of torch
    Key own = at < 0 ? 0 : key_of(normal(top), at);
    UNROLL for (int distance = PART / 2; distance > 0; distance /= 2) {
        const Key other = across(own, distance);
        own = other > own ? other : own;
    }
    if (mine % PART == 0) shared.kept[mine / PART] = own;
    choose(shared, PARTS, a.count);
    Key bound = PARTS < a.count ? 0 : shared.chosen[a.count - 1];
    for (bool all = false; !all; bound = shared.chosen[a.count - 1]) {
        const float least = value_of(bound);
        visit(scores, words, [&](float value, int place) {
            if (normal(value) < least) return;
            const Key key = key_of(normal(value), place);
            const int next = key < bound ? KEPT : take_number(&shared.found);
            if (next < KEPT) shared.kept[next] = key;
        });
        join_block();
        const int found = shared.found;
        all = found <= KEPT;
        choose(shared, all ? found : KEPT, a.count);
    }
    if (mine >= a.count) return;
    at_end = normal(at_end);
    const Key key = shared.chosen[mine];
    const bool stuck = a.end >= 0 && value_of(shared.chosen[0]) == nothing;
    int place = 0;
    for (int i = 0; i < a.count; ++i) place += place_of(shared.chosen[i]) < place_of(key);
    const float least = at_end < a.smallest ? a.smallest : at_end;
    a.values[row * a.count + place] = !stuck ? value_of(key) : mine ? nothing : least;
    a.ids[row * a.count + place] = stuck && !mine ? a.end : place_of(key);
}
