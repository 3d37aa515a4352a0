// Cells that are linear in their state, h = a h + u, over all steps in one pass over memory each way.
//
// A block owns CHANNELS channels of one row and goes through time in tiles of WARPS * STEPS steps. Each warp
// takes STEPS of them, sums them up as one step (decay A, drive U), finds the state that enters its own from
// the sums of the warps before it, and runs its steps from there. The next STAGES tiles are on their way into
// shared memory meanwhile; a lane copies what it reads itself, so that it waits for no other.
//
// A tile that lies wholly inside the row tests none of its steps; only where the row ends (or, backward,
// begins) are they tested.
//
// Constants from the host: CELL, KIND (of x and h), CARRY (whether it is given), WARPS, STEPS, STAGES.
// Channels lie in pairs, H is even.

enum Cells { MIN_GRU, MIN_LSTM };

constexpr int PARTS = CELL == MIN_GRU ? 2 : 3;  // z, candidate; or f, i, candidate
constexpr int TILE = WARPS * STEPS;
constexpr int CHANNELS = 64;  // a block's, two a lane
constexpr int PAIR = 2 * ELEMENT;

// sigmoid(x) and sigmoid(-x), neither by a subtraction, which would lose digits.
struct Gate {
    float open, shut;

    INLINE Gate(float x) {
        const float e = exponential(x > 87.0f ? 87.0f : x);  // beyond it overflows; NaN stays NaN
        shut = quick_reciprocal(1.0f + e), open = e * shut;
    }
};

// f / (f + i) and i / (f + i) of the sigmoids of two numbers: (1 + e^-i) and (1 + e^-f) over their sum, all
// over the largest of the three so that nothing overflows.
struct Shares {
    float forget, input;

    INLINE Shares(float f, float i) {
        const float low_f = f < -1e38f ? 1e38f : -f, low_i = i < -1e38f ? 1e38f : -i;
        const float most = fmaxf(fmaxf(low_f, low_i), 0.0f), one = exponential(-most);
        const float of_f = one + exponential(low_f - most), of_i = one + exponential(low_i - most);
        const float part = quick_reciprocal(of_f + of_i);
        forget = of_i * part, input = of_f * part;
    }
};

// What a step does to the state: h = decay h + opposite candidate.
struct Step { Pair decay, opposite; };

INLINE Step step_of(const Raw (&raw)[PARTS]) {
    Step step;
    UNROLL for (int e = 0; e < 2; ++e) {
        if constexpr (CELL == MIN_GRU) {
            const Gate z(pair_of(raw[0]).v[e]);
            step.decay.v[e] = z.shut, step.opposite.v[e] = z.open;
        } else {
            const Shares shares(pair_of(raw[0]).v[e], pair_of(raw[1]).v[e]);
            step.decay.v[e] = shares.forget, step.opposite.v[e] = shares.input;
        }
    }
    return step;
}

struct Linear {
    long long steps, batch, size;  // size: channels of a row
    const char* projected;         // [T, B, PARTS * size]
    const char* initial;           // [B, size] float32
    char* outputs;                 // [T, B, size]
    char* last;                    // [B, size] float32
    const int* lengths;
    // Backward alone: what comes in, and what goes out. `outputs` is what forward gave.
    const char* d_outputs;
    const char* d_last;
    char* d_projected;
    char* d_initial;
    const float* carry;
};

struct alignas(16) Sum { Pair decay, drive; };  // of a warp's steps

INLINE Pair after(const Sum& sum, Pair state) {
    UNROLL for (int e = 0; e < 2; ++e) state.v[e] = sum.decay.v[e] * state.v[e] + sum.drive.v[e];
    return state;
}

struct Shared {  // by the tile's parity, so that one wait a tile is enough
    Sum sums[2][WARPS][32];
    Pair state[2][32];  // that enters the tile
};

struct Strip {  // where this lane works
    int lane, warp, channel, end;
    long long row;

    INLINE Strip(const Linear& a) {
        const int strips = (a.size + CHANNELS - 1) / CHANNELS;
        lane = thread_number() % 32, warp = thread_number() / 32;
        row = block_number() / strips;
        channel = block_number() % strips * CHANNELS + lane * 2;
        if (channel >= a.size) channel = a.size - 2;  // the same once more, written alike: nothing to test
        const int length = a.lengths == nullptr ? a.steps : a.lengths[row];
        end = length < 0 ? 0 : length > a.steps ? a.steps : length;
    }
};

// A lane's pair in a tensor [T, B, parts * size], from some step on.
template <typename Byte> struct Rows {
    Byte* at;
    int step, part;  // bytes from one to the next

    INLINE Rows(Byte* base, const Linear& a, const Strip& strip, int parts, long long first)
        : step(a.batch * parts * a.size * ELEMENT), part(a.size * ELEMENT) {
        at = base + ((first * a.batch + strip.row) * parts * a.size + strip.channel) * ELEMENT;
    }
    INLINE Byte* place(int s, int which = 0) const {
        Byte* const line = at + which * part;
        return s == 0 ? line : line + times(s, step);
    }
    INLINE void advance(int steps) { at += times(steps, step); }
};

INLINE void store_at(char* at, Pair pair) { store_pair(at, 0, pair); }
INLINE Pair* exact(const char* base, const Linear& a, const Strip& strip) {  // in a float32 tensor [B, size]
    return reinterpret_cast<Pair*>(const_cast<char*>(base) + (strip.row * a.size + strip.channel) * 4);
}

// Where a lane's LOADS pairs of each of its steps lie in shared memory, for STAGES tiles.
template <int LOADS> struct Stages {
    char* at;
    static constexpr int SIZE = LOADS * STEPS * WARPS * 32 * PAIR;

    INLINE Stages() : at(shared_bytes() + sizeof(Shared) + thread_number() * PAIR) {}
    INLINE char* place(int stage, int s, int load) const {
        return at + stage * SIZE + (s * LOADS + load) * (WARPS * 32 * PAIR);
    }
    INLINE void copy(int stage, int s, int load, const char* from) const {
        copy_later<PAIR>(place(stage, s, load), from);
    }
    INLINE Raw raw(int stage, int s, int load) const {
        const char* const from = place(stage, s, load);
        if constexpr (ELEMENT == 2) return {*reinterpret_cast<const word*>(from), 0};
        const Pair pair = *reinterpret_cast<const Pair*>(from);  // in one read
        return {as_word(pair.v[0]), as_word(pair.v[1])};
    }
};

INLINE int next(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }

// The state that enters this warp's steps; `before` warps take theirs earlier. The last of all leaves the
// state for the next tile.
INLINE Pair entering(Shared& shared, int parity, int lane, int before, const Sum& sum) {
    constexpr int GROUP = WARPS < 4 ? WARPS : 4;  // read at once
    static_assert(WARPS > 1 && WARPS % GROUP == 0, "warps go by groups");
    shared.sums[parity][before][lane] = sum;
    join_block();
    Pair state = shared.state[parity][lane];
    const int whole = before / GROUP * GROUP;
    Sum rest[GROUP - 1];
    UNROLL for (int i = 0; i < GROUP - 1; ++i) rest[i] = shared.sums[parity][whole + i][lane];
    ROLLED for (int first = 0; first < whole; first += GROUP) {
        Sum sums[GROUP];
        UNROLL for (int i = 0; i < GROUP; ++i) sums[i] = shared.sums[parity][first + i][lane];
        UNROLL for (int i = 0; i < GROUP; ++i) state = after(sums[i], state);
    }
    UNROLL for (int i = 0; i < GROUP - 1; ++i) if (whole + i < before) state = after(rest[i], state);
    if (before == WARPS - 1) shared.state[1 - parity][lane] = after(sum, state);
    return state;
}

struct Forward {
    const Strip strip;
    const Stages<PARTS> stages;
    Shared& shared;
    Rows<const char> from;
    Rows<char> to;
    int asked;  // first step of the tile to be asked for next
    int stage, parity;

    INLINE Forward(const Linear& a)
        : strip(a), shared(*reinterpret_cast<Shared*>(shared_bytes())),
          from(a.projected, a, strip, PARTS, strip.warp * STEPS),
          to(a.outputs, a, strip, 1, strip.warp * STEPS), asked(0), stage(0), parity(0) {}

    template <bool WHOLE> INLINE void copy(int into) {
        UNROLL for (int s = 0; s < STEPS; ++s)
            if (WHOLE || asked + strip.warp * STEPS + s < strip.end)
                UNROLL for (int part = 0; part < PARTS; ++part)
                    stages.copy(into, s, part, from.place(s, part));
    }
    INLINE void request(int into) {
        if (asked + TILE <= strip.end) copy<true>(into);
        else copy<false>(into);
        end_copies();
        asked += TILE, from.advance(TILE);
    }

    template <bool WHOLE> INLINE void run(int tile) {
        Raw raw[STEPS][PARTS];
        UNROLL for (int s = 0; s < STEPS; ++s)
            UNROLL for (int part = 0; part < PARTS; ++part) raw[s][part] = stages.raw(stage, s, part);
        request(stage);
        const int first = tile + strip.warp * STEPS;
        Sum steps[STEPS], sum = {{{1, 1}}, {{0, 0}}};
        UNROLL for (int s = 0; s < STEPS; ++s) {
            const Step step = step_of(raw[s]);
            const Pair candidate = pair_of(raw[s][PARTS - 1]);
            UNROLL for (int e = 0; e < 2; ++e) {
                const bool inside = WHOLE || first + s < strip.end;
                steps[s].decay.v[e] = inside ? step.decay.v[e] : 1.0f;
                steps[s].drive.v[e] = inside ? step.opposite.v[e] * candidate.v[e] : 0.0f;
                sum.decay.v[e] *= steps[s].decay.v[e];
            }
            sum.drive = after(steps[s], sum.drive);
        }
        Pair state = entering(shared, parity, strip.lane, strip.warp, sum);
        UNROLL for (int s = 0; s < STEPS; ++s) {
            state = after(steps[s], state);
            if (WHOLE || first + s < strip.end) store_at(to.place(s), state);
        }
        to.advance(TILE), stage = next(stage), parity = 1 - parity;
    }
};

KERNEL linear_forward(const Linear a) {
    Forward forward(a);
    const Strip& strip = forward.strip;
    if (strip.warp == WARPS - 1) forward.shared.state[0][strip.lane] = *exact(a.initial, a, strip);
    UNROLL for (int stage = 0; stage < STAGES; ++stage) forward.request(stage);
    ROLLED for (int tile = 0; tile < strip.end; tile += TILE) {
        await_copies<STAGES - 1>();
        if (tile + TILE <= strip.end) forward.run<true>(tile);
        else forward.run<false>(tile);
    }
    if (strip.warp == WARPS - 1) *exact(a.last, a, strip) = forward.shared.state[forward.parity][strip.lane];
    Rows<char> rest(a.outputs, a, strip, 1, strip.end + strip.warp);
    ROLLED for (int t = strip.end + strip.warp; t < a.steps; t += WARPS, rest.advance(WARPS))
        store_at(rest.at, {{0, 0}});
}

// g_t = d_t + b_{t+1} g_{t+1}, where b is the decay times the carry factor, and d_{T-1} has the last state's too:
// as a step from right to left with state b_t g_t: it is b_t (state + d_t).
struct Backward {
    static constexpr int OUTPUT = PARTS, BEFORE = PARTS + 1, LOADS = PARTS + 2;
    const Linear& a;
    const Strip strip;
    const Stages<LOADS> stages;
    Shared& shared;
    Rows<const char> from, arriving, before;  // what the step took, what comes in at it, the state before it
    Rows<char> to;
    int asked;  // first step of the tile to be asked for next
    int stage, parity;

    INLINE Backward(const Linear& a, const Strip& where, int tile, long long first)
        : a(a), strip(where), shared(*reinterpret_cast<Shared*>(shared_bytes())),
          from(a.projected, a, strip, PARTS, first), arriving(a.d_outputs, a, strip, 1, first),
          before(a.outputs, a, strip, 1, first - 1), to(a.d_projected, a, strip, PARTS, first),
          asked(tile), stage(0), parity(0) {}

    template <bool WHOLE> INLINE void copy(int into) {
        UNROLL for (int s = 0; s < STEPS; ++s) {
            const int t = asked + strip.warp * STEPS + s;
            if (!WHOLE && (asked < 0 || t >= strip.end)) continue;
            UNROLL for (int part = 0; part < PARTS; ++part)
                stages.copy(into, s, part, from.place(s, part));
            stages.copy(into, s, OUTPUT, arriving.place(s));
            if (WHOLE || t > 0) stages.copy(into, s, BEFORE, before.place(s));
        }
    }
    INLINE bool whole(int tile) const { return tile > 0 && tile + TILE <= strip.end; }
    INLINE void request(int into) {
        if (whole(asked)) copy<true>(into);
        else copy<false>(into);
        end_copies();
        asked -= TILE, from.advance(-TILE), arriving.advance(-TILE), before.advance(-TILE);
    }

    template <bool WHOLE> INLINE void run(int tile) {
        Raw raw[STEPS][LOADS];
        UNROLL for (int s = 0; s < STEPS; ++s)
            UNROLL for (int load = 0; load < LOADS; ++load) raw[s][load] = stages.raw(stage, s, load);
        request(stage);
        const int first = tile + strip.warp * STEPS;
        float factors[STEPS];
        UNROLL for (int s = 0; s < STEPS; ++s)
            factors[s] = CARRY && (WHOLE || first + s < strip.end)
                ? a.carry[(first + s) * a.batch + strip.row] : 1.0f;
        Step steps[STEPS];
        Sum sum = {{{1, 1}}, {{0, 0}}};
        UNROLL for (int s = STEPS - 1; s >= 0; --s) {
            Raw parts[PARTS];
            UNROLL for (int part = 0; part < PARTS; ++part) parts[part] = raw[s][part];
            steps[s] = step_of(parts);
            const Pair d = pair_of(raw[s][OUTPUT]);
            UNROLL for (int e = 0; e < 2; ++e) {
                const bool inside = WHOLE || first + s < strip.end;
                const float back = steps[s].decay.v[e] * factors[s];
                sum.drive.v[e] = inside ? back * (sum.drive.v[e] + d.v[e]) : sum.drive.v[e];
                sum.decay.v[e] *= inside ? back : 1.0f;
            }
        }
        Pair state = entering(shared, parity, strip.lane, WARPS - 1 - strip.warp, sum);
        UNROLL for (int s = STEPS - 1; s >= 0; --s) {
            if (!WHOLE && first + s >= strip.end) continue;
            const Pair d = pair_of(raw[s][OUTPUT]), candidate = pair_of(raw[s][PARTS - 1]);
            Pair old = pair_of(raw[s][BEFORE]), d_parts[PARTS];
            if (!WHOLE && first + s == 0) old = *exact(a.initial, a, strip);
            UNROLL for (int e = 0; e < 2; ++e) {
                const float g = state.v[e] + d.v[e], d_candidate = g * steps[s].opposite.v[e];
                const float d_keep = d_candidate * (steps[s].decay.v[e] * (old.v[e] - candidate.v[e]));
                d_parts[PARTS - 1].v[e] = d_candidate;
                if constexpr (CELL == MIN_GRU) d_parts[0].v[e] = -d_keep;
                else {
                    d_parts[0].v[e] = d_keep * Gate(pair_of(raw[s][0]).v[e]).shut;
                    d_parts[1].v[e] = -d_keep * Gate(pair_of(raw[s][1]).v[e]).shut;
                }
                state.v[e] = steps[s].decay.v[e] * factors[s] * g;
            }
            UNROLL for (int part = 0; part < PARTS; ++part) store_at(to.place(s, part), d_parts[part]);
        }
        to.advance(-TILE), stage = next(stage), parity = 1 - parity;
    }
};

KERNEL linear_backward(const Linear a) {
    const Strip strip(a);
    const int last = (strip.end + TILE - 1) / TILE * TILE - TILE;
    Backward backward(a, strip, last, last + strip.warp * STEPS);
    if (strip.warp == 0) backward.shared.state[0][strip.lane] = *exact(a.d_last, a, strip);
    UNROLL for (int stage = 0; stage < STAGES; ++stage) backward.request(stage);
    ROLLED for (int tile = last; tile >= 0; tile -= TILE) {
        await_copies<STAGES - 1>();
        if (backward.whole(tile)) backward.run<true>(tile);
        else backward.run<false>(tile);
    }
    if (strip.warp == 0) *exact(a.d_initial, a, strip) = backward.shared.state[backward.parity][strip.lane];
    Rows<char> rest(a.d_projected, a, strip, PARTS, strip.end + strip.warp);
    ROLLED for (int t = strip.end + strip.warp; t < a.steps; t += WARPS, rest.advance(WARPS))
        UNROLL for (int part = 0; part < PARTS; ++part) store_at(rest.place(0, part), {{0, 0}});
}
