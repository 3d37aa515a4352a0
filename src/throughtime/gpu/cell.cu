// One step of a GRU (reset after the product) or of an LSTM without gradients, in one launch: from the two products of
// its gates, which may have 16 bits, to the next state, which has 32.
//
// Constants from the host: KIND (of the products), WARPS, LSTM.

constexpr int GATES = LSTM ? 4 : 3;  // i, f, g and o, or r, z and n

struct Cell {
    const char *from_input, *from_state;   // [rows, GATES * units]
    const float* bias;                     // [units], what W_hn h still lacks; only of a GRU
    const float *before, *memory_before;   // [rows, units]; only an LSTM has a memory
    float *after, *memory_after;
    long long rows, units;                 // units are even
};

INLINE Pair load_state(const float* state, long long index) {
    return state == nullptr ? Pair{{0.0f, 0.0f}} : *reinterpret_cast<const Pair*>(state + index);
}

KERNEL cell(const Cell a) {
    const long long pair = static_cast<long long>(block_number()) * (WARPS * 32) + thread_number();
    const long long row = pair / (a.units / 2), unit = pair % (a.units / 2) * 2, own = row * a.units + unit;
    if (row >= a.rows) return;
    Pair input[GATES], state[GATES];
    UNROLL for (int i = 0; i < GATES; ++i) {
        const long long at = (row * GATES + i) * a.units + unit;
        input[i] = load_pair(a.from_input, at), state[i] = load_pair(a.from_state, at);
    }
    Pair h = load_state(a.before, own), c = load_state(a.memory_before, own);
    const Pair bias = load_state(a.bias, unit);
    UNROLL for (int e = 0; e < 2; ++e) {
        const float first = sigmoid(input[0].v[e] + state[0].v[e]), second = sigmoid(input[1].v[e] + state[1].v[e]);
        if constexpr (LSTM) {
            const float candidate = hyperbolic_tangent(input[2].v[e] + state[2].v[e]);
            c.v[e] = second * c.v[e] + first * candidate;
            h.v[e] = sigmoid(input[GATES - 1].v[e] + state[GATES - 1].v[e]) * hyperbolic_tangent(c.v[e]);
        } else {
            const float candidate = hyperbolic_tangent(input[2].v[e] + first * (state[2].v[e] + bias.v[e]));
            h.v[e] = candidate + second * (h.v[e] - candidate);
        }
    }
    *reinterpret_cast<Pair*>(a.after + own) = h;
    if constexpr (LSTM) *reinterpret_cast<Pair*>(a.memory_after + own) = c;
}
