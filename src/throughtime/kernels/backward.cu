// Backward: from the last step to the first; what stays are the gradients of all sums [T, B, DIRECTIONS, SLOTS, WIDTH].

struct BackwardDirection {
    long long reads_back;  // as in forward
    const char* gates;     // [T, B, DIRECTIONS, GATES, WIDTH], as forward left them
    const char* first;     // the state before the first step [B, DIRECTIONS, WIDTH]
    const char* states;    // after each step [T, B, DIRECTIONS, WIDTH]
    const char* memory;    // LSTM [B, WIDTH]
    const char* memories;  // LSTM [T, B, WIDTH]
    const char* extra;     // GRU_AFTER: q [T, B, WIDTH]
    const char* weight;    // [WIDTH, FED * WIDTH], in the order of the slots
    const char* weight_n;  // GRU_BEFORE [WIDTH, WIDTH]
    const char* outputs;   // gradients that come in [T, B, DIRECTIONS, WIDTH]
    const char* last;      // and of the last state [B, WIDTH]; may be missing
    const char* last_memory;
    char* sums;     // gradients that go out, the first exchanged
    char* initial;  // [B, WIDTH]; missing if not wanted
    char* initial_memory;
    char* parts;  // SPLIT > 1: float [2, B, SPLIT, WIDTH], void at first
};

struct Backward {
    long long steps, batch, pause;
    const int* lengths;
    const float* carry;   // [T, B], or none
    long long direction;  // the first that this launch runs
    Span span;            // of a sequence in spans, the last one is run first
    BackwardDirection directions[DIRECTIONS];
};

constexpr int DEPTH = FED * STATE_BYTES / SPLIT;  // bytes of the inner dimension that a block multiplies
using Main = Product<1, DEPTH, FED * STATE_BYTES, HELD, STAGED>;
using Second = Product<1, STATE_BYTES, STATE_BYTES, HELD_N, CELL == GRU_BEFORE ? STAGED_N : STATE_BYTES>;
constexpr int SHARES = Main::SHARE_BYTES, STAGED_AT = SHARES + AFTER_SHARES;
static_assert(FED % SPLIT == 0 && (SPLIT == 1 || CELL != GRU_BEFORE), "blocks split a product between gates");
static_assert(STAGED_AT + Main::BYTES + (CELL == GRU_BEFORE ? Second::BYTES : 0) == SHARED_BYTES,
              "the host and the kernel disagree about shared memory");
constexpr int GATES_PITCH = DIRECTIONS * GATES * WIDTH, SLOTS_PITCH = DIRECTIONS * SLOTS * WIDTH;
constexpr int SLOTS_BYTES = SLOTS_PITCH * ELEMENT;  // from one row of gradients to the next

INLINE float factor(const Backward& a, long long row) {
    return a.carry == nullptr ? 1.0f : a.carry[a.span.first * a.batch + row];
}

// The sums of units that SPLIT blocks share. Each block has a part of every sum, finishes OWN_PAIRS pairs of the
// units and gives its parts of the others to those that finish them.
//
// Two steps take turns in `parts`, and the last bit of a word says in which round it was written: so nothing is
// ever reset. A block writes over what was there two steps before; by then it has been read, since the product
// before it waited for the gradients that were computed from it.
struct Parts {
    char* base;
    long long batch;
    int slice, number;  // of the step, from the last on

    INLINE void* at(long long row, int from, int unit) const {
        return base + ((((number & 1) * batch + row) * SPLIT + from) * WIDTH + unit) * 4;
    }
    INLINE word round() const { return number >> 1 & 1; }
    INLINE word marked(float value) const { return (as_word(value) & ~1u) | round(); }
    INLINE bool missing(Two words) const { return ((words.a ^ round()) | (words.b ^ round())) & 1; }

    INLINE void give(const Place& place, int pass) const {
        UNROLL for (int turn = 0; turn < Task<PAIRS>::EACH; ++turn) {
            const Task<PAIRS> task(turn, place.first_unit, 0);
            if (!task.mine || task.row >= place.count(pass) || task.pair / OWN_PAIRS == slice) continue;
            const Pair sum = Main::total(place.shares, 0, task);
            const long long row = place.group_row + pass * ROWS + task.row;
            show(at(row, slice, task.unit), marked(sum.v[0]), marked(sum.v[1]));
        }
    }

    // Complete the sums of this block's own units, always in the same order.
    INLINE void take(const Place& place, int pass, Pair (&sums)[TASKS_EACH]) const {
        Two found[TASKS_EACH][SPLIT];
        UNROLL for (int turn = 0; turn < TASKS_EACH; ++turn) UNROLL for (int from = 0; from < SPLIT; ++from)
            found[turn][from] = {round(), round()};
        for (int looks = 0;; ++looks) {
            EACH_TASK(place, pass) UNROLL for (int from = 0; from < SPLIT; ++from)
                if (from != slice && (looks == 0 || missing(found[turn][from]))) found[turn][from] =
                    look_two(at(place.group_row + pass * ROWS + task.row, from, task.unit));
            bool some = false;
            UNROLL for (int turn = 0; turn < TASKS_EACH; ++turn)
                UNROLL for (int from = 0; from < SPLIT; ++from) some |= missing(found[turn][from]);
            if (!in_any_lane(some)) break;
            if (looks == PATIENCE) give_up();
        }
        UNROLL for (int turn = 0; turn < TASKS_EACH; ++turn) {
            Pair sum = {{0.0f, 0.0f}};
            UNROLL for (int from = 0; from < SPLIT; ++from) {
                sum.v[0] += from == slice ? sums[turn].v[0] : as_float(found[turn][from].a);
                sum.v[1] += from == slice ? sums[turn].v[1] : as_float(found[turn][from].b);
            }
            sums[turn] = sum;
        }
    }
};

KERNEL backward(const Backward all) {
    const Place place(all.batch, SHARES);
    const BackwardDirection a = all.directions[DIRECTIONS > 1 ? all.direction + place.direction : 0];
    const long long batch = all.batch;
    Main product;
    product.settle_in(a.weight + place.slice * DEPTH, place.first_unit, shared_bytes() + STAGED_AT);
    Second second;
    if constexpr (CELL == GRU_BEFORE)
        second.settle_in(a.weight_n, place.first_unit, shared_bytes() + STAGED_AT + Main::BYTES);
    const int longest = place.longest(all.lengths, all.span.first, all.steps);
    ROLLED for (int pass = 0; pass < PASSES; ++pass) EACH_TASK(place, pass) {
        const long long row = place.group_row + pass * ROWS + task.row;
        place.value(0, pass, task) = all.span.resumes ? *all.span.value(0, batch, row, task.unit)
                                                      : load_pair_or_zero(a.last, row * WIDTH + task.unit);
        if constexpr (CELL == LSTM)
            place.value(1, pass, task) = all.span.resumes ? *all.span.value(1, batch, row, task.unit)
                                                          : load_pair_or_zero(a.last_memory, row * WIDTH + task.unit);
        ROLLED for (long long t = longest; t < all.steps; ++t)
            UNROLL for (int slot = 0; slot < SLOTS; ++slot)
                store_pair(a.sums, (t * batch + row) * SLOTS_PITCH + slot * WIDTH + task.unit, {{0.0f, 0.0f}});
    }
    const auto time = [&](int step) { return a.reads_back ? longest - 1 - step : step; };
    const auto look = [&](int step, int pass, int cycles) {  // for what the step after this one left
        const long long after = time(step + 1) * batch + place.group_row + pass * ROWS;
        product.look(
            a.sums + after * SLOTS_BYTES + place.slice * DEPTH, SLOTS_BYTES, place.count(pass), cycles);
    };
    // At step -1 nothing is left but to take in what the first step gives to the state before it.
    ROLLED for (int step = longest - 1; step >= -1; --step) ROLLED for (int pass = 0; pass < PASSES; ++pass) {
        const int t = time(step), earlier = time(step - 1), later = time(step + 1);
        const long long row = t * batch + place.group_row + pass * ROWS;
        const long long row_before = earlier * batch + place.group_row + pass * ROWS;
        Raw gates[TASKS_EACH][GATES], output[TASKS_EACH], before[TASKS_EACH], now[TASKS_EACH];
        EACH_TASK(place, pass) if (step >= 0) {
            const long long at = (row + task.row) * WIDTH + task.unit, at_before = (row_before + task.row) * WIDTH + task.unit;
            const long long state_at = (row + task.row) * PITCH + task.unit;
            const long long first_row = place.group_row + pass * ROWS + task.row;
            const bool begins = step == 0 || earlier >= place.ends[pass * ROWS + task.row];
            output[turn] = load_raw(a.outputs, state_at);
            UNROLL for (int gate = 0; gate < GATES; ++gate)
                gates[turn][gate] = load_raw(a.gates, (row + task.row) * GATES_PITCH + gate * WIDTH + task.unit);
            if constexpr (CELL == LSTM) {
                now[turn] = load_raw(a.memories, at);
                before[turn] = begins ? load_raw(a.memory, first_row * WIDTH + task.unit) : load_raw(a.memories, at_before);
            } else if constexpr (CELL == GRU_AFTER) now[turn] = load_raw(a.extra, at);
            if constexpr (CELL == GRU_AFTER || CELL == GRU_BEFORE)
                before[turn] = begins ? load_raw(a.first, first_row * PITCH + task.unit)
                                      : load_raw(a.states, (row_before + task.row) * PITCH + task.unit);
        }
        if (!AHEAD && step > 0) EACH_TASK(place, pass) {
            const long long at = (row_before + task.row) * WIDTH + task.unit;
            const long long state_at = (row_before + task.row) * PITCH + task.unit;
            const long long further = (time(step - 2) - earlier) * batch;
            fetch(a.outputs + state_at * ELEMENT);
            UNROLL for (int gate = 0; gate < GATES; ++gate)
                fetch(a.gates + ((row_before + task.row) * GATES_PITCH + gate * WIDTH + task.unit) * ELEMENT);
            if constexpr (CELL == LSTM) fetch(a.memories + (at + (step > 1 ? further * WIDTH : 0)) * ELEMENT);
            else if constexpr (CELL == GRU_AFTER) fetch(a.extra + at * ELEMENT);
            if constexpr (GATES == 3) fetch(a.states + (state_at + (step > 1 ? further * PITCH : 0)) * ELEMENT);
        }
        const bool fed = step + 1 < longest;
        const long long after = later * batch + place.group_row + pass * ROWS;
        if (fed) {
            if (!AHEAD) look(step, pass, all.pause);
            product(a.sums + after * SLOTS_BYTES + place.slice * DEPTH, SLOTS_BYTES, place.count(pass), true,
                    place.shares);
        }
        if (AHEAD && fed && pass + 1 < PASSES) look(step, pass + 1, 0);
        else if (AHEAD && step >= 0 && pass + 1 == PASSES) look(step - 1, 0, 0);
        if (fed) {
            join_block();
            const Parts parts{a.parts, batch, place.slice, longest - 2 - step};
            if constexpr (SPLIT > 1) parts.give(place, pass);
            Pair totals[TASKS_EACH];
            EACH_TASK(place, pass) totals[turn] = Main::total(place.shares, 0, task);
            join_block();
            if constexpr (SPLIT > 1) parts.take(place, pass, totals);
            EACH_TASK(place, pass) if (later < place.ends[pass * ROWS + task.row]) {
                const float scale = factor(all, after + task.row);
                UNROLL for (int e = 0; e < 2; ++e) place.value(0, pass, task).v[e] += scale * totals[turn].v[e];
            }
        }
        if (step < 0) continue;
        Pair partial[TASKS_EACH];  // GRU_BEFORE: the gradient of r h
        EACH_TASK(place, pass) {
            const bool inside = t < place.ends[pass * ROWS + task.row];
            const long long at = (row + task.row) * SLOTS_PITCH + task.unit;
            const float scale = factor(all, row + task.row);
            const Pair d_output = pair_of(output[turn]);
            Pair d_state = place.value(0, pass, task), d_sums[SLOTS], gate[GATES], then, current;
            if constexpr (CELL != TANH && CELL != RELU) then = pair_of(before[turn]);
            if constexpr (CELL == LSTM || CELL == GRU_AFTER) current = pair_of(now[turn]);
            UNROLL for (int g = 0; g < GATES; ++g) gate[g] = pair_of(gates[turn][g]);
            UNROLL for (int e = 0; e < 2; ++e) {
                const float d = d_state.v[e] + d_output.v[e];
                if constexpr (CELL == TANH || CELL == RELU) {
                    d_sums[0].v[e] = CELL == TANH ? d * gate[0].v[e] : gate[0].v[e] > 0.0f ? d : 0.0f;
                    d_state.v[e] = 0.0f;
                } else if constexpr (CELL == LSTM) {
                    const float i = gate[0].v[e], f = gate[1].v[e], g = gate[2].v[e], o = gate[3].v[e];
                    const float seen = hyperbolic_tangent(current.v[e]);
                    const float d_memory = place.value(1, pass, task).v[e] + d * o * (1.0f - seen * seen);
                    d_sums[0].v[e] = d_memory * g * i * (1.0f - i);
                    d_sums[1].v[e] = d_memory * then.v[e] * f * (1.0f - f);
                    d_sums[2].v[e] = d_memory * i * (1.0f - g * g);
                    d_sums[3].v[e] = d * seen * o * (1.0f - o);
                    d_state.v[e] = 0.0f;
                    if (inside) place.value(1, pass, task).v[e] = d_memory * f * scale;
                } else {
                    const float r = gate[0].v[e], z = gate[1].v[e], n = gate[2].v[e];
                    const float d_n = d * (1.0f - z) * (1.0f - n * n), d_z = d * (then.v[e] - n) * z * (1.0f - z);
                    d_state.v[e] = d * z * scale;
                    if constexpr (CELL == GRU_AFTER) {
                        d_sums[0].v[e] = d_n * r, d_sums[1].v[e] = d_n * current.v[e] * r * (1.0f - r);
                        d_sums[2].v[e] = d_z, d_sums[SLOTS - 1].v[e] = d_n;
                    } else d_sums[1].v[e] = d_z, d_sums[2].v[e] = d_n;
                }
            }
            if (inside) place.value(0, pass, task) = d_state;
            UNROLL for (int slot = CELL == GRU_BEFORE; slot < SLOTS; ++slot)
                exchange(a.sums, at + slot * WIDTH, inside ? d_sums[slot] : Pair{{0.0f, 0.0f}});
        }
        if constexpr (CELL == GRU_BEFORE) {
            const char* d_n = a.sums + row * SLOTS_BYTES + 2 * STATE_BYTES;
            second.look(d_n, SLOTS_BYTES, place.count(pass), all.pause);
            second(d_n, SLOTS_BYTES, place.count(pass), true, place.shares);
            join_block();
            EACH_TASK(place, pass) partial[turn] = Second::total(place.shares, 0, task);
            join_block();
            EACH_TASK(place, pass) {
                const bool inside = t < place.ends[pass * ROWS + task.row];
                const float scale = factor(all, row + task.row);
                const Pair r = pair_of(gates[turn][0]), h = pair_of(before[turn]);
                Pair d_r = {{0.0f, 0.0f}};
                if (inside) UNROLL for (int e = 0; e < 2; ++e) {
                    d_r.v[e] = partial[turn].v[e] * h.v[e] * r.v[e] * (1.0f - r.v[e]);
                    place.value(0, pass, task).v[e] += partial[turn].v[e] * r.v[e] * scale;
                }
                exchange(a.sums, (row + task.row) * SLOTS_PITCH + task.unit, d_r);
            }
        }
    }
    ROLLED for (int pass = 0; pass < PASSES; ++pass) EACH_TASK(place, pass) {
        const long long row = place.group_row + pass * ROWS + task.row, at = row * WIDTH + task.unit;
        if (all.span.running != nullptr) UNROLL for (int which = 0; which < 1 + (CELL == LSTM); ++which)
            *all.span.value(which, batch, row, task.unit) = place.value(which, pass, task);
        if (a.initial != nullptr) store_pair(a.initial, at, place.value(0, pass, task));
        if constexpr (CELL == LSTM)
            if (a.initial_memory != nullptr) store_pair(a.initial_memory, at, place.value(1, pass, task));
    }
}
