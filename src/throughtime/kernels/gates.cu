// The gates of a GRU that resets after the product, one step forward or backward: a launch each, where torch needs four.
//
// The sums of a row are four blocks of columns, q = W_hn h + b_hn, r, z and n, which become the gates in place.
//
// Constants from the host: KIND, WARPS.

struct Gates {
    char* gates;                                         // [rows, gates_pitch]: sums; then q, r, z, n
    const char* before;                                  // the state, [rows, units]
    char* after;                                         // [rows, units]
    char* into_sums;                                     // [rows, gradients_pitch]
    char* into_state;                                    // of the state after; then of that before, past the gates
    long long rows, units, gates_pitch, gradients_pitch;  // units are even
};

struct Place {
    bool inside;
    long long row, unit, state;
};

INLINE Place own_place(const Gates& a) {
    const long long pair = static_cast<long long>(block_number()) * (WARPS * 32) + thread_number();
    const long long row = pair / (a.units / 2), unit = pair % (a.units / 2) * 2;
    return {row < a.rows, row, unit, row * a.units + unit};
}

KERNEL gates_forward(const Gates a) {
    const Place own = own_place(a);
    if (!own.inside) return;
    const long long at = own.row * a.gates_pitch + own.unit;
    const Pair q = load_pair(a.gates, at), h = load_pair(a.before, own.state);
    Pair r = load_pair(a.gates, at + a.units), z = load_pair(a.gates, at + 2 * a.units);
    Pair n = load_pair(a.gates, at + 3 * a.units), next;
    UNROLL for (int e = 0; e < 2; ++e) {
        r.v[e] = sigmoid(r.v[e]), z.v[e] = sigmoid(z.v[e]);
        n.v[e] = hyperbolic_tangent(n.v[e] + r.v[e] * q.v[e]);
        next.v[e] = n.v[e] + z.v[e] * (h.v[e] - n.v[e]);
    }
    store_pair(a.gates, at + a.units, r);
    store_pair(a.gates, at + 2 * a.units, z);
    store_pair(a.gates, at + 3 * a.units, n);
    store_pair(a.after, own.state, next);
}

KERNEL gates_backward(const Gates a) {
    const Place own = own_place(a);
    if (!own.inside) return;
    const long long at = own.row * a.gates_pitch + own.unit, into = own.row * a.gradients_pitch + own.unit;
    const Pair q = load_pair(a.gates, at), r = load_pair(a.gates, at + a.units);
    const Pair z = load_pair(a.gates, at + 2 * a.units), n = load_pair(a.gates, at + 3 * a.units);
    const Pair h = load_pair(a.before, own.state);
    Pair state = load_pair(a.into_state, own.state), into_q, into_r, into_z, into_n;
    UNROLL for (int e = 0; e < 2; ++e) {
        into_n.v[e] = state.v[e] * (1.0f - z.v[e]) * (1.0f - n.v[e] * n.v[e]);
        into_q.v[e] = into_n.v[e] * r.v[e];
        into_r.v[e] = into_q.v[e] * q.v[e] * (1.0f - r.v[e]);
        into_z.v[e] = state.v[e] * (h.v[e] - n.v[e]) * z.v[e] * (1.0f - z.v[e]);
        state.v[e] *= z.v[e];
    }
    store_pair(a.into_sums, into, into_q);
    store_pair(a.into_sums, into + a.units, into_r);
    store_pair(a.into_sums, into + 2 * a.units, into_z);
    store_pair(a.into_sums, into + 3 * a.units, into_n);
    store_pair(a.into_state, own.state, state);
}
