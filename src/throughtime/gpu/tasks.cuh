// Which units and rows a block, a warp and a lane have, and where a block keeps what it needs from step to step.

// What a lane finishes: two neighbouring units of one row. A task is 8 pairs of units, 8 rows and the parity of the
// row, as matrix instructions leave them; COUNT pairs begin at `first_pair` of the block. With ALONE, neighbouring lanes
// have neighbouring pairs of a row, as memory does.
template <int COUNT> struct Task {
    static constexpr int ALL = ALONE ? (ROWS * COUNT + 31) / 32 : (COUNT + 7) / 8 * ROW_TILES * 2;
    static constexpr int EACH = (ALL + WARPS - 1) / WARPS;
    int number, pair, rows, unit, row;  // row within the pass
    bool mine;

    INLINE Task(int turn, int first_unit, int first_pair) {
        const int lane = thread_number() % 32;
        number = turn * WARPS + thread_number() / 32;
        if constexpr (ALONE) {
            row = (number * 32 + lane) / COUNT;
            pair = (number * 32 + lane) % COUNT;
            unit = pair * 2;
            mine = row < ROWS;
        } else {
            rows = number % (ROW_TILES * 2);
            const int own_pair = number / (ROW_TILES * 2) * 8 + lane / 4;
            pair = first_pair + own_pair;
            unit = first_unit + pair * 2;
            row = rows / 2 * 8 + lane % 4 * 2 + rows % 2;
            mine = number < ALL && own_pair < COUNT && unit < WIDTH;
        }
    }
};
typedef Task<OWN_PAIRS> OwnTask;
constexpr int TASKS = OwnTask::ALL, TASKS_EACH = OwnTask::EACH;

// Shared memory: shares | running values, two of each unit and row | ends of rows | with ALONE, rows to hand on and what
// comes later | staged weights.
constexpr int RUNNING = PASSES * TASKS * 32;
constexpr int ENDS = (PASSES * ROWS + 3) / 4 * 4;  // in whole words of 16 bytes
constexpr int STEPS_AHEAD = 4, LATER_BYTES = ALONE ? STEPS_AHEAD * LOADED * TASKS * 32 * 2 * ELEMENT : 0;
constexpr int AFTER_SHARES = 2 * RUNNING * 8 + ENDS * 4 + ROWS_BYTES + LATER_BYTES;  // bytes up to the staged weights

// The steps that a launch runs, all of a sequence or a span of them. From one span to the next, the running values
// stay as they are, unrounded.
struct Span {
    long long first;    // step of the sequence
    long long resumes;  // whether another span was run before this one
    float* running;     // [2, B, WIDTH]; none if one launch runs all steps

    INLINE Pair* value(int which, long long batch, long long row, int unit) const {
        return reinterpret_cast<Pair*>(running + (which * batch + row) * WIDTH + unit);
    }
};

struct Place {
    int group_row, rows;    // the block's rows begin at group_row; of them `rows` are in the batch
    int first_unit, slice;  // of the units whose sums it computes; which of the blocks that share them it is
    int direction;          // among those of the launch
    Pair* shares;
    Pair* running[2];
    int* ends;
    char* kept;  // with ALONE: what the next product reads

    INLINE Place(int batch, int share_size) {
        const int groups = (batch + PASSES * ROWS - 1) / (PASSES * ROWS), group = block_number() / BLOCKS;
        direction = group / groups;
        group_row = group % groups * (PASSES * ROWS);
        first_unit = block_number() % BLOCKS / SPLIT * UNITS;
        slice = block_number() % SPLIT;
        rows = batch - group_row < PASSES * ROWS ? batch - group_row : PASSES * ROWS;
        shares = reinterpret_cast<Pair*>(shared_bytes());
        running[0] = reinterpret_cast<Pair*>(shared_bytes() + share_size);
        running[1] = running[0] + RUNNING;
        ends = reinterpret_cast<int*>(running[1] + RUNNING);
        kept = reinterpret_cast<char*>(ends + ENDS);
    }

    // Where each row ends among these steps of the sequence, which begin with `first`, and where the longest does.
    INLINE int longest(const int* lengths, int first, int steps) const {
        for (int row = thread_number(); row < PASSES * ROWS; row += WARPS * 32) {
            const int length = row >= rows ? 0 : lengths == nullptr ? steps : lengths[group_row + row] - first;
            ends[row] = length < 0 ? 0 : length > steps ? steps : length;
        }
        join_block();
        int last = 0;
        ROLLED for (int row = 0; row < PASSES * ROWS; ++row) last = ends[row] > last ? ends[row] : last;
        return last;
    }

    INLINE int count(int pass) const {
        const int left = rows - pass * ROWS;
        return left < 0 ? 0 : left > ROWS ? ROWS : left;
    }
    INLINE Pair& value(int which, int pass, const OwnTask& task) const {
        return running[which][(pass * TASKS + task.number) * 32 + thread_number() % 32];
    }
};

// With ALONE: the LOADED values of each task that a step needs from memory, copied into shared memory some steps ahead:
// a step takes less time than a load. A lane reads back only what it has copied itself.
struct Later {
    char* room;

    INLINE char* at(int step, const OwnTask& task, int value) const {
        const int first = (step % STEPS_AHEAD * LOADED + value) * TASKS + task.number;
        return room + (first * 32 + thread_number() % 32) * 2 * ELEMENT;
    }
    INLINE void copy(int step, const OwnTask& task, int value, const char* base, long long index) const {
        copy_later<2 * ELEMENT>(at(step, task, value), base + index * ELEMENT);
    }
    INLINE Raw take(int step, const OwnTask& task, int value) const {
        const word* found = reinterpret_cast<const word*>(at(step, task, value));
        if constexpr (ELEMENT == 2) return {found[0], 0};
        else return *reinterpret_cast<const Two*>(found);
    }
};

// Every task of this warp whose cells are in the batch.
#define EACH_TASK(place, pass)                                        \
    UNROLL for (int turn = 0; turn < TASKS_EACH; ++turn)              \
        if (const OwnTask task(turn, place.first_unit, place.slice * OWN_PAIRS);                                 \
            task.mine && task.row < place.count(pass))
