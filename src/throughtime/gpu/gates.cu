// The gates of a GRU (reset after the product) or of an LSTM, one step forward or backward: a launch each, where torch
// needs four or more.
//
// The sums of a row are four blocks of columns, which become the gates in place: q = W_hn h + b_hn, r, z and n of a GRU,
// i, f, g and o of an LSTM.
//
// Constants from the host: KIND, WARPS, LSTM.

struct Gates {
    char* gates;                                          // [rows, gates_pitch]: sums; then gates
    const char *before, *memory_before;                   // the state, [rows, units]; only an LSTM has a memory
    char *after, *memory_after;
    char* into_sums;                                      // [rows, gradients_pitch]
    char *into_state, *into_memory;                       // of the state after; then of that before, past the gates
    const char* more;                                     // what is added to that of the state after; may be missing
    long long rows, units, gates_pitch, gradients_pitch;  // units are even
};

struct Place {
    bool inside;
    long long state, gates, gradients;
};

INLINE Place own_place(const Gates& a) {
    const long long pair = static_cast<long long>(block_number()) * (WARPS * 32) + thread_number();
    const long long row = pair / (a.units / 2), unit = pair % (a.units / 2) * 2;
    return {row < a.rows, row * a.units + unit, row * a.gates_pitch + unit, row * a.gradients_pitch + unit};
}

KERNEL gates_forward(const Gates a) {
    const Place own = own_place(a);
    if (!own.inside) return;
    Pair gates[4], h, c;
    UNROLL for (int i = 0; i < 4; ++i) gates[i] = load_pair(a.gates, own.gates + i * a.units);
    if constexpr (LSTM) c = load_pair(a.memory_before, own.state);
    else h = load_pair(a.before, own.state);
    UNROLL for (int e = 0; e < 2; ++e) {
        float &first = gates[0].v[e], &second = gates[1].v[e], &third = gates[2].v[e], &fourth = gates[3].v[e];
        if constexpr (LSTM) {  // i, f, g, o
            first = sigmoid(first), second = sigmoid(second), fourth = sigmoid(fourth);
            third = hyperbolic_tangent(third);
            c.v[e] = second * c.v[e] + first * third;
            h.v[e] = fourth * hyperbolic_tangent(c.v[e]);
        } else {  // q, r, z, n
            second = sigmoid(second), third = sigmoid(third);
            fourth = hyperbolic_tangent(fourth + second * first);
            h.v[e] = fourth + third * (h.v[e] - fourth);
        }
    }
    UNROLL for (int i = 1 - LSTM; i < 4; ++i) store_pair(a.gates, own.gates + i * a.units, gates[i]);
    store_pair(a.after, own.state, h);
    if constexpr (LSTM) store_pair(a.memory_after, own.state, c);
}

KERNEL gates_backward(const Gates a) {
    const Place own = own_place(a);
    if (!own.inside) return;
    Pair gates[4], into[4], h, c, reached, into_c, into_h = load_pair(a.into_state, own.state);
    const Pair more = load_pair_or_zero(a.more, own.state);
    UNROLL for (int i = 0; i < 4; ++i) gates[i] = load_pair(a.gates, own.gates + i * a.units);
    if constexpr (LSTM) {
        c = load_pair(a.memory_before, own.state), reached = load_pair(a.memory_after, own.state);
        into_c = load_pair(a.into_memory, own.state);
    } else {
        h = load_pair(a.before, own.state);
    }
    UNROLL for (int e = 0; e < 2; ++e) {
        const float first = gates[0].v[e], second = gates[1].v[e], third = gates[2].v[e], fourth = gates[3].v[e];
        into_h.v[e] += more.v[e];
        if constexpr (LSTM) {  // i, f, g, o
            const float shown = hyperbolic_tangent(reached.v[e]);
            const float flowing = into_c.v[e] + into_h.v[e] * fourth * (1.0f - shown * shown);
            into[0].v[e] = flowing * third * first * (1.0f - first);
            into[1].v[e] = flowing * c.v[e] * second * (1.0f - second);
            into[2].v[e] = flowing * first * (1.0f - third * third);
            into[3].v[e] = into_h.v[e] * shown * fourth * (1.0f - fourth);
            into_c.v[e] = flowing * second, into_h.v[e] = 0.0f;
        } else {  // q, r, z, n
            into[3].v[e] = into_h.v[e] * (1.0f - third) * (1.0f - fourth * fourth);
            into[0].v[e] = into[3].v[e] * second;
            into[1].v[e] = into[0].v[e] * first * (1.0f - second);
            into[2].v[e] = into_h.v[e] * (h.v[e] - fourth) * third * (1.0f - third);
            into_h.v[e] *= third;
        }
    }
    UNROLL for (int i = 0; i < 4; ++i) store_pair(a.into_sums, own.gradients + i * a.units, into[i]);
    store_pair(a.into_state, own.state, into_h);
    if constexpr (LSTM) store_pair(a.into_memory, own.state, into_c);
}
