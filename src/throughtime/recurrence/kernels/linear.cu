// Cells that are linear in their state, h = a h + u, over all steps in one pass over memory each way.
//
// A block owns 32 * PACK channels of one row and goes through time in tiles of WARPS * STEPS steps. Each warp
// takes STEPS of them, sums them up as one step (decay A, drive U), finds the state that enters its own from
// the other warps' sums, and runs its steps from there. The next tile is on its way meanwhile.
//
// Constants from the host: CELL, KIND (of x and h), WARPS, STEPS. Channels lie in pairs, H is even.

enum Cells { MIN_GRU, MIN_LSTM };

constexpr int PARTS = CELL == MIN_GRU ? 2 : 3;  // z, candidate; or f, i, candidate
constexpr int TILE = WARPS * STEPS;
constexpr int CHANNELS = 64;  // a block's, two a lane

INLINE float exponential(float x) { return KIND == FLOAT ? expf(x) : quick_exponential(x); }

// The larger and the smaller of sigmoid(x) and sigmoid(-x), neither by a subtraction, which would lose digits.
struct Sigmoids {
    float large, small;
    bool positive;

    INLINE Sigmoids(float x) {
        const float e = exponential(x < 0.0f ? x : -x);
        large = quick_reciprocal(1.0f + e), small = e * large, positive = x >= 0.0f;
    }
    INLINE float value() const { return positive ? large : small; }
    INLINE float opposite() const { return positive ? small : large; }
};
INLINE float log_sigmoid(float x) { return (x < 0.0f ? x : 0.0f) - log1pf(exponential(x < 0.0f ? x : -x)); }

// What a step does to the state: decay and drive, and what the backward pass wants to know of the gates.
struct Step { float decay, drive, opposite, candidate, f, i; };

INLINE Step step_of(const Raw (&raw)[PARTS], int e) {
    Step s = {};
    float keep;
    if constexpr (CELL == MIN_GRU) keep = -pair_of(raw[0]).v[e];
    else {
        s.f = pair_of(raw[0]).v[e], s.i = pair_of(raw[1]).v[e];
        keep = log_sigmoid(s.f) - log_sigmoid(s.i);
    }
    s.candidate = pair_of(raw[PARTS - 1]).v[e];
    const Sigmoids gate(keep);
    s.decay = gate.value(), s.opposite = gate.opposite(), s.drive = s.opposite * s.candidate;
    return s;
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

INLINE Pair exact(const char* base, long long index) { return *reinterpret_cast<const Pair*>(base + 4 * index); }

struct Sums {  // of each warp's steps: decay and drive of both channels of each lane
    Pair decay[WARPS][32], drive[WARPS][32];
    Pair state[32];
};

struct Strip {  // where this lane works
    int lane, warp, channel, end;
    long long row;
    bool mine;

    INLINE Strip(const Linear& a) {
        const int strips = (a.size + CHANNELS - 1) / CHANNELS;
        lane = thread_number() % 32, warp = thread_number() / 32;
        row = block_number() / strips;
        channel = block_number() % strips * CHANNELS + lane * 2;
        mine = channel < a.size;
        const int length = a.lengths == nullptr ? a.steps : a.lengths[row];
        end = length < 0 ? 0 : length > a.steps ? a.steps : length;
    }
};

// The state that enters this warp's steps, and for the last warp's neighbour the one that leaves the tile.
INLINE Pair entering(Sums& sums, const Strip& strip, Pair decay, Pair drive, bool backwards) {
    sums.decay[strip.warp][strip.lane] = decay, sums.drive[strip.warp][strip.lane] = drive;
    join_block();
    Pair state = sums.state[strip.lane], mine = state;
    UNROLL for (int turn = 0; turn < WARPS; ++turn) {
        const int warp = backwards ? WARPS - 1 - turn : turn;
        if (warp == strip.warp) mine = state;
        const Pair a = sums.decay[warp][strip.lane], u = sums.drive[warp][strip.lane];
        UNROLL for (int e = 0; e < 2; ++e) state.v[e] = a.v[e] * state.v[e] + u.v[e];
    }
    join_block();
    if (strip.warp == 0) sums.state[strip.lane] = state;
    return mine;
}

KERNEL linear_forward(const Linear a) {
    Sums& sums = *reinterpret_cast<Sums*>(shared_bytes());
    const Strip strip(a);
    const long long flat = strip.row * a.size + strip.channel;
    if (strip.warp == 0) sums.state[strip.lane] = strip.mine ? exact(a.initial, flat) : Pair{{0, 0}};
    join_block();
    Raw coming[STEPS][PARTS];
    const auto request = [&](int tile) {
        UNROLL for (int s = 0; s < STEPS; ++s) {
            const int t = tile + strip.warp * STEPS + s;
            if (t < strip.end && strip.mine) UNROLL for (int part = 0; part < PARTS; ++part) coming[s][part] =
                load_raw(a.projected, ((t * a.batch + strip.row) * PARTS + part) * a.size + strip.channel);
        }
    };
    request(0);
    ROLLED for (int tile = 0; tile < strip.end; tile += TILE) {
        const int first = tile + strip.warp * STEPS;
        Pair decays[STEPS], drives[STEPS], decay = {{1, 1}}, drive = {{0, 0}};
        UNROLL for (int s = 0; s < STEPS; ++s) UNROLL for (int e = 0; e < 2; ++e) {
            const bool inside = first + s < strip.end && strip.mine;
            const Step step = inside ? step_of(coming[s], e) : Step{1, 0};
            decays[s].v[e] = step.decay, drives[s].v[e] = step.drive;
            drive.v[e] = step.decay * drive.v[e] + step.drive, decay.v[e] *= step.decay;
        }
        request(tile + TILE);
        Pair state = entering(sums, strip, decay, drive, false);
        UNROLL for (int s = 0; s < STEPS; ++s) {
            UNROLL for (int e = 0; e < 2; ++e) state.v[e] = decays[s].v[e] * state.v[e] + drives[s].v[e];
            if (first + s < strip.end && strip.mine)
                store_pair(a.outputs, ((first + s) * a.batch + strip.row) * a.size + strip.channel, state);
        }
    }
    join_block();
    if (!strip.mine) return;
    if (strip.warp == 0) *reinterpret_cast<Pair*>(a.last + flat * 4) = sums.state[strip.lane];
    ROLLED for (int t = strip.end + strip.warp; t < a.steps; t += WARPS)
        store_pair(a.outputs, (t * a.batch + strip.row) * a.size + strip.channel, {{0, 0}});
}

// g_t = d_t + b_{t+1} g_{t+1}, where b is the decay times the carry factor, and d_{T-1} has the last state's too:
// as a step from right to left with state b_t g_t: it is b_t (state + d_t).
KERNEL linear_backward(const Linear a) {
    Sums& sums = *reinterpret_cast<Sums*>(shared_bytes());
    const Strip strip(a);
    const long long flat = strip.row * a.size + strip.channel;
    if (strip.warp == 0) sums.state[strip.lane] = strip.mine ? exact(a.d_last, flat) : Pair{{0, 0}};
    join_block();
    const int tiles = (strip.end + TILE - 1) / TILE;
    Raw parts[STEPS][PARTS], before[STEPS], output[STEPS];
    const auto request = [&](int tile) {
        UNROLL for (int s = 0; s < STEPS; ++s) {
            const int t = tile * TILE + strip.warp * STEPS + s;
            if (tile < 0 || t >= strip.end || !strip.mine) continue;
            const long long at = (t * a.batch + strip.row) * a.size + strip.channel;
            UNROLL for (int part = 0; part < PARTS; ++part) parts[s][part] =
                load_raw(a.projected, ((t * a.batch + strip.row) * PARTS + part) * a.size + strip.channel);
            output[s] = load_raw(a.d_outputs, at);
            if (t > 0) before[s] = load_raw(a.outputs, at - a.batch * a.size);
        }
    };
    request(tiles - 1);
    ROLLED for (int tile = tiles - 1; tile >= 0; --tile) {
        const int first = tile * TILE + strip.warp * STEPS;
        Step steps[STEPS][2];
        Pair back[STEPS], arriving[STEPS], old[STEPS], decay = {{1, 1}}, drive = {{0, 0}};
        UNROLL for (int s = STEPS - 1; s >= 0; --s) {
            const bool inside = first + s < strip.end && strip.mine;
            const float factor = inside && a.carry != nullptr ? a.carry[(first + s) * a.batch + strip.row] : 1.0f;
            arriving[s] = inside ? pair_of(output[s]) : Pair{{0, 0}};
            old[s] = {{0, 0}};
            if (inside) old[s] = first + s > 0 ? pair_of(before[s]) : exact(a.initial, flat);
            UNROLL for (int e = 0; e < 2; ++e) {
                steps[s][e] = inside ? step_of(parts[s], e) : Step{1, 0};
                back[s].v[e] = steps[s][e].decay * factor;
                drive.v[e] = back[s].v[e] * (drive.v[e] + arriving[s].v[e]), decay.v[e] *= back[s].v[e];
            }
        }
        request(tile - 1);
        Pair state = entering(sums, strip, decay, drive, true);
        UNROLL for (int s = STEPS - 1; s >= 0; --s) {
            Pair d_parts[PARTS];
            UNROLL for (int e = 0; e < 2; ++e) {
                const Step& step = steps[s][e];
                const float g = state.v[e] + arriving[s].v[e];
                const float d_keep = g * (old[s].v[e] - step.candidate) * step.decay * step.opposite;
                d_parts[PARTS - 1].v[e] = g * step.opposite;
                if constexpr (CELL == MIN_GRU) d_parts[0].v[e] = -d_keep;
                else {
                    d_parts[0].v[e] = d_keep * Sigmoids(step.f).opposite();
                    d_parts[1].v[e] = -d_keep * Sigmoids(step.i).opposite();
                }
                state.v[e] = back[s].v[e] * g;
            }
            const int t = first + s;
            const long long at = (t * a.batch + strip.row) * PARTS * a.size + strip.channel;
            if (t < strip.end && strip.mine)
                UNROLL for (int part = 0; part < PARTS; ++part)
                    store_pair(a.d_projected, at + part * a.size, d_parts[part]);
        }
    }
    join_block();
    if (!strip.mine) return;
    if (strip.warp == 0) *reinterpret_cast<Pair*>(a.d_initial + flat * 4) = sums.state[strip.lane];
    ROLLED for (int t = strip.end + strip.warp; t < a.steps; t += WARPS)
        UNROLL for (int part = 0; part < PARTS; ++part)
            store_pair(a.d_projected, ((t * a.batch + strip.row) * PARTS + part) * a.size + strip.channel, {{0, 0}});
}
