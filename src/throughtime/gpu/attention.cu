// One step of attention, forward and backward: a launch each, where torch needs ten.
//
// A block owns a row: its query, its sentence and their weighted sum. A warp scores a position of the sentence, a
// thread adds up two columns. The terms of the scores are not kept: the backward pass computes them again.
//
// Constants from the host: KIND, WARPS, SIZE (of a key), WIDTH (of a value), PLACES (of a sentence, at most), ADDITIVE
// (else scores are products), SHOWN (whether tanh follows the sum), SHARED_BYTES. SIZE and WIDTH are even.

constexpr int THREADS = WARPS * 32, KEY = SIZE / 2, VALUE = WIDTH / 2;  // in pairs
constexpr int AT_ONCE = 8;                                              // positions that are loaded together
static_assert(4 * (PLACES + (2 * SIZE > WIDTH ? 2 * SIZE : WIDTH)) == SHARED_BYTES,
              "the host and the kernel disagree about shared memory");

struct Attend {
    const char* query;          // [rows, query_pitch]
    const Pair* keys;           // [rows, places, SIZE]
    const char* values;         // [rows, places, WIDTH]
    const Pair* energy;         // [SIZE], if additive
    const float* hidden;        // [rows, places]: what is added to scores; where it is not 0, there is padding
    const char* padding;        // [rows, places]: whether there is padding, in place of that
    float* weights;             // [rows, places]
    char* sums;                 // [rows, sums_pitch]: the weighted sum of the values is added to this
    char* shown;                // [rows, WIDTH]: its tanh
    const char* from_shown[2];  // gradients of that, [rows, WIDTH]; the second may be missing
    const float* from_weights;  // [rows, places], may be missing
    char* into_sums;            // [rows, gradients_pitch]: if SHOWN, slopes that become gradients; else gradients
    char* into_query;           // [rows, into_query_pitch]: written, or added to if scores are products
    float* into_scores;         // [rows, places]
    Pair* into_keys;            // [rows, places, SIZE]: added to, less the factor of the energy, if additive
    Pair* into_energy;          // [rows, SIZE]: added to, if additive
    const long long* owner;     // [rows]: the sentence of each, for keys, values and what is hidden; missing: its own
    long long places, query_pitch, sums_pitch, into_sums_pitch, into_query_pitch;
    float query_factor, energy_factor;  // forward: what both are multiplied by
};

INLINE float over_warp(float value) {
    UNROLL for (int distance = 16; distance > 0; distance /= 2) value += across_lanes(value, distance);
    return value;
}

// In shared memory: a number for each position, then pairs.
INLINE float* numbers() { return reinterpret_cast<float*>(shared_bytes()); }
INLINE Pair* pairs() { return reinterpret_cast<Pair*>(numbers() + PLACES); }

INLINE float hidden_at(const Attend& a, long long place) {
    if (a.padding == nullptr) return a.hidden[place];
    return a.padding[place] ? as_float(0xff7fffffu) : 0.0f;  // the lowest number
}

// With three blocks on a multiprocessor, all rows of a beam search of 64 sentences run at once on a large GPU.
KERNEL_BESIDE(48 / WARPS) attend_forward(const Attend a) {
    const int thread = thread_number(), warp = thread / 32, lane = thread % 32, places = a.places;
    const long long row = block_number(), sentence = a.owner == nullptr ? row : a.owner[row];
    float* scores = numbers();
    Pair *query = pairs(), *energy = query + KEY;
    for (int i = thread; i < KEY; i += THREADS) {
        query[i] = load_pair(a.query + row * a.query_pitch * ELEMENT, 2 * i);
        if constexpr (ADDITIVE) energy[i] = a.energy[i];
        UNROLL for (int e = 0; e < 2; ++e) {
            query[i].v[e] *= a.query_factor;
            if constexpr (ADDITIVE) energy[i].v[e] *= a.energy_factor;
        }
    }
    join_block();
    for (int place = warp; place < places; place += WARPS) {
        const Pair* keys = a.keys + (sentence * places + place) * KEY;
        float score = 0.0f;
        UNROLL for (int i = lane; i < KEY; i += 32) {
            const Pair key = keys[i];
            UNROLL for (int e = 0; e < 2; ++e)
                score += ADDITIVE ? energy[i].v[e] * sigmoid(query[i].v[e] + key.v[e]) : query[i].v[e] * key.v[e];
        }
        score = over_warp(score);
        if (lane == 0) scores[place] = score + hidden_at(a, sentence * places + place);
    }
    join_block();
    float highest = scores[0], total = 0.0f;  // each warp finds both
    for (int place = lane; place < places; place += 32) highest = scores[place] > highest ? scores[place] : highest;
    UNROLL for (int distance = 16; distance > 0; distance /= 2) {
        const float other = across_lanes(highest, distance);
        highest = other > highest ? other : highest;
    }
    for (int place = lane; place < places; place += 32) total += exponential(scores[place] - highest);
    total = over_warp(total);
    join_block();
    for (int place = thread; place < places; place += THREADS) {
        const bool real = hidden_at(a, sentence * places + place) == 0.0f;
        scores[place] = real ? exponential(scores[place] - highest) / total : 0.0f;
        a.weights[row * places + place] = scores[place];
    }
    join_block();
    char* sums = a.sums + row * a.sums_pitch * ELEMENT;
    const char* values = a.values + sentence * places * WIDTH * ELEMENT;
    for (int i = thread; i < VALUE; i += THREADS) {
        Pair sum = load_pair(sums, 2 * i);
        for (int first = 0; first < places; first += AT_ONCE) {
            Raw loaded[AT_ONCE];
            UNROLL for (int k = 0; k < AT_ONCE; ++k)
                if (first + k < places) loaded[k] = load_raw(values, static_cast<long long>(first + k) * WIDTH + 2 * i);
            UNROLL for (int k = 0; k < AT_ONCE; ++k)
                if (first + k < places) {
                    const Pair value = pair_of(loaded[k]);
                    UNROLL for (int e = 0; e < 2; ++e) sum.v[e] += scores[first + k] * value.v[e];
                }
        }
        store_pair(sums, 2 * i, sum);
        UNROLL for (int e = 0; e < 2; ++e) sum.v[e] = hyperbolic_tangent(sum.v[e]);
        if constexpr (SHOWN) store_pair(a.shown + row * WIDTH * ELEMENT, 2 * i, sum);
    }
}

KERNEL attend_backward(const Attend a) {
    const int thread = thread_number(), warp = thread / 32, lane = thread % 32, places = a.places;
    const long long row = block_number();
    const float* weights = a.weights + row * places;
    float* errors = numbers();  // of the weights, then of the scores
    Pair* given = pairs();
    char* into_sums = a.into_sums + row * a.into_sums_pitch * ELEMENT;
    for (int i = thread; i < VALUE; i += THREADS) {
        given[i] = load_pair(into_sums, 2 * i);
        if constexpr (SHOWN) {
            const Pair first = load_pair(a.from_shown[0], row * WIDTH + 2 * i);
            const Pair second = load_pair_or_zero(a.from_shown[1], row * WIDTH + 2 * i);
            UNROLL for (int e = 0; e < 2; ++e) given[i].v[e] *= first.v[e] + second.v[e];
            store_pair(into_sums, 2 * i, given[i]);
        }
    }
    join_block();
    for (int place = warp; place < places; place += WARPS) {
        const char* values = a.values + (row * places + place) * WIDTH * ELEMENT;
        float error = 0.0f;
        UNROLL for (int i = lane; i < VALUE; i += 32) {
            const Pair value = load_pair(values, 2 * i);
            UNROLL for (int e = 0; e < 2; ++e) error += given[i].v[e] * value.v[e];
        }
        error = over_warp(error);
        if (lane == 0) errors[place] = a.from_weights == nullptr ? error : error + a.from_weights[row * places + place];
    }
    join_block();
    float mean = 0.0f;
    for (int place = lane; place < places; place += 32) mean += weights[place] * errors[place];
    mean = over_warp(mean);
    join_block();
    for (int place = thread; place < places; place += THREADS) {
        errors[place] = weights[place] * (errors[place] - mean);
        a.into_scores[row * places + place] = errors[place];
    }
    join_block();
    char* into_queries = a.into_query + row * a.into_query_pitch * ELEMENT;
    if constexpr (!ADDITIVE) {
        for (int i = thread; i < KEY; i += THREADS) {
            Pair into_query = load_pair(into_queries, 2 * i);
            UNROLL for (int place = 0; place < places; ++place) {
                const Pair key = a.keys[(row * places + place) * KEY + i];
                UNROLL for (int e = 0; e < 2; ++e) into_query.v[e] += errors[place] * key.v[e];
            }
            store_pair(into_queries, 2 * i, into_query);
        }
        return;
    }
    for (int i = thread; i < KEY; i += THREADS) {
        const Pair query = load_pair(a.query + row * a.query_pitch * ELEMENT, 2 * i), energy = a.energy[i];
        Pair into_query = {{0.0f, 0.0f}}, into_energy = a.into_energy[row * KEY + i];
        for (int first = 0; first < places; first += AT_ONCE) {
            Pair keys[AT_ONCE], into_keys[AT_ONCE];
            const long long at = (row * places + first) * KEY + i;
            UNROLL for (int k = 0; k < AT_ONCE; ++k)
                if (first + k < places) keys[k] = a.keys[at + k * KEY], into_keys[k] = a.into_keys[at + k * KEY];
            UNROLL for (int k = 0; k < AT_ONCE; ++k)
                if (first + k < places) {
                    const float error = errors[first + k];
                    UNROLL for (int e = 0; e < 2; ++e) {
                        const float seen = sigmoid(query.v[e] + keys[k].v[e]), slope = error * seen * (1.0f - seen);
                        into_energy.v[e] += error * seen;
                        into_query.v[e] += slope;
                        into_keys[k].v[e] += slope;
                    }
                    a.into_keys[at + k * KEY] = into_keys[k];
                }
        }
        a.into_energy[row * KEY + i] = into_energy;
        UNROLL for (int e = 0; e < 2; ++e) into_query.v[e] *= energy.v[e];
        store_pair(into_queries, 2 * i, into_query);
    }
}
