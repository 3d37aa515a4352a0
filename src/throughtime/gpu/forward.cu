// Forward: projected [T, B, DIRECTIONS, GATES, WIDTH] becomes the gates, states [T, B, DIRECTIONS, WIDTH] is filled.
//
// A plain network has slopes in place of gates: near 1, a rounded state says little of how far from it tanh was.

struct ForwardDirection {
    long long reads_back;  // from the last step of each row to its first
    char* projected;
    const char* weight;    // [GATES, WIDTH, WIDTH]
    const char* weight_n;  // GRU_BEFORE: [WIDTH, WIDTH], and `weight` has r and z only
    const char* bias;      // GRU_AFTER: b_hn
    const char* first;     // the state before the first step [B, DIRECTIONS, WIDTH]
    char* states;          // after each step
    const char* memory;    // LSTM: the memory before the first step [B, WIDTH]
    char* memories;        // LSTM: after each step [T, B, WIDTH]
    char* extra;           // GRU_AFTER: q; GRU_BEFORE: r h, exchanged [T, B, WIDTH]
    char* last;            // [B, WIDTH]
    char* last_memory;
};

struct Forward {
    long long steps, batch, pause, keeps;  // keeps: gates and memories are wanted for a backward pass
    const int* lengths;
    long long direction;  // the first that this launch runs
    Span span;
    ForwardDirection directions[DIRECTIONS];
};

using Main = Product<FED, STATE_BYTES, STATE_BYTES, HELD, STAGED>;
using Second = Product<1, STATE_BYTES, STATE_BYTES, HELD_N, CELL == GRU_BEFORE ? STAGED_N : STATE_BYTES>;
constexpr int GATES_PITCH = DIRECTIONS * GATES * WIDTH;  // from one row of gates to the next
constexpr int SHARES = Main::SHARE_BYTES, STAGED_AT = SHARES + AFTER_SHARES;
static_assert(SPLIT == 1, "only a backward pass is worth a second exchange");
static_assert(!ALONE || KEPT == (CELL == GRU_BEFORE ? 2 : 1) * WIDTH, "what is handed on: the state, and r h");
static_assert(!ALONE || LOADED == GATES, "what comes later: the projected input of each gate");
static_assert(STAGED_AT + Main::BYTES + (CELL == GRU_BEFORE ? Second::BYTES : 0) == SHARED_BYTES,
              "the host and the kernel disagree about shared memory");

KERNEL forward(const Forward all) {
    const Place place(all.batch, SHARES);
    const ForwardDirection a = all.directions[DIRECTIONS > 1 ? all.direction + place.direction : 0];
    const long long batch = all.batch;
    Main product;
    product.settle_in(a.weight, place.first_unit, shared_bytes() + STAGED_AT);
    Second second;
    if constexpr (CELL == GRU_BEFORE)
        second.settle_in(a.weight_n, place.first_unit, shared_bytes() + STAGED_AT + Main::BYTES);
    const int longest = place.longest(all.lengths, all.span.first, all.steps);
    ROLLED for (int pass = 0; pass < PASSES; ++pass) EACH_TASK(place, pass) {
        const long long row = place.group_row + pass * ROWS + task.row;
        const Pair h = load_pair(a.first, row * PITCH + task.unit), none = {{0.0f, 0.0f}};
        place.value(0, pass, task) = all.span.resumes ? *all.span.value(0, batch, row, task.unit) : h;
        if constexpr (CELL == LSTM)
            place.value(1, pass, task) = all.span.resumes ? *all.span.value(1, batch, row, task.unit)
                                                          : load_pair(a.memory, row * WIDTH + task.unit);
        if constexpr (ALONE) hand_on(place.kept, task.row, task.unit, h);
        ROLLED for (long long t = longest; t < all.steps; ++t) {
            store_pair(a.states, (t * batch + row) * PITCH + task.unit, a.reads_back ? h : none);
            if constexpr (CELL == GRU_BEFORE) store_pair(a.extra, (t * batch + row) * WIDTH + task.unit, none);
        }
    }
    const auto time = [&](int step) { return a.reads_back ? longest - 1 - step : step; };
    const auto before = [&](int step, int pass) {  // the state before a step, from the pass's first row on
        const long long row = place.group_row + pass * ROWS;
        return step == 0 ? a.first + row * PITCH_BYTES : a.states + (time(step - 1) * batch + row) * PITCH_BYTES;
    };
    const auto look = [&](int step, int pass, int cycles) {
        product.look(before(step, pass), PITCH_BYTES, place.count(pass), cycles);
    };
    const auto at_gate = [&](long long row, const OwnTask& task, int gate) {  // of the projected input
        return (row + task.row) * GATES_PITCH + gate * WIDTH + task.unit;
    };
    const Later later{place.kept + ROWS_BYTES};
    const auto copy_projected = [&](int step) {
        const long long row = time(step) * batch + place.group_row;
        if (step < longest) EACH_TASK(place, 0) UNROLL for (int gate = 0; gate < GATES; ++gate)
            later.copy(step, task, gate, a.projected, at_gate(row, task, gate));
        end_copies();
    };
    if (AHEAD && longest > 0) look(0, 0, 0);
    if constexpr (ALONE) {
        ROLLED for (int step = 0; step < STEPS_AHEAD; ++step) copy_projected(step);
        join_block();
    }
    ROLLED for (int step = 0; step < longest; ++step) ROLLED for (int pass = 0; pass < PASSES; ++pass) {
        const int t = time(step);
        const long long row = t * batch + place.group_row + pass * ROWS;  // of the pass's first, in all rows
        Raw projected[TASKS_EACH][GATES];
        if constexpr (ALONE) {
            await_copies<STEPS_AHEAD - 1>();
            EACH_TASK(place, pass) UNROLL for (int gate = 0; gate < GATES; ++gate)
                projected[turn][gate] = later.take(step, task, gate);
            copy_projected(step + STEPS_AHEAD);
            product(place.kept, place.shares);
        } else {
            EACH_TASK(place, pass) UNROLL for (int gate = 0; gate < GATES; ++gate)
                projected[turn][gate] = load_raw(a.projected, at_gate(row, task, gate));
            if (!AHEAD && step + 1 < longest) EACH_TASK(place, pass) UNROLL for (int gate = 0; gate < GATES; ++gate)
                fetch(a.projected + at_gate(row + (a.reads_back ? -batch : batch), task, gate) * ELEMENT);
            if (!AHEAD) look(step, pass, step > 0 ? all.pause : 0);
            product(before(step, pass), PITCH_BYTES, place.count(pass), step > 0, place.shares);
            if (AHEAD && pass + 1 < PASSES) look(step, pass + 1, 0);
            else if (AHEAD && step + 1 < longest) look(step + 1, 0, 0);
        }
        join_block();
        Pair sums[TASKS_EACH][FED];
        EACH_TASK(place, pass) UNROLL for (int gate = 0; gate < FED; ++gate) sums[turn][gate] =
            Main::total(place.shares, gate, task);
        if constexpr (!ALONE) join_block();
        Pair update[TASKS_EACH], sums_n[TASKS_EACH];
        if constexpr (CELL == GRU_BEFORE) {
            EACH_TASK(place, pass) {
                const Pair h = place.value(0, pass, task);
                const Pair x_r = pair_of(projected[turn][0]), x_z = pair_of(projected[turn][1]);
                Pair r, shown;
                UNROLL for (int e = 0; e < 2; ++e) {
                    r.v[e] = sigmoid(x_r.v[e] + sums[turn][0].v[e]);
                    update[turn].v[e] = sigmoid(x_z.v[e] + sums[turn][1].v[e]);
                    shown.v[e] = t < place.ends[pass * ROWS + task.row] ? r.v[e] * h.v[e] : 0.0f;
                }
                exchange(a.extra, (row + task.row) * WIDTH + task.unit, shown);
                if constexpr (ALONE) hand_on(place.kept, task.row, WIDTH + task.unit, shown);
                if (all.keeps) store_pair(a.projected, (row + task.row) * GATES_PITCH + task.unit, r);
            }
            if constexpr (ALONE) {
                join_block();
                second(place.kept + STATE_BYTES, place.shares);
            } else {
                second.look(a.extra + row * STATE_BYTES, STATE_BYTES, place.count(pass), all.pause);
                second(a.extra + row * STATE_BYTES, STATE_BYTES, place.count(pass), true, place.shares);
            }
            join_block();
            EACH_TASK(place, pass) sums_n[turn] = Second::total(place.shares, 0, task);
            if constexpr (!ALONE) join_block();
        }
        EACH_TASK(place, pass) {
            const bool inside = t < place.ends[pass * ROWS + task.row];
            const long long at = (row + task.row) * WIDTH + task.unit;      // in [T, B, WIDTH]
            const long long gate_at = (row + task.row) * GATES_PITCH + task.unit;
            const Pair h = place.value(0, pass, task);
            Pair gates[GATES], following, memory, q;
            if constexpr (CELL == GRU_AFTER) q = load_pair(a.bias, task.unit);
            if constexpr (CELL == LSTM) memory = place.value(1, pass, task);
            UNROLL for (int gate = 0; gate < GATES; ++gate) gates[gate] = pair_of(projected[turn][gate]);
            UNROLL for (int e = 0; e < 2; ++e) {
                if constexpr (CELL == TANH || CELL == RELU) {
                    const float sum = gates[0].v[e] + sums[turn][0].v[e];
                    const float h = CELL == TANH ? hyperbolic_tangent(sum) : sum <= 0.0f ? 0.0f : sum;
                    following.v[e] = h;
                    gates[0].v[e] = CELL == TANH ? 1.0f - h * h : h > 0.0f ? 1.0f : 0.0f;
                } else if constexpr (CELL == LSTM) {
                    const float i = sigmoid(gates[0].v[e] + sums[turn][0].v[e]);
                    const float f = sigmoid(gates[1].v[e] + sums[turn][1].v[e]);
                    const float g = hyperbolic_tangent(gates[2].v[e] + sums[turn][2].v[e]);
                    const float o = sigmoid(gates[3].v[e] + sums[turn][3].v[e]);
                    memory.v[e] = f * memory.v[e] + i * g;
                    following.v[e] = o * hyperbolic_tangent(memory.v[e]);
                    gates[0].v[e] = i, gates[1].v[e] = f, gates[2].v[e] = g, gates[3].v[e] = o;
                } else {
                    float r = 0.0f, z, n;
                    if constexpr (CELL == GRU_AFTER) {
                        r = sigmoid(gates[0].v[e] + sums[turn][0].v[e]);
                        z = sigmoid(gates[1].v[e] + sums[turn][1].v[e]);
                        q.v[e] += sums[turn][2].v[e];
                        n = hyperbolic_tangent(gates[2].v[e] + r * q.v[e]);
                    } else {
                        z = update[turn].v[e];
                        n = hyperbolic_tangent(gates[2].v[e] + sums_n[turn].v[e]);
                    }
                    following.v[e] = n + z * (h.v[e] - n);
                    gates[0].v[e] = r, gates[1].v[e] = z, gates[2].v[e] = n;
                }
            }
            // Past a row's end the outputs are zero, but what reads from the right has yet to begin with its state.
            const Pair shown = inside ? following : a.reads_back ? h : Pair{{0.0f, 0.0f}};
            exchange(a.states, (row + task.row) * PITCH + task.unit, shown);
            if constexpr (ALONE) hand_on(place.kept, task.row, task.unit, shown);
            if (inside) {
                place.value(0, pass, task) = following;
                if constexpr (CELL == LSTM) place.value(1, pass, task) = memory;
                if (all.keeps) {  // r of GRU_BEFORE is there already
                    UNROLL for (int gate = CELL == GRU_BEFORE; gate < GATES; ++gate)
                        store_pair(a.projected, gate_at + gate * WIDTH, gates[gate]);
                    if constexpr (CELL == LSTM) store_pair(a.memories, at, memory);
                    if constexpr (CELL == GRU_AFTER) store_pair(a.extra, at, q);
                }
            }
        }
        if constexpr (ALONE) join_block();
    }
    ROLLED for (int pass = 0; pass < PASSES; ++pass) EACH_TASK(place, pass) {
        const long long row = place.group_row + pass * ROWS + task.row;
        store_pair(a.last, row * WIDTH + task.unit, place.value(0, pass, task));
        if constexpr (CELL == LSTM) store_pair(a.last_memory, row * WIDTH + task.unit, place.value(1, pass, task));
        if (all.span.running != nullptr) UNROLL for (int which = 0; which < 1 + (CELL == LSTM); ++which)
            *all.span.value(which, batch, row, task.unit) = place.value(which, pass, task);
    }
}
