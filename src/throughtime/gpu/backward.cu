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
static_assert(!ALONE || KEPT == GATES * WIDTH, "what is handed on: the gradients of the sums that products read");
// What a step needs of the forward pass: its gates, the gradient of its output, the memory or state before it, and the
// memory or q after it.
constexpr int OUTPUT = GATES, BEFORE = GATES + 1, NOW = GATES + 2;
constexpr int LEFT = CELL <= RELU ? GATES + 1 : CELL == GRU_BEFORE ? GATES + 2 : GATES + 3;
static_assert(!ALONE || LOADED == LEFT, "what comes later: all that a step needs of the forward pass");
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
    // Everything that a step needs from memory, and where it lies; `group` is the first row of the pass.
    const auto each_left = [&](int step, long long group, const OwnTask& task, auto use) {
        const int earlier = time(step - 1);
        const long long row = time(step) * batch + group, row_before = earlier * batch + group;
        const bool begins = step == 0 || earlier >= place.ends[group - place.group_row + task.row];
        UNROLL for (int gate = 0; gate < GATES; ++gate)
            use(gate, a.gates, (row + task.row) * GATES_PITCH + gate * WIDTH + task.unit);
        use(OUTPUT, a.outputs, (row + task.row) * PITCH + task.unit);
        if constexpr (CELL == LSTM) {
            use(NOW, a.memories, (row + task.row) * WIDTH + task.unit);
            use(BEFORE, begins ? a.memory : a.memories, ((begins ? group : row_before) + task.row) * WIDTH + task.unit);
        } else if constexpr (GATES == 3) {
            use(BEFORE, begins ? a.first : a.states, ((begins ? group : row_before) + task.row) * PITCH + task.unit);
            if constexpr (CELL == GRU_AFTER) use(NOW, a.extra, (row + task.row) * WIDTH + task.unit);
        }
    };
    const Later later{place.kept + ROWS_BYTES};
    const auto copy_left = [&](int step) {
        if (step >= 0) EACH_TASK(place, 0)
            each_left(step, place.group_row, task, [&](int value, const char* base, long long index) {
                later.copy(longest - 1 - step, task, value, base, index);
            });
        end_copies();
    };
    if constexpr (ALONE) ROLLED for (int ahead = 1; ahead <= STEPS_AHEAD; ++ahead) copy_left(longest - ahead);
    // At step -1 nothing is left but to take in what the first step gives to the state before it.
    ROLLED for (int step = longest - 1; step >= -1; --step) ROLLED for (int pass = 0; pass < PASSES; ++pass) {
        const int t = time(step), following = time(step + 1);
        const long long row = t * batch + place.group_row + pass * ROWS;
        Raw left[TASKS_EACH][LEFT];
        if constexpr (ALONE) {
            await_copies<STEPS_AHEAD - 1>();
            if (step >= 0) EACH_TASK(place, pass) UNROLL for (int value = 0; value < LEFT; ++value)
                left[turn][value] = later.take(longest - 1 - step, task, value);
            copy_left(step - STEPS_AHEAD);
        } else {
            const long long group = place.group_row + pass * ROWS;
            if (step >= 0) EACH_TASK(place, pass) each_left(step, group, task,
                [&](int value, const char* base, long long index) { left[turn][value] = load_raw(base, index); });
            if (!AHEAD && step > 0) EACH_TASK(place, pass) each_left(step - 1, group, task,
                [&](int value, const char* base, long long index) {
                    if (CELL != LSTM || value != NOW) fetch(base + index * ELEMENT);  // it was this step's BEFORE
                });
        }
        const bool fed = step + 1 < longest;
        const long long after = following * batch + place.group_row + pass * ROWS;
        if (fed) {
            if constexpr (ALONE) product(place.kept, place.shares);
            else {
                if (!AHEAD) look(step, pass, all.pause);
                product(a.sums + after * SLOTS_BYTES + place.slice * DEPTH, SLOTS_BYTES, place.count(pass), true,
                        place.shares);
            }
        }
        if (AHEAD && fed && pass + 1 < PASSES) look(step, pass + 1, 0);
        else if (AHEAD && step >= 0 && pass + 1 == PASSES) look(step - 1, 0, 0);
        if (fed) {
            join_block();
            const Parts parts{a.parts, batch, place.slice, longest - 2 - step};
            if constexpr (SPLIT > 1) parts.give(place, pass);
            Pair totals[TASKS_EACH];
            EACH_TASK(place, pass) totals[turn] = Main::total(place.shares, 0, task);
            if constexpr (!ALONE) join_block();
            if constexpr (SPLIT > 1) parts.take(place, pass, totals);
            EACH_TASK(place, pass) if (following < place.ends[pass * ROWS + task.row]) {
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
            const Pair d_output = pair_of(left[turn][OUTPUT]);
            Pair d_state = place.value(0, pass, task), d_sums[SLOTS], gate[GATES], then, current;
            if constexpr (CELL != TANH && CELL != RELU) then = pair_of(left[turn][BEFORE]);
            if constexpr (CELL == LSTM || CELL == GRU_AFTER) current = pair_of(left[turn][NOW]);
            UNROLL for (int g = 0; g < GATES; ++g) gate[g] = pair_of(left[turn][g]);
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
            UNROLL for (int slot = CELL == GRU_BEFORE; slot < SLOTS; ++slot) {
                const Pair shown = inside ? d_sums[slot] : Pair{{0.0f, 0.0f}};
                exchange(a.sums, at + slot * WIDTH, shown);
                if constexpr (ALONE) if (slot < GATES) hand_on(place.kept, task.row, slot * WIDTH + task.unit, shown);
            }
        }
        if constexpr (CELL == GRU_BEFORE) {
            if constexpr (ALONE) {
                join_block();
                second(place.kept + 2 * STATE_BYTES, place.shares);
            } else {
                const char* d_n = a.sums + row * SLOTS_BYTES + 2 * STATE_BYTES;
                second.look(d_n, SLOTS_BYTES, place.count(pass), all.pause);
                second(d_n, SLOTS_BYTES, place.count(pass), true, place.shares);
            }
            join_block();
            EACH_TASK(place, pass) partial[turn] = Second::total(place.shares, 0, task);
            if constexpr (!ALONE) join_block();
            EACH_TASK(place, pass) {
                const bool inside = t < place.ends[pass * ROWS + task.row];
                const float scale = factor(all, row + task.row);
                const Pair r = pair_of(left[turn][0]), h = pair_of(left[turn][BEFORE]);
                Pair d_r = {{0.0f, 0.0f}};
                if (inside) UNROLL for (int e = 0; e < 2; ++e) {
                    d_r.v[e] = partial[turn].v[e] * h.v[e] * r.v[e] * (1.0f - r.v[e]);
                    place.value(0, pass, task).v[e] += partial[turn].v[e] * r.v[e] * scale;
                }
                exchange(a.sums, (row + task.row) * SLOTS_PITCH + task.unit, d_r);
                if constexpr (ALONE) hand_on(place.kept, task.row, task.unit, d_r);
            }
        }
        if constexpr (ALONE) join_block();
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
