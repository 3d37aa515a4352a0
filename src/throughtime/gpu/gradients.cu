// Gradients of weights and biases, those of all layers in one launch.
//
// The gradient of weights is a product over all rows of all steps: its inner dimension is long and its result small, so
// that torch's kernels, which give each tile of a result to one block, keep few multiprocessors busy. Here the rows are
// cut into parts: a block multiplies the rows of one part for one tile, and another launch adds up the parts, always in
// the same order. The gradient of biases is the sum of all rows, added up in float32 and cut in the same way.
//
// Rows stream through a ring in shared memory. Both matrices have their inner dimension down, so that neighbouring
// numbers are columns of one row. Any order of rows and columns serves as long as both matrices and the result agree: a
// lane takes four columns for two instructions, of every fourth row, and gets sums that lie side by side.
//
// Constants from the host: KIND, WARPS, MAX_TASKS, SHARED_BYTES.

constexpr int TILE = 64, STEP = 128 / ELEMENT, RING = 3;  // rows and columns of a result; rows of a step; steps
constexpr int DEPTH = 32 / ELEMENT;                       // rows of an instruction
constexpr int PITCH = (TILE + DEPTH) * ELEMENT;  // bytes of a row; the lanes of a warp read from different banks
constexpr int HALF = STEP * PITCH;               // bytes of a step of one matrix
static_assert(WARPS == 4, "each warp computes a quarter of a tile");
static_assert(2 * RING * HALF == SHARED_BYTES, "the host and the kernel disagree about shared memory");

struct Task {
    const char* left;          // [depth, rows]
    const char* right;         // [depth, columns]; nowhere: add up the rows of `left`
    float* into;               // [parts, rows, columns]
    long long rows, columns;   // multiples of 8
    long long left_pitch, right_pitch;
    long long apart;           // numbers from one part of the result to the next
};

struct Gradients {
    int ends[MAX_TASKS];  // numbers of blocks up to the end of each task
    Task all[MAX_TASKS];
    long long depth, each;  // all rows, and those of a part, a multiple of STEP
};

// The rows of a matrix on their way into shared memory: a thread takes 16 bytes of rows that lie APART.
struct Rows {
    static constexpr int BESIDE = TILE * ELEMENT / 16, APART = 32 * WARPS / BESIDE;
    const char* from;
    int further;  // bytes to this thread's next row
    bool exists;  // whether the columns do; otherwise they are never looked at

    INLINE Rows(const char* matrix, long long first, long long pitch, int column, int columns)
        : from(matrix + ((first + row()) * pitch + column) * ELEMENT + offset()), further(APART * (int)pitch * ELEMENT),
          exists(offset() < columns * ELEMENT) {}

    static INLINE int row() { return thread_number() / BESIDE; }
    static INLINE int offset() { return thread_number() % BESIDE * 16; }

    INLINE void request(char* tile, int left) {  // of which `left` are left; those missing are zero
        char* into = tile + row() * PITCH + offset();
        const auto copy = [&](int i) {
            copy_later(reinterpret_cast<Words*>(into + i * APART * PITCH), from + i * further);
        };
        if (left >= STEP) {  // without a branch for each row
            if (exists) UNROLL for (int i = 0; i < STEP / APART; ++i) copy(i);
        } else UNROLL for (int i = 0; i < STEP / APART; ++i) {
            if (row() + i * APART >= left) *reinterpret_cast<Words*>(into + i * APART * PITCH) = {0, 0, 0, 0};
            else if (exists) copy(i);
        }
        from += STEP / APART * further;
    }
};

INLINE word join_low(word first, word second) { return (first & 0xffffu) | second << 16; }
INLINE word join_high(word first, word second) { return first >> 16 | (second & 0xffff0000u); }

struct alignas(8) Four { word a, b; };  // four numbers of 16 bits

// What an instruction takes from this lane of four columns: each at two depths, of 16 bits at two pairs of depths. In
// FLOAT, the rounded off rest as well.
struct Fragment {
    word high[8], low[8];

    INLINE explicit Fragment(const char* at) {
        if constexpr (ELEMENT == 4) {
            const Words first = *reinterpret_cast<const Words*>(at);
            const Words second = *reinterpret_cast<const Words*>(at + 4 * PITCH);
            const word full[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
            UNROLL for (int i = 0; i < 8; ++i) {
                high[i] = round_tf32(full[i]);
                if constexpr (KIND == FLOAT) low[i] = round_tf32(as_word(as_float(full[i]) - as_float(high[i])));
            }
        } else UNROLL for (int i = 0; i < 2; ++i) {
            const Four first = *reinterpret_cast<const Four*>(at + 8 * i * PITCH);
            const Four second = *reinterpret_cast<const Four*>(at + (8 * i + 4) * PITCH);
            high[4 * i] = join_low(first.a, second.a), high[4 * i + 1] = join_high(first.a, second.a);
            high[4 * i + 2] = join_low(first.b, second.b), high[4 * i + 3] = join_high(first.b, second.b);
        }
    }
};

INLINE void accumulate(float (&c)[4], const word (&a)[8], int pair, const word (&b)[8], int column) {
    const word a0 = a[pair], a1 = a[pair + 1], a2 = a[pair + 4], a3 = a[pair + 5], b0 = b[column], b1 = b[column + 4];
    if constexpr (KIND == BF16) multiply_bf16(c, a0, a1, a2, a3, b0, b1);
    else if constexpr (KIND == F16) multiply_f16(c, a0, a1, a2, a3, b0, b1);
    else multiply_tf32(c, a0, a1, a2, a3, b0, b1);
}

// Sums of a quarter of a tile: [pair of rows][column of four][as an instruction has them].
typedef float Sums[2][4][4];

INLINE void multiply(Sums& sums, const char* left, const char* right) {
    const int lane = thread_number() % 32, at = lane % 4 * PITCH + lane / 4 * 4 * ELEMENT;
    UNROLL for (int depth = 0; depth < STEP; depth += DEPTH) {
        const Fragment a(left + depth * PITCH + at), b(right + depth * PITCH + at);
        UNROLL for (int i = 0; i < 2; ++i) UNROLL for (int j = 0; j < 4; ++j) {
            if constexpr (KIND == FLOAT) {  // exact to some 2^-21
                accumulate(sums[i][j], a.low, 2 * i, b.high, j);
                accumulate(sums[i][j], a.high, 2 * i, b.low, j);
            }
            accumulate(sums[i][j], a.high, 2 * i, b.high, j);
        }
    }
}

INLINE void write_tile(const Sums& sums, float* into, long long pitch, int rows, int columns) {
    const int first = thread_number() % 32 / 4 * 4, across = thread_number() % 4 * 8;
    UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int half = 0; half < 2; ++half) {
        const int row = first + i, column = across + 4 * half, from = i % 2 * 2 + half;
        if (row >= rows || column >= columns) continue;
        const float (&found)[4][4] = sums[i / 2];
        *reinterpret_cast<Words*>(into + row * pitch + column) = {
            as_word(found[0][from]), as_word(found[1][from]), as_word(found[2][from]), as_word(found[3][from])};
    }
}

INLINE float number_at(const char* at) {
    if constexpr (ELEMENT == 4) return *reinterpret_cast<const float*>(at);
    else return pair_of({*reinterpret_cast<const unsigned short*>(at), 0}).v[0];
}

KERNEL_BESIDE(4) gradients(const Gradients a) {
    int block = block_number(), number = 0;
    UNROLL for (int i = 0; i < MAX_TASKS - 1; ++i) number += block >= a.ends[i];
    if (number > 0) block -= a.ends[number - 1];
    const Task task = a.all[number];
    const bool multiplies = task.right != nullptr;
    const int across = ((int)task.columns + TILE - 1) / TILE, down = ((int)task.rows + TILE - 1) / TILE;
    const int part = block / (across * down), row = block / across % down * TILE, column = block % across * TILE;
    const int rows = (int)task.rows - row, columns = (int)task.columns - column;  // that are left of the result
    const long long first = part * a.each;
    int depth = (int)(first + a.each < a.depth ? a.each : a.depth - first);  // that is left to ask for
    const int steps = (depth + STEP - 1) / STEP;
    Rows left(task.left, first, task.left_pitch, row, rows);
    Rows right(task.right, first, task.right_pitch, column, columns);
    char* ring = shared_bytes();
    const auto ask = [&](int step) {
        if (depth > 0) {
            char* tile = ring + step % RING * 2 * HALF;
            left.request(tile, depth);
            if (multiplies) right.request(tile + HALF, depth);
            depth -= STEP;
        }
        end_copies();
    };
    const int warp = thread_number() / 32, down_warp = warp / 2 * 32, across_warp = warp % 2 * 32;
    const bool busy = multiplies && down_warp < rows && across_warp < columns;
    const int own = thread_number() % TILE, half = thread_number() / TILE;
    Sums sums = {};
    float total = 0.0f;  // of every second row of the column `own`
    UNROLL for (int step = 0; step < RING - 1; ++step) ask(step);
    ROLLED for (int step = 0; step < steps; ++step) {
        await_copies<RING - 2>();
        join_block();  // all have what they asked for, and nobody reads what the ring takes next
        ask(step + RING - 1);
        const char* tile = ring + step % RING * 2 * HALF;
        if (busy) multiply(sums, tile + down_warp * ELEMENT, tile + HALF + across_warp * ELEMENT);
        if (multiplies) continue;
        float some = 0.0f;
        UNROLL for (int i = 0; i < STEP; i += 2) some += number_at(tile + (half + i) * PITCH + own * ELEMENT);
        total += some;
    }
    float* into = task.into + part * task.apart;
    if (busy) write_tile(sums, into + (row + down_warp) * task.columns + column + across_warp, task.columns,
                         rows - down_warp, columns - across_warp);
    if (multiplies) return;
    join_block();
    float* totals = reinterpret_cast<float*>(ring);
    totals[thread_number()] = total;
    join_block();
    if (half == 0 && own < rows) into[row + own] = total + totals[TILE + own];
}
