// One layer's recurrence over all its steps in one launch, forward and backward.
//
// A block owns UNITS hidden units, with all their gates, for PASSES times ROWS rows of the batch. The part of the
// recurrent weights that these units need stays on the chip for the whole sequence: in registers first, then
// in shared memory, and what fits neither is read again from the L2 cache at each step. With SPLIT > 1, that many
// blocks share their units: each multiplies one part of the inner dimension for all of them (see `Parts`).
//
// There is no barrier between blocks. What a step gives (forward the state, backward the gradients of the
// gates' sums) is exchanged through a tensor that the host has filled with the word VOID, which no result ever
// has: a reader that finds VOID looks again. So every word says itself whether it is there, no fence is needed,
// and nothing is ever reset. All blocks must be resident together: the host launches them cooperatively.
//
// A product is cut along its inner dimension: each warp multiplies its share of it for all units and rows,
// taking the exchanged state from memory right into the registers of the matrix instruction. Any order of the
// inner dimension serves as long as weights and state agree, so a lane takes 16 bytes in a row for two
// instructions. The warps' shares meet in shared memory. Weight rows are dealt to instruction rows so that a
// lane's two sums belong to two neighbouring units, which fill one exchanged word. An instruction takes eight such
// pairs; they are counted gate after gate, so that UNITS need not be a multiple of 16.
//
// A small layer needs no exchange between blocks: with ALONE, a block has all units of its rows, and what a step gives
// goes to the next one through shared memory. The rows of weights are then dealt to GROUPS of warps: if each warp
// multiplied its share for all units, the warps' shares would be too many to add up.
//
// A layer may have two directions, the second of which reads from the right. Their rows lie side by side in what
// both share: states, gates and gradients of sums. A launch runs one of them, or both side by side, each in its own
// blocks. Times are those of the sequence: a row that reads from the right begins at its own end.
//
// Constants from the host: CELL, KIND, WIDTH, DIRECTIONS, UNITS, SPLIT, ALONE, KEPT, LOADED, ROWS, PASSES, WARPS, GROUPS,
// HELD, STAGED, HELD_N, STAGED_N, RING, BATCH, SHARED_BYTES.

enum Cells { TANH, RELU, GRU_AFTER, GRU_BEFORE, LSTM };

constexpr word VOID = 0xffffffffu;  // no conversion or operation makes this NaN; `exchange` keeps copies from it
constexpr int PATIENCE = 1 << 23;   // looks at a value that does not come (some seconds) before a block gives up
constexpr int CHUNK = 64;  // bytes of the inner dimension for two matrix instructions
constexpr int BLOCKS = (WIDTH + UNITS - 1) / UNITS * SPLIT;  // of one group of rows
constexpr int PAIRS = UNITS / 2, OWN_PAIRS = PAIRS / SPLIT, ROW_TILES = (ROWS + 7) / 8;
static_assert(UNITS % (2 * SPLIT) == 0, "blocks that share their units finish pairs of them, all the same number");
static_assert(!ALONE || (BLOCKS == 1 && UNITS == WIDTH && PASSES == 1 && ROWS <= 8 && RING == 0),
              "one block has all units of at most 8 rows, and all weights on the chip");
constexpr int PARTS = WARPS / GROUPS;  // into which the inner dimension is cut, one for each warp of a group
static_assert(PARTS * GROUPS == WARPS, "all groups have the same number of warps");
constexpr int GATES = CELL == LSTM ? 4 : CELL <= RELU ? 1 : 3;
constexpr int SLOTS = CELL == GRU_AFTER ? 4 : GATES;  // gradients of sums; after: q, r, z, n with q = W_n h + b
constexpr int FED = CELL == GRU_BEFORE ? 2 : GATES;   // gates that the state feeds at once
constexpr int STATE_BYTES = WIDTH * ELEMENT;
constexpr int PITCH = DIRECTIONS * WIDTH, PITCH_BYTES = PITCH * ELEMENT;  // from one row of states to the next
// With three passes or more, what the next one needs is there before this one ends, and is looked for then.
constexpr bool AHEAD = PASSES > 2 && CELL != GRU_BEFORE;

INLINE word rounded(word value) {
    if constexpr (KIND == TF32) return round_tf32(value);
    else return value;
}
INLINE word never_void(word value) { return value == VOID ? 0x7fffffffu : value; }

INLINE void exchange(char* base, long long index, Pair pair) {
    if constexpr (ELEMENT == 2) show(base + 2 * index, never_void(packed(pair)));
    else show(base + 4 * index, never_void(as_word(pair.v[0])), never_void(as_word(pair.v[1])));
}

// With ALONE: rows in shared memory, KEPT numbers each, for the next product. The pitch is an odd number of chunks, so
// that no two lanes read the same bank.
constexpr int ROW_PITCH = ((KEPT * ELEMENT + CHUNK - 1) / CHUNK | 1) * CHUNK, ROWS_BYTES = ALONE ? ROWS * ROW_PITCH : 0;

INLINE void hand_on(char* rows, int row, int index, Pair pair) {
    char* at = rows + row * ROW_PITCH + index * ELEMENT;
    if constexpr (ELEMENT == 2) *reinterpret_cast<word*>(at) = packed(pair);
    else *reinterpret_cast<Two*>(at) = {rounded(as_word(pair.v[0])), rounded(as_word(pair.v[1]))};
}

INLINE bool missing(Words f) { return (f.x == VOID) | (f.y == VOID) | (f.z == VOID) | (f.w == VOID); }

INLINE Words rounded(Words f) { return {rounded(f.x), rounded(f.y), rounded(f.z), rounded(f.w)}; }

// c += A B for one instruction's depth; float32 as three products of tf32 halves, exact to some 2^-21.
INLINE void accumulate(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
    if constexpr (KIND == BF16) multiply_bf16(c, a0, a1, a2, a3, b0, b1);
    else if constexpr (KIND == F16) multiply_f16(c, a0, a1, a2, a3, b0, b1);
    else if constexpr (KIND == TF32) multiply_tf32(c, a0, a1, a2, a3, b0, b1);
    else {
        const word full[6] = {a0, a1, a2, a3, b0, b1};
        word high[6], low[6];
        UNROLL for (int i = 0; i < 6; ++i) {
            high[i] = round_tf32(full[i]);
            low[i] = round_tf32(as_word(as_float(full[i]) - as_float(high[i])));
        }
        multiply_tf32(c, low[0], low[1], low[2], low[3], high[4], high[5]);
        multiply_tf32(c, high[0], high[1], high[2], high[3], low[4], low[5]);
        multiply_tf32(c, high[0], high[1], high[2], high[3], high[4], high[5]);
    }
}

// The weights of GATE_COUNT gates of the block's units, DEPTH bytes of rows that are ROW_BYTES apart, times the
// rows of an exchanged tensor, or with ALONE, of one in shared memory.
//
// A warp's share of the inner dimension is EACH chunks. The weights of the first ones are held in registers,
// those of the next staged in shared memory. What is left streams through a ring in shared memory, round and
// round, the next step's first chunks already under way while this step ends. Every thread reads back only
// what it has itself put into shared memory, so none of this waits for another thread.
template <int GATE_COUNT, int DEPTH, int ROW_BYTES, int IN_REGISTERS, int IN_SHARED>
struct Product {
    static constexpr int TILES = ((GATE_COUNT * PAIRS + 7) / 8 + GROUPS - 1) / GROUPS;  // of a warp
    static constexpr int ALL_TILES = TILES * GROUPS;
    static constexpr int STRIDE = PARTS * CHUNK;  // bytes from one chunk of a warp to its next
    static constexpr int EACH = (DEPTH + STRIDE - 1) / STRIDE;
    static constexpr int HELD_CHUNKS = IN_REGISTERS < EACH ? IN_REGISTERS : EACH;
    static constexpr int LEFT = EACH - HELD_CHUNKS, STAGED_CHUNKS = IN_SHARED < LEFT ? IN_SHARED : LEFT;
    static constexpr int STREAMED = LEFT - STAGED_CHUNKS, SLOTS_IN_RING = STREAMED > 0 ? RING : 0;
    // With ALONE, shares lie row by row. Their pitch keeps lanes that write four rows from the same banks.
    static constexpr int SHARE_PITCH = ALL_TILES * 8 + 2;
    static constexpr int SHARE_PART = ALONE ? ROWS * SHARE_PITCH : ALL_TILES * ROW_TILES * 2 * 32;
    static constexpr int SHARE_BYTES = PARTS * SHARE_PART * 8;
    static constexpr int BYTES = (STAGED_CHUNKS + SLOTS_IN_RING) * TILES * 2 * WARPS * 32 * 16;
    static_assert(STREAMED == 0 || RING > 0, "what neither registers nor shared memory hold needs a ring");
    static constexpr int UNROLLED = (HELD_CHUNKS + BATCH - 1) / BATCH * BATCH;
    // A matrix instruction waits for the one before it that adds to the same sums: so there are at least four sums.
    static constexpr int CHAINS = TILES * ROW_TILES >= 4 ? 1 : TILES * ROW_TILES >= 2 ? 2 : 4;

    Words held[HELD_CHUNKS > 0 ? HELD_CHUNKS : 1][TILES][2];
    Words* room;                            // this thread's place in shared memory
    const char* weights;
    int row_at[TILES];                      // where this lane's first row of each tile begins; its second follows
    int slot, coming_chunk;                 // of the ring: the one to read next, and what to put there after
    Words coming[BATCH][ROW_TILES];         // the first of the rows' words, under way

    static INLINE int lane() { return thread_number() % 32; }
    static INLINE int part() { return thread_number() / 32 / GROUPS; }
    static INLINE int number_of(int tile) { return tile * GROUPS + thread_number() / 32 % GROUPS; }
    static INLINE int offset() { return part() * CHUNK + lane() % 4 * 16; }
    static INLINE bool exists(int chunk) {  // only a warp's last chunk may lie past the end
        return EACH * STRIDE <= DEPTH || chunk < EACH - 1 || (EACH - 1) * STRIDE + offset() < DEPTH;
    }

    INLINE const char* origin(int chunk, int tile, int half) const {
        return weights + (row_at[tile] + half * ROW_BYTES + chunk * STRIDE);
    }
    INLINE Words* place(int chunk, int tile, int half) const {
        return room + ((chunk * TILES + tile) * 2 + half) * (WARPS * 32);
    }

    INLINE void settle_in(const char* weight, int first_unit, char* memory) {
        room = reinterpret_cast<Words*>(memory) + thread_number();
        weights = weight + offset();
        UNROLL for (int tile = 0; tile < TILES; ++tile) {
            const int pair = number_of(tile) * 8 + lane() / 4, gate = pair / PAIRS;
            const int unit = first_unit + pair % PAIRS * 2;
            // Sums of units and gates that are not there are never looked at, so any weights serve for them.
            row_at[tile] = ((gate < GATE_COUNT ? gate : 0) * WIDTH + (unit < WIDTH ? unit : 0)) * ROW_BYTES;
        }
        UNROLL for (int chunk = 0; chunk < HELD_CHUNKS; ++chunk)
            UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int half = 0; half < 2; ++half) {
                held[chunk][tile][half] = {0, 0, 0, 0};
                if (exists(chunk)) held[chunk][tile][half] = rounded(load_words(origin(chunk, tile, half)));
            }
        ROLLED for (int chunk = 0; chunk < STAGED_CHUNKS; ++chunk)
            UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int half = 0; half < 2; ++half) {
                Words found = {0, 0, 0, 0};
                const int from = HELD_CHUNKS + chunk;
                if (exists(from)) found = rounded(load_words(origin(from, tile, half)));
                *place(chunk, tile, half) = found;
            }
        slot = 0, coming_chunk = HELD_CHUNKS + STAGED_CHUNKS;
        if constexpr (STREAMED > 0) UNROLL for (int i = 0; i < RING; ++i) refill();
    }

    INLINE void refill() {
        UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int half = 0; half < 2; ++half) {
            Words* into = place(STAGED_CHUNKS + slot, tile, half);
            if (exists(coming_chunk)) copy_later(into, origin(coming_chunk, tile, half));
            else *into = {0, 0, 0, 0};
        }
        end_copies();
        slot = slot + 1 == RING ? 0 : slot + 1;
        coming_chunk = coming_chunk + 1 == EACH ? HELD_CHUNKS + STAGED_CHUNKS : coming_chunk + 1;
    }

    // A row of the exchanged tensor begins, for this lane, at rows[j]; those from `count` on are not there.
    typedef const char* Rows[ROW_TILES];
    typedef Words Found[BATCH][ROW_TILES];
    typedef float Sums[CHAINS][TILES][ROW_TILES][4];

    static INLINE void request(Found& found, int first, const Rows& rows, int count) {
        UNROLL for (int i = 0; i < BATCH; ++i) UNROLL for (int j = 0; j < ROW_TILES; ++j) {
            found[i][j] = {0, 0, 0, 0};
            if (first + i < EACH && exists(first + i) && j * 8 + lane() / 4 < count)
                found[i][j] = look_words(rows[j] + (first + i) * STRIDE);
        }
    }

    static INLINE void await(Found& found, int first, const Rows& rows) {
        for (int looks = 0;; ++looks) {
            bool some = false;
            UNROLL for (int i = 0; i < BATCH; ++i)
                UNROLL for (int j = 0; j < ROW_TILES; ++j) some |= missing(found[i][j]);
            if (!in_any_lane(some)) return;
            if (looks == PATIENCE) give_up();
            UNROLL for (int i = 0; i < BATCH; ++i) UNROLL for (int j = 0; j < ROW_TILES; ++j)
                if (missing(found[i][j])) found[i][j] = look_words(rows[j] + (first + i) * STRIDE);
        }
    }

    template <bool MAYBE_HELD>
    INLINE void multiply(Sums& sums, const Found& found, int first) {
        UNROLL for (int i = 0; i < BATCH; ++i) {
            const int chunk = first + i;
            if (chunk >= EACH) break;
            const bool in_registers = MAYBE_HELD && chunk < HELD_CHUNKS;
            const bool streams = STREAMED > 0 && !in_registers && chunk >= HELD_CHUNKS + STAGED_CHUNKS;
            if (streams) await_copies<(RING > 0 ? RING - 1 : 0)>();
            const int at = streams ? STAGED_CHUNKS + slot : chunk - HELD_CHUNKS;
            UNROLL for (int tile = 0; tile < TILES; ++tile) {
                Words low, high;
                if (in_registers) low = held[chunk][tile][0], high = held[chunk][tile][1];
                else low = *place(at, tile, 0), high = *place(at, tile, 1);
                if (streams) low = rounded(low), high = rounded(high);
                UNROLL for (int j = 0; j < ROW_TILES; ++j) {
                    const Words& b = found[i][j];
                    accumulate(sums[2 * i % CHAINS][tile][j], low.x, high.x, low.y, high.y, b.x, b.y);
                    accumulate(sums[(2 * i + 1) % CHAINS][tile][j], low.z, high.z, low.w, high.w, b.z, b.w);
                }
            }
            if (streams) refill();
        }
    }

    template <bool MAYBE_HELD>
    INLINE void advance(Sums& sums, Found& coming, int first, const Rows& rows, int count, bool waits) {
        Found found;
        UNROLL for (int i = 0; i < BATCH; ++i)
            UNROLL for (int j = 0; j < ROW_TILES; ++j) found[i][j] = coming[i][j];
        if (first + BATCH < EACH) request(coming, first + BATCH, rows, count);
        if (waits) await(found, first, rows);
        UNROLL for (int i = 0; i < BATCH; ++i)
            UNROLL for (int j = 0; j < ROW_TILES; ++j) found[i][j] = rounded(found[i][j]);
        multiply<MAYBE_HELD>(sums, found, first);
    }

    static INLINE void place_rows(Rows& rows, const char* source, int stride) {
        UNROLL for (int j = 0; j < ROW_TILES; ++j) rows[j] = source + (j * 8 + lane() / 4) * stride + offset();
    }

    // Ask for the rows that begin at `source`, `stride` bytes apart; `cycles` are let go by first, since what
    // comes later than a first look costs a second one.
    INLINE void look(const char* source, int stride, int count, int cycles) {
        Rows rows;
        place_rows(rows, source, stride);
        if (cycles > 0) pause(cycles);
        request(coming, 0, rows, count);
    }

    // This warp's share of the product with the rows last looked for, into shared memory.
    INLINE void operator()(const char* source, int stride, int count, bool waits, Pair* shares) {
        Rows rows;
        place_rows(rows, source, stride);
        Sums sums = {};
        UNROLL for (int first = 0; first < UNROLLED; first += BATCH)
            advance<true>(sums, coming, first, rows, count, waits);
        ROLLED for (int first = UNROLLED; first < EACH; first += BATCH)
            advance<false>(sums, coming, first, rows, count, waits);
        leave(sums, shares);
    }

    // The same with rows in shared memory, where `hand_on` has put them.
    INLINE void operator()(const char* source, Pair* shares) {
        Sums sums = {};
        UNROLL for (int first = 0; first < UNROLLED; first += BATCH) advance<true>(sums, source, first);
        ROLLED for (int first = UNROLLED; first < EACH; first += BATCH) advance<false>(sums, source, first);
        leave(sums, shares);
    }

    template <bool MAYBE_HELD> INLINE void advance(Sums& sums, const char* source, int first) {
        Found found;
        UNROLL for (int i = 0; i < BATCH; ++i) {
            found[i][0] = {0, 0, 0, 0};
            if (first + i < EACH && exists(first + i) && lane() / 4 < ROWS) found[i][0] =
                *reinterpret_cast<const Words*>(source + lane() / 4 * ROW_PITCH + offset() + (first + i) * STRIDE);
        }
        multiply<MAYBE_HELD>(sums, found, first);
    }

    static INLINE void leave(Sums& sums, Pair* shares) {
        UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int j = 0; j < ROW_TILES; ++j) {
            float (&sum)[4] = sums[0][tile][j];
            UNROLL for (int chain = 1; chain < CHAINS; ++chain)
                UNROLL for (int i = 0; i < 4; ++i) sum[i] += sums[chain][tile][j][i];
            const Pair first = {{sum[0], sum[2]}}, second = {{sum[1], sum[3]}};
            Pair* share = shares + part() * SHARE_PART;
            if constexpr (ALONE) {
                const int row = lane() % 4 * 2;
                share += row * SHARE_PITCH + number_of(tile) * 8 + lane() / 4;
                if (row < ROWS) share[0] = first;
                if (row + 1 < ROWS) share[SHARE_PITCH] = second;
            } else {
                share += (number_of(tile) * ROW_TILES + j) * 2 * 32 + lane();
                share[0] = first, share[32] = second;
            }
        }
    }

    // All warps' shares of one gate for one task, always added in the same order.
    template <typename AnyTask> static INLINE Pair total(const Pair* shares, int gate, const AnyTask& task) {
        const int counted = gate * PAIRS + task.pair;
        const Pair* first = shares + (ALONE ? task.row * SHARE_PITCH + counted
            : (counted / 8 * ROW_TILES * 2 + task.rows) * 32 + counted % 8 * 4 + lane() % 4);
        Pair sum = {{0, 0}}, other = {{0, 0}};  // two chains of additions, for the latency's sake
        UNROLL for (int part = 0; part < PARTS; ++part) {
            const Pair share = first[part * SHARE_PART];
            Pair& chain = part % 2 ? other : sum;
            chain.v[0] += share.v[0], chain.v[1] += share.v[1];
        }
        sum.v[0] += other.v[0], sum.v[1] += other.v[1];
        return sum;
    }
};
