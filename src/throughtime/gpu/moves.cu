// Copies of matrices, several in one launch: padded with zeros, cropped, transposed, converted to and from float32, or
// added up; and memory that is filled with a word.
//
// Constants from the host: KIND, WARPS, MAX_MOVES, FILLED (bytes a block fills), SHARED_BYTES.

constexpr int TILE = 64, LANES_EACH = TILE / 32, ROWS_EACH = TILE / WARPS, AT_ONCE = 8;
static_assert(TILE * (TILE + 1) * 4 == SHARED_BYTES, "the host and the kernel disagree about shared memory");

enum Conversions { NONE, FROM_FLOAT, TO_FLOAT };

struct Move {  // groups of rows of columns
    char* to;
    const char* from;                       // nowhere: `rows` times 16 bytes of `to` are filled with the word `columns`
    long long rows, columns;                // to write, in each group
    long long given_rows, given_columns;    // to read; past them are zeros
    long long to_group, to_row, to_column;  // elements from one to the next
    long long from_group, from_row;
    int conversion;
    int parts;                              // how many matrices of float32 are added up; 0: a copy
    long long from_part;                    // numbers from one of them to the next
};

struct Moves {
    // Numbers of blocks up to the end of each move, side by side: each block reads all of them, and in the moves
    // themselves they would lie in as many lines of a cache that is empty when a kernel starts.
    int ends[MAX_MOVES];
    Move all[MAX_MOVES];
};

INLINE void fill(const Move& move, int block) {
    const long long first = (long long)block * (FILLED / 16), end = first + FILLED / 16;
    Words* words = reinterpret_cast<Words*>(move.to);
    const word value = (word)move.columns;
    for (long long at = first + thread_number(); at < (end < move.rows ? end : move.rows); at += WARPS * 32)
        words[at] = {value, value, value, value};
}

INLINE word read(const Move& move, long long at) {
    if (ELEMENT == 4 || move.conversion == FROM_FLOAT) {
        const word value = reinterpret_cast<const word*>(move.from)[at];
        return ELEMENT == 4 ? value : packed({{as_float(value), 0.0f}}) & 0xffffu;
    }
    const word value = reinterpret_cast<const unsigned short*>(move.from)[at];
    return move.conversion == TO_FLOAT ? as_word(pair_of({value, 0}).v[0]) : value;
}

INLINE void write(const Move& move, long long at, word value) {
    if (ELEMENT == 4 || move.conversion == TO_FLOAT) reinterpret_cast<word*>(move.to)[at] = value;
    else reinterpret_cast<unsigned short*>(move.to)[at] = (unsigned short)value;
}

// Sums of float32, always in the same order, into elements or into float32. A warp has 32 columns of a row. There are
// more blocks than for a copy, since a thread reads several numbers for each one that it writes.
INLINE void add_parts(const Move& move, int block) {
    const int across = ((int)move.columns + 31) / 32, down = ((int)move.rows + WARPS - 1) / WARPS;
    const int row = block / across % down * WARPS + thread_number() / 32;
    const int group = block / (across * down), column = block % across * 32 + thread_number() % 32;
    if (row >= move.rows || column >= move.columns) return;
    const float* from = reinterpret_cast<const float*>(move.from) + group * move.from_group + row * move.from_row + column;
    const int parts = row < move.given_rows && column < move.given_columns ? move.parts : 0;
    float sum = 0.0f;
    for (int first = 0; first < parts; first += AT_ONCE) {
        float found[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; ++i) found[i] = first + i < parts ? from[(first + i) * move.from_part] : 0.0f;
        UNROLL for (int i = 0; i < AT_ONCE; ++i) sum += found[i];
    }
    const bool whole = ELEMENT == 4 || move.conversion == TO_FLOAT;
    write(move, group * move.to_group + row * move.to_row + column, whole ? as_word(sum) : packed({{sum, 0.0f}}) & 0xffffu);
}

KERNEL moves(const Moves a) {
    int block = block_number(), number = 0;
    UNROLL for (int i = 0; i < MAX_MOVES - 1; ++i) number += block >= a.ends[i];
    if (number > 0) block -= a.ends[number - 1];
    const Move move = a.all[number];
    if (move.from == nullptr) return fill(move, block);
    if (move.parts > 0) return add_parts(move, block);
    const int across = (int)((move.columns + TILE - 1) / TILE), down = (int)((move.rows + TILE - 1) / TILE);
    const int group = block / (across * down);
    const long long row = block / across % down * TILE, column = block % across * TILE;
    const int warp = thread_number() / 32, lane = thread_number() % 32;
    const long long from = group * move.from_group, to = group * move.to_group;
    const bool turned = move.to_column != 1;  // then a column of the tile is what lies together
    word* tile = reinterpret_cast<word*>(shared_bytes());
    word found[ROWS_EACH][LANES_EACH];
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const long long r = row + i * WARPS + warp, c = column + j * 32 + lane;
        found[i][j] = 0;
        if (r < move.given_rows && c < move.given_columns) found[i][j] = read(move, from + r * move.from_row + c);
    }
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = i * WARPS + warp, x = j * 32 + lane;
        if (turned) tile[y * (TILE + 1) + x] = found[i][j];
        else if (row + y < move.rows && column + x < move.columns)
            write(move, to + (row + y) * move.to_row + column + x, found[i][j]);
    }
    if (!turned) return;
    join_block();
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = j * 32 + lane, x = i * WARPS + warp;
        if (row + y < move.rows && column + x < move.columns)
            write(move, to + (row + y) * move.to_row + (column + x) * move.to_column, tile[y * (TILE + 1) + x]);
    }
}
